"""Settings of translation ranking and TLM, the recipe's `objective` section."""

from __future__ import annotations

from pydantic import Field, model_validator

from mexma_cli.objectives.shared_settings import RankingSettings, check_shares
from mexma_cli.settings.registry import Pass, Shape, Work, objective
from mexma_cli.settings.section import Section


class Tlm(Section):
    """Translation language modelling: both sentences of a pair as one sequence, with masked tokens."""

    weight: float = Field(1.0, gt=0)
    """Weight of its loss, beside the contrastive one; 0.1 in DAP's program, with eight GPUs."""
    masking: float = Field(0.2, gt=0, lt=1)
    """Share of the tokens that are chosen for masking."""
    mask_share: float = Field(0.8, ge=0, le=1)
    """Share of the chosen tokens that becomes <mask>."""
    random_share: float = Field(0.1, ge=0, le=1)
    """Share of the chosen tokens that becomes a random token; the others stay."""
    output_scale: float = Field(1.0, gt=0)
    """Initial weight of a new head's last LayerNorm; below 1 for long word embeddings."""

    @model_validator(mode="after")
    def _shares(self) -> Tlm:
        check_shares(self.mask_share, self.random_share)
        return self


@objective("contrastive", "mexma_cli.objectives.contrastive.loss:Contrastive")
class ContrastiveSettings(RankingSettings):
    """InfoNCE between clean sentence vectors: MEXMA's baseline (section 5.2), TR, and TR+TLM."""

    tlm: Tlm | None = None
    """Add translation language modelling. null: without."""

    def work(self, shape: Shape) -> Work:
        """The sequences of a step: both sides, and for TLM both as one."""
        ranking = super().work(shape)
        if self.tlm is None:
            return ranking
        heads = ranking.heads + shape.vocabulary_head
        return Work((*ranking.passes, Pass(shape, 1, 2)), guessed=2 * self.tlm.masking, heads=heads)
