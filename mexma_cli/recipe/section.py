"""What all parts of a recipe have in common."""

from __future__ import annotations

from typing import Any, get_args

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """A part of a recipe: frozen, and unknown keys are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True, allow_inf_nan=False)

    @classmethod
    def kinds(cls) -> dict[str, type[Section]]:
        """The sections that one of this type can be, by name: itself, where there is no choice."""
        return {"": cls}


def kinds_of(annotation: Any) -> dict[str, type[Section]]:
    """The sections that a value is, has in its list or may be one of, by name."""
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return annotation.kinds()
    return {name: kind for part in get_args(annotation) for name, kind in kinds_of(part).items()}
