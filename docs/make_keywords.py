"""Print mexma_cli/settings/keywords.py: the fields of settings as types of keywords. `make docs` runs it,
tests/test_docs.py compares."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

from pydantic import BeforeValidator

from mexma_cli.settings.section import Section, alternatives_of
from mexma_cli.settings.stages import (
    TUNED,
    AlignSettings,
    EmbedSettings,
    JudgingSettings,
    MineSettings,
    RuleSettings,
    ScoreSettings,
    SplitSettings,
    bytes_of,
)

HEADER = '''\
"""The settings that functions of the public API take as keywords, for editors and type checkers.

Made by `make docs` from the models beside this file, which explain them; do not edit it here.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal, TypedDict
'''
FUNCTIONS: dict[type[Section], str] = {
    ScoreSettings: "`evaluate` and `search`",
    JudgingSettings: "`score`",
    MineSettings: "`mine`",
    AlignSettings: "`align`",
    RuleSettings: "`filter`",
    SplitSettings: "`split`",
    EmbedSettings: "`embed`",
}


def written(type_: Any) -> str:
    """The type of a keyword for a field of this type: paths and sizes are text, too, and lists are tuples."""
    parts, several = get_args(type_), alternatives_of(type_)
    if get_origin(type_) is Annotated:
        return written(parts[0]) + (" | str" if BeforeValidator(bytes_of) in parts else "")
    if get_origin(type_) is tuple:
        return f"Sequence[{written(parts[0])}]"
    if get_origin(type_) is Literal:
        return f"Literal{json.dumps(parts)}"
    if len(several) > 1:
        return " | ".join(map(written, several))
    return {Path: "str | Path", NoneType: "None"}.get(type_, type_.__name__)


def name_of(model: type[Section]) -> str:
    return model.__name__.replace("Settings", "Keywords")


def render() -> str:
    parts = [HEADER]
    for model, functions in FUNCTIONS.items():
        above = next((one for one in model.__mro__[1:] if one in FUNCTIONS), None)
        parts += keywords(name_of(model), above, model, model.model_fields, functions)
    parts += keywords("TuneKeywords", JudgingSettings, MineSettings, TUNED, "`tune`")
    return "\n".join(parts)


def keywords(
    name: str, above: type[Section] | None, model: type[Section], names: Iterable[str], functions: str
) -> list[str]:
    """The lines of a class: those of some fields of a model that are not known from another one."""
    types, known = get_type_hints(model, include_extras=True), above.model_fields if above else {}
    return [
        f"\nclass {name}({name_of(above) if above else 'TypedDict'}, total=False):",
        f'    """Keywords of {functions}."""\n',
        *(f"    {field}: {written(types[field])}" for field in names if field not in known),
        "",
    ]


if __name__ == "__main__":
    print(render(), end="")
