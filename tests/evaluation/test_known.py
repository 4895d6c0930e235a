"""Languages that an encoder does not know."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mexma_cli.evaluation.known import mark_unknown
from mexma_cli.reporting.result import Result

RESULT = Result(
    task="xsim",
    encoder={"name": "mini"},
    settings={},
    scores={"xsim": 20.0, "numbers": 3.0},
    rows=[
        {"language": "fra_Latn", "errors": 1, "xsim": 5.0},
        {"language": "de", "errors": 2, "xsim": 15.0},
        {"language": "yue_Hant", "errors": 3, "xsim": 40.0},
    ],
)


def test_the_mean_is_given_with_and_without_languages_that_are_not_known() -> None:
    found = mark_unknown(RESULT, ("deu_Latn", "fra_Latn", "spa_Latn"))
    assert found.scores == {"xsim": 20.0, "xsim, known languages": 10.0, "numbers": 3.0}
    assert [row["known"] for row in found.rows] == ["yes", "yes", "no"]


@pytest.mark.parametrize("known", [(), ("deu_Latn", "fra_Latn", "yue_Hant")])
def test_nothing_is_marked_where_all_are_known_or_nobody_has_said(known: tuple[str, ...]) -> None:
    assert mark_unknown(RESULT, known) == RESULT


def test_of_no_known_language_there_is_no_mean() -> None:
    found = mark_unknown(RESULT, ("spa_Latn",))
    assert found.scores == RESULT.scores
    assert found == replace(RESULT, rows=[row | {"known": "no"} for row in RESULT.rows])
