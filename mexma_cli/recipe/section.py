"""What all parts of a recipe have in common."""

from __future__ import annotations

from typing import Annotated, Any, get_args

import yaml
from pydantic import AfterValidator, BaseModel, ConfigDict


def _in_utf8(name: str) -> str:
    try:
        name.encode()
    except UnicodeEncodeError:
        raise ValueError("the tokeniser's library takes only names that are UTF-8") from None
    return name


Folder = Annotated[str, AfterValidator(_in_utf8)]
"""A folder in which a tokeniser is saved."""


class Section(BaseModel):
    """A part of a recipe: frozen, and unknown keys are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True, allow_inf_nan=False)

    @classmethod
    def kinds(cls) -> dict[str, type[Section]]:
        """The sections that may stand in place of this one, by name: only itself where there is no choice."""
        return {"": cls}

    def to_yaml(self) -> str:
        """As the file in which it may stand; a whole recipe is kept so beside its output."""
        raw = self.model_dump(mode="json", by_alias=True)
        return yaml.safe_dump(raw, sort_keys=False, allow_unicode=True)


def kinds_of(annotation: Any) -> dict[str, type[Section]]:
    """The sections that a value of this type may be, or may have in its list, by name."""
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return annotation.kinds()
    return {name: kind for part in get_args(annotation) for name, kind in kinds_of(part).items()}
