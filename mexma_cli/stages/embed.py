"""A text file to an EmbeddingStore, shard by shard."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path

from mexma_cli.encoder.encoder import SentenceEncoder
from mexma_cli.errors import MexmaError
from mexma_cli.store.embeddings import ROWS_PER_SHARD, EmbeddingStore, EmbeddingWriter, Settings, Source
from mexma_cli.store.layout import MANIFEST, StoreType
from mexma_cli.text.lines import FileScan, read_lines, scan

log = logging.getLogger(__name__)


def embed_file(
    encoder: SentenceEncoder,
    source: str | Path | FileScan,
    output: str | Path,
    language: str = "und",
    *,
    label: str | None = None,
    store_dtype: StoreType = "float16",
    argv: Sequence[str] = (),
    overwrite: bool = False,
    rows_per_shard: int = ROWS_PER_SHARD,
    on_progress: Callable[[int, int], object] | None = None,
) -> EmbeddingStore:
    """Embed every line of a text.

    A store that is there already with the same settings is left as it is; an unfinished one is gone on with
    after its last whole shard, to the same bytes as if it had not been interrupted.

    Args:
        source: A regular file (see `lines.spooled`), or what `lines.scan` found in it.
        output: The folder to be, ``NAME.emb``.
        language: FLORES-200 code.
        label: Name of the text for messages and the manifest, where `source` is a temporary copy.
        argv: The command line, for the manifest.
        overwrite: Make the store anew, whatever is there.
        rows_per_shard: Rows in the first shards.
        on_progress: Called with lines done and lines in all.

    Raises:
        MexmaError: The text is broken (file, line and byte are named), the output is there with other
            settings, the text changed while it was read, or the disk is full.
    """
    text = source if isinstance(source, FileScan) else scan(source, label)
    name = label or str(text.path)
    precision = str(encoder.model.dtype).removeprefix("torch.")
    settings = Settings(
        fingerprint=encoder.fingerprint,
        pooling=encoder.pooling,
        dim=encoder.dim,
        dtype=store_dtype,
        precision=precision,
        normalised=encoder.normalised,
        language=language,
        source_checksum=text.checksum,
    )
    if not overwrite and (done := _already(Path(output), settings)) is not None:
        log.info("%s is there already, of the same text and settings: nothing to do", output)
        return done
    writer = EmbeddingWriter(
        output,
        encoder=encoder.name,
        source=Source(path=name, checksum=text.checksum, lines=text.lines),
        argv=argv,
        rows_per_shard=rows_per_shard,
        overwrite=overwrite,
        **settings.model_dump(exclude={"source_checksum"}),
    )
    with writer:
        _fill(writer, encoder, text, name, on_progress or (lambda rows, total: None))
        return writer.finish()


def _fill(
    writer: EmbeddingWriter,
    encoder: SentenceEncoder,
    text: FileScan,
    name: str,
    on_progress: Callable[[int, int], object],
) -> None:
    rows = writer.rows_done
    if rows:
        log.info("going on after line %s of %s", f"{rows:,}", f"{text.lines:,}")
    on_progress(rows, text.lines)

    def embedded(count: int, tokens: int) -> None:
        nonlocal rows
        rows += count
        on_progress(rows, text.lines)

    # Chunks begin where shards begin, so a resumed run makes the same batches and with them the same bytes.
    for sentences in _chunks(read_lines(text.path, name), writer.rows_done, writer.rows_per_shard):
        before = encoder.truncated
        vectors = encoder.embed(sentences, on_progress=embedded)
        writer.write(vectors, sentences, truncated=encoder.truncated - before)
    if writer.rows_done != text.lines:
        raise MexmaError(
            f"{name} changed while it was read: {text.lines:,} lines before, {writer.rows_done:,} now"
        )


def _chunks(lines: Iterator[str], skip: int, size: int) -> Iterator[list[str]]:
    lines = islice(lines, skip, None)
    while chunk := list(islice(lines, size)):
        yield chunk


def _already(path: Path, settings: Settings) -> EmbeddingStore | None:
    if not (path / MANIFEST).is_file():
        return None
    store = EmbeddingStore.open(path)
    differences = Settings.of(store.manifest).differences(settings)
    if differences:
        raise MexmaError(
            f"{path} is there already, of another run: {'; '.join(differences)}",
            "name another output with -o, or --overwrite to make it anew",
        )
    return store
