"""Which pairs are mined."""

from __future__ import annotations

from typing import Annotated, Any, Literal, get_args

from pydantic import Field, model_validator

from mexma_cli.errors import MexmaError
from mexma_cli.settings.knn import SearchSettings
from mexma_cli.settings.score import SCORING, ScoreSettings
from mexma_cli.settings.section import Option, Score

Retrieval = Literal["max", "intersect", "forward", "backward"]

SELECTION = "Selection options"


class MineSettings(SearchSettings, ScoreSettings):
    """Which pairs come out."""

    score: Annotated[
        Literal["margin", "probability"] | None,
        Option(SCORING, unset="probability with mini, else margin; margin where --margin is given"),
    ] = None
    """probability: that a pair is a translation, judged by its ratio margin and its text (lengths, numbers,
    names, words); best pairs first, each sentence used once. margin: --margin, of the vectors alone."""
    retrieval: Annotated[Retrieval | Literal["all"], Option(SCORING, values=get_args(Retrieval))] = "max"
    """max: best pairs first, each sentence used once. intersect: pairs that are best for both sides. forward:
    the best target of every source. backward: the best source of every target."""
    threshold: Annotated[
        Score | Literal["auto"] | None,
        Option(SELECTION, "SCORE|auto", unset="0 with max, else none"),
    ] = None
    """Keep pairs with a score above this; auto: what `mexma run` finds for each language pair, and writes to
    thresholds.json."""
    max_score: Annotated[Score | None, Option(SELECTION, "SCORE", unset="none")] = None
    """Drop pairs with a score above this: near-copies. stopes has 1.25."""
    drop_copies: Annotated[bool, Option(SELECTION)] = False
    """Drop pairs with equal sides; case, numbers, punctuation and a few letters may differ."""
    top: Annotated[int | None, Option(SELECTION, "N", unset="all")] = Field(default=None, ge=1)
    """Keep so many of the best pairs."""

    @model_validator(mode="before")
    @classmethod
    def _who_names_a_margin_wants_margins(cls, given: Any) -> Any:
        named = isinstance(given, dict) and "margin" in given and "score" not in given
        return given | {"score": "margin"} if named else given

    @property
    def least(self) -> float | None:
        """The threshold as a number; None: 0 with `max`, else none.

        Raises:
            MexmaError: It is `auto`, and nobody has looked it up.
        """
        if isinstance(self.threshold, str):
            raise MexmaError("threshold `auto` has to be looked up", "`mexma tune` finds a threshold")
        return self.threshold
