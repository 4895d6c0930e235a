"""Settings of MEXMA, the recipe's `objective` section."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from pydantic import Field, model_validator

from mexma_cli.objectives.shared_settings import InfoNceSettings, check_shares
from mexma_cli.settings.registry import Pass, Shape, Work, objective
from mexma_cli.settings.section import Section


class Head(Section):
    """The unmasking head (paper section 7.2), with the defaults of the authors' code."""

    layers: int = Field(6, ge=1)
    """Transformer layers, of the encoder's width."""
    heads: int = Field(8, ge=1)
    """Attention heads of a layer, a divisor of the encoder's width."""
    ffn: int = Field(3072, ge=1)
    """Width of a layer's feed-forward part."""
    layer_norm_eps: float = Field(1e-12, gt=0)
    """Epsilon of LayerNorm."""
    dropout: float = Field(0.1, ge=0, lt=1)
    """Share of the states that is dropped in training."""
    output_scale: float = Field(1.0, gt=0)
    """Initial weight of the last LayerNorm; below 1 for long word embeddings."""


@objective("mexma", "mexma_cli.objectives.mexma.loss:Mexma")
class MexmaSettings(InfoNceSettings):
    """MEXMA (paper section 3): cross-unmasking, alignment, KoLeo; optionally a contrastive term."""

    alpha: float = 1.0
    """Weight of the alignment loss."""
    beta: float = 0.5
    """Weight of each direction's unmasking loss."""
    gamma: float = 0.005
    """Weight of each side's KoLeo loss."""
    contrastive: float = 0.0
    """Weight of a symmetric InfoNCE between the clean sentence vectors (paper section 5.2)."""
    koleo_normalise: bool = True
    """Normalise vectors in KoLeo, as the authors' code does; false: the paper's formula."""
    koleo_global: bool = False
    """Search KoLeo's neighbours on all GPUs; the authors' code searches on each GPU."""
    symmetric: bool = True
    """Encode both sides clean and masked; false: one side masked and the other clean, drawn for each pair
    (model 1 of the paper's Table 11)."""
    align: Literal["clean", "masked"] = "clean"
    """Align a clean sentence vector with the clean one of the other side, or with its masked one (model 3 of
    Table 11)."""
    token_gradients: bool = True
    """Unmasking trains the encoder through the masked tokens; false: model 1 of Table 5."""
    sentence_gradients: bool = True
    """Unmasking trains the encoder through the other side's sentence vector."""
    masking: float = Field(0.4, gt=0, lt=1)
    """Share of the tokens that are chosen for unmasking."""
    mask_share: float = Field(0.8, ge=0, le=1)
    """Share of the chosen tokens that becomes <mask>."""
    random_share: float = Field(0.1, ge=0, le=1)
    """Share of the chosen tokens that becomes a random token; the others stay."""
    head: Head = Field(default_factory=lambda: Head.model_validate({}))
    """The head that predicts masked tokens; it is not exported."""

    def work(self, shape: Shape) -> Work:
        """The sequences of a step: both sides clean and masked, or one of each; the head over the masked
        ones."""
        masked = 2 if self.symmetric else 1
        head = replace(shape, layers=self.head.layers, ffn=self.head.ffn)
        return Work(
            (Pass(shape, 2 * masked), Pass(head, masked)),
            guessed=masked * self.masking,
            heads=head.layers * head.of_layer + shape.vocabulary,
        )

    @model_validator(mode="after")
    def _shares(self) -> MexmaSettings:
        check_shares(self.mask_share, self.random_share)
        return self

    @model_validator(mode="after")
    def _something_trains_the_encoder(self) -> MexmaSettings:
        unmasking = self.beta and (self.token_gradients or self.sentence_gradients)
        if not (unmasking or self.alpha or self.gamma or self.contrastive):
            raise ValueError("no term of the loss reaches the encoder: give one a weight, or unmasking a way")
        return self

    @model_validator(mode="after")
    def _hard_negatives_have_a_term(self) -> MexmaSettings:
        if self.hard_negatives and not self.contrastive:
            raise ValueError("`hard_negatives` is a share of `contrastive`, which is 0")
        return self

    @model_validator(mode="after")
    def _one_clean_side_is_enough(self) -> MexmaSettings:
        if not self.symmetric:
            two_clean = {
                "alpha (with align: clean)": self.alpha if self.align == "clean" else 0.0,
                "gamma": self.gamma,
                "contrastive": self.contrastive,
            }
            wrong = [key for key, weight in two_clean.items() if weight]
            if wrong:
                raise ValueError(
                    f"symmetric: false has one clean side only, so these must be 0: {', '.join(wrong)}"
                )
        return self
