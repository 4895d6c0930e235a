"""Documents to sentences, with where each of them was, and why others were dropped.

Chunks of the documents are worked on side by side, and each result is a file in a folder beside the output.
When all are there, duplicates are found among all of them, and the outputs are written in one go. A run that
was killed finds the results of its chunks again, if these are of the same text and settings.
"""

from __future__ import annotations

import json
import logging
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import xxhash

from mexma_cli import __version__
from mexma_cli.errors import MexmaError
from mexma_cli.files import (
    KEPT,
    MARK,
    Unfinished,
    check_outside_stores,
    is_special,
    no_space_as_message,
    read_json,
    together,
    workplace_path,
    write_json_atomic,
)
from mexma_cli.formats.bitext import format_of
from mexma_cli.formats.csv import Csv, fields_line
from mexma_cli.languages import name
from mexma_cli.settings.stages import SplitSettings
from mexma_cli.stages.split.chunk import DOCUMENT_CODES, DOCUMENT_REASONS, ChunkFile, ChunkWorker, checksum_of
from mexma_cli.stages.split.inputs import DocumentChunk, Inputs, Splitting, chunks, passed_over_in_words
from mexma_cli.stages.worker_pool import in_processes
from mexma_cli.store.arrays import new_mapped
from mexma_cli.store.journal import GOES_ON, Journal, kept_beside
from mexma_cli.store.spool import HASHED, Table, repeats
from mexma_cli.text.amounts import NAMED, counted, such_as
from mexma_cli.text.compression import split_ending
from mexma_cli.text.lines import read_lines
from mexma_cli.text.rules import CODES, NAMES
from mexma_cli.text.writing import Chunk as Text
from mexma_cli.text.writing import only_process, prepare_output, write_chunks

log = logging.getLogger(__name__)

Progress = Callable[[int, int], object]
_FORMAT = 5
_COMPARED = 1_000_000
"""Documents whose ids are compared; 8 bytes each are held."""
_KIND = "split report"
_REASONS = dict(enumerate(NAMES)) | {code: reason for reason, code in DOCUMENT_CODES.items()}
_RULES = ("duplicate", "boilerplate")


@dataclass(frozen=True)
class SplitOutputs:
    """Where the results go.

    Attributes:
        sentences: One a line.
        rejects: ``reason TAB document id TAB start TAB end TAB text`` of what is dropped; or CSV.
    """

    sentences: Path
    rejects: Path | None = None

    @property
    def documents(self) -> Path:
        """``fra.txt.zst`` -> ``fra.docs.zst``: document id, start and end of each sentence."""
        stem, ending = split_ending(self.sentences.name)
        return self.sentences.with_name(f"{stem.removesuffix('.txt')}.docs{ending}")

    @property
    def report(self) -> Path:
        """``fra.txt.zst`` -> ``fra.report.json``."""
        stem = split_ending(self.sentences.name)[0].removesuffix(".txt")
        return self.sentences.with_name(f"{stem}.report.json")

    @property
    def files(self) -> list[Path]:
        """The files of text."""
        return [self.sentences, self.documents, *([self.rejects] if self.rejects else [])]


@dataclass(frozen=True)
class SplitReport:
    """Counts of documents and sentences that were read, kept, and dropped, by reason."""

    documents: int
    repaired: dict[str, int]
    documents_dropped: dict[str, int]
    sentences: int
    kept: int
    dropped: dict[str, int]
    passed_over: dict[str, int]
    characters: int
    words: int
    """Words that a hyphen divided at the end of a line, and that were put together."""
    objects: int
    """Documents from JSONL."""
    ids: int
    """Documents from JSONL that have an id of their own."""
    named: dict[str, list[str]]
    """Some of the documents that were dropped with text in them, by reason."""
    compared: int
    """Documents with sentences whose ids were compared, the first `_COMPARED` at most."""
    different: int
    """Different ids of these."""
    lost: str
    """A warning of files with a document a line or paragraph, none of which can be read; empty for none."""

    def __repr__(self) -> str:
        of = f"{counted(self.sentences, 'sentence')} of {counted(self.documents, 'document')}"
        return f"SplitReport({self.kept:,} of {of} kept)"

    def warnings(self, language: str) -> list[str]:
        """Warnings of what is probably not meant: no document of a file can be read, most sentences are of
        other languages than this code's, or documents share their ids."""
        found = [self.lost] if self.lost else []
        others = sum(self.dropped.get(rule, 0) for rule in ("script", "language"))
        if others > self.kept:
            said = f"{counted(others, 'sentence')} are not in {name(language)}: is that right?"
            found.append(f"{said} `mexma langid` says which language a text is in")
        if self.different < self.compared:
            first = "the first " if self.compared == _COMPARED else ""
            said = f"{first}{self.compared:,} documents have {counted(self.different, 'different id')}"
            hint = ": --id-field names a field that differs" if self.objects else ""
            taken = "`align --docs` and `mine --within` take those with the same id as one document"
            found.append(f"{said}, and {taken}{hint}")
        return found


def split(
    inputs: Inputs,
    how: Splitting,
    outputs: SplitOutputs,
    workers: int = 1,
    argv: tuple[str, ...] = (),
    on_progress: Progress | None = None,
) -> SplitReport:
    """Make the outputs; what a killed run has finished is taken over. More than one worker (processes) needs
    a script that can be imported (``if __name__ == ...``). `on_progress` is told bytes of text done, and
    about how many there are, 0 if nobody knows.

    Refused: an input that is missing or damaged, a model that does not know the language, no document, a full
    disk, a file beside the sentences that would be lost.
    """
    began = time.monotonic()
    for path in (outputs.sentences, outputs.rejects):
        if str(path) == "-" or (path is outputs.sentences and is_special(path)):
            raise MexmaError(
                f"{path} is no file, and several files are written together", "name a file for the output"
            )
    kind = format_of(outputs.rejects, ("tsv", "csv"))
    for path in (*outputs.files, outputs.report):
        prepare_output(path)
    _check_beside(outputs)
    check_outside_stores(workplace_path(outputs.sentences) / KEPT)
    worker = ChunkWorker(how)
    model = worker.check()
    report_progress = on_progress or (lambda done, total: None)
    with (
        only_process(outputs.files),
        no_space_as_message(outputs.sentences),
        kept_beside(outputs.sentences, Journal, _unfinished(how, model)) as journal,
    ):
        assert journal is not None
        found = _made(inputs, worker, how, journal, workers, report_progress)
        codes = decide(found, how.limits, journal.folder)
        report = _report(inputs, found, codes)
        try:
            _check_documents(report, how, inputs)
        except MexmaError:
            journal.forget()  # the same command would be refused again
            raise
        with together():
            write_chunks(outputs.files, _texts(found, codes, how.rejects, kind))
            _write_report(report, how, outputs, model, argv, time.monotonic() - began)
        del codes
    return report


def _check_documents(report: SplitReport, how: Splitting, inputs: Inputs) -> None:
    """Refuse inputs without documents, or none of whose documents can be read, or has the id that is asked
    for."""
    if not report.documents:
        raise MexmaError(
            f"{', '.join(inputs.names[:3])}: there are no documents",
            passed_over_in_words(inputs.passed_over) or "are the files empty?",
        )
    reasons = {name: count for name, count in report.documents_dropped.items() if name != "empty"}
    read = report.documents - report.documents_dropped.get("empty", 0)
    if reasons and sum(reasons.values()) == read:
        said = ", ".join(f"{count:,} {name}" for name, count in reasons.items())
        raise MexmaError(f"no document can be read: {said}", _how_to_read(inputs.files[0], reasons))
    field = how.settings.id_field
    if field != SplitSettings().id_field and report.objects and not report.ids:
        raise MexmaError(f"no object has the field {field!r}", "--id-field names that of the documents' ids")


def _lost(inputs: Inputs, found: Sequence[Path]) -> str:
    """The warning of files of which no document can be read; empty for none."""
    files = defaultdict[str, Counter[str]](Counter)
    for path in found:
        for file, reasons in ChunkFile(path).files.items():
            files[file].update(reasons)
    lost = []
    for file, path in zip(inputs.names, inputs.files, strict=True):
        reasons = files[file] - Counter(empty=files[file]["empty"])
        if reasons and not reasons[""]:
            lost.append((file, path, reasons))
    if not lost:
        return ""
    said = [
        f"{file} ({', '.join(f'{n:,} {why}' for why, n in reasons.items())})" for file, _, reasons in lost
    ]
    how = _how_to_read(*lost[0][1:])
    return f"no document of {counted(len(lost), 'file')} can be read{such_as(said)}: {how}"


def _how_to_read(file: Path, reasons: Mapping[str, int]) -> str:
    """The hint about a file whose documents were dropped for these reasons."""
    reason = max(reasons, key=reasons.__getitem__)
    if reason == "malformed" and (texts := _texts_of_first(file)):
        return f"--text-field names the field of the text; the first object has texts in {', '.join(texts)}"
    return DOCUMENT_REASONS[reason]


def _texts_of_first(file: Path) -> list[str]:
    """The fields with text of the first object of a file, the longest first; none if it is not JSONL."""
    with suppress(MexmaError, ValueError, RecursionError, StopIteration, AttributeError):
        found = json.loads(next(read_lines(file))) if file.is_file() else {}
        texts = {name: text for name, text in found.items() if isinstance(text, str)}
        return sorted(texts, key=lambda name: -len(texts[name]))[:5]
    return []


def _check_beside(outputs: SplitOutputs) -> None:
    """Refuse to replace files that the user has not named, but those that were made here: the report lists
    them, or a run that was killed has left their workplaces."""
    made: set[str] = set()
    with suppress(MexmaError, AttributeError, KeyError, TypeError):  # no such file, or nothing of ours
        found = read_json(outputs.report)
        if found["kind"] == _KIND:
            made = {outputs.report.name, *(Path(file).name for file in found["output"]["files"])}
    for path in (outputs.report, outputs.documents):
        ours = path.name in made or (workplace_path(path) / MARK).is_file()
        if path.exists() and not is_special(path) and not ours:
            raise MexmaError(
                f"{path} would be replaced, and is no output of an earlier `mexma split`",
                "move it away, or give the output another name",
            )


def _unfinished(how: Splitting, model: str | None) -> Unfinished:
    """The settings, besides the text, that the results of chunks depend on."""
    settings = how.as_json()
    rules = {f"rule {rule}": limit for rule, limit in settings.pop("limits").items()}
    packages = {name: version(name) for name in ("ftfy", "sentencex", "sentence-splitter")}
    of = {"format": _FORMAT, "mexma": __version__, "identifier": model}
    return Unfinished(by="split", of=of | settings | rules | packages)


def _made(
    inputs: Inputs,
    worker: ChunkWorker,
    how: Splitting,
    journal: Journal,
    workers: int,
    report_progress: Progress,
) -> list[Path]:
    """The files of the chunks' results, in order; those that are missing are made in this process or in
    several."""
    found: list[Path] = []
    total, done = inputs.size(), 0

    def missing() -> Iterator[tuple[int, tuple[DocumentChunk, Path]]]:
        nonlocal done
        for chunk in chunks(inputs.documents(how)):
            path = journal.folder / f"{chunk.number:07}.npz"
            found.append(path)
            if path.exists() and checksum_of(path) == chunk.checksum():
                if not done:
                    log.info(GOES_ON)
                done += chunk.size()
                report_progress(done, max(total, done))
            else:
                yield chunk.size(), (chunk, path)

    with closing(in_processes(workers, worker.make, missing())) as made:
        for size, _ in made:
            if not journal.begun:
                journal.note()
            done += size
            report_progress(done, max(total, done))
    report_progress(done, done)
    return found


def _merged(chunk: ChunkFile, codes: np.ndarray) -> np.ndarray:
    """The codes of all rows of a chunk, with what was decided about those that it had kept itself."""
    merged = chunk.array("codes").copy()
    merged[merged == 0] = codes
    return merged


def _report(inputs: Inputs, found: list[Path], codes: np.ndarray) -> SplitReport:
    counts: Counter[str] = Counter()
    totals = np.zeros(256, dtype=np.int64)
    named = defaultdict[str, list[str]](list)
    ids = np.empty(0, np.uint64)
    row = 0
    for path in found:
        chunk = ChunkFile(path)
        kept = len(chunk.array("hashes"))
        if len(ids) < _COMPARED:
            ids = np.concatenate([ids, _ids(chunk)[: _COMPARED - len(ids)]])
        counts.update(chunk.counts)
        _name_dropped(chunk, named)
        totals += np.bincount(_merged(chunk, codes[row : row + kept]), minlength=256)
        row += kept
    by_reason = {_REASONS[code]: int(count) for code, count in enumerate(totals) if code and count}
    documents = {reason: by_reason.pop(reason) for reason in DOCUMENT_CODES if reason in by_reason}
    others = ("documents", "characters", "objects", "ids", "words")
    repaired = {name: counts[name] for name in sorted(counts) if name not in others}
    return SplitReport(
        documents=counts["documents"],
        repaired=repaired,
        documents_dropped=documents,
        sentences=int(totals.sum()) - sum(documents.values()),
        kept=int(totals[0]),
        dropped=by_reason,
        passed_over=dict(inputs.passed_over),
        characters=counts["characters"],
        words=counts["words"],
        objects=counts["objects"],
        ids=counts["ids"],
        named={reason: names for reason, names in named.items() if names},
        compared=len(ids),
        different=len(np.unique(ids)),
        lost=_lost(inputs, found),
    )


def _ids(chunk: ChunkFile) -> np.ndarray:
    """The hashes of the ids of a chunk's documents that have sentences, uint64."""
    dropped = np.isin(chunk.array("codes"), list(DOCUMENT_CODES.values()))
    names = chunk.lines("names")
    documents = np.unique(chunk.array("documents")[~dropped]).tolist()
    return np.array([xxhash.xxh3_64_intdigest(names[place].encode()) for place in documents], np.uint64)


def _name_dropped(chunk: ChunkFile, named: dict[str, list[str]]) -> None:
    """Note some documents of a chunk that were dropped whole, by reason; not those without text."""
    for reason in DOCUMENT_CODES.keys() - {"empty"}:
        rows = np.flatnonzero(chunk.array("codes") == DOCUMENT_CODES[reason])[: NAMED - len(named[reason])]
        if len(rows):
            names = chunk.lines("names")
            named[reason] += [names[number] for number in chunk.array("documents")[rows].tolist()]


def _texts(found: list[Path], codes: np.ndarray, with_rejects: bool, kind: str) -> Iterator[Text]:
    """The text of all outputs, chunk by chunk; that of the rejects is of a format, `kind`."""
    row = 0
    if kind == Csv.name:
        yield ("", "", fields_line(("reason", "document", "start", "end", "text"), kind)), 0
    for path in found:
        chunk = ChunkFile(path)
        own = chunk.array("codes")
        passed = int((own == 0).sum())
        merged = _merged(chunk, codes[row : row + passed])
        row += passed
        names, text = chunk.lines("names"), chunk.lines("text")
        documents, spans = chunk.array("documents"), chunk.array("spans")
        kept = np.flatnonzero(merged == 0)
        # Without rejects there is only the text of the rows that the chunk has kept itself.
        lines = kept if with_rejects else np.flatnonzero(merged[own == 0] == 0)
        sentences = "".join([f"{text[line]}\n" for line in lines.tolist()])
        places = "".join(_places(kept, names, documents, spans))
        if not with_rejects:
            yield (sentences, places), 0
            continue
        dropped = np.flatnonzero(merged)
        rejects = zip(
            merged[dropped].tolist(), _places(dropped, names, documents, spans), dropped.tolist(), strict=True
        )
        seen = iter(chunk.seen)
        rows = (
            (
                _REASONS[code] + (f": {next(seen)}" if code == CODES["language"] else ""),
                *place[:-1].split("\t"),
                text[line],
            )
            for code, place, line in rejects
        )
        yield (sentences, places, "".join(fields_line(row, kind) for row in rows)), 0


def _places(rows: np.ndarray, names: list[str], documents: np.ndarray, spans: np.ndarray) -> list[str]:
    chosen = zip(documents[rows].tolist(), spans[rows].tolist(), strict=True)
    return [f"{names[document]}\t{start}\t{end}\n" for document, (start, end) in chosen]


def _write_report(
    report: SplitReport,
    how: Splitting,
    outputs: SplitOutputs,
    model: str | None,
    argv: tuple[str, ...],
    seconds: float,
) -> None:
    content: dict[str, Any] = {
        "kind": _KIND,
        "versions": {"mexma": __version__, "ftfy": version("ftfy"), "identifier": model},
        "argv": list(argv),
        "settings": how.as_json(),
        "documents": {
            "read": report.documents,
            "repaired": report.repaired,
            "dropped": report.documents_dropped,
            "such_as": report.named,
            "characters": report.characters,
            "words_put_together": report.words,
        },
        "files_passed_over": report.passed_over,
        "sentences": {"read": report.sentences, "kept": report.kept, "dropped": report.dropped},
        "output": {"files": list(map(str, outputs.files))},
        "seconds": round(seconds, 3),
    }
    write_json_atomic(outputs.report, content)


def decide(chunks: Sequence[Path], limits: dict[str, float], folder: Path) -> np.ndarray:
    """Why rows are dropped that every chunk (`ChunkFile`s, in order) by itself has kept: uint8 [rows kept in
    all chunks], mapped from a file: 0 or a code of `duplicate`, `boilerplate` (which goes before) or
    `near-duplicate`. An OSError says that the disk is full."""
    codes = new_mapped(folder / "rows.codes", np.uint8, (_rows(chunks),))
    if any(name in limits for name in _RULES):
        table = Table([*HASHED.descr, ("document", "<u4")], "hash", together=1, folder=folder)
        _mark_repeated(chunks, limits, table, codes)
    if "near-duplicate" in limits:
        _mark_near(chunks, Table(HASHED, "hash", together=1, folder=folder), codes)
    return codes


def _rows(chunks: Sequence[Path]) -> int:
    return sum(len(ChunkFile(path).array("hashes")) for path in chunks)


def _mark_repeated(chunks: Sequence[Path], limits: dict[str, float], table: Table, codes: np.ndarray) -> None:
    """Mark all rows of a sentence that is in too many documents, and all but the first of any other."""
    row = document = 0
    for path in chunks:
        chunk = ChunkFile(path)
        hashes, kept = chunk.array("hashes"), chunk.array("codes") == 0
        documents = chunk.array("documents")[kept] + np.uint32(document)
        table.append(hash=hashes, row=np.arange(row, row + len(hashes)), document=documents)
        row, document = row + len(hashes), document + chunk.counts["documents"]
    for entries in table.sorted():
        first = ~repeats(entries, "hash")
        if "duplicate" in limits:
            codes[entries["row"][~first]] = CODES["duplicate"]
        if "boilerplate" in limits:
            new_document = ~repeats(entries, "hash", "document")
            group = np.cumsum(first) - 1
            spread = np.bincount(group, weights=new_document) > limits["boilerplate"]
            codes[entries["row"][spread[group]]] = CODES["boilerplate"]


def _mark_near(chunks: Sequence[Path], table: Table, codes: np.ndarray) -> None:
    """Mark rows that share a band with an earlier row, of those that are not dropped yet."""
    row = 0
    for path in chunks:
        bands = ChunkFile(path).array("bands")
        left = np.flatnonzero(codes[row : row + len(bands)] == 0)
        table.append(hash=bands[left].reshape(-1), row=np.repeat(row + left, bands.shape[1]))
        row += len(bands)
    for entries in table.sorted():
        codes[entries["row"][repeats(entries, "hash")]] = CODES["near-duplicate"]
