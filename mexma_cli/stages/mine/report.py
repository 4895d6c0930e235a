"""The job of a run of mining, and its report: what was left out and why, and what it took."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from platform import python_version
from typing import Any

import numpy as np

from mexma_cli import __version__
from mexma_cli.files import write_json_atomic
from mexma_cli.settings.stages import MineSettings, SearchSettings
from mexma_cli.stages.knn.row_filter import RowCounts
from mexma_cli.stages.knn.search import peak_memory
from mexma_cli.stages.mine.documents import DocumentPairs
from mexma_cli.stages.mine.mine import Mined, PrecomputedNeighbours
from mexma_cli.store.embeddings import EmbeddingStore, StorePair
from mexma_cli.text.lines import label_of

QUANTILES = (0.0, 0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99, 1.0)


@dataclass(frozen=True)
class MiningJob:
    """A job of mining: inputs, settings and outputs.

    Attributes:
        paths: Source and target, stores or texts; twice the same for the pairs within one text.
        languages: FLORES-200 codes of both.
        files: Of the format; none for stdout.
        kind: The format's name.
        with_ids: Look up ranks and neighbourhood means of the pairs, and write them.
        documents: Only sentences of documents that are paired here make pairs.
        neighbours: Those that are known already, or where `mexma knn` kept them.
        report: A file for the report of the run.
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


def write_report(
    job: MiningJob,
    stores: StorePair,
    mined: Mined,
    changed: int,
    argv: Sequence[str],
    seconds: dict[str, float],
) -> None:
    """Write the report of a job that is done as JSON.

    Args:
        changed: Sentences that were changed to fit the output's format.
        argv: The command line.
        seconds: Time by stage outside of `mine`.

    Raises:
        MexmaError: the disk is full.
    """
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
        "counts": {
            "candidates": mined.found,
            "dropped": mined.dropped,
            "written": len(mined.candidates),
        },
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
