"""The probability that each line of a bitext is a translation."""

from __future__ import annotations

import numpy as np

from mexma_cli.classifier.calibration import shift_of, shifted
from mexma_cli.classifier.pairs import Pairs, known_of
from mexma_cli.knn.neighbours import Neighbours
from mexma_cli.mining.candidates import Candidates
from mexma_cli.mining.match import match
from mexma_cli.stages.mine.probable import classifier_for
from mexma_cli.store.embeddings import StorePair


def line_probabilities(stores: StorePair, neighbours: Neighbours, cosines: np.ndarray) -> np.ndarray:
    """The probability that row n of one is the translation of row n of the other, float32 [rows].

    The neighbours of all rows say first what is usual in the two texts, then the given pairs are judged, as
    `mine` judges candidates. They fit the share of translations among the pairs.

    Args:
        cosines: float32 [rows], of the pairs; nan for those that are not wanted, whose probability is nan.

    Raises:
        MexmaError: The temporary disk is full.
    """
    classifier, embed = classifier_for(stores)
    sides = known_of(neighbours, (stores[0].sentences, stores[1].sentences), embed)
    every = Pairs(match(neighbours, "ratio", "all"), sides)
    rows = np.flatnonzero(~np.isnan(cosines))
    given = Pairs(Candidates(cosines[rows], rows, rows, cosines[rows]), sides)
    found = np.full(len(cosines), np.nan, np.float32)
    for some in classifier.scored(every, given):
        found[some.source] = some.scores
    found[rows] = shifted(found[rows], shift_of([found[rows]]))
    return found
