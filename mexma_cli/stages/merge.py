"""Stores of the parts of a text, or of several texts, one after the other as one store."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path

from mexma_cli import __version__
from mexma_cli.errors import MexmaError
from mexma_cli.files import (
    MANIFEST,
    PROGRESS,
    check_parent,
    clear,
    no_space_as_message,
    resolved,
    workplace,
    workplace_path,
)
from mexma_cli.store.embeddings import EmbeddingStore
from mexma_cli.store.layout import (
    EmbeddingManifest,
    EmbeddingSettings,
    Part,
    Shard,
    Source,
    shard_files,
    sweep,
)
from mexma_cli.store.shard import take_over

log = logging.getLogger(__name__)


def merge_stores(
    stores: Sequence[EmbeddingStore],
    output: str | Path,
    *,
    argv: Sequence[str] = (),
    overwrite: bool = False,
    on_progress: Callable[[int, int], object] = lambda done, total: None,
) -> EmbeddingStore:
    """Make one store of several, whole or not at all: the parts of one text in the order of its lines, other
    stores as they are given. They stay as they are; with `overwrite`, a store that is there, or was begun
    there, is replaced.

    Their shards are checked, and not rewritten: files get a second name where the system allows that, else
    they are copied. After a killed run it starts anew. Refused: stores of different settings; a part that is
    missing, given twice, or of another text; an output that is one of them, is there, or unfinished; another
    process that writes there; a damaged file, a store that was made anew meanwhile, a full disk.
    """
    output = Path(output)
    _check_settings(stores)
    _check_places(stores, output)
    parts = [store.manifest.part for store in stores]
    sources = [source for store in stores for source in store.manifest.sources]
    if all(parts):
        stores = _in_order(stores)
        sources = list(stores[0].manifest.sources)
    elif any(parts):
        some = stores[next(index for index, part in enumerate(parts) if part)]
        raise MexmaError(
            f"{some.path} is part {some.manifest.part} of a text, and whole stores are given too",
            "merge the parts of that text first",
        )
    if not overwrite and (done := _made_already(stores, output, sources)) is not None:
        return done
    check_output(output, overwrite)
    check_parent(output)
    with workplace(output) as part, no_space_as_message(part.parent):
        (part.parent / PROGRESS).unlink(missing_ok=True)
        check_output(output, overwrite)  # another process may have been there meanwhile
        sweep(part)
        shards = _taken_over(stores, part, on_progress)
        check_output(output, overwrite)  # and while they were read
        return EmbeddingStore.finish(output, _manifest(stores, shards, sources, argv))


def _check_settings(stores: Sequence[EmbeddingStore]) -> None:
    first = stores[0]
    wanted = EmbeddingSettings.of(first.manifest)
    for store in stores[1:]:
        there = EmbeddingSettings.of(store.manifest)
        there = there.model_copy(
            update={"source_checksum": wanted.source_checksum, "part": wanted.part}  # compared elsewhere
        )
        if differences := wanted.differences(there, ("in the first", "in the second")):
            raise MexmaError(
                f"{first.path} and {store.path} were made in different ways: {'; '.join(differences)}",
                "only stores of one encoder, one language and equal settings make one store",
            )
        if store.has_sentences != first.has_sentences:
            without = first if store.has_sentences else store
            raise MexmaError(f"{without.path} holds vectors without their sentences, and others have both")


def _check_places(stores: Sequence[EmbeddingStore], output: Path) -> None:
    seen: set[Path] = set()
    for store in stores:
        place = resolved(store.path)
        if place == resolved(output):
            raise MexmaError(f"{store.path} is to be merged and is the output too", "name another -o")
        if place in seen:
            raise MexmaError(f"{store.path} is given twice", "name every store once")
        seen.add(place)


def _in_order(stores: Sequence[EmbeddingStore]) -> list[EmbeddingStore]:
    """The parts of a text by number; all have to be there, once."""
    first = stores[0]
    source, of = first.manifest.source, _part(first).of
    found: dict[int, EmbeddingStore] = {}
    for store in stores:
        part = _part(store)
        if store.manifest.source.checksum != source.checksum:
            raise MexmaError(
                f"{store.path} is a part of another text than {first.path}: {store.manifest.source.path}, "
                f"{source.path} (or that text was changed meanwhile)",
                "merge the parts of each text, then the texts",
            )
        if part.of != of:
            raise MexmaError(
                f"{first.path} is one of {of} parts, {store.path} one of {part.of}",
                "embed all parts with the same N of --shard I/N",
            )
        if part.number in found:
            raise MexmaError(f"{found[part.number].path} and {store.path} are both part {part}")
        start, stop = part.rows(source.lines)
        if store.rows != stop - start:
            raise MexmaError(
                f"{store.path} is damaged: {store.rows:,} rows, part {part} of {source.lines:,} lines "
                f"has {stop - start:,}"
            )
        found[part.number] = store
    if lacking := of - len(found):
        missing = list(islice((number for number in range(1, of + 1) if number not in found), 10))
        named = ", ".join(map(str, missing)) + (", ..." if lacking > 10 else "")
        raise MexmaError(
            f"{lacking} of {of} parts of {source.path} {'is' if lacking == 1 else 'are'} missing: {named}",
            f"name them all; `mexma embed --shard {missing[0]}/{of}` makes a missing one or goes on with it",
        )
    return [found[number] for number in range(1, of + 1)]


def _part(store: EmbeddingStore) -> Part:
    assert store.manifest.part is not None
    return store.manifest.part


def _made_already(
    stores: Sequence[EmbeddingStore], output: Path, sources: Sequence[Source]
) -> EmbeddingStore | None:
    """The store at a path, checked, if it was merged of these stores."""
    if not EmbeddingStore.has_files(output) or not (output / MANIFEST).is_file():
        return None
    there = EmbeddingStore.open(output)
    shards = there.manifest.shards
    same = _manifest(stores, shards, sources, there.manifest.argv) == there.manifest
    wanted = [_content(shard) for store in stores for shard in store.manifest.shards]
    if not same or wanted != list(map(_content, shards)):
        return None
    there.verify()
    clear(output)
    log.info("%s is there already, of the same stores: nothing to do", output)
    return there


def _content(shard: Shard) -> tuple[int, list[str]]:
    return shard.rows, [file.checksum for file in shard_files(shard)]


def check_output(output: Path, overwrite: bool) -> None:
    """Refuse to merge over anything, unless that is wanted and it is an embedding store."""
    EmbeddingStore.check_replaceable(output, overwrite)
    if (workplace_path(output) / PROGRESS).is_file() and not overwrite:
        raise MexmaError(
            f"{workplace_path(output)} is the beginning of another store of that name",
            "finish it by the command that began it, --overwrite it, or name another output with -o",
        )


def _taken_over(
    stores: Sequence[EmbeddingStore], folder: Path, on_progress: Callable[[int, int], object]
) -> list[Shard]:
    shards: list[Shard] = []
    rows, total = 0, sum(store.rows for store in stores)
    for store in stores:
        for shard in store.manifest.shards:
            for file in shard_files(shard):
                store.check_file(file.name, file.checksum)
            shards.append(take_over(shard, store.path, folder, len(shards), rows))
            rows += shard.rows
            on_progress(rows, total)
        store.check_unchanged()
    return shards


def _manifest(
    stores: Sequence[EmbeddingStore], shards: Sequence[Shard], sources: Sequence[Source], argv: Sequence[str]
) -> EmbeddingManifest:
    first = stores[0].manifest
    settings = EmbeddingSettings.of(first).model_dump(exclude={"source_checksum", "part"})
    return EmbeddingManifest(
        encoder=first.encoder,
        rows=sum(store.rows for store in stores),
        shards=tuple(shards),
        sources=tuple(sources),
        truncated=sum(store.manifest.truncated for store in stores),
        empty=sum(store.manifest.empty for store in stores),
        tool_version=__version__,
        argv=tuple(argv),
        **settings,
    )
