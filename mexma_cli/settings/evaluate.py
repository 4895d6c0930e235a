"""How evaluations are made that train something, or make their own data."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from mexma_cli.settings.section import Option, Section


class FineTuning(Section):
    """How an encoder is fine-tuned on pairs of sentences; the defaults are those of DAP's Table 9."""

    epochs: Annotated[int, Option(metavar="N")] = Field(default=2, ge=1)
    """Passes over MultiNLI."""
    batch: Annotated[int, Option(metavar="N")] = Field(default=256, ge=1)
    """Pairs in a step."""
    learning_rate: Annotated[float, Option(metavar="RATE")] = Field(default=5e-5, gt=0)
    """AdamW's rate; the DAP paper chose from 1e-5, 3e-5, 5e-5 and 7e-5."""
    max_tokens: int = 128
    """Longest pair of sentences."""
    seed: Annotated[int, Option(metavar="N")] = Field(default=42, ge=0)
    """Seed of the new layers and the order."""


class Switching(Section):
    """How a code-switched set is made."""

    sentences: Annotated[int, Option(metavar="N", flags=("-n", "--sentences"))] = Field(default=1000, ge=1)
    """Number of sentences."""
    rate: Annotated[float, Option(metavar="SHARE")] = Field(default=0.5, ge=0, le=1)
    """Share of the words in the dictionary that are replaced; at least one in a sentence."""
    seed: Annotated[int, Option(metavar="N")] = Field(default=42, ge=0)
    """Seed of all choices."""
