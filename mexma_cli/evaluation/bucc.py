"""Mining sets: two monolingual texts, and the list of their translations (BUCC 2018 and others like it).

Two measures are in use. The one of the MTEB benchmark and the MEXMA paper (its Table 16): every gold source
is searched in the whole other side by cosine, and the rows found are compared with the right ones by
class-weighted F1. The one of the shared task, LASER and the DAP paper (its Tables 2 and 3): all candidates
by margin, one to one, cut at a threshold.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import xxhash

from mexma_cli.knn.exact import knn
from mexma_cli.mining.match import match
from mexma_cli.mining.resampling import Labelled


@dataclass(frozen=True)
class MiningSet:
    """One pair of texts. `gold` int64 [g, 2]: rows of sources and of targets that are translations."""

    pair: str
    """`fra-eng`."""
    split: str
    """`training`; empty where the files' names have none."""
    source_ids: list[str]
    sources: list[str]
    target_ids: list[str]
    targets: list[str]
    gold: np.ndarray
    is_bucc: bool
    """Whether the files are named as BUCC's."""


def weighted_f1(truth: np.ndarray, found: np.ndarray) -> float:
    """F1 of each class that is in `truth`, weighted by how often it is there; a fraction.

    As scikit-learn's f1_score(average="weighted"), which is what MTEB computes for bitext mining.

    Args:
        truth, found: int [n], n at least 1.
    """
    classes, place, support = np.unique(truth, return_inverse=True, return_counts=True)
    right = np.bincount(place, truth == found, minlength=len(classes))
    where = np.searchsorted(classes, found)
    known = classes[np.minimum(where, len(classes) - 1)] == found
    predicted = np.bincount(where[known], minlength=len(classes))
    return float((2 * right / (support + predicted) * support).sum() / len(truth))


def cosine_f1(x: np.ndarray, y: np.ndarray, gold: np.ndarray) -> float:
    """Class-weighted F1 of the nearest rows of y by cosine; a fraction.

    Args:
        x, y: [N, d] and [M, d]: all of both sides.
        gold: int64 [g, 2], g at least 1: each pair's source is a query.
    """
    nearest = knn(x[gold[:, 0]], y, 1).forward_ids[:, 0]
    return weighted_f1(gold[:, 1], nearest)


def ranked(
    data: MiningSet,
    x: np.ndarray,
    y: np.ndarray,
    margin: str = "ratio",
    k: int = 4,
    on_progress: Callable[[int, int], None] | None = None,
) -> Labelled:
    """One-to-one candidates by margin, with what is gold among them: what LASER's bucc.py tunes on.

    A sentence that occurs more than once counts once in the neighbourhoods. As its id cannot be told from its
    text, candidates with it are left out, and gold pairs with it count as not found.

    Args:
        x, y: vectors of all sources and all targets.
        on_progress: as for `knn`.
    """
    first_x, alone_x = _occurrences(data.sources)
    first_y, alone_y = _occurrences(data.targets)
    near = knn(x, y, k, keep_x=first_x, keep_y=first_y, on_progress=on_progress)
    found = match(near, margin, "max", threshold=-np.inf)  # a distance may be negative, and with k 1 all are
    found = found.take(alone_x[found.source] & alone_y[found.target])
    width = len(data.targets)
    wanted = np.unique(data.gold[:, 0] * width + data.gold[:, 1])
    source, target = (
        np.fromiter((xxhash.xxh3_64_intdigest(name.encode()) for name in ids), np.uint64, len(ids))
        for ids in (data.source_ids, data.target_ids)
    )
    return Labelled(
        found.scores.astype(np.float64),
        np.isin(found.source * width + found.target, wanted),
        source[found.source],
        target[found.target],
        source[wanted // width],
        target[wanted % width],
    )


def _occurrences(sentences: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """bool [N] twice: the first row of its sentence, and the only one."""
    first: dict[str, int] = {}
    is_first, is_only = np.zeros(len(sentences), dtype=bool), np.ones(len(sentences), dtype=bool)
    for row, sentence in enumerate(sentences):
        before = first.setdefault(sentence, row)
        is_first[row] = before == row
        is_only[[before, row]] = is_only[before] & is_first[row]
    return is_first, is_only
