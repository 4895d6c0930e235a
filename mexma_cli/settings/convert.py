"""How files of raw vectors are written and read."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from mexma_cli.settings.section import Option, Section

RawType = Literal["float16", "float32"]


class ConvertSettings(Section):
    """Settings of `mexma convert`: the shape and type of raw vectors."""

    dim: Annotated[int | None, Option(metavar="N")] = Field(default=None, ge=1)
    """Dimension of a raw file (LASER: 1024)."""
    dtype: Annotated[RawType, Option()] = "float32"
    """Type of the numbers in the file of vectors."""
