"""Weights for a classifier, from candidates of which it is known whether they are translations."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mexma_cli.classifier.features import columns, spread_of
from mexma_cli.classifier.model import Classifier
from mexma_cli.classifier.pairs import Pairs
from mexma_cli.errors import MexmaError


def examples(pairs: Pairs, names: tuple[str, ...]) -> np.ndarray:
    """The features of all candidates of two texts, float32 [N, features].

    Args:
        pairs: As `Classifier.scored` takes them.
    """
    return columns(pairs, names, spread_of(pairs, names))


def fit(names: tuple[str, ...], values: Sequence[np.ndarray], correct: Sequence[np.ndarray]) -> Classifier:
    """Fit a logistic regression with an L2 penalty of 1 on standardised features.

    Args:
        values: float32 [N, features], of each pair of texts.
        correct: bool [N].

    Raises:
        MexmaError: scikit-learn is not installed.
    """
    try:
        from sklearn.linear_model import LogisticRegression
    except ImportError:
        raise MexmaError(
            "a classifier is trained with scikit-learn, which is not installed", "pip install mexma-cli[eval]"
        ) from None
    every = np.concatenate(values).astype(np.float64)
    means, scales = every.mean(axis=0), every.std(axis=0) + 1e-9
    found = LogisticRegression(max_iter=300).fit((every - means) / scales, np.concatenate(correct))
    mean, scale, weight = (tuple(one.tolist()) for one in (means, scales, found.coef_[0]))
    return Classifier(names, mean, scale, weight, float(found.intercept_[0]))
