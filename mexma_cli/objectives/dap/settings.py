"""Settings of DAP, the recipe's `objective` section."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from pydantic import Field

from mexma_cli.objectives.shared_settings import RankingSettings
from mexma_cli.settings.registry import Pass, Shape, Work, objective
from mexma_cli.settings.section import Section


class Rtl(Section):
    """Representation translation learning (DAP, section 3.3.2): rebuild the tokens of one side from the
    other."""

    weight: float = Field(1.0, gt=0)
    """Weight of its loss: 1 in the paper; 0.1 in the released program, with eight GPUs."""
    layers: int = Field(2, ge=1)
    """Layers of the head (the paper's K), taken from the end of the encoder's masked-LM checkpoint."""
    ratio: float = Field(1.0, gt=0, le=1)
    """Share of the tokens that are rebuilt; the head sees the states of the others."""
    direction: Literal["forward", "backward", "both"] = "forward"
    """forward: rebuild targets from sources; backward: the reverse; both: in turn."""


@objective("dap", "mexma_cli.objectives.dap.loss:Dap")
class DapSettings(RankingSettings):
    """DAP (Li et al. 2023): translation ranking from source to target, and RTL."""

    direction: Literal["forward", "both"] = "forward"
    projection: Literal["none", "tanh"] = "tanh"
    rtl: Rtl = Field(default_factory=lambda: Rtl.model_validate({}))
    """Representation translation learning."""

    def work(self, shape: Shape) -> Work:
        """The sequences of a step: both sides, and RTL's head over both in one."""
        ranking, head = super().work(shape), replace(shape, layers=self.rtl.layers)
        return Work(
            (*ranking.passes, Pass(head, 1, 2)),
            guessed=self.rtl.ratio,
            heads=ranking.heads + head.parameters + shape.vocabulary_head,
        )
