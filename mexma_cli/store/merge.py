"""Several EmbeddingStores one after the other as one."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path

from mexma_cli import __version__
from mexma_cli.errors import MexmaError
from mexma_cli.files import (
    MANIFEST,
    PROGRESS,
    clear,
    make_parent,
    no_space_as_message,
    partial,
    workplace,
)
from mexma_cli.store.layout import (
    EmbeddingManifest,
    EmbeddingSettings,
    Shard,
    Source,
    files_of,
    sweep,
)
from mexma_cli.store.reader import EmbeddingStore
from mexma_cli.store.shard import take_over

log = logging.getLogger(__name__)


def concatenate(
    stores: Sequence[EmbeddingStore],
    output: Path,
    *,
    sources: Sequence[Source],
    argv: Sequence[str],
    overwrite: bool = False,
    on_progress: Callable[[int, int], object] | None = None,
) -> EmbeddingStore:
    """Make one store of several with the same settings, whole or not at all.

    Their shards are checked, and not rewritten: files get a second name where the system allows that, else
    they are copied. After a killed run it starts anew.

    Args:
        stores: In the order of their rows in the new one. They stay as they are.
        sources: The texts that the rows are of.
        argv: The command line, for the manifest.
        overwrite: Put it in the place of a store that is there, and of one that was begun there.
        on_progress: Called with rows done and rows in all.

    Raises:
        MexmaError: The output is there, an unfinished one is, another process writes there, a file is
            damaged, a store was made anew meanwhile, or the disk is full.
    """
    if not overwrite and (done := _made_already(stores, output, sources)) is not None:
        return done
    check_output(output, overwrite)
    make_parent(output)
    with workplace(output) as part, no_space_as_message(part.parent):
        (part.parent / PROGRESS).unlink(missing_ok=True)
        check_output(output, overwrite)  # another process may have been there meanwhile
        sweep(part)
        shards = _taken_over(stores, part, on_progress or (lambda done, total: None))
        check_output(output, overwrite)  # and while they were read
        return EmbeddingStore.finish(output, _manifest(stores, shards, sources, argv))


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
    return shard.rows, [file.checksum for file in files_of(shard)]


def check_output(output: Path, overwrite: bool) -> None:
    """Refuse to merge over anything, unless that is wanted and it is an embedding store.

    Raises:
        MexmaError: A store of that name is there, finished or not, or something else is.
    """
    EmbeddingStore.check_replaceable(output, overwrite)
    if (partial(output) / PROGRESS).is_file() and not overwrite:
        raise MexmaError(
            f"{partial(output)} is the beginning of another store of that name",
            "finish it by the command that began it, --overwrite it, or name another output with -o",
        )


def _taken_over(
    stores: Sequence[EmbeddingStore], folder: Path, on_progress: Callable[[int, int], object]
) -> list[Shard]:
    shards: list[Shard] = []
    rows, total = 0, sum(store.rows for store in stores)
    for store in stores:
        for shard in store.manifest.shards:
            for file in files_of(shard):
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
