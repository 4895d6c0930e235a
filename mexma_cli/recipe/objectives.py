"""The `objective` sections of a recipe, one a system: which losses, with which weights."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from mexma_cli.recipe.section import Section


class Head(Section):
    """The unmasking head (paper section 7.2); the defaults are the authors' code's."""

    layers: int = Field(6, ge=1)
    heads: int = Field(8, ge=1)
    ffn: int = Field(3072, ge=1)
    layer_norm_eps: float = 1e-12
    dropout: float = Field(0.1, ge=0, lt=1)
    output_scale: float = Field(1.0, gt=0)
    """First value of the last LayerNorm's weights; below 1 where word embeddings are long."""


class MexmaObjective(Section):
    """MEXMA (paper section 3): cross-unmasking, alignment, KoLeo; optionally a contrastive term."""

    name: Literal["mexma"]
    alpha: float = 1.0
    """Weight of the alignment loss."""
    beta: float = 0.5
    """Weight of each direction's unmasking loss."""
    gamma: float = 0.005
    """Weight of each side's KoLeo loss."""
    contrastive: float = 0.0
    """Weight of a symmetric InfoNCE between the clean sentence vectors (paper section 5.3)."""
    temperature: float = Field(0.05, gt=0)
    masking: float = Field(0.4, gt=0, lt=1)
    mask_share: float = 0.8
    """Of the chosen tokens: this share becomes <mask>, `random_share` a random token, the rest stays."""
    random_share: float = 0.1
    head: Head = Field(default_factory=lambda: Head.model_validate({}))


class WordsObjective(Section):
    """Aligned token embeddings: the mean of the tokens' vectors, trained by InfoNCE both ways."""

    name: Literal["words"]
    temperature: float = Field(0.05, gt=0)
    token_dropout: float = Field(0.0, ge=0, lt=1)


Objective = Annotated[MexmaObjective | WordsObjective, Field(discriminator="name")]
