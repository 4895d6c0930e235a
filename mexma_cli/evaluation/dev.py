"""The score during training: xsim error on line-aligned files."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

import numpy as np

from mexma_cli.encoder.encoder import SentenceEncoder
from mexma_cli.errors import MexmaError
from mexma_cli.evaluation.readers.common import both_filled
from mexma_cli.evaluation.xsim import xsim
from mexma_cli.settings.training import DevSet
from mexma_cli.text.lines import read_lines

log = logging.getLogger(__name__)

COLLAPSED = 0.999
"""Above this mean cosine, what tells sentences apart is hardly more than rounding."""


def dev_scorer(dev: DevSet, resolve: Callable[[str], Path]) -> Callable[[SentenceEncoder], dict[str, float]]:
    """A function that scores an encoder: xsim error in percent (ratio margin, k 4) by language, and the mean.

    As `mexma eval xsim` counts it: lines that are empty on either side take no part, and finding another line
    with the same translation is no error.

    Args:
        dev: The recipe's dev set; its files are read now, so that a missing one is noticed before training.
        resolve: From a path of the recipe to a file.

    Raises:
        MexmaError: A file is missing, has not as many lines as its translation, or none that both fill.
    """
    texts = {}
    for language in dev.languages:
        sides = []
        for path in (dev.path, dev.target_path):
            file = resolve(path.replace("{lang}", language))
            sides.append((file, list(read_lines(file))))
        (source, lines), (target, translations) = sides
        if len(lines) != len(translations):
            raise MexmaError(f"dev set: {source} has {len(lines)} lines, {target} has {len(translations)}")
        rows = both_filled(lines, translations)
        if not rows:
            raise MexmaError(f"dev set: {source} and {target} have no line that both fill")
        texts[language] = [lines[row] for row in rows], [translations[row] for row in rows]

    def score(encoder: SentenceEncoder) -> dict[str, float]:
        errors, alike = {}, []
        for language, (lines, translations) in texts.items():
            x, y = encoder.embed(lines), encoder.embed(translations)
            errors[language] = xsim(x, y, texts=translations).error_rate
            alike.append(_mean_cosine(y))
        if min(alike) > COLLAPSED:
            log.warning("all dev sentences have nearly the same vector (mean cosine %.5f)", min(alike))
        return {"xsim": sum(errors.values()) / len(errors)} | errors

    return score


def _mean_cosine(vectors: np.ndarray) -> float:
    """Mean cosine of each row with each other one; 0 where there is one row."""
    units = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-30)
    count, own = len(units), float(np.square(units).sum())
    whole = float(np.square(units.sum(axis=0, dtype=np.float64)).sum())
    return (whole - own) / max(1, count * (count - 1))
