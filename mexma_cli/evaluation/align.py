"""Alignments against gold ones: strict and lax precision, recall and F1, as Vecalign counts them.

The measure is Langlais et al.'s (1998) in the form of Vecalign's score.py: an alignment is right strictly if
it is a gold alignment, and laxly if it shares a sentence of the source and one of the target with one.
Precision counts all alignments, so that a sentence left alone is laxly right only if it is alone in the gold
list too; recall counts those gold alignments that have sentences on both sides.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

Bead = tuple[tuple[int, ...], tuple[int, ...]]
"""Sentences of the source and of the target, counted from 0."""
KINDS = ("strict", "lax")
MEASURES = ("precision", "recall", "f1")


def percent(gold: Mapping[str, Iterable[Bead]], found: Mapping[str, Iterable[Bead]]) -> dict[str, float]:
    """`strict precision` and so on to `lax f1`, in percent, over all documents together.

    Args:
        gold, found: Alignments of the same documents, by name.
    """
    counts = [_counts(set(own), set(found[name])) for name, own in gold.items()]
    total = [sum(column) for column in zip(*counts, strict=True)]
    scores = {}
    for kind, at in zip(KINDS, (1, 2), strict=True):
        precision, recall = (total[at + side] / total[side] if total[side] else 0.0 for side in (0, 3))
        f1 = 2 * (precision * recall) / (precision + recall) if precision + recall else 0.0
        for name, value in zip(MEASURES, (precision, recall, f1), strict=True):
            scores[f"{kind} {name}"] = 100 * value
    return scores


def _counts(gold: set[Bead], found: set[Bead]) -> tuple[int, ...]:
    """Alignments, strictly right ones, laxly right ones: of those found, then of the gold ones."""
    gold, found = gold - {((), ())}, found - {((), ())}
    both = {bead for bead in gold if all(bead)}
    return *_right(found, gold), *_right(both, {bead for bead in found if all(bead)})


def _right(judged: set[Bead], reference: set[Bead]) -> tuple[int, int, int]:
    partners: dict[int, set[int]] = defaultdict(set)
    for sources, targets in reference:
        for source in sources:
            partners[source].update(targets)
    strict = judged & reference
    lax = sum(
        any(not partners[source].isdisjoint(targets) for source in sources)
        for sources, targets in judged - strict
    )
    return len(judged), len(strict), len(strict) + lax
