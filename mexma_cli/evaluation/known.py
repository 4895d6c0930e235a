"""Which of the languages of a measurement an encoder takes, and which of them it knows."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import TypeVar

from mexma_cli.errors import MexmaError
from mexma_cli.evaluation.embedder import Embedder
from mexma_cli.languages import resolve
from mexma_cli.reporting.result import Result
from mexma_cli.text.amounts import counted

log = logging.getLogger(__name__)

COLUMN = "known"
_T = TypeVar("_T")


def taken(texts: Mapping[str, _T], embed: Embedder) -> dict[str, _T]:
    """The texts to measure, by language, without the languages that the encoder has no token for.

    A warning names those that are left out.

    Raises:
        MexmaError: None is left.
    """
    lacking = [language for language in texts if not embed.takes(language)]
    if lacking:
        what = f"{embed.encoder.name!r} has no token for {counted(len(lacking), 'language')}"
        if len(lacking) == len(texts):
            raise MexmaError(f"{what}, and there are no others: {', '.join(lacking)}")
        log.warning("%s, left out: %s", what, ", ".join(lacking))
    return {language: text for language, text in texts.items() if language not in lacking}


def mark_unknown(result: Result, known: Sequence[str]) -> Result:
    """The result of a measurement by language, with what an encoder does in the languages that it knows.

    Args:
        result: Its rows have the key `language`.
        known: FLORES-200 codes of the languages on the encoder's card; (): nobody has said.

    Returns:
        The same result if the encoder knows all languages or nobody has said. Else rows say in their last
        column whether the language is known, and beside each score that is the mean of a column is the mean
        over the languages that are.
    """
    marks = ["yes" if _code(row["language"]) in known else "no" for row in result.rows]
    if not known or "no" not in marks:
        return result
    log.info(
        "the encoder does not know %s of the %s languages, which are marked",
        marks.count("no"),
        len(marks),
    )
    scores = {}
    for score, mean in result.scores.items():
        scores[score] = mean
        if score in result.rows[0] and "yes" in marks:
            values = [row[score] for row, mark in zip(result.rows, marks, strict=True) if mark == "yes"]
            scores[f"{score}, known languages"] = fmean(values)
    rows = [row | {COLUMN: mark} for row, mark in zip(result.rows, marks, strict=True)]
    return replace(result, scores=scores, rows=rows)


def _code(language: str) -> str:
    try:
        return resolve(language)
    except MexmaError:  # a code of a benchmark's own
        return language
