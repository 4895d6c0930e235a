"""What a recipe says of CLFT."""

from __future__ import annotations

from pydantic import Field

from mexma_cli.recipe.registry import ObjectiveSettings, objective


@objective("clft", "mexma_cli.objectives.clft.loss:Clft")
class ClftSettings(ObjectiveSettings):
    """CLFT: targets (English) stay where a frozen teacher has them, sources are drawn to their targets."""

    cross: float = Field(0.4, gt=0)
    """Weight of the distance between translations (beta in the paper); that to the teacher counts 1."""
    teacher: str | None = None
    """An encoder's name or folder, of any tokeniser and width; none: the encoder as the phase finds it."""
