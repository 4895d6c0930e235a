"""Mining from disk to disk: stores or texts in; a file of pairs, and perhaps a report, out."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from platform import python_version
from typing import TYPE_CHECKING, Any

import numpy as np

from mexma_cli import __version__
from mexma_cli.errors import MexmaError
from mexma_cli.files import together, write_json_atomic
from mexma_cli.formats.bitext import formats
from mexma_cli.settings.stages import EncoderChoice, SearchSettings
from mexma_cli.stages.embed.inputs import Progress, is_store, open_inputs
from mexma_cli.stages.knn.knn import read_neighbours
from mexma_cli.stages.knn.row_filter import RowCounts
from mexma_cli.stages.knn.search import check_memory, journal_beside, peak_memory
from mexma_cli.stages.mine.documents import DocumentFiles, DocumentPairs, read_documents, tell_if_older
from mexma_cli.stages.mine.mine import Clock, Mined, MiningJob, mine, neighbours_of
from mexma_cli.stages.mine.probable import encoder_of, judging_bytes, with_score
from mexma_cli.stages.mine.thresholds import known_threshold, thresholds_of
from mexma_cli.store.embeddings import EmbeddingStore, StorePair, check_comparable
from mexma_cli.text.amounts import counted
from mexma_cli.text.duplicates import copy_reasons
from mexma_cli.text.lines import label_of, scan
from mexma_cli.text.writing import only_process, write_chunks

if TYPE_CHECKING:
    from mexma_cli.encoder.encoder import SentenceEncoder

log = logging.getLogger(__name__)

_LOOKED_AT = 200  # of the best pairs, for copies
QUANTILES = (0.0, 0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99, 1.0)


@dataclass(frozen=True)
class MiningRun:
    """What was mined, in which stores, and the job with the settings by which it was: score and threshold."""

    found: Mined
    stores: StorePair
    job: MiningJob
    documents: DocumentPairs | None


def mine_files(
    job: MiningJob,
    encoder: EncoderChoice,
    argv: Sequence[str] = (),
    on_embedding: Progress | None = None,
    on_progress: Progress | None = None,
) -> tuple[Mined, int]:
    """Mine, and write the pairs and the report; returns what was mined, and the number of sentences that were
    changed to fit the format."""
    with only_process(job.files), mined(job, encoder, on_embedding, on_progress) as run, together():
        started = time.monotonic()
        changed = write_chunks(job.files, formats()[job.format].write(run.found, job.languages, job.with_ids))
        if job.report is not None:
            write_report(run, changed, argv, {"writing": time.monotonic() - started})
    return run.found, changed


@contextmanager
def mined(
    job: MiningJob,
    encoder: EncoderChoice | SentenceEncoder,
    on_embedding: Progress | None = None,
    on_progress: Progress | None = None,
) -> Iterator[MiningRun]:
    """Mine what a job says, without its outputs. A search that was killed goes on where it stopped; what is
    kept for that goes when the block ends well.

    `on_embedding` is called with lines of texts that are embedded and lines in all, `on_progress` with tiles
    of the search. Refused: settings that do not fit each other or the inputs, documents of other texts,
    stores of different encoders or dimensions, or damaged ones; before anything is embedded, if it can be.
    """
    clock, paths = Clock(), job.paths[:1] if job.one_text else job.paths
    with ExitStack() as stack:
        with clock("opening"):
            if job.one_text and job.documents is not None:
                one = f"{job.names[0]} is searched in itself"
                raise MexmaError(f"{one}: documents are paired between two texts")
            encoded, within = encoder_of(paths, encoder), job.documents is not None
            how = with_score(job.settings, encoded, job.one_text, within)
            kept = [] if job.thresholds is None else thresholds_of(job.thresholds, job.languages)
            documents = None if job.documents is None else documents_of(paths, job.documents)
            opened = open_inputs(stack, paths, encoder, languages=job.languages, on_progress=on_embedding)
            stores = opened[0], opened[-1]
            if job.thresholds is not None:
                threshold = known_threshold(job.thresholds, kept, stores[0].manifest, job.languages, how)
                log.info("threshold %s, from %s", threshold, job.thresholds)
                how = how.but(threshold=threshold)
            job = replace(job, settings=how)
            _check_stores(stores, job, documents)
        if isinstance(job.neighbours, Path):
            near = read_neighbours(job.neighbours, *stores, how.k + job.one_text)
        elif job.neighbours is not None:
            near = job.neighbours
        else:
            k = how.k + job.one_text  # of a text in itself every sentence finds itself, too
            searched = job.files[0] if job.files else None
            journal = stack.enter_context(journal_beside("mine", searched, stores, k, how))
            near = neighbours_of(stores, how, clock, journal, on_progress)
        found = mine(stores, near, job, documents, clock)
        if not (job.one_text or how.drop_copies):
            _tell_copies(found)
        yield MiningRun(found, stores, job, documents)


def _check_stores(stores: StorePair, job: MiningJob, documents: DocumentPairs | None) -> None:
    """Refuse stores that do not fit each other, the documents, or the memory; warn of two of one text."""
    source, target = stores
    check_comparable(source, target)
    if documents is not None:
        documents.check_lines((source.rows, target.rows), (source.label, target.label))
    if job.neighbours is None:
        how, rows = job.settings, (source.rows, target.rows)
        check_memory(how, *rows, source.dim, how.k + job.one_text, judging_bytes(how, sum(rows)))
    texts = [(store.manifest.source.checksum, store.manifest.part) for store in stores]
    if not job.one_text and texts[0] == texts[1]:
        same = "%s and %s are of the same text, in which every sentence is paired with itself"
        log.warning(same, source.label, target.label)


def _tell_copies(mined: Mined) -> None:
    """Warn where most of the best pairs are a sentence and its copy, as of texts in one language."""
    best = list(mined.taken(slice(0, min(len(mined), _LOOKED_AT))))
    copies = sum(map(bool, copy_reasons([pair.source for pair in best], [pair.target for pair in best])))
    if copies > len(best) / 2:
        said = "copies, and no translations, among the best %s: %s; --drop-copies drops them"
        log.warning(said, counted(len(best), "pair"), f"{copies:,}")


def documents_of(texts: Sequence[Path], files: DocumentFiles) -> DocumentPairs:
    """The documents of both texts, compared with what is known of these before they are embedded."""
    found = read_documents(*files)
    lines = [len(found.source), len(found.target)]
    for side, path in enumerate(texts):
        if is_store(path):
            store = EmbeddingStore.open(path)
            lines[side] = store.rows
            tell_if_older(store, found.paths[side])
        elif path.is_file():
            lines[side] = scan(path).lines
    found.check_lines((lines[0], lines[1]), (label_of(texts[0]), label_of(texts[1])))
    return found


def write_report(run: MiningRun, changed: int, argv: Sequence[str], seconds: dict[str, float]) -> None:
    """Write the report of a job as JSON, with the sentences that were `changed` to fit the output's format,
    the command line, and the seconds of each stage that came after mining."""
    mined, job = run.found, run.job
    assert job.report is not None
    scores = mined.candidates.scores
    report = {
        "kind": "mining report",
        "versions": versions(),
        "argv": list(argv),
        "source": _side(run.stores[0], job.names[0], mined.source),
        "target": _side(run.stores[1], job.names[1], mined.target),
        "settings": _settings(job),
        "documents": _documents(run.documents),
        "search": {
            **mined.how,
            "neighbours": str(job.neighbours) if isinstance(job.neighbours, Path) else None,
        },
        "counts": {"candidates": mined.found, "dropped": mined.dropped, "written": len(mined.candidates)},
        "scores": quantiles(scores),
        "output": {"files": list(map(str, job.files)), "format": job.format, "changed_sentences": changed},
        "seconds": {stage: round(spent, 3) for stage, spent in {**mined.seconds, **seconds}.items()},
        "peak_memory_bytes": peak_memory(),
    }
    write_json_atomic(job.report, report)


def _settings(job: MiningJob) -> dict[str, Any]:
    search = set(SearchSettings.model_fields)
    found = job.settings.model_dump(exclude=search) | {"with_ids": job.with_ids}
    return found | {"search": job.settings.model_dump(include=search)}


def versions() -> dict[str, str]:
    """The versions of the libraries that a result depends on."""
    others = {name: version(name) for name in ("numpy", "torch")}
    return {"mexma": __version__, "python": python_version(), **others}


def quantiles(scores: np.ndarray) -> dict[str, float]:
    """Quantiles of scores [n], by the share that is below; nothing for no scores."""
    return {f"{share:g}": float(np.quantile(scores, share)) for share in QUANTILES if len(scores)}


def _documents(found: DocumentPairs | None) -> dict[str, Any] | None:
    if found is None:
        return None
    return {
        "source": {"path": str(found.paths[0]), "documents": found.documents[0], "unpaired": found.alone[0]},
        "target": {"path": str(found.paths[1]), "documents": found.documents[1], "unpaired": found.alone[1]},
        "pairs": len(found.pairs),
    }


def _side(store: EmbeddingStore, name: str, counts: RowCounts) -> dict[str, Any]:
    manifest = store.manifest
    return {
        "path": name,
        "language": manifest.language,
        "rows": counts.rows,
        "usable": counts.kept,
        "left_out": {
            "duplicates": counts.duplicates,
            "empty": counts.empty,
            "unusable_vectors": counts.unusable,
        },
        "encoder": manifest.encoder,
        "fingerprint": manifest.fingerprint,
        "dim": manifest.dim,
        "dtype": manifest.dtype,
        "text_checksum": manifest.source.checksum,
    }
