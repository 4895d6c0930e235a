"""Settings that several systems share."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from mexma_cli.settings.registry import ObjectiveSettings, Pass, Shape, Work


class InfoNceSettings(ObjectiveSettings):
    """A contrastive term: each sentence against all sentences of the other side of the batch (InfoNCE)."""

    temperature: float = Field(0.05, gt=0)
    """Temperature of the contrastive term: cosines are divided by it."""
    margin: float = Field(0.0, ge=0)
    """Additive margin, subtracted from the cosine of a translation (LaBSE has 0.3)."""
    gather: bool = True
    """Use the sentences of all GPUs as negatives, not only those of its own."""
    hard_negatives: float = Field(0.0, ge=0, lt=1)
    """Share of the contrastive term that compares a translation with its own hard negatives
    (`data.negatives`) only (Omnilingual SONAR, equation 5)."""


class RankingSettings(InfoNceSettings):
    """Translation ranking: each sentence against all sentences of the other side of the batch (InfoNCE)."""

    direction: Literal["forward", "both"] = "both"
    """forward: rank targets for each source (as in DAP); both: also sources for each target."""
    projection: Literal["none", "tanh"] = "none"
    """none: compare sentence vectors; tanh: compare tanh(W h + b) of them, which is not exported."""

    def work(self, shape: Shape) -> Work:
        """The sequences of a step: both sides."""
        projection = shape.width**2 + shape.width if self.projection == "tanh" else 0
        return Work((Pass(shape, 2),), heads=projection)


def check_shares(mask_share: float, random_share: float) -> None:
    """Raise a ValueError for shares of <mask> and of random tokens that are more than all tokens that were
    chosen."""
    # 0.7 + 0.3 need not be 1 exactly; and where all are masked the other share means nothing.
    if mask_share < 1 and mask_share + random_share > 1 + 1e-9:
        raise ValueError(f"`mask_share` {mask_share:g} and `random_share` {random_share:g} are above 1")
