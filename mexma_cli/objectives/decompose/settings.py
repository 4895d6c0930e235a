"""Settings of DREAM, MEAT and ORACLE, the recipe's `objective` section."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from mexma_cli.settings.registry import DecomposerSettings, objective


class OracleTerms(DecomposerSettings):
    """ORACLE's terms, each of which may stand beside another decomposer's (Ki et al. 2024)."""

    intra_class: float = Field(0.0, ge=0)
    """Weight of intra-class clustering."""
    inter_class: float = Field(0.0, ge=0)
    """Weight of inter-class separation."""
    is_mode: Literal["meaning_language", "language_language"] = "meaning_language"
    """Inter-class separation of meaning and language (paper, equation 6), or of the two languages of a pair
    (released code)."""
    ic_group: Literal["batch", "language"] = "batch"
    """Intra-class clustering of a whole side of the batch (released code), or of each language."""


@objective("dream", "mexma_cli.objectives.decompose.loss:Dream")
class DreamSettings(OracleTerms):
    """DREAM: the language part predicts the language. ORACLE's terms are added where they have a weight."""


@objective("meat", "mexma_cli.objectives.decompose.loss:Meat")
class MeatSettings(OracleTerms):
    """MEAT: the meaning part hides the language. ORACLE's terms are added where they have a weight."""


@objective("oracle", "mexma_cli.objectives.decompose.loss:Decomposer")
class OracleSettings(OracleTerms):
    """ORACLE's terms alone."""

    @model_validator(mode="after")
    def _something_to_train(self) -> OracleSettings:
        if not (self.intra_class or self.inter_class):
            raise ValueError("oracle needs a weight for `intra_class` or `inter_class`")
        return self
