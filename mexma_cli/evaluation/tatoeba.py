"""Retrieval by cosine in aligned sets, both ways: Tatoeba as LASER, XTREME and the DAP paper measure it."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from mexma_cli.evaluation.embedder import Embedder
from mexma_cli.evaluation.known import mark_unknown, taken
from mexma_cli.evaluation.readers.tatoeba import ENGLISH, GROUPS, PAIRS, AlignedPair, is_switched
from mexma_cli.knn.exact import knn
from mexma_cli.reporting.result import Result

log = logging.getLogger(__name__)

DIRECTIONS = ("xx->eng", "eng->xx")


def precision_at_1(x: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """Percent of rows whose nearest row of the other side by cosine is their own: from x to y, from y to x.

    Args:
        x, y: [N, d], row i of the one is the translation of row i of the other.
    """
    found = knn(x, y, 1)
    own = np.arange(len(x))
    return (
        100.0 * float((found.forward_ids[:, 0] == own).mean()),
        100.0 * float((found.backward_ids[:, 0] == own).mean()),
    )


def evaluate(pairs: Sequence[AlignedPair], folder: Path, embed: Embedder) -> Result:
    """Precision at 1 both ways, in percent, for every language that the encoder takes, and the means."""
    rows: list[dict[str, Any]] = []
    for pair in taken({pair.language: pair for pair in pairs}, embed).values():
        found = precision_at_1(embed(pair.sentences, pair.language), embed(pair.english, ENGLISH))
        row = {"language": pair.language, "pairs": len(pair.english)}
        rows.append(row | dict(zip(DIRECTIONS, found, strict=True)))
    return mark_unknown(tatoeba_result(rows, folder, embed.describe()), embed.languages)


def tatoeba_result(rows: list[dict[str, Any]], folder: Path, encoder: dict[str, Any]) -> Result:
    """The `Result`: means over all that was measured, and over each of `GROUPS` that is there as a whole."""
    by_language = {row["language"]: row for row in rows}
    groups = {name: codes for name, codes in GROUPS.items() if by_language.keys() >= set(codes)}
    scores = {direction: fmean(row[direction] for row in rows) for direction in DIRECTIONS}
    for direction in DIRECTIONS:
        for name, codes in groups.items():
            scores[f"{direction} {name}"] = fmean(by_language[code][direction] for code in codes)
    settings = {"data": str(folder), "languages": len(rows)}
    benchmark = "tatoeba" if _as_published(rows, folder) else None
    return Result("tatoeba", encoder, settings, scores, rows, benchmark)


def _as_published(rows: Sequence[dict[str, Any]], folder: Path) -> bool:
    """Whether these are LASER's sets, whole, with one of XTREME's languages among them."""
    known = [row for row in rows if row["language"] in PAIRS]
    parts = [row["language"] for row in known if row["pairs"] != PAIRS[row["language"]]]
    if parts and not is_switched(folder):
        log.info("LASER's sets have other numbers of pairs, so these are not compared: %s", ", ".join(parts))
    return bool(known) and not parts and not is_switched(folder)
