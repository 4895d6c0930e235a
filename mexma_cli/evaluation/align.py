"""Alignments against gold ones: strict and lax precision, recall and F1, as Vecalign counts them.

The measure is Langlais et al.'s (1998) in the form of Vecalign's score.py: an alignment is right strictly if
it is a gold alignment, and laxly if it shares a sentence of the source and one of the target with one.
Precision counts all alignments, so that a sentence left alone is laxly right only if it is alone in the gold
list too; recall counts those gold alignments that have sentences on both sides.

Files have the layout of Vecalign, Bertalign, `mexma align` and Bleualign's gold lists: `[source ids]:[target
ids]`, and a score and names of documents if there are any.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

from mexma_cli.errors import MexmaError
from mexma_cli.text.lines import read_lines

Bead = tuple[tuple[int, ...], tuple[int, ...]]
"""Sentences of the source and of the target, counted from 0."""
KINDS = ("strict", "lax")
MEASURES = ("precision", "recall", "f1")


def percent(gold: Mapping[str, Iterable[Bead]], found: Mapping[str, Iterable[Bead]]) -> dict[str, float]:
    """`strict precision` and so on to `lax f1`, in percent, of gold and found alignments of the same
    documents by name, over all of them together."""
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


Alignments = Mapping[str, list[Bead]]
"""By document; "" where the lines name none."""


def read_both(gold: Path, out: Path) -> tuple[Alignments, Alignments]:
    """Gold alignments and those to judge, which must be of the same documents. Where only one of the files
    names its documents, it must be of a single one."""
    both = _read(gold), _read(out)
    if both[0].keys() == both[1].keys():
        return both
    if all(len(found) == 1 for found in both) and "" in both[0].keys() | both[1].keys():
        return dict(zip(both[1], both[0].values(), strict=True)), both[1]
    missing = sorted(both[0].keys() ^ both[1].keys())[0]
    where = (gold, out) if missing in both[0] else (out, gold)
    name = f"document {missing!r}" if missing else "alignments without a document"
    raise MexmaError(f"{where[0]} has {name}, {where[1]} has not", "compare files of the same documents")


def _read(path: Path) -> Alignments:
    found: dict[str, list[Bead]] = {}
    for number, line in enumerate(read_lines(path), 1):
        fields = [field.strip() for field in line.split(":", 3)]
        try:
            source, target = (_ids(field) for field in fields[:2])
        except ValueError:
            raise MexmaError(
                f"{path}, line {number}: {line[:60]!r} is not an alignment",
                "a line is [source ids]:[target ids]:score, as in [0, 1]:[2]:0.5, ids counted from 0",
            ) from None
        found.setdefault(fields[3] if len(fields) == 4 else "", []).append((source, target))
    if not found:
        raise MexmaError(f"{path} has no alignments")
    return found


def _ids(field: str) -> tuple[int, ...]:
    if field[:1] not in ("[", "(") or field[-1:] not in ("]", ")"):
        raise ValueError
    ids = json.loads(f"[{field[1:-1].rstrip().removesuffix(',')}]")
    if not all(type(one) is int and one >= 0 for one in ids):
        raise ValueError
    return tuple(ids)
