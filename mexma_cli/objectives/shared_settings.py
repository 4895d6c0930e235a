"""Settings that several systems share."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from mexma_cli.recipe.registry import DecomposerSettings, ObjectiveSettings


class InfoNceSettings(ObjectiveSettings):
    """A contrastive term: each sentence against all sentences of the other side of the batch (InfoNCE)."""

    temperature: float = Field(0.05, gt=0)
    """What cosines are divided by in the contrastive term."""
    margin: float = Field(0.0, ge=0)
    """Taken from the cosine of a translation there (additive margin softmax; LaBSE has 0.3)."""
    gather: bool = True
    """Its negatives are the sentences of all GPUs, not only of its own."""
    hard_negatives: float = Field(0.0, ge=0, lt=1)
    """Share of the contrastive term in which a source looks for its translation among that one's own hard
    negatives (`data.negatives`), in a softmax apart (Omnilingual SONAR, equation 5)."""


class RankingSettings(InfoNceSettings):
    """Translation ranking: each sentence against all sentences of the other side of the batch (InfoNCE)."""

    direction: Literal["forward", "both"] = "both"
    """Each side looks for its translation among the other; `forward`: the source alone (as in DAP)."""
    projection: Literal["none", "tanh"] = "none"
    """What is compared: the sentence vectors, or tanh(W h + b) of them, which is not exported."""


def check_shares(mask_share: float, random_share: float) -> None:
    """Refuse shares of <mask> and of random tokens that are more than all tokens that were chosen.

    Raises:
        ValueError: They are.
    """
    # 0.7 + 0.3 need not be 1 exactly; and where all are masked the other share means nothing.
    if mask_share < 1 and mask_share + random_share > 1 + 1e-9:
        raise ValueError(f"`mask_share` {mask_share:g} and `random_share` {random_share:g} are above 1")


class OracleTerms(DecomposerSettings):
    """ORACLE's terms, each of which may stand beside another decomposer's (Ki et al. 2024)."""

    intra_class: float = Field(0.0, ge=0)
    """Weight of ORACLE's intra-class clustering."""
    inter_class: float = Field(0.0, ge=0)
    """Weight of ORACLE's inter-class separation."""
    is_mode: Literal["meaning_language", "language_language"] = "meaning_language"
    """What is separated: meaning from language (paper, equation 6), or the languages of a pair from each
    other (released code)."""
    ic_group: Literal["batch", "language"] = "batch"
    """What is clustered: all of a side (released code), or what is of one language."""
