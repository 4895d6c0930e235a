"""Recipes that start from another recipe: `extends`, merged key by key, and phases spelled out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from mexma_cli.errors import MexmaError
from mexma_cli.limited_yaml import SIZE, composed, constructed

IMPLIED_PHASE = "train"
"""Name of the one phase of a recipe without `phases`."""

Raw = dict[str, Any]


def inherited(path: Path, find: Callable[[str, Path], Path]) -> tuple[Raw, list[Path]]:
    """A recipe's keys over those that it extends, in the form with `phases`.

    Sections merge key by key and phases by name; any other list, and an objective of another name, replaces
    the inherited one. A `trainer` beside inherited phases is for all of them, as with ``--set trainer...``.

    Args:
        path: The recipe's file.
        find: From what `extends` says and the folder of the file that says so to a file.

    Returns:
        The keys, and the files they are from, the recipe's own first.

    Raises:
        MexmaError: A file cannot be read, or the recipes extend each other in a circle.
    """
    chain: list[Path] = []
    layers: list[Raw] = []
    following: Path | None = path
    while following is not None:
        circle = following.resolve() in [file.resolve() for file in chain]
        chain.append(following)
        if circle:
            raise MexmaError(
                "recipes extend each other in a circle: " + " extends ".join(map(str, chain)),
                "one of them has to do without `extends`",
            )
        raw = _parse(following)
        wanted = raw.pop("extends", None)
        layers.append(raw)
        if wanted is not None and not isinstance(wanted, str):
            raise MexmaError(f"{following}: `extends` is a recipe's name or path, this is {wanted!r}")
        try:
            following = find(wanted, following.parent) if wanted is not None else None
        except MexmaError as error:
            raise MexmaError(f"{following}: `extends`: {error.message}", error.hint) from None
    merged = _with_phases(layers.pop())
    for layer, file in zip(reversed(layers), reversed(chain[:-1]), strict=True):
        merged = _over(merged, layer, file)
    return merged, chain


def _parse(path: Path) -> Raw:
    try:
        with path.open("rb") as file:
            content = file.read(SIZE + 1)
        if len(content) > SIZE:
            raise MexmaError(f"{path} is no recipe: it has over {SIZE:,} bytes")
        root = composed(content.decode("utf-8"))
        _no_key_twice(root, path)
        raw = constructed(root)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        problem = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise MexmaError(
            f"{path}{where}: not valid YAML: {problem}",
            "keys of one section begin in one column, behind spaces (no tabs); quotes and brackets close",
        ) from None
    except UnicodeDecodeError as error:
        raise MexmaError(f"{path}: not UTF-8 (byte {error.start})") from None
    if not isinstance(raw, dict):
        is_what = {type(None): "is empty", list: "is a list"}.get(type(raw), "has none")
        raise MexmaError(f"{path}: a recipe has lines `key: value`, and this file {is_what}")
    return raw


def _no_key_twice(root: yaml.Node | None, path: Path) -> None:
    """YAML takes the last of two values for a key in a section, and says nothing of the first."""
    todo, done = [root], set()
    while todo:
        node = todo.pop()
        if id(node) in done:  # an alias
            continue
        done.add(id(node))
        if isinstance(node, yaml.SequenceNode):
            todo += node.value
        if not isinstance(node, yaml.MappingNode):
            continue
        lines: dict[str, int] = {}
        for key, value in node.value:
            todo.append(value)
            if not isinstance(key, yaml.ScalarNode):
                continue  # refused when values are made
            line = key.start_mark.line + 1
            if key.value in lines and key.value != "<<":
                raise MexmaError(
                    f"{path}, line {line}: `{key.value}` is there already, in line {lines[key.value]}",
                    "take one of them out, or put both together",
                )
            lines[key.value] = line


def _with_phases(raw: Raw) -> Raw:
    """Bring a recipe without `phases` into the form with one, and give each phase the shared `trainer`."""
    raw = dict(raw)
    shared = raw.pop("trainer", None) or {}
    if "phases" not in raw:
        phase = {"name": IMPLIED_PHASE, "objective": raw.pop("objective", None), "trainer": shared}
        return raw | {"phases": [{key: value for key, value in phase.items() if value is not None}]}
    phases = raw["phases"]
    if isinstance(phases, list) and isinstance(shared, dict):
        raw["phases"] = [_with_trainer(phase, shared) for phase in phases]
    return raw


def _with_trainer(phase: Any, shared: Raw) -> Any:
    own = phase.get("trainer") or {} if isinstance(phase, dict) else None
    return phase | {"trainer": shared | own} if isinstance(own, dict) else phase


def _over(base: Raw, own: Raw, file: Path) -> Raw:
    """The keys of a recipe over those that it extends, which have `phases`."""
    own = dict(own)
    trainer, objective, phases = (own.pop(key, None) for key in ("trainer", "objective", "phases"))
    merged: Raw = _merged(base, own)
    listed = merged["phases"] if isinstance(merged["phases"], list) else []
    if trainer is not None:
        listed = [_merged(phase, {"trainer": trainer}) for phase in listed]
    if objective is not None:
        if len(listed) != 1:
            known = ", ".join(str(_name(phase)) for phase in listed)
            raise MexmaError(f"{file}: `objective`: of which phase?", f"name one under `phases`: {known}")
        listed = [_merged(listed[0], {"objective": objective})]
    if isinstance(phases, list):
        for phase in phases:
            names = [_name(one) for one in listed]
            if _name(phase) in names:
                place = names.index(_name(phase))
                listed[place] = _merged(listed[place], phase)
            else:
                listed = [*listed, _with_trainer(phase, trainer) if isinstance(trainer, dict) else phase]
    elif phases is not None:
        return merged | {"phases": phases}
    return merged | {"phases": listed}


def _name(phase: Any) -> Any:
    return phase.get("name") if isinstance(phase, dict) else phase


def _merged(base: Any, own: Any) -> Any:
    """`own` over `base`: sections key by key, anything else replaced."""
    if not isinstance(base, dict) or not isinstance(own, dict):
        return own
    result = dict(base)
    for key, value in own.items():
        old = base.get(key)
        other = key == "objective" and isinstance(value, dict) and value.get("name", _name(old)) != _name(old)
        result[key] = value if key not in base or other else _merged(old, value)
    return result
