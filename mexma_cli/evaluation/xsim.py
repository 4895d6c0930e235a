"""xsim and xsim++: the share of sentences whose translation is not found among all translations.

Heffernan et al. 2022, section 4 (xsim); Chen et al. 2023 (xsim++). LASER measures both with its xsim.py; the
tests compare with what that prints. `dev_scorer` is the same measure during training.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np

from mexma_cli.errors import MexmaError
from mexma_cli.evaluation.aligned import AlignedTexts
from mexma_cli.evaluation.augment import MISALIGNED, Augmented
from mexma_cli.evaluation.embedder import Embed, Embedder, mark_unknown, taken
from mexma_cli.evaluation.reading import both_filled
from mexma_cli.knn.exact import knn
from mexma_cli.knn.neighbours import Neighbours
from mexma_cli.languages import name
from mexma_cli.mining.margin import means
from mexma_cli.mining.match import best_of
from mexma_cli.reporting.result import Result
from mexma_cli.settings.stages import ScoreSettings
from mexma_cli.text.amounts import counted
from mexma_cli.text.lines import read_lines

if TYPE_CHECKING:
    from mexma_cli.encoder.encoder import SentenceEncoder
    from mexma_cli.settings.training import DevSet

log = logging.getLogger(__name__)
COLLAPSED = 0.999
"""Above this mean cosine, what tells sentences apart is hardly more than rounding."""


@dataclass(frozen=True)
class XsimResult:
    """The rows that n rows found on the other side by margin.

    Attributes:
        errors: Rows that did not find the sentence which they look for, in whichever row that stands.
        total: n.
        index_errors: Rows that did not find their own row; equal to `errors` where no sentences are given.
        found: int64 [n], the row that each found.
        wrong: bool [n], the rows that `errors` counts.
    """

    errors: int
    total: int
    index_errors: int
    found: np.ndarray
    wrong: np.ndarray

    @property
    def error_rate(self) -> float:
        """Percent."""
        return 100.0 * self.errors / self.total

    @property
    def index_rate(self) -> float:
        """Percent, rows being compared."""
        return 100.0 * self.index_errors / self.total

    def row(self, language: str, score: str) -> dict[str, Any]:
        """A row of a `Result`, with the error rate under the score's name."""
        counts = {"sentences": self.total, "errors": self.errors}
        return {"language": language, "name": name(language)} | counts | {score: self.error_rate}


def xsim(
    x: np.ndarray, y: np.ndarray, margin: str = "ratio", k: int = 4, texts: Sequence[str] | None = None
) -> XsimResult:
    """Margin-based similarity error of aligned sentences, x to y, as LASER's xsim.py.

    Args:
        x, y: [N, d] and [M, d], row i of the one is the translation of row i of the other. Rows of y after
            the N-th are nobody's translation (xsim++: hard negatives); they count in the neighbourhoods.
        margin: a name in `MARGINS`; with "absolute", k does not matter: the nearest row is taken.
        k: neighbours that make up a neighbourhood.
        texts: the M sentences of y: errors are counted by sentence, not by row.
    """
    if x.shape[1:] != y.shape[1:] or not 0 < len(x) <= len(y):
        raise ValueError(f"xsim needs aligned rows, got {x.shape} and {y.shape}")
    return xsim_of(knn(x, y, k), margin, texts)


def xsim_of(neighbours: Neighbours, margin: str = "ratio", texts: Sequence[str] | None = None) -> XsimResult:
    """The errors of `xsim` from neighbours that were found before."""
    forward_mean, backward_mean = means(neighbours)
    near = neighbours.forward_ids
    forward = best_of(
        neighbours.forward_scores, near, forward_mean, lambda rows: backward_mean[near[rows]], margin
    )
    other = forward.target != forward.source
    wrong = other.copy()
    if texts is not None:
        for row in np.flatnonzero(other).tolist():
            wrong[row] = texts[row] != texts[forward.target[row]]
    return XsimResult(int(wrong.sum()), len(wrong), int(other.sum()), forward.target, wrong)


def measure_xsim(
    data: AlignedTexts, embed: Embed, settings: ScoreSettings = ScoreSettings()
) -> dict[str, XsimResult]:
    """xsim of every language into the target. A line that is empty on either side takes no part, and some
    must be left."""
    vectors = embed(data.lines, data.target)
    found, dropped = {}, 0
    for language, lines in data.texts.items():
        rows = data.filled_rows(language)
        dropped += len(lines) - len(rows)
        texts = [data.lines[row] for row in rows]
        sentences = embed(lines, language)[rows]
        found[language] = xsim(sentences, vectors[rows], settings.margin, settings.k, texts)
    if dropped:
        log.info("%s left out: empty, or without a translation", counted(dropped, "line"))
    return found


def evaluate(data: AlignedTexts, embed: Embedder, settings: ScoreSettings = ScoreSettings()) -> Result:
    """xsim of every language that the encoder takes into the target, and the mean over languages."""
    data = replace(data, texts=taken(data.texts, embed))
    found = xsim_result(data, measure_xsim(data, embed, settings), embed.describe(), settings)
    return mark_unknown(found, embed.languages)


def xsim_result(
    data: AlignedTexts,
    found: dict[str, XsimResult],
    encoder: dict[str, Any],
    settings: ScoreSettings = ScoreSettings(),
) -> Result:
    """The `Result`. Where the two differ, `errors by row` stand beside the errors: finding the same sentence
    in another row counts there."""
    differ = any(one.errors != one.index_errors for one in found.values())
    rows = []
    for language, one in found.items():
        row = one.row(language, "xsim")
        if differ:
            row |= {"errors by row": one.index_errors, "xsim by row": one.index_rate}
        rows.append(row)
    scores = {"xsim": fmean(one.error_rate for one in found.values())}
    if differ:
        scores["xsim by row"] = fmean(one.index_rate for one in found.values())
    published = f"xsim-{data.published}" if data.published and settings == ScoreSettings() else None
    return Result("xsim", encoder, data.settings() | settings.model_dump(), scores, rows, published)


def dev_scorer(
    dev: DevSet, resolve: Callable[[str], Path]
) -> Callable[[SentenceEncoder], dict[str, float]] | None:
    """A function that scores an encoder: xsim error in percent (ratio margin, k 4) by language, and the mean.
    None, with a warning, if a file of an `optional` dev set is not there.

    The recipe's dev set is read now, so that a missing file is noticed before training; `resolve` leads from
    a path of the recipe to a file. As `mexma eval xsim` counts it, lines that are empty on either side take
    no part, and finding another line with the same translation is no error. Refused: a missing file, one with
    other lines than its translation, and none that both fill.
    """
    texts = {}
    for language in dev.languages:
        sides = []
        for path in (dev.path, dev.target_path):
            file = resolve(path.replace("{lang}", language))
            if dev.optional and not file.exists():
                log.warning("%s is not there: no dev scores", file)
                return None
            sides.append((file, list(read_lines(file))))
        (source, lines), (target, translations) = sides
        if len(lines) != len(translations):
            found = counted(len(lines), "line")
            raise MexmaError(f"dev set: {source} has {found}, {target} has {len(translations):,}")
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


def evaluate_xsimpp(
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
