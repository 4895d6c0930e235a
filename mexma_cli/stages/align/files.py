"""Aligning from disk to disk: pairs of documents in; a file of alignments, and perhaps a report, out."""

from __future__ import annotations

import logging
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from mexma_cli.align.documents import (
    CANDIDATES,
    WINDOWS,
    centre,
    coverage,
    document_vector,
    matched,
    sentence_weights,
)
from mexma_cli.encoder.encoder import SentenceEncoder
from mexma_cli.encoder.runs import document_encoder
from mexma_cli.errors import MexmaError
from mexma_cli.files import (
    Unfinished,
    check_own,
    check_parent,
    commit,
    fingerprint,
    no_space_as_message,
    temporary_space,
    together,
    workplace,
    write_json_atomic,
)
from mexma_cli.formats.bitext import DEFAULT, formats
from mexma_cli.formats.tsv import one_field
from mexma_cli.knn.exact import knn
from mexma_cli.languages import UNSTATED
from mexma_cli.settings.stages import AlignSettings, EncoderChoice
from mexma_cli.stages.align.align import (
    AlignCounts,
    Aligned,
    Aligner,
    Cleaner,
    DocumentInputs,
    PairedDocuments,
    groups_by,
    groups_of,
    open_documents,
    sizes_of,
)
from mexma_cli.stages.align.sides import first_store
from mexma_cli.stages.embed.embed import note_language
from mexma_cli.stages.embed.inputs import Progress, agreed_language, load_encoder_of, warn_of_cut
from mexma_cli.stages.knn.search import peak_memory
from mexma_cli.stages.mine.documents import tell_documents
from mexma_cli.store.arrays import new_mapped
from mexma_cli.store.journal import AlignmentJournal, kept_beside
from mexma_cli.store.layout import Part
from mexma_cli.text.amounts import counted
from mexma_cli.text.compression import split_ending
from mexma_cli.text.lines import label_of
from mexma_cli.text.normalise import cleaner
from mexma_cli.text.writing import Chunk, only_process, write_chunks

log = logging.getLogger(__name__)
UNALIGNED = ("source.txt", "target.txt", "source.docs", "target.docs", "pairs.tsv")
"""The files of sentences that are in no alignment, as `mexma mine --within` reads them."""


@dataclass(frozen=True)
class AlignJob:
    """A job of aligning: the inputs, the settings and the outputs.

    Attributes:
        files: Of this `format`; none for stdout.
        with_ids: Write the documents and lines, where the format has them if they are wanted.
        shard: Only this part of the pairs of documents.
        unaligned: A folder for the sentences that are in no alignment that is written.
    """

    inputs: DocumentInputs
    languages: tuple[str, str] = (UNSTATED, UNSTATED)
    files: list[Path] = field(default_factory=list)
    format: str = DEFAULT
    with_ids: bool = False
    settings: AlignSettings = field(default_factory=AlignSettings)
    shard: Part | None = None
    unaligned: Path | None = None
    report: Path | None = None


def agreed_languages(inputs: DocumentInputs, codes: tuple[str, str]) -> tuple[str, str]:
    """The `agreed_language` of each side, which may be folders and patterns."""
    source, target = (
        agreed_language(path, first_store(path), code)
        for path, code in zip((inputs.source, inputs.target), codes, strict=True)
    )
    return source, target


def part_of_output(output: Path, part: Part) -> Path:
    """The output's name for a part: ``out.00003-of-00010.tsv.gz``."""
    name, packed = split_ending(output.name)
    plain = Path(name)
    return output.with_name(f"{plain.stem}.{part.label}{plain.suffix}{packed}")


def prepare_unaligned(folder: Path) -> None:
    """Find out before the work that the folder for `UNALIGNED` can be made, or be replaced."""
    if folder.exists() and not folder.is_dir():
        raise MexmaError(f"{folder} is a file, not a folder", "name a new folder for --unaligned")
    check_own(folder, UNALIGNED)
    check_parent(folder)


def align_files(
    job: AlignJob,
    choice: EncoderChoice,
    argv: Sequence[str] = (),
    progress: Callable[[str], Progress] | None = None,
    on_aligned: Callable[[Aligned], object] = lambda found: None,
) -> tuple[AlignCounts, int]:
    """Align, and write the alignments and the report; returns counts of what was aligned, and of sentences
    that were changed to fit the format. A run that was killed goes on where it stopped.

    `progress` leads from what is done ("aligning") to a function that is called with how much of how much;
    `on_aligned` is called with what was aligned, as long as it can be read.
    """
    if job.settings.chunks is not None and not formats(alignments=True)[job.format].whole_documents:
        raise MexmaError("--chunks cuts whole documents", "add --format documents")
    with only_process(job.files), aligned(job, choice, progress) as run, together():
        started = time.monotonic()
        found, format_ = run.found, formats(alignments=True)[job.format]
        lines = format_.write(found.written(format_), job.languages, job.with_ids)
        changed = write_chunks(job.files, lines)
        if job.unaligned is not None:
            _write_unaligned(job.unaligned, found)
        on_aligned(found)
        run.seconds["writing"] = time.monotonic() - started
        counts = found.counts()
        if job.report is not None:
            _write_report(job, run, counts, changed, argv)
    return counts, changed


@dataclass(frozen=True)
class AlignRun:
    """The alignments that were found, the encoder, sentences that it cut, and seconds of each stage."""

    found: Aligned
    encoder: SentenceEncoder
    cut: int
    seconds: dict[str, float]


@contextmanager
def aligned(
    job: AlignJob, choice: EncoderChoice | SentenceEncoder, progress: Callable[[str], Progress] | None = None
) -> Iterator[AlignRun]:
    """Align; what is kept to go on with after a kill goes when the block ends well."""
    progress_of = progress or (lambda what: lambda done, total: None)
    clock = [time.monotonic()]
    with ExitStack() as stack:
        documents = open_documents(stack, job.inputs)
        encoder = load_encoder_of(
            [documents.source.store, documents.target.store], choice, "runs of sentences"
        )
        for language in job.languages:
            note_language(encoder, language)
        journal = stack.enter_context(_journal(job, documents, encoder))
        cleaners = _cleaners(job, documents)
        aligner = Aligner(
            documents,
            document_encoder(encoder),
            job.settings,
            job.languages,
            cleaners,
            formats(alignments=True)[job.format].whole_documents,
        )
        clock.append(time.monotonic())
        if job.inputs.find:
            if (pairs := journal.pairs()) is None:
                pairs = find_documents(aligner, progress_of("finding documents"))
                journal.keep_pairs(pairs)
            documents = documents.with_found(pairs)
            aligner = replace(aligner, documents=documents)
        if documents.counts != (1, 1):
            tell_documents(len(documents.pairs), documents.alone, documents.counts)
        clock.append(time.monotonic())
        groups = groups_of(documents)
        if job.shard is not None:
            first, last = job.shard.rows(len(groups) - 1)
            groups = groups[first : last + 1]
        aligner.run(groups, journal, progress_of("aligning"))
        clock.append(time.monotonic())
        if journal.cut:
            cut = "longer than %d tokens, of which only the beginning was embedded: %s"
            log.info(cut, encoder.max_tokens, counted(journal.cut, "sentence"))
            warn_of_cut(journal.cut, int(sizes_of(journal.records()).sum()), encoder.max_tokens)
        span = int(groups[0]), int(groups[-1])
        found = Aligned(documents, journal.records(), span, job.settings, job.languages)
        seconds = dict(zip(("opening", "finding", "aligning"), np.diff(clock).tolist(), strict=True))
        yield AlignRun(found, encoder, journal.cut, seconds)


@contextmanager
def _journal(
    job: AlignJob, documents: PairedDocuments, encoder: SentenceEncoder
) -> Iterator[AlignmentJournal]:
    """Beside the output, or in a temporary folder if that is stdout or a device."""
    of = {
        "source": fingerprint(documents.source.identity),
        "target": fingerprint(documents.target.identity),
        "list of document pairs": "found" if job.inputs.find else fingerprint(documents.pairs.tolist()),
        "encoder": encoder.fingerprint,
        "precision": encoder.precision,
        "prefix": encoder.prefix,
        "languages": " and ".join(job.languages),
        "max_size": job.settings.max_size,
        "documents scored": formats(alignments=True)[job.format].whole_documents,
        "shard": job.shard and str(job.shard),
    }
    run, output = Unfinished(by="align", of=of), job.files[0] if job.files else None
    with kept_beside(output, AlignmentJournal, run) as journal:
        if journal is not None:
            yield journal
            return
        with TemporaryDirectory(prefix="mexma-") as folder, temporary_space():
            yield AlignmentJournal(Path(folder), run)


def _cleaners(job: AlignJob, documents: PairedDocuments) -> tuple[Cleaner, Cleaner]:
    """The normalisation of lines of both sides before they are embedded: as with their stores."""
    stores = [side.store for side in (documents.source, documents.target)]
    if not any(store is not None and store.manifest.clean for store in stores):
        return str, str
    return cleaner(job.languages[0]), cleaner(job.languages[1])


def _write_unaligned(folder: Path, found: Aligned) -> None:
    """Make the folder of UNALIGNED, whole or not at all."""
    with no_space_as_message(folder), workplace(folder) as part:
        part.mkdir()
        write_chunks([part / name for name in UNALIGNED], _unaligned(found))
        commit(folder, own=UNALIGNED)


def _unaligned(found: Aligned) -> Iterator[Chunk]:
    """The lines of UNALIGNED: sentences, the document of each, and the pairs that have some on both sides."""
    for names, sentences in found.unaligned():
        documents = [one_field(name) or "document" for name in names]
        texts = ["".join(f"{line}\n" for line in side) for side in sentences]
        ids = [f"{name}\n" * len(side) for name, side in zip(documents, sentences, strict=True)]
        pair = "\t".join(documents) + "\n" if all(sentences) else ""
        yield (*texts, *ids, pair), 0


def _write_report(
    job: AlignJob, run: AlignRun, counts: AlignCounts, changed: int, argv: Sequence[str]
) -> None:
    from mexma_cli.stages.mine.files import quantiles, versions

    assert job.report is not None
    encoder, documents, records = run.encoder, run.found.documents, run.found.records
    scores = records["score"][(sizes_of(records) > 0).all(axis=1)]
    sides = {
        name: {
            "path": label_of(path),
            "language": job.languages[side],
            "documents": documents.counts[side],
            "unpaired": len(documents.alone[side]),
            "without_sentences": counts.empty[side],
            "sentences": counts.sentences(side)[0],
            "unaligned": counts.sentences(side)[1],
        }
        for side, (name, path) in enumerate((("source", job.inputs.source), ("target", job.inputs.target)))
    }
    report = {
        "kind": "alignment report",
        "versions": versions(),
        "argv": list(argv),
        **sides,
        "documents": {"pairs": counts.pairs, "found": job.inputs.find, "shard": job.shard},
        "encoder": {"name": encoder.name, "fingerprint": encoder.fingerprint, "truncated": run.cut},
        "settings": job.settings.model_dump() | {"with_ids": job.with_ids},
        "counts": {
            "alignments": {f"{one}-{other}": count for (one, other), count in sorted(counts.kinds.items())},
            "dropped": dict(counts.dropped),
            "written": counts.written,
        },
        "scores": quantiles(scores),
        "output": {
            "files": list(map(str, job.files)),
            "format": job.format,
            "unaligned": str(job.unaligned) if job.unaligned else None,
            "changed_sentences": changed,
        },
        "seconds": {stage: round(spent, 3) for stage, spent in run.seconds.items()},
        "peak_memory_bytes": peak_memory(),
    }
    write_json_atomic(job.report, report)


def find_documents(aligner: Aligner, on_progress: Callable[[int, int], object]) -> np.ndarray:
    """The pairs of documents, int32 [n, 2], sorted; a document is in one at most; refused if there is none.
    Sentences are embedded once into a temporary file, or taken from stores; `on_progress` is told documents
    embedded and documents in all."""
    counts = aligner.documents.counts
    with ExitStack() as stack, temporary_space():
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mexma-")))
        source = _Embedded(aligner, 0, folder, lambda done: on_progress(done, sum(counts)))
        target = _Embedded(aligner, 1, folder, lambda done: on_progress(counts[0] + done, sum(counts)))
        near = knn(source.documents, target.documents, CANDIDATES, keep_x=source.filled, keep_y=target.filled)
        forward, backward = (
            np.stack([np.repeat(np.arange(len(ids)), ids.shape[1]), ids.ravel()], axis=1)
            for ids in (near.forward_ids, near.backward_ids)
        )
        candidates = np.unique(np.concatenate([forward, backward[:, ::-1]]), axis=0)
        candidates = candidates[(candidates >= 0).all(axis=1)]
        scores = np.empty(len(candidates))
        for place, (one, other) in enumerate(candidates.tolist()):
            (x, x_weights), (y, y_weights) = source.sentences(one), target.sentences(other)
            scores[place] = coverage(x, y, (x_weights, y_weights))
    pairs = candidates[matched(candidates, scores)]
    if not len(pairs):
        raise MexmaError(
            "no documents are translations of each other", "--document-pairs names those that belong together"
        )
    return pairs.astype(np.int32)


class _Embedded:
    """One side: its documents' vectors, float32 [documents, width], mapped from the disk; which of them are
    `filled`, bool [documents]: have any sentence; and those of their sentences in a temporary file."""

    def __init__(
        self, aligner: Aligner, side: int, folder: Path, on_progress: Callable[[int], object]
    ) -> None:
        own = (aligner.documents.source, aligner.documents.target)[side]
        self._dim = aligner.encoder.dim
        self._ends = np.zeros(len(own.names) + 1, np.int64)
        self._path, weights = folder / f"{side}.f16", []
        shape = (len(own.names), WINDOWS * self._dim)
        self.documents = new_mapped(folder / f"{side}.f32", np.float32, shape)
        spans = list(pairwise(groups_by(own.sizes).tolist()))
        groups = aligner.each(lambda span: aligner.sentences(side, range(*span)), spans)
        with self._path.open("wb") as file, closing(groups):
            for (first, last), group in zip(spans, groups, strict=True):
                for number, (vectors, lengths) in enumerate(group, first):
                    file.write(vectors.astype(np.float16).tobytes())
                    self.documents[number] = document_vector(vectors, lengths)
                    self._ends[number + 1] = self._ends[number] + len(lengths)
                    weights.append(sentence_weights(lengths))
                on_progress(last)
        self._weights = np.concatenate(weights)
        self.filled = np.asarray(self.documents.any(axis=1))
        centre(self.documents)

    def sentences(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        """Vectors of a document's sentences, float32 [n, dim], and their weights."""
        first, last = self._ends[number : number + 2].tolist()
        place, size = 2 * self._dim * first, (last - first) * self._dim
        vectors = np.fromfile(self._path, np.float16, size, offset=place).reshape(-1, self._dim)
        return vectors.astype(np.float32), self._weights[first:last]
