"""Mining from disk to disk: stores or texts in; a file of pairs, and perhaps a report, out."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from platform import python_version
from typing import Any

import numpy as np

from mexma_cli import __version__
from mexma_cli.files import together, write_json_atomic
from mexma_cli.formats.bitext import formats
from mexma_cli.settings.stages import EncoderChoice, MineSettings, SearchSettings
from mexma_cli.stages.embed.inputs import Progress, is_store, open_inputs
from mexma_cli.stages.knn.knn import read_neighbours
from mexma_cli.stages.knn.row_filter import RowCounts
from mexma_cli.stages.knn.search import SearchResult, journal_beside, peak_memory
from mexma_cli.stages.mine.documents import DocumentFiles, DocumentPairs, read_documents, tell_if_older
from mexma_cli.stages.mine.mine import Mined, PrecomputedNeighbours, mine
from mexma_cli.stages.mine.probable import encoder_of, with_score
from mexma_cli.stages.mine.thresholds import known_threshold, thresholds_of
from mexma_cli.store.embeddings import EmbeddingStore, StorePair
from mexma_cli.text.amounts import counted
from mexma_cli.text.duplicates import copy_reasons
from mexma_cli.text.lines import label_of, scan
from mexma_cli.text.writing import only_process, write_chunks

log = logging.getLogger(__name__)

_LOOKED_AT = 200  # of the best pairs, for copies
QUANTILES = (0.0, 0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99, 1.0)


@dataclass(frozen=True)
class MiningJob:
    """A job of mining: inputs, settings and outputs.

    Attributes:
        paths: Source and target, stores or texts; twice the same for the pairs within one text.
        files: Of the format `kind`; none for stdout.
        with_ids: Look up ranks and neighbourhood means of the pairs, and write them.
        documents: Only sentences of documents that are paired here make pairs.
        neighbours: Those that are known already, or where `mexma knn` kept them.
        thresholds: A file of known thresholds, from which that of the settings is taken.
    """

    paths: tuple[Path, Path]
    languages: tuple[str, str]
    settings: MineSettings
    files: list[Path]
    kind: str
    with_ids: bool = False
    documents: DocumentPairs | None = None
    neighbours: Path | PrecomputedNeighbours | None = None
    report: Path | None = None
    thresholds: Path | None = None

    @property
    def one_text(self) -> bool:
        """Whether pairs within one text are wanted."""
        return self.paths[0] == self.paths[1]

    @property
    def names(self) -> tuple[str, str]:
        """The names of source and target in messages."""
        return label_of(self.paths[0]), label_of(self.paths[1])


def mine_files(
    job: MiningJob,
    encoder: EncoderChoice,
    argv: Sequence[str] = (),
    on_embedding: Progress | None = None,
    on_progress: Progress | None = None,
) -> tuple[Mined, int]:
    """Mine, and write the pairs and the report; returns what was mined, and the number of sentences that were
    changed to fit the format. A search that was killed goes on where it stopped."""
    started = time.monotonic()
    with only_process(job.files), ExitStack() as stack:
        paths = job.paths[:1] if job.one_text else job.paths
        within = job.documents is not None
        how = with_score(job.settings, encoder_of(paths, encoder), job.one_text, within)
        job = replace(job, settings=how)
        kept = thresholds_of(job.thresholds, job.languages) if job.thresholds is not None else []
        stores = open_inputs(stack, paths, encoder, languages=job.languages, on_progress=on_embedding)
        source, target = stores[0], stores[-1]
        seconds = {"opening": time.monotonic() - started}
        if job.thresholds is not None:
            threshold = known_threshold(job.thresholds, kept, source.manifest, job.languages, how)
            log.info("threshold %s, from %s", threshold, job.thresholds)
            job = replace(job, settings=how.but(threshold=threshold))
        known: PrecomputedNeighbours | SearchResult | None = None
        searched = None
        k = job.settings.k + job.one_text  # of a text in itself every sentence finds itself, too
        if isinstance(job.neighbours, PrecomputedNeighbours):
            known = job.neighbours
        elif job.neighbours is not None:
            known = read_neighbours(job.neighbours, source, target, k)
        elif job.files:
            searched = job.files[0]
        journal = stack.enter_context(journal_beside("mine", searched, (source, target), k, job.settings))
        mined = mine(
            source,
            target,
            job.settings,
            with_ids=job.with_ids,
            neighbours=known,
            documents=job.documents,
            journal=journal,
            on_progress=on_progress,
        )
        if not (job.one_text or how.drop_copies):
            _tell_copies(mined)
        writing = time.monotonic()
        lines = formats()[job.kind].write(mined, job.languages, job.with_ids)
        with together():
            changed = write_chunks(job.files, lines)
            seconds["writing"] = time.monotonic() - writing
            if job.report is not None:
                write_report(job, (source, target), mined, changed, argv, seconds)
    return mined, changed


def _tell_copies(mined: Mined) -> None:
    """Warn where most of the best pairs are a sentence and its copy, as of texts in one language."""
    best = list(mined.taken(slice(0, min(len(mined), _LOOKED_AT))))
    copies = sum(map(bool, copy_reasons([pair.source for pair in best], [pair.target for pair in best])))
    if copies > len(best) / 2:
        said = "%s of the best %s are copies, and no translations; --drop-copies drops them"
        log.warning(said, f"{copies:,}", counted(len(best), "pair"))


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


def write_report(
    job: MiningJob,
    stores: StorePair,
    mined: Mined,
    changed: int,
    argv: Sequence[str],
    seconds: dict[str, float],
) -> None:
    """Write the report of a job that is done as JSON, with the sentences that were `changed` to fit the
    output's format, the command line, and the seconds of each stage outside of `mine`."""
    assert job.report is not None
    scores = mined.candidates.scores
    report = {
        "kind": "mining report",
        "versions": versions(),
        "argv": list(argv),
        "source": _side(stores[0], job.names[0], mined.source),
        "target": _side(stores[1], job.names[1], mined.target),
        "settings": _settings(job),
        "documents": _documents(job.documents),
        "search": {
            **mined.how,
            "neighbours": str(job.neighbours) if isinstance(job.neighbours, Path) else None,
        },
        "counts": {"candidates": mined.found, "dropped": mined.dropped, "written": len(mined.candidates)},
        "scores": quantiles(scores),
        "output": {"files": list(map(str, job.files)), "format": job.kind, "changed_sentences": changed},
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
