"""The report of a mining run: what went in, what was left out and why, what came out, and what it took."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from platform import python_version
from typing import Any

import numpy as np

from mexma_cli import __version__
from mexma_cli.files import write_json_atomic
from mexma_cli.stages.knn.row_filter import SideCounts
from mexma_cli.stages.knn.search import peak_memory
from mexma_cli.stages.mine.documents import DocumentPairs
from mexma_cli.stages.mine.mine import Mined, MineSettings
from mexma_cli.store.embeddings import EmbeddingStore

QUANTILES = (0.0, 0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99, 1.0)


@dataclass(frozen=True)
class Run:
    """A run that is over."""

    mined: Mined
    stores: tuple[EmbeddingStore, EmbeddingStore]
    names: tuple[str, str]
    """What the user called the two sides."""
    settings: MineSettings
    documents: DocumentPairs | None
    kept: str | None
    """Where the neighbours were taken from, if they were not searched."""
    output: dict[str, Any]
    """The files, their format, and how many sentences were changed in them."""
    argv: Sequence[str]
    seconds: dict[str, float]
    """Time by stage outside of `mine`."""


def write_report(path: Path, run: Run) -> None:
    """Write the report as JSON.

    Raises:
        MexmaError: the disk is full.
    """
    mined = run.mined
    scores = mined.candidates.scores
    report = {
        "kind": "mining report",
        "versions": {
            "mexma": __version__,
            "python": python_version(),
            **{name: version(name) for name in ("numpy", "torch")},
        },
        "argv": list(run.argv),
        "source": _side(run.stores[0], run.names[0], mined.source),
        "target": _side(run.stores[1], run.names[1], mined.target),
        "settings": asdict(run.settings),
        "documents": _documents(run.documents),
        "search": {**mined.how, "neighbours": run.kept},
        "counts": {
            "candidates": mined.found,
            "dropped": mined.dropped,
            "written": len(mined.candidates),
        },
        "scores": {
            f"{quantile:g}": float(np.quantile(scores, quantile)) for quantile in QUANTILES if len(scores)
        },
        "output": run.output,
        "seconds": {stage: round(spent, 3) for stage, spent in {**mined.seconds, **run.seconds}.items()},
        "peak_memory_bytes": peak_memory(),
    }
    write_json_atomic(path, report)


def _documents(found: DocumentPairs | None) -> dict[str, Any] | None:
    if found is None:
        return None
    return {
        "source": {"path": str(found.paths[0]), "documents": found.documents[0], "unpaired": found.alone[0]},
        "target": {"path": str(found.paths[1]), "documents": found.documents[1], "unpaired": found.alone[1]},
        "pairs": len(found.pairs),
    }


def _side(store: EmbeddingStore, name: str, counts: SideCounts) -> dict[str, Any]:
    manifest = store.manifest
    return {
        "path": name,
        "language": manifest.language,
        "rows": counts.rows,
        "usable": counts.usable,
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
