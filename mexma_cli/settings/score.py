"""How a pair is scored."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from mexma_cli.settings.section import Option, Section

MarginName = Literal["ratio", "distance", "absolute"]
"""Names of the margins in `mining.margin.MARGINS`."""

SCORING = "Scoring options"


class ScoreSettings(Section):
    """How a pair is scored."""

    margin: Annotated[MarginName, Option(SCORING)] = "ratio"
    """Score of a pair: ratio c / b, distance c - b, absolute c (c: its cosine, b: the mean cosine of its
    neighbourhoods)."""
    k: Annotated[int, Option(SCORING, "N", ("-k", "--neighbourhood"))] = Field(default=4, ge=1)
    """Size of a neighbourhood, in sentences."""
