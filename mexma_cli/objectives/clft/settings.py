"""Settings of CLFT, the recipe's `objective` section."""

from __future__ import annotations

from pydantic import Field

from mexma_cli.settings.registry import ObjectiveSettings, Pass, Shape, Work, objective


@objective("clft", "mexma_cli.objectives.clft.loss:Clft")
class ClftSettings(ObjectiveSettings):
    """CLFT: targets (English) keep the vectors of a frozen teacher, and sources are drawn to their
    targets."""

    cross: float = Field(0.4, gt=0)
    """Weight of the distance between translations (the paper's beta), beside the distance to the teacher."""
    teacher: str | None = None
    """Name or folder of the teacher, of any tokeniser and width. null: the encoder at the start of the
    phase."""

    def work(self, shape: Shape) -> Work | None:
        """The sequences of a step: both sides, and the target by the frozen copy; another teacher's shape is
        not known here."""
        if self.teacher is not None:
            return None
        return Work((Pass(shape, 2), Pass(shape, 1, trained=False)), frozen=shape.parameters)
