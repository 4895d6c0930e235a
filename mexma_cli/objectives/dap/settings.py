"""What a recipe says of DAP."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from mexma_cli.objectives.shared_settings import RankingSettings
from mexma_cli.recipe.registry import objective
from mexma_cli.recipe.section import Section


class Rtl(Section):
    """Representation translation learning (DAP, section 3.3.2): one side's words from the other's states."""

    weight: float = Field(1.0, gt=0)
    """The paper's; the released program has 0.1."""
    layers: int = Field(2, ge=1)
    """Of the head: the last ones of the masked-LM checkpoint that the encoder is from (K in the paper)."""
    ratio: float = Field(1.0, gt=0, le=1)
    """Share of the tokens that are rebuilt; the head sees the encoder's states of the others."""
    direction: Literal["forward", "backward", "both"] = "forward"
    """The target is rebuilt from the source, the source from the target, or either in every other pair."""


@objective("dap", "mexma_cli.objectives.dap.loss:Dap")
class DapSettings(RankingSettings):
    """DAP (Li et al. 2023): translation ranking from source to target, and RTL."""

    direction: Literal["forward", "both"] = "forward"
    projection: Literal["none", "tanh"] = "tanh"
    rtl: Rtl = Field(default_factory=lambda: Rtl.model_validate({}))
    """Representation translation learning."""
