"""The two texts of an alignment side by side on one web page; the template is alignment.html."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from mexma_cli.formats.documents import DocumentPair
from mexma_cli.reporting.templates import write_page

MOST = 20_000
"""So many alignments and sentences that are alone are shown; a browser is slow with more."""
BORDERS = (0.2, 0.4, 0.6)
"""Scores from which an alignment has the next colour."""


def write_alignment_page(path: Path, pairs: Iterable[DocumentPair], names: tuple[str, str]) -> None:
    """Write the page, whole: everything in the file, to be opened anywhere.

    Args:
        pairs: Of documents, of which the first are shown (see `MOST`).
        names: Of both sides.

    Raises:
        MexmaError: A document is damaged, or the disk is full.
    """
    documents: list[dict[str, Any]] = []
    left = MOST
    for pair in pairs:
        if not left:
            break
        documents.append(_document(pair, left))
        left -= len(documents[-1]["beads"])
    write_page(
        path,
        "reporting/alignment.html",
        title=" and ".join(names),
        documents=documents,
        levels=[f"under {BORDERS[0]}", *(f"{low} or more" for low in BORDERS)],
        shortened=None if left else f"{MOST:,}",
    )


def _document(pair: DocumentPair, most: int) -> dict[str, Any]:
    both = [score for (x, y), score in zip(pair.beads, pair.scores, strict=True) if x and y]
    alone = [sum(len(bead[side]) for bead in pair.beads if not bead[1 - side]) for side in (0, 1)]
    names = [name for name in dict.fromkeys(pair.names) if name]
    piece = [] if pair.piece is None else [f"piece {pair.piece}"]
    return {
        "title": ", ".join([" and ".join(names), *piece]).removeprefix(", "),
        "alignments": len(both),
        "mean": sum(both) / len(both) if both else None,
        "sizes": [f"{len(side):,}" for side in pair.sentences],
        "alone": [f"{count:,}" for count in alone],
        "beads": [
            {
                "level": _level(bead, score),
                "score": score,
                "sides": [_side(pair, bead, side) for side in (0, 1)],
            }
            for bead, score in list(zip(pair.beads, pair.scores, strict=True))[:most]
        ],
    }


def _level(bead: tuple[range, range], score: float) -> str:
    """The name of its colour in the template."""
    return f"s{sum(score >= low for low in BORDERS)}" if all(bead) else "alone"


def _side(pair: DocumentPair, bead: tuple[range, range], side: int) -> list[tuple[int, str]]:
    """The sentences of a side with their lines."""
    return [(pair.lines[side][place], pair.sentences[side][place]) for place in bead[side]]
