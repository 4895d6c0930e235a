"""Parts of a text, or several texts, embedded each for itself and put together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path

from mexma_cli.errors import MexmaError
from mexma_cli.files import resolved
from mexma_cli.store.embeddings import EmbeddingSettings, EmbeddingStore, Source
from mexma_cli.store.layout import Part
from mexma_cli.store.merge import concatenate


def merge_stores(
    stores: Sequence[EmbeddingStore],
    output: str | Path,
    *,
    argv: Sequence[str] = (),
    overwrite: bool = False,
    on_progress: Callable[[int, int], object] | None = None,
) -> EmbeddingStore:
    """Put stores together: the parts of one text in the order of its lines, other stores as they are given.

    Args:
        stores: At least one. They stay as they are.
        output: The folder to be, ``NAME.emb``.
        argv: The command line, for the manifest.
        overwrite: Replace what is there under that name.
        on_progress: Called with rows done and rows in all.

    Raises:
        MexmaError: The stores were made with different settings; a part is missing, given twice, or of
            another text; the output is one of the stores, or as in `store.merge.concatenate`.
    """
    output = Path(output)
    _check_settings(stores)
    _check_places(stores, output)
    parts = [store.manifest.part for store in stores]
    if all(parts):
        stores = _in_order(stores)
        sources: tuple[Source, ...] = stores[0].manifest.sources
    elif any(parts):
        some = stores[next(index for index, part in enumerate(parts) if part)]
        raise MexmaError(
            f"{some.path} is part {some.manifest.part} of a text, and whole stores are given too",
            "merge the parts of that text first",
        )
    else:
        sources = tuple(source for store in stores for source in store.manifest.sources)
    return concatenate(
        stores, output, sources=sources, argv=argv, overwrite=overwrite, on_progress=on_progress
    )


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
