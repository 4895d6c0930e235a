"""xsim++: xsim with hard negatives among the targets, and which type of hard negative was taken instead.

Chen et al. 2023, measured as LASER does.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from statistics import fmean

import numpy as np

from mexma_cli.evaluation.aligned import AlignedTexts
from mexma_cli.evaluation.augment import MISALIGNED, Augmented
from mexma_cli.evaluation.embedder import Embed, Embedder, mark_unknown, taken
from mexma_cli.evaluation.xsim import XsimResult, xsim
from mexma_cli.reporting.result import Result
from mexma_cli.settings.stages import ScoreSettings


def measure_xsimpp(
    data: AlignedTexts, hard: Augmented, embed: Embed, settings: ScoreSettings = ScoreSettings()
) -> dict[str, tuple[XsimResult, Counter[str]]]:
    """xsim++ of every language, errors by sentence, and how many errors of each type there are."""
    vectors, extra = embed(data.lines, data.target), embed(hard.lines, data.target)
    found = {}
    for language, lines in data.texts.items():
        rows = data.filled_rows(language)
        texts = [data.lines[row] for row in rows] + hard.lines
        one = xsim(
            embed(lines, language)[rows],
            np.concatenate([vectors[rows], extra]),
            settings.margin,
            settings.k,
            texts,
        )
        wrong = np.flatnonzero(one.wrong).tolist()
        found[language] = one, Counter(hard.kind(texts[one.found[row]], texts[row]) for row in wrong)
    return found


def evaluate(
    data: AlignedTexts, hard: Augmented, embed: Embedder, settings: ScoreSettings = ScoreSettings()
) -> Result:
    """xsim++ of every language that the encoder takes: rows have errors by type, scores each type's share."""
    data = replace(data, texts=taken(data.texts, embed))
    found = measure_xsimpp(data, hard, embed, settings)
    kinds = [*sorted({kind for _, kind in hard.kinds.values()} - {MISALIGNED}), MISALIGNED]
    rows = [
        one.row(language, "xsim++") | {kind: counts[kind] for kind in kinds}
        for language, (one, counts) in found.items()
    ]
    scores = {"xsim++": fmean(one.error_rate for one, _ in found.values())}
    for kind in kinds:
        scores[kind] = fmean(100 * counts[kind] / one.total for one, counts in found.values())
    as_published = data.published and settings == ScoreSettings() and not hard.own
    published = f"xsimpp-{data.published}" if as_published else None
    how = data.settings() | {"augmented": str(hard.path), "hard negatives": len(hard.lines)}
    result = Result("xsimpp", embed.describe(), how | settings.model_dump(), scores, rows, published)
    return mark_unknown(result, embed.languages)
