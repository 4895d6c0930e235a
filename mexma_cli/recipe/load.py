"""A recipe from YAML: inherited keys, phases spelled out, `--set` applied, and mistakes named by key."""

from __future__ import annotations

import contextlib
import difflib
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import ValidationError

from mexma_cli.errors import MexmaError
from mexma_cli.limited_yaml import parsed
from mexma_cli.recipe.corpus import CorpusRecipe
from mexma_cli.recipe.decompose import DecomposeRecipe
from mexma_cli.recipe.inherit import inherited
from mexma_cli.recipe.mistakes import explained
from mexma_cli.recipe.sections import Recipe
from mexma_cli.settings.section import Section

R = TypeVar("R", bound=Section)

_DOES: dict[type[Section], tuple[str, str]] = {
    Recipe: ("trains an encoder: it has no `kind: corpus`", "train"),
    DecomposeRecipe: ("trains on stored vectors (kind: decompose), not on text", "train"),
    CorpusRecipe: ("mines a corpus (kind: corpus), it trains nothing", "run"),
}
"""What a recipe does, for whoever wanted one of another kind, and the command that runs it."""


def shipped() -> dict[str, Path]:
    """The recipes that come with the package, by name; those in folders as ``ablations/no-koleo``."""
    here = Path(__file__).parent.parent
    folder = here / "recipes" if (here / "recipes").is_dir() else here.parent / "recipes"
    return {
        path.relative_to(folder).with_suffix("").as_posix(): path for path in sorted(folder.rglob("*.yaml"))
    }


def about(recipe: Path) -> str:
    """The first sentence of the comment that a recipe begins with."""
    lines = []
    for line in recipe.read_text(encoding="utf-8").splitlines():
        if not line.startswith("# "):
            break
        lines.append(line[2:])
        if line.endswith("."):
            break
    text = " ".join(lines)
    return re.split(r"(?<=\.)(?<!et al\.) ", text)[0]


def load(source: str | Path, overrides: Sequence[str] = ()) -> Recipe:
    """Read a recipe by path, or by the name of a shipped one.

    Args:
        source: A YAML file or a name such as ``mini``. A recipe with `extends` starts from another one.
        overrides: ``key=value`` with dots in the key and YAML in the value. A phase is addressed by
            its name (``phases.mexma.trainer.steps=100``); ``trainer.steps=100`` means every phase.

    Raises:
        MexmaError: No such recipe, broken YAML, a circle of `extends`, or a key or value that does not fit;
            the message names the key and the nearest right one. Or it is of another kind.
    """
    return _of_kind(Recipe, source, _load(source, overrides))


def load_corpus(source: str | Path, overrides: Sequence[str] = ()) -> CorpusRecipe:
    """As `load`, a recipe of `kind: corpus`."""
    return _of_kind(CorpusRecipe, source, _load(source, overrides))


def load_any(source: str | Path, overrides: Sequence[str] = ()) -> Recipe | DecomposeRecipe:
    """As `load`, whatever is trained: by the recipe's `kind`; without that key it is a `Recipe`."""
    recipe = _load(source, overrides)
    return recipe if isinstance(recipe, DecomposeRecipe) else _of_kind(Recipe, source, recipe)


def _of_kind(wanted: type[R], source: str | Path, recipe: Section) -> R:
    if isinstance(recipe, wanted):
        return recipe
    does, by = _DOES[type(recipe)]
    raise MexmaError(f"{source} {does}", f"`mexma {by}` runs it")


def _load(source: str | Path, overrides: Sequence[str]) -> Recipe | DecomposeRecipe | CorpusRecipe:
    raw, chain = inherited(find(str(source)), find)
    for override in overrides:
        _override(raw, override)
    kind = raw.get("kind")
    model = Recipe if kind is None else CorpusRecipe if kind == "corpus" else DecomposeRecipe
    try:
        return model.model_validate(raw)
    except ValidationError as error:
        raise explained(" extends ".join(map(str, chain)), model, raw, error) from None


def find(source: str, folder: Path = Path()) -> Path:
    """The file of a recipe; `folder` is where a relative path starts."""
    path = folder / source
    if path.is_file():
        return path
    known = shipped()
    if source in known:
        return known[source]
    if path.is_dir():
        raise MexmaError(f"{source} is a folder, not a recipe", "name the YAML file")
    raise _no_recipe(source, path, list(known))


def _no_recipe(source: str, path: Path, known: list[str]) -> MexmaError:
    name, all_ = source.removesuffix(".yaml").removeprefix("recipes/"), "`mexma recipes` lists them"
    near = difflib.get_close_matches(name, known, n=3)
    hint = f"did you mean {' or '.join(near)}? {all_}" if near else all_
    if "/" in source or path.suffix in (".yaml", ".yml"):
        return MexmaError(f"{path}: no such file", hint if near else None)
    return MexmaError(f"no recipe {source!r}", hint)


def _override(raw: dict[str, Any], override: str) -> None:
    key, equals, text = override.partition("=")
    if not equals or not key:
        raise MexmaError(f"--set {override}: expected key=value", "for example --set trainer.steps=1000")
    value: Any = text
    with contextlib.suppress(yaml.YAMLError):
        value = parsed(text)
    steps = key.strip().split(".")
    listed = raw.get("phases")
    # What is not a phase is named when the recipe is validated.
    phases = [phase for phase in listed if isinstance(phase, dict)] if isinstance(listed, list) else []
    names = [str(phase.get("name", "?")) for phase in phases]
    if steps[0] == "phases" and len(steps) > 2:
        if steps[1] not in names:
            raise MexmaError(f"--set {key}: no phase {steps[1]!r}", f"phases: {', '.join(names)}")
        _assign(phases[names.index(steps[1])], steps[2:], value)
    elif "phases" in raw and steps[0] in ("trainer", "objective"):
        if steps[0] == "objective" and len(phases) > 1:
            known = ", ".join(names)
            raise MexmaError(f"--set {key}: which phase?", f"phases.NAME.{key}, NAME one of: {known}")
        for phase in phases:
            _assign(phase, steps, value)
    else:
        _assign(raw, steps, value)


def _assign(node: Any, steps: Sequence[str], value: Any) -> None:
    for step in steps[:-1]:
        if not isinstance(node, dict):
            raise MexmaError(f"--set {'.'.join(steps)}: {step!r} is not inside a section")
        inner = {} if node.get(step) is None else node[step]
        # A copy, since by an alias (`*name` in YAML) it may stand in another place too.
        node[step] = dict(inner) if isinstance(inner, dict) else inner
        node = node[step]
    if not isinstance(node, dict):
        raise MexmaError(f"--set {'.'.join(steps)}: {steps[-1]!r} is not inside a section")
    node[steps[-1]] = value
