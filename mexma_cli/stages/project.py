"""An embedding store to the store of one part of its vectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path

from mexma_cli.errors import MexmaError
from mexma_cli.files import resolved
from mexma_cli.stages.train.decompose import TrainedDecomposer, VectorPart
from mexma_cli.store.embeddings import EmbeddingStore
from mexma_cli.store.layout import EmbeddingSettings
from mexma_cli.store.writer import EmbeddingWriter, made_already

_BLOCK_BYTES = 16 << 20


def project(
    store: EmbeddingStore,
    decomposer: TrainedDecomposer,
    part: VectorPart,
    output: str | Path,
    *,
    argv: Sequence[str] = (),
    overwrite: bool = False,
    on_progress: Callable[[int, int], object] = lambda done, total: None,
) -> EmbeddingStore:
    """Take one part of every vector of a store, block by block; the sentences go along. The fingerprint of
    the output is the part's: it mixes with its like only.

    A killed run goes on after its last whole shard, to the same bytes. A store that is there already of the
    same rows and the same map is left as it is. Refused: a store of another encoder than the decomposer was
    trained on, or made anew meanwhile; an output that is there, of other settings; a full disk.
    """
    output, manifest = Path(output), store.manifest
    decomposer.check(manifest.encoder, manifest.fingerprint, str(store.path))
    if resolved(output) == resolved(store.path):
        raise MexmaError(f"{output} is to be projected and is the output too", "name another -o")
    settings = EmbeddingSettings.of(manifest).model_copy(
        update={"fingerprint": decomposer.manifest.fingerprints[part], "normalised": False}
    )
    if not overwrite and (done := made_already(output, settings)) is not None:
        return done
    exported = decomposer.manifest.exported and part == "meaning"
    writer = EmbeddingWriter(
        output,
        settings,
        manifest.source,
        encoder=str(decomposer.run) if exported else f"{manifest.encoder}, {part} by {decomposer.run}",
        argv=argv,
        overwrite=overwrite,
        by="project",
    )
    with writer:
        _fill(writer, store, decomposer, part, on_progress)
        store.check_unchanged()
        return writer.finish(truncated=manifest.truncated, empty=manifest.empty)


def _fill(
    writer: EmbeddingWriter,
    store: EmbeddingStore,
    decomposer: TrainedDecomposer,
    part: VectorPart,
    on_progress: Callable[[int, int], object],
) -> None:
    """The rows from where an earlier run stopped; a shard's counts go with its last row."""
    rows = max(1, _BLOCK_BYTES // (4 * store.dim))
    lines = islice(store.sentences(), writer.rows_done, None) if store.has_sentences else None
    for shard in store.manifest.shards:
        start, last = max(shard.offset, writer.rows_done), shard.offset + shard.rows - 1
        while start <= last:
            stop = min(start + rows, last) if start < last else last + 1
            vectors = decomposer.part(store.vectors(start, stop), part)
            counted = stop > last
            writer.write(
                vectors,
                None if lines is None else list(islice(lines, stop - start)),
                truncated=shard.truncated if counted else 0,
                duplicates=shard.duplicates if counted else 0,
            )
            start = stop
            on_progress(stop, store.rows)
