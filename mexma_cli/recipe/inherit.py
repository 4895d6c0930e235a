"""Recipes that start from another recipe: `extends`, merged key by key, and phases spelled out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from mexma_cli.errors import MexmaError
from mexma_cli.limited_yaml import SIZE, parsed

IMPLIED_PHASE = "train"
"""Name of the one phase of a recipe without `phases`."""

Raw = dict[str, Any]


def inherited(path: Path, find: Callable[[str, Path], Path]) -> tuple[Raw, list[Path]]:
    """A recipe's keys over those that it extends; those without a `kind` in the form with `phases`.

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
    chain = [path]
    layers = [_parse(path)]
    while (wanted := layers[-1].pop("extends", None)) is not None:
        file = chain[-1]
        if not isinstance(wanted, str):
            raise MexmaError(f"{file}: `extends` is a recipe's name or path, this is {wanted!r}")
        try:
            chain.append(find(wanted, file.parent))
        except MexmaError as error:
            raise MexmaError(f"{file}: `extends`: {error.message}", error.hint) from None
        if chain[-1].resolve() in [file.resolve() for file in chain[:-1]]:
            raise MexmaError(
                "recipes extend each other in a circle: " + " extends ".join(map(str, chain)),
                "one of them has to do without `extends`",
            )
        layers.append(_parse(chain[-1]))
    phased = all(layer.get("kind") is None for layer in layers)
    merged = _with_phases(layers[-1]) if phased else layers[-1]
    for layer, file in zip(layers[-2::-1], chain[-2::-1], strict=True):
        merged = _over(merged, layer, file) if phased else _merged(merged, layer)
    return merged, chain


def _parse(path: Path) -> Raw:
    try:
        with path.open("rb") as file:
            content = file.read(SIZE + 1)
        if len(content) > SIZE:
            raise MexmaError(f"{path} is no recipe: it has over {SIZE:,} bytes")
        raw = parsed(content.decode("utf-8"), unique=True)
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


def _with_phases(raw: Raw) -> Raw:
    """Bring a recipe without `phases` into the form with one, and give each phase the shared `trainer`."""
    shared = raw.pop("trainer", None) or {}
    if "phases" not in raw:
        own = {"objective": raw.pop("objective")} if raw.get("objective") is not None else {}
        return raw | {"phases": [{"name": IMPLIED_PHASE, **own, "trainer": shared}]}
    if isinstance(raw["phases"], list):
        raw["phases"] = [_with_trainer(phase, shared) for phase in raw["phases"]]
    return raw


def _with_trainer(phase: Any, shared: Any) -> Any:
    """A phase with the keys of the shared `trainer` that it does not have itself."""
    if not isinstance(phase, dict):
        return phase
    own = phase.get("trainer") or {}
    return phase | {"trainer": _merged(shared, own) if isinstance(shared, dict) else shared}


def _over(base: Raw, own: Raw, file: Path) -> Raw:
    """The keys of a recipe over those that it extends, which have `phases`."""
    trainer, objective, phases = (own.pop(key, None) for key in ("trainer", "objective", "phases"))
    merged: Raw = _merged(base, own)
    listed = base["phases"] if isinstance(base["phases"], list) else []
    if trainer is not None:
        listed = [_merged(phase, {"trainer": trainer}) for phase in listed]
    if objective is not None:
        if len(listed) != 1:
            known = ", ".join(str(_name(phase)) for phase in listed)
            raise MexmaError(f"{file}: `objective`: of which phase?", f"name one under `phases`: {known}")
        listed = [_merged(listed[0], {"objective": objective})]
    if phases is not None and not isinstance(phases, list):
        return merged | {"phases": phases}
    for phase in phases or ():
        names = [_name(one) for one in listed]
        if _name(phase) in names:
            place = names.index(_name(phase))
            listed = [*listed[:place], _merged(listed[place], phase), *listed[place + 1 :]]
        else:
            listed = [*listed, _with_trainer(phase, trainer or {})]
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
