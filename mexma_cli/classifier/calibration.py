"""Probabilities that fit the share of translations in the texts at hand."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

_USUAL = 0.28
"""The share of translations, among pairs that were taken one to one, for which the weights are right as they
are."""
_OTHERS, _WEIGHT, _FARTHEST = -5.3, 0.9, 2.0
"""Logarithm of the sum of other candidates' probabilities, for each sentence, for which they are; by how
much logits fall where it is higher by one; and by how much at most. These and `_USUAL` had the least error
on the sets that are kept for choosing, and on mixtures as of benchmarks/thresholds.py (2 to 60 %)."""
_LOGITS = np.linspace(-20, 20, 4001)
_NONE = 1e-9
_LEAST = 1e-4  # share, and one less the highest


def shift_of(blocks: Iterable[np.ndarray], others: float = 0.0) -> float:
    """The shift of the logits of some pairs that fits the two texts.

    Candidates that were not taken are wrong, nearly all of them. Where they are more probable than in the
    weights' training, so are the wrong pairs among those that were taken. Then the share of translations is
    found for which the mean probability is that share, by expectation and maximisation (Saerens, Latinne and
    Decaestecker 2002, "Adjusting the outputs of a classifier to new a priori probabilities").

    Args:
        blocks: Probabilities, float [n], of pairs in which each sentence is once.
        others: The sum of the probabilities of all other candidates, divided by the sentences of both texts;
            0: not known.
    """
    counts = np.zeros(len(_LOGITS), np.int64)
    for some in blocks:
        place = np.rint((logits(some) - _LOGITS[0]) / (_LOGITS[1] - _LOGITS[0])).astype(np.int64)
        counts += np.bincount(place.clip(0, len(_LOGITS) - 1), minlength=len(_LOGITS))
    if not counts.sum():
        return 0.0
    start = _WEIGHT * (_OTHERS - np.log(others)) if others > _NONE else 0.0
    start = round(float(np.clip(start, -_FARTHEST, _FARTHEST)), 6)  # in whatever order `others` was summed
    share, usual = _USUAL, logits(np.array(_USUAL))
    for _ in range(100):
        shift = start + float(logits(np.array(share)) - usual)
        share = float((counts @ shifted_logits(_LOGITS, shift) / counts.sum()).clip(_LEAST, 1 - _LEAST))
    return shift


def calibrated(taken: np.ndarray, every: np.ndarray, sentences: int) -> np.ndarray:
    """Probabilities of the pairs that were taken of all candidates, with the shift that fits, float32 [n]."""
    return shifted(taken, shift_of([taken], float(every.sum() - taken.sum()) / sentences))


def shifted(probabilities: np.ndarray, shift: float) -> np.ndarray:
    """Probabilities whose logits have gained so much, float32 [n]; their order stays."""
    return shifted_logits(logits(probabilities), shift).astype(np.float32)


def recalibrated(probabilities: np.ndarray, first: float, second: float) -> np.ndarray:
    """Probabilities whose logits o become first + second o, float32 [n]; the same ones for 0 and 1."""
    if (first, second) == (0.0, 1.0):
        return probabilities
    return shifted_logits(second * logits(probabilities), first).astype(np.float32)


def logits(probabilities: np.ndarray) -> np.ndarray:
    """log(p / (1 - p)), float64 [n]; 0 and 1 count as nearly so."""
    known = np.asarray(probabilities, np.float64).clip(1e-12, 1 - 1e-9)
    return np.log(known / (1 - known))


def shifted_logits(values: np.ndarray, shift: float) -> np.ndarray:
    """The probabilities of logits that gain so much."""
    return 1 / (1 + np.exp(-(values + shift)))
