"""Print docs/recipes.md: every key of recipes. `make docs` runs it, tests/test_docs.py compares.

A key's explanation is the string below its field, or below that of a section which this one is derived from.
"""

from __future__ import annotations

import ast
import inspect
import json
from collections.abc import Iterator
from itertools import pairwise
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic.fields import FieldInfo

from mexma_cli.recipe import CorpusRecipe, DecomposeRecipe, Recipe, Section, shipped
from mexma_cli.recipe.section import kinds_of

HEADER = """\
# The keys of recipes

Made by `make docs` from the recipes' models (`mexma_cli/recipe`); do not edit it here.

A recipe is a YAML file with the sections below. `mexma prepare` and `mexma train` take its path, or the name
of a [shipped one](#shipped-recipes). Keys without a default are needed, unknown ones are refused.

- `extends: NAME` at the top (a shipped recipe, or a path seen from the file that says it) takes over the keys
  of another recipe. Sections are merged key by key, and phases by their `name`; any other list, and an
  objective of another name, replaces the inherited one.
- `trainer` at the top is the default of all phases: a phase's own `trainer` comes first. Above phases that
  are inherited by `extends`, it is for all of them, whatever they say themselves.
- `objective` at the top, with `trainer`, is for a recipe without `phases`: it has one, by the name `train`.
- `--set KEY=VALUE` changes a key for one run and comes last: `--set data.max_tokens=64`. A phase is addressed
  by its name (`--set phases.mexma.trainer.steps=100`); `--set trainer.steps=100` is for every phase, and
  `--set objective.alpha=2` for a recipe with one. The value is YAML (`--set 'trainer.loggers=[wandb]'`). What
  is in a list of sections, such as `data.corpora`, is not set so: set the whole list.

The run's folder has the recipe as it was resolved, in `recipe.yaml`.
"""
WORDS = {
    str: ("text", "texts"),
    int: ("whole number", "whole numbers"),
    float: ("number", "numbers"),
    bool: ("true or false", "true or false"),
}
BOUNDS = {"ge": "at least", "gt": "above", "le": "at most", "lt": "below"}


def render() -> str:
    own = ["## Recipes that train an encoder\n", *tables(Recipe, "")]
    other = ["## Recipes of `kind: decompose`\n", *tables(DecomposeRecipe, "", ", kind: decompose")]
    other += ["## Recipes of `kind: corpus`\n", *tables(CorpusRecipe, "", ", kind: corpus")]
    names = "## Shipped recipes\n\n" + ", ".join(f"`{name}`" for name in shipped()) + "\n"
    return "\n".join([HEADER, *own, *other, names])


def tables(section: type[Section], path: str, after: str = "", own_kind: str = "") -> Iterator[str]:
    """What a section is, the table of its keys, and the same of the sections in it."""
    yield " ".join((section.__doc__ or "").split()).replace("<", "\\<") + "\n"
    rows = ["| key | value | default | what it is |", "| --- | --- | --- | --- |"]
    inner = []
    for name, field in sorted(section.model_fields.items(), key=lambda item: item[0] != "name"):
        key = field.alias or name
        is_what = f"`{own_kind}`" if own_kind and name == "name" else value(field)
        cells = (f"`{key}`", is_what, default(field), explanation(section, name))
        rows.append("| " + " | ".join(cells) + " |")
        many = "[]" if get_origin(field.annotation) is tuple else ""
        place = f"{path}.{key}{many}".lstrip(".")
        inner += [(found, place, kind) for kind, found in kinds_of(field.annotation).items()]
    yield "\n".join(rows) + "\n"
    for found, place, kind in inner:
        which = f", name: {kind}" if kind else ""
        yield f"### `{place}`{which}{after}\n"
        yield from tables(found, place, after, kind)


def explanation(section: type[Section], name: str) -> str:
    """The string below a field, or what a section that it stands in for says there."""
    for one in section.__mro__:
        if one is not Section and issubclass(one, Section) and name in one.__annotations__:
            (body,) = ast.parse(inspect.getsource(one)).body
            assert isinstance(body, ast.ClassDef)
            for line, after in pairwise(body.body):
                match line, after:
                    case ast.AnnAssign(target=ast.Name(id=found)), ast.Expr(
                        value=ast.Constant(value=str(text))
                    ):
                        if found == name:
                            return " ".join(text.split()).replace("<", "\\<")
    return ""


def value(field: FieldInfo) -> str:
    """What kind of value a key has, in words."""
    bounds = [
        f"{words} {getattr(limit, bound)}"
        for limit in field.metadata
        for bound, words in BOUNDS.items()
        if hasattr(limit, bound)
    ]
    if any(hasattr(limit, "min_length") for limit in field.metadata):
        bounds.append("at least one")
    return ", ".join([kind(field.annotation, one=True), *([" and ".join(bounds)] if bounds else [])])


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
        *others, last = (f"`{part}`" for part in parts)
        return f"{', '.join(others)} or {last}" if others else last
    if origin in (Union, UnionType):
        plain = [kind(part, one) for part in parts if part is not NoneType]
        return " or ".join(plain + ["null"] * (NoneType in parts))
    if origin is dict:
        return f"section of {kind(parts[1], one=False)}"
    if origin is tuple and parts[-1] is not ...:
        return f"list of {len(parts)} {kind(parts[0], one=False)}"
    assert origin in (tuple, list), annotation
    return ("list of " if one else "lists of ") + kind(parts[0], one=False)


def default(field: FieldInfo) -> str:
    """A key's default as YAML, or that it is needed."""
    if field.is_required():
        return "needed"
    if kinds_of(field.annotation) and field.default_factory is not None:
        return "with its defaults"
    return f"`{json.dumps(field.get_default(call_default_factory=True))}`"


if __name__ == "__main__":
    print(render(), end="")
