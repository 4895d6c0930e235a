"""Mistakes in a recipe, explained key by key in plain words."""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import ValidationError

from mexma_cli.errors import MexmaError
from mexma_cli.settings.section import Section, in_words, kinds_of
from mexma_cli.settings.training import IMPLIED_PHASE

SYNONYMS = {
    "batch_size": ("batch_pairs", "batch"),
    "dim": ("width",),
    "epochs": ("steps",),
    "hidden_size": ("width",),
    "lr": ("learning_rate",),
    "max_length": ("max_tokens",),
}
"""The name of a key in other programs -> its name here."""

_SAID = 20
"""So many mistakes are named."""

_AT_THE_TOP = ("extends", "objective", "trainer")
"""Keys of a recipe that are gone when it is resolved."""

Place = tuple[int | str, ...]


def explained(path: str, model: type[Section], raw: dict[str, Any], error: ValidationError) -> MexmaError:
    """One message with every key that is wrong, and the nearest right one for the first unknown key.

    Args:
        path: The recipe's file, and those that it extends.
        model: What the recipe should be.
        raw: Its keys.
    """
    phases = raw["phases"] if isinstance(raw.get("phases"), list) else []
    problems = error.errors()
    lines: list[str] = []
    for problem in problems[: 5 * _SAID]:
        if (
            problem["type"] != "too_short" or not lines
        ):  # else an entry that is wrong was left out of its list
            lines.append(_line(problem, phases))
    general = [re.sub(r"`phases\.[^.`]+\.trainer", "`trainer", line) for line in lines]
    counts = Counter(general)  # what all phases share is said once
    said = [one if counts[one] == len(phases) else own for one, own in zip(general, lines, strict=True)]
    said = list(dict.fromkeys(said))
    more = f"; and more, {len(problems):,} in all" if len(said) > _SAID else ""
    unknown = [problem["loc"] for problem in problems if problem["type"] == "extra_forbidden"]
    hint = _nearest(unknown[0], model, raw, phases) if unknown else None
    return MexmaError(f"{path}: " + "; ".join(said[:_SAID]) + more, hint)


def _line(problem: Mapping[str, Any], phases: list[Any]) -> str:
    """One mistake: a key, and what is wrong with its value."""
    where = ".".join(_readable(problem["loc"], phases)) or "recipe"
    if problem["type"] == "extra_forbidden":
        return f"unknown key `{where}`"
    return f"`{where}` is missing" if problem["type"] == "missing" else f"`{where}`: {in_words(problem)}"


def _readable(location: Place, phases: list[Any]) -> list[str]:
    """A place as the user wrote it: phases by their name, none where it was implied."""
    parts = [str(part) for part in location]
    if parts[:1] != ["phases"] or len(parts) < 3:
        return parts
    phase = phases[int(parts[1])]
    name = phase.get("name", parts[1]) if isinstance(phase, dict) else parts[1]
    return parts[2:] if name == IMPLIED_PHASE and len(phases) == 1 else ["phases", str(name), *parts[2:]]


def _nearest(location: Place, model: type[Section], raw: Any, phases: list[Any]) -> str:
    """A hint for an unknown key: one of its section, or one that is called so in another, or a phase."""
    key, section = str(location[-1]), _section(model, location[:-1], raw)
    if len(location) == 1 and key in [phase.get("name") for phase in phases if isinstance(phase, dict)]:
        return f"did you mean `phases.{key}`?"
    known = list(_keys(section)) + list(_AT_THE_TOP if "phases" in _keys(section) else ())
    wanted = (key, *SYNONYMS.get(key, ()))
    elsewhere = [place for place in _places(model) if place[-1] in wanted]
    elsewhere.sort(key=lambda place: (place[0] != location[0], len(place)))
    near = [name for name in wanted if name in known] or [".".join(place) for place in elsewhere]
    near = near or difflib.get_close_matches(key, known, 1, 0.5)
    return f"did you mean `{near[0]}`?" if near else f"known there: {', '.join(known)}"


def _places(section: type[Section]) -> Iterator[tuple[str, ...]]:
    """All keys, with the sections that they are in; `trainer` and `objective` may stand at the top."""
    for name, annotation in _keys(section).items():
        yield (name,)
        for inner in kinds_of(annotation).values():
            yield from ((*(() if name == "phases" else (name,)), *place) for place in _places(inner))


def _keys(section: type[Section]) -> dict[str, Any]:
    """Names of its keys -> their annotations."""
    return {field.alias or name: field.annotation for name, field in section.model_fields.items()}


def _section(model: type[Section], location: Place, raw: Any) -> type[Section]:
    """The section at a place."""
    for part in location:
        raw = raw[part]
        if isinstance(part, str) and (kinds := kinds_of(_keys(model).get(part))):
            name = raw.get("name") if isinstance(raw, dict) else None
            model = kinds.get(str(name), next(iter(kinds.values())))
    return model
