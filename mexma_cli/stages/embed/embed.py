"""A text file to an EmbeddingStore, shard by shard."""

from __future__ import annotations

import logging
import shlex
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import compress, islice
from pathlib import Path
from typing import NamedTuple

import numpy as np

from mexma_cli import languages
from mexma_cli.encoder.encoder import SentenceEncoder
from mexma_cli.numerics.threads import threads
from mexma_cli.settings.stages import EmbedSettings
from mexma_cli.store.embeddings import EmbeddingStore
from mexma_cli.store.layout import EmbeddingSettings, Part, Source, part_path
from mexma_cli.store.writer import EmbeddingWriter, made_already
from mexma_cli.text.amounts import counted
from mexma_cli.text.duplicates import Seen
from mexma_cli.text.identify import another_script
from mexma_cli.text.kinds import suffix_of
from mexma_cli.text.lines import FileScan, is_blank, read_again, read_lines, read_pieces, scan
from mexma_cli.text.normalise import cleaner
from mexma_cli.text.pages import doubt_of_encoding

log = logging.getLogger(__name__)

EmbedProgress = Callable[[int, int, int], object]
"""Called with rows done, rows in all, and tokens that this run has embedded."""


@dataclass(frozen=True)
class EmbedOptions:
    """How a text becomes a store, apart from the encoder.

    Attributes:
        language: FLORES-200 code.
        settings: With `clean`, what `normalise.cleaner` makes of a line is embedded; the store has the line
            as it is.
        part: Only this part of the text, to `layout.part_path` of the output.
        overwrite: Make the store anew, if one is there, whole or damaged.
        append: Make the store that is there longer, see `EmbeddingWriter`.
    """

    language: str = languages.UNSTATED
    settings: EmbedSettings = field(default_factory=EmbedSettings)
    part: Part | None = None
    overwrite: bool = False
    append: bool = False


def embed_file(
    encoder: SentenceEncoder,
    source: str | Path | FileScan,
    output: str | Path,
    options: EmbedOptions = EmbedOptions(),
    *,
    argv: Sequence[str] = (),
    on_progress: EmbedProgress | None = None,
) -> EmbeddingStore:
    """Embed every line of a text, equal lines once, in memory that does not grow with the text. The source is
    a regular file (see `lines.spooled`), or what `lines.scan` found in it.

    A store that is there with the same settings is checked and left as it is; an unfinished one is gone on
    with after its last whole shard, to the same bytes as if it had not been interrupted. Refused: a text that
    is broken or changed while it was read, an output that is there with other settings or damaged, a full
    disk.
    """
    text, part = source if isinstance(source, FileScan) else scan(source), options.part
    path = part_path(Path(output), part) if part else Path(output)
    settings = _settings(encoder, text, options)
    if not (options.overwrite or options.append) and (done := made_already(path, settings)) is not None:
        return done
    if part is None or part.number == 1:  # once for a text, not once for each process
        note_language(encoder, options.language)
        tabs = text.tabs >= text.lines
        if tabs or suffix_of(Path(text.label)) == ".csv":
            log.warning(
                "%s %s, and all columns are embedded as one sentence%s; `mexma score` and "
                "`filter` read pairs",
                text.label,
                "has tabs as files of sentence pairs do" if tabs else "is CSV by its name",
                ": `cut -f 2` takes one of them" if tabs else "",
            )
        other = another_script(read_lines(text.path, text.label), options.language)
        start = next(read_pieces(text.path, text.label), b"")
        for doubt in filter(None, (text.broken, other, doubt_of_encoding(start, options.language))):
            log.warning("%s: %s", text.label, doubt)
    encoder.set_language(options.language)
    writer = EmbeddingWriter(
        path,
        settings,
        Source(path=text.label, checksum=text.checksum, lines=text.lines),
        encoder=encoder.name,
        argv=argv,
        overwrite=options.overwrite,
        append=options.append,
    )
    first, last = part.rows(text.lines) if part else (0, text.lines)
    clean = cleaner(options.language) if options.settings.clean else str
    embedding = _Embedding(writer, encoder, clean, last - first, on_progress)
    with writer:
        lines = read_again(text)
        embedding.run(islice(lines, first, last))
        deque(lines, maxlen=0)  # to the end, which tells whether the text has changed
        return writer.finish()


_TRAINED = "`mexma new-language` trains an encoder for it"


def unknown_language(encoder: SentenceEncoder, language: str) -> str | None:
    """The warning of a language that is not one of the encoder's; in another script it may be known. None if
    it is, if its card does not say, or if the encoder reads it no worse than one of its own."""
    known = {code.partition("_")[0] for code in encoder.languages}
    if not known or language == languages.UNSTATED:
        return None
    name, count = encoder.name, len(encoder.languages)
    about, errors = f"{languages.name(language)} ({language})", _errors(encoder, encoder.languages)
    if own := _errors(encoder, [language]):
        if own[language] <= max(errors.values(), default=own[language]):
            return None
        return (
            f"{name} reads {about} with an xsim error of {own[language]:.1f}% on its dev set, "
            f"more than in any of its {count} languages, which `mexma info {shlex.quote(name)}` lists; "
            f"{_TRAINED}, and aligning documents finds more than mining"
        )
    if language.partition("_")[0] in known:
        return None
    listed = f"of its {count} languages, which `mexma info {shlex.quote(name)}` lists,"
    unmeasured = f"how well {languages.name(language)} is read was not measured"
    return f"{name} does not know {about}; {listed} {_nearest(encoder, language)}; {unmeasured}; {_TRAINED}"


def note_language(encoder: SentenceEncoder, language: str) -> None:
    """Warn of a language that is not one of the encoder's."""
    if warning := unknown_language(encoder, language):
        log.warning("%s", warning)


def _nearest(encoder: SentenceEncoder, language: str) -> str:
    """Which of an encoder's languages is nearest to one; of several the one with the least dev error."""
    near = languages.akin(language, encoder.languages)
    if not near:
        return "none is akin to it"
    errors = _errors(encoder, near)
    best = min(errors, key=lambda code: errors[code], default=near[0])
    known = f", whose own xsim error is {errors[best]:.1f}%" if errors else ""
    return f"the nearest is {languages.name(best)} ({best}){known}"


def _errors(encoder: SentenceEncoder, codes: Iterable[str]) -> dict[str, float]:
    """The dev errors of languages in percent, as far as they are known."""
    trained = encoder.trained
    return {
        code: error for code in codes if code in trained and (error := trained[code].dev_error) is not None
    }


def at_work(encoder: SentenceEncoder) -> str:
    """Where and in what an encoder computes: ``cpu (2 threads), float32``."""
    if not encoder.on_cpu:
        import torch

        place = f"{encoder.device} ({torch.cuda.get_device_name(encoder.device)})"
    else:
        place = f"cpu ({counted(threads(), 'thread')})"
    near = "" if encoder.precision == "float32" else ": near float32's vectors, not the same (--dtype fp32)"
    tasks, task = encoder.transformer.tasks, encoder.transformer.task
    which = f" for the task {task}" if task else f" for no --task of {', '.join(tasks)}" if tasks else ""
    return f"{place}, {encoder.precision}{near}{which}"


class _Chunk(NamedTuple):
    """Lines, what is embedded of them, and, counted from the first, the row where each text stood first."""

    lines: list[str]
    texts: list[str]
    rows: np.ndarray

    @property
    def new(self) -> np.ndarray:
        """Which texts stand first here, bool."""
        return self.rows == np.arange(len(self.rows))


class _Embedding:
    """Embeds the rows of a store from where an earlier run stopped."""

    def __init__(
        self,
        writer: EmbeddingWriter,
        encoder: SentenceEncoder,
        clean: Callable[[str], str],
        rows: int,
        on_progress: EmbedProgress | None,
    ) -> None:
        self._writer, self._encoder, self._clean, self._rows = writer, encoder, clean, rows
        self._on_progress = on_progress or (lambda rows, total, tokens: None)
        self._seen = Seen()
        self._done = self._tokens = 0
        self._truncated = encoder.truncated

    def run(self, lines: Iterator[str]) -> None:
        """Embed what is not embedded yet.

        Chunks begin where shards begin, so a resumed run makes the same batches, finds the same equal lines
        and with them writes the same bytes.
        """
        left = self._writer.go_on(lines, self._enter)
        if before := self._writer.rows_done:
            log.info("going on after line %s of %s", f"{before:,}", f"{self._rows:,}")
        self._report_progress(before, 0)
        chunks: deque[_Chunk] = deque()

        def new_lines() -> Iterator[list[str]]:
            row = before
            while lines := list(islice(left, self._writer.rows_per_shard)):
                texts = list(map(self._clean, lines))
                chunks.append(_Chunk(lines, texts, self._seen.first_rows(texts, row) - row))
                row += len(lines)
                yield list(compress(texts, chunks[-1].new))

        for vectors in self._encoder.embed_each(new_lines(), self._report_progress):
            self._write(chunks.popleft(), vectors)
            del vectors

    def _enter(self, row: int, lines: list[str]) -> None:
        """Remember the lines of a shard that is there, which begins with this row."""
        size = self._writer.rows_per_shard
        for start in range(0, len(lines), size):
            self._seen.first_rows(list(map(self._clean, lines[start : start + size])), row + start)

    def _write(self, chunk: _Chunk, found: np.ndarray) -> None:
        """Write a chunk: the vectors of its lines that are new, and copies for the others."""
        rows, new, encoder = chunk.rows, chunk.new, self._encoder
        vectors = found
        if len(found) < len(rows):
            earlier = rows < 0
            inside = ~new & ~earlier
            vectors = np.empty((len(rows), encoder.dim), dtype=np.float32)
            vectors[new] = found
            vectors[earlier] = self._writer.stored(rows[earlier] + self._writer.rows_done)
            vectors[inside] = vectors[rows[inside]]
        repeated = list(compress(chunk.texts, ~new))
        encoder.count_cut(repeated)  # lines that are cut are counted as often as they are there
        self._writer.write(
            vectors,
            chunk.lines,
            truncated=encoder.truncated - self._truncated,
            duplicates=sum(not is_blank(text) for text in repeated),
        )
        self._truncated = encoder.truncated
        self._report_progress(len(repeated), 0)

    def _report_progress(self, rows: int, tokens: int) -> None:
        self._done += rows
        self._tokens += tokens
        self._on_progress(self._done, self._rows, self._tokens)


def _settings(encoder: SentenceEncoder, text: FileScan, options: EmbedOptions) -> EmbeddingSettings:
    return EmbeddingSettings(
        fingerprint=encoder.fingerprint,
        pooling=encoder.pooling,
        dim=encoder.dim,
        dtype=options.settings.store_dtype,
        precision=encoder.precision,
        normalised=encoder.normalised,
        language=options.language,
        source_checksum=text.checksum,
        clean=options.settings.clean,
        prefix=encoder.prefix,
        part=options.part,
    )
