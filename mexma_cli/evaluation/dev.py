"""The score during training: xsim error on line-aligned files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from mexma_cli.encoder.encoder import SentenceEncoder
from mexma_cli.errors import MexmaError
from mexma_cli.evaluation.xsim import xsim
from mexma_cli.recipe import DevSet
from mexma_cli.text.lines import read_lines


def dev_scorer(dev: DevSet, resolve: Callable[[str], Path]) -> Callable[[SentenceEncoder], dict[str, float]]:
    """A function that scores an encoder: xsim error in percent (ratio margin, k 4) by language, and the mean.

    Args:
        dev: The recipe's dev set; its files are read now, so that a missing one is noticed before training.
        resolve: From a path of the recipe to a file.

    Raises:
        MexmaError: A file is missing or empty, or has not as many lines as its translation.
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
        if not lines:
            raise MexmaError(f"dev set: {source} has no lines")
        texts[language] = (lines, translations)

    def score(encoder: SentenceEncoder) -> dict[str, float]:
        errors = {
            language: xsim(encoder.embed(lines), encoder.embed(translations)).error_rate
            for language, (lines, translations) in texts.items()
        }
        return {"xsim": sum(errors.values()) / len(errors)} | errors

    return score
