"""The French and English test sentences as an objective takes them."""

from __future__ import annotations

import numpy as np

from mexma_cli.encoder.encoder import SentenceEncoder
from mexma_cli.objectives.base import Objective
from mexma_cli.objectives.views import PairViews, TokenPairs


def token_ids(
    encoder: SentenceEncoder, sentences: dict[str, list[str]]
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Token ids of each pair, without the first and the last ones."""
    sides = [[ids[1:-1] for ids in encoder.tokenize(sentences[side])] for side in ("fra", "eng")]
    return list(zip(*sides, strict=True))


def views_of(objective: Objective, sentences: dict[str, list[str]], seed: int = 0) -> PairViews:
    """Their batch."""
    return objective.batch(TokenPairs(token_ids(objective.encoder, sentences), seed))
