"""The report of a mining run: what went in, what was left out and why, what came out, and what it took."""

from __future__ import annotations

import resource
import sys
from collections.abc import Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from platform import python_version
from typing import Any

import numpy as np

from mexma_cli import __version__
from mexma_cli.stages.mine import Mined, MineSettings
from mexma_cli.stages.usable import SideCounts
from mexma_cli.store.embeddings import EmbeddingStore
from mexma_cli.store.manifest import write_json_atomic

QUANTILES = (0.0, 0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99, 1.0)


def write_report(
    path: Path,
    mined: Mined,
    stores: tuple[EmbeddingStore, EmbeddingStore],
    names: tuple[str, str],
    settings: MineSettings,
    *,
    search: dict[str, Any],
    output: dict[str, Any],
    argv: Sequence[str],
    seconds: dict[str, float],
) -> None:
    """Write the report as JSON.

    Args:
        names: What the user called the two sides.
        search: How the neighbours were found: `index` and `recall`.
        output: The files, their format, and the changed sentences.
        seconds: Time by stage outside of `mine`, such as of embedding and writing.
    """
    scores = mined.candidates.scores
    report = {
        "kind": "mining report",
        "versions": {
            "mexma": __version__,
            "python": python_version(),
            **{name: version(name) for name in ("numpy", "torch")},
        },
        "argv": list(argv),
        "source": _side(stores[0], names[0], mined.source),
        "target": _side(stores[1], names[1], mined.target),
        "settings": asdict(settings),
        "search": search,
        "counts": {
            "candidates": mined.found,
            "dropped": mined.dropped,
            "written": len(mined.candidates),
        },
        "scores": {
            f"{quantile:g}": float(np.quantile(scores, quantile)) for quantile in QUANTILES if len(scores)
        },
        "output": output,
        "seconds": {stage: round(spent, 3) for stage, spent in {**mined.seconds, **seconds}.items()},
        "peak_memory_bytes": peak_memory(),
    }
    write_json_atomic(path.resolve(), report)


def peak_memory() -> int:
    """The most memory that this process has held at a time, in bytes."""
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024


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
