"""Print docs/recipes.md: every key of recipes. `make docs` runs it, tests/test_docs.py compares.

A key's explanation is the string below its field, or below that of a section which this one is derived from.
Keys that commands have as options are explained in docs/cli.md.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic.fields import FieldInfo

from mexma_cli.settings.corpus import CorpusRecipe
from mexma_cli.settings.section import Section, explanation, kinds_of, option_of
from mexma_cli.settings.training import DecomposeRecipe, Recipe

HEADER = """\
# The keys of recipes

Made by `make docs` from the recipes' models (`mexma_cli/settings`); do not edit it here.

A recipe is a YAML file with the sections below. `mexma prepare`, `mexma train` and `mexma run` take its path;
the first two also take the name of a shipped recipe (`mexma recipes`). Unknown keys are refused.

- `extends: NAME` at the top (a shipped recipe, or a path from the recipe's own folder) inherits the keys of
  another recipe. Sections are merged key by key, and phases by their `name`. Any other list, and an objective
  of another name, replaces the inherited one.
- `trainer` at the top has the defaults of all phases. Above phases that are inherited, it overrides theirs.
- A recipe with one phase may have `objective` and `trainer` at its top, without `phases`.
- `--set KEY=VALUE` changes a key for one run: `--set data.max_tokens=64`, in the phase `bag`
  `--set phases.bag.trainer.steps=100`, in all phases `--set trainer.steps=100`. The value is YAML; without
  one, null or an empty text. Of a list of sections, such as `data.corpora`, only the whole list can be set.

In brackets is a key's default (none: `null`), and which other values it takes. "Explained as options" are
keys with the meaning and the default of the option of that name in [the commands](cli.md): a list where the
option may be repeated, `true` or `false` where it is a flag. The run's folder has the resolved recipe.
"""
WORDS = {
    str: ("text", "texts"),
    Path: ("text", "texts"),
    int: ("integer", "integers"),
    float: ("number", "numbers"),
    bool: ("true or false", "true or false"),
}
BOUNDS = {"ge": "≥", "gt": ">", "le": "≤", "lt": "<"}


def render() -> str:
    own = ["## Recipes that train an encoder\n", *tables(Recipe, "")]
    other = ["## Recipes of `kind: decompose`\n", *tables(DecomposeRecipe, "", ", kind: decompose")]
    other += ["## Recipes of `kind: corpus`\n", *tables(CorpusRecipe, "", ", kind: corpus")]
    return "\n".join([HEADER, *own, *other])


def tables(
    section: type[Section], path: str, after: str = "", elsewhere: Collection[str] = ()
) -> Iterator[str]:
    """What a section is, its keys but for those `elsewhere`, and the same of the sections in it."""
    yield " ".join((section.__doc__ or "").split()).replace("<", "\\<") + "\n"
    own = [name for name in names(section) if option_of(section, name) is None]
    if keys := [row(section, name) for name in own if row(section, name) not in elsewhere]:
        yield "\n".join([*keys, ""])
    if options := [as_option(section, name) for name in names(section) if name not in own]:
        yield f"Explained as options: {', '.join(options)}.\n"
    for name in names(section):
        field = section.model_fields[name]
        kinds = kinds_of(field.annotation)
        many = "[]" if get_origin(field.annotation) is tuple else ""
        place = f"{path}.{field.alias or name}{many}".lstrip(".")
        shared = [key for key, kinds_with in kinds_by_key(kinds).items() if len(kinds_with) > 1]
        if shared:
            yield f"### `{place}`{after}\n"
            yield f"`name` is {listed(kinds)}, and decides which of the keys below there are.\n"
            for kinds_with in dict.fromkeys(tuple(kinds_by_key(kinds)[key]) for key in shared):
                yield f"Keys of {listed(kinds_with)}:\n"
                keys = [key for key in shared if tuple(kinds_by_key(kinds)[key]) == kinds_with]
                yield "\n".join([*keys, ""])
        for kind, found in kinds.items():
            which = f", name: {kind}" if kind else ""
            yield f"### `{place}`{which}{after}\n"
            yield from tables(found, place, after, [*shared, row(found, "name")] if kind else ())


def listed(found: Iterable[str]) -> str:
    *others, last = (f"`{one}`" for one in found)
    return f"{', '.join(others)} or {last}" if others else last


def names(section: type[Section]) -> list[str]:
    return sorted(section.model_fields, key=lambda name: name != "name")


def kinds_by_key(kinds: dict[str, type[Section]]) -> dict[str, list[str]]:
    """Of sections that stand in one place: which of them have a key of the same row."""
    found: dict[str, list[str]] = {}
    for kind, section in kinds.items():
        for name in names(section) if kind else ():
            if name != "name":
                found.setdefault(row(section, name), []).append(kind)
    return found


def row(section: type[Section], name: str) -> str:
    field = section.model_fields[name]
    meaning = explanation(section, name).replace("<", "\\<")
    return f"- `{field.alias or name}` ({value(field)}): {meaning}"


def as_option(section: type[Section], name: str) -> str:
    """The name of a key, and that of its option where it is another one."""
    option = option_of(section, name)
    flag = option.flags[-1] if option and option.flags else f"--{name.replace('_', '-')}"
    return f"`{name}`" if flag.lstrip("-").replace("-", "_") == name else f"`{name}` (`{flag}`)"


def value(field: FieldInfo) -> str:
    """A key's default as YAML and the other values that it takes; or what kind of value is needed."""
    bounds = ", ".join(
        f"{words}{getattr(limit, bound)}"
        for limit in field.metadata
        for bound, words in BOUNDS.items()
        if hasattr(limit, bound)
    )
    words = f"{kind(field.annotation, one=True).removesuffix(' or null')} {bounds}".strip()
    if any(hasattr(limit, "min_length") for limit in field.metadata):
        words += ", one or more"
    if field.is_required():
        return f"{words}, needed"
    if kinds_of(field.annotation) and field.default_factory is not None:
        return "section"
    default = field.get_default(call_default_factory=True)
    shown = f"`{json.dumps(default)}`"
    choices = [json.dumps(one) for one in literals(field.annotation) if one != default]
    if default is None:
        return words
    if default in ((), {}):
        return f"{shown}, or {words}"
    if choices:
        return f"{shown}, or {listed(choices)}"
    return f"{shown}, {bounds}" if bounds else shown


def literals(annotation: Any) -> list[Any]:
    """The values of a type that is a choice of some."""
    if get_origin(annotation) is Literal:
        return list(get_args(annotation))
    return []


def kind(annotation: Any, one: bool) -> str:
    """The words for a type, of one value or of several."""
    origin, parts = get_origin(annotation), get_args(annotation)
    if kinds_of(annotation) and origin is not tuple:
        return ("section" if one else "sections") + " or null" * (NoneType in parts)
    if annotation in WORDS:
        return WORDS[annotation][not one]
    if origin is Annotated:
        return kind(parts[0], one)
    if origin is Literal:
        return listed(parts)
    if origin in (Union, UnionType):
        plain = [kind(part, one) for part in parts if part is not NoneType]
        return " or ".join(plain + ["null"] * (NoneType in parts))
    if origin is dict:
        return f"section of {kind(parts[1], one=False)}"
    if origin is tuple and parts[-1] is not ...:
        return f"list of {len(parts)} {kind(parts[0], one=False)}"
    assert origin in (tuple, list), annotation
    return ("list of " if one else "lists of ") + kind(parts[0], one=False)


if __name__ == "__main__":
    print(render(), end="")
