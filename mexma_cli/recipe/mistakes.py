"""What is wrong in a recipe, key by key and in plain words."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from mexma_cli.errors import MexmaError
from mexma_cli.recipe.inherit import IMPLIED_PHASE
from mexma_cli.settings.section import Section, kinds_of

PLAIN = {
    "bool_parsing": "should be true or false",
    "bool_type": "should be true or false",
    "dict_type": "should be a section, with `key: value` lines",
    "finite_number": "should be a finite number",
    "float_parsing": "should be a number",
    "float_type": "should be a number",
    "greater_than": "should be above {gt:g}",
    "greater_than_equal": "should be at least {ge:g}",
    "int_from_float": "should be a whole number",
    "int_parsing": "should be a whole number",
    "int_type": "should be a whole number",
    "less_than": "should be below {lt:g}",
    "less_than_equal": "should be at most {le:g}",
    "list_type": "should be a list",
    "literal_error": "should be {expected}",
    "model_attributes_type": "should be a section, with `key: value` lines",
    "model_type": "should be a section, with `key: value` lines",
    "string_type": "should be text, which may need quotes",
    "too_long": "has {actual_length} entries, which is more than {max_length}",
    "tuple_type": "should be a list",
    "union_tag_invalid": "should be one of {expected_tags}, or an objective of a --plugin FILE",
}
"""Pydantic's kinds of errors -> what is said of them; others have words of ours already."""

SYNONYMS = {
    "batch_size": ("batch_pairs", "batch"),
    "dim": ("width",),
    "epochs": ("steps",),
    "hidden_size": ("width",),
    "lr": ("learning_rate",),
    "max_length": ("max_tokens",),
    "spelling": ("keep_ngrams",),
}
"""What other programs call a key, or this one did -> what it is called here."""

RENAMED = {"words": "bag"}
"""What an objective was called before -> what it is called now."""

_SAID = 20
"""So many mistakes are named."""

_AT_THE_TOP = ("extends", "objective", "trainer")
"""Keys of a recipe that are gone when it is resolved."""


def explained(path: str, model: type[Section], raw: dict[str, Any], error: ValidationError) -> MexmaError:
    """One message with every key that is wrong, and the nearest right one for the first unknown key.

    Args:
        path: The recipe's file, and those that it extends.
        model: What the recipe should be.
        raw: Its keys.
    """
    lines: list[str] = []
    hint = None
    problems = error.errors()
    for problem in problems[: 5 * _SAID]:
        if problem["type"] == "too_short" and lines:
            continue  # an entry that is wrong in itself was left out of its list
        if problem["type"] == "extra_forbidden":
            hint = hint or _phase(problem["loc"], raw.get("phases")) or _nearest(problem["loc"], model, raw)
        lines.append(_line(problem, raw.get("phases")))
    said = _once(lines, raw.get("phases"))
    more = f"; and more, {len(problems):,} in all" if len(said) > _SAID else ""
    return MexmaError(f"{path}: " + "; ".join(said[:_SAID]) + more, hint)


def _once(lines: list[str], phases: Any) -> list[str]:
    """What is wrong in the `trainer` of all phases is said once, of the one that they share."""
    listed = phases[: 5 * _SAID] if isinstance(phases, list) else []
    general = {line: line for line in lines}
    for phase in listed:
        name = phase.get("name") if isinstance(phase, dict) else phase
        general |= {line: own.replace(f"`phases.{name}.trainer", "`trainer") for line, own in general.items()}
    counts = Counter(general.values())
    shared = [own if counts[own] == len(listed) > 1 else line for line, own in general.items()]
    return list(dict.fromkeys(shared))


def _line(problem: Mapping[str, Any], phases: Any) -> str:
    """What is wrong with one key."""
    kind, place, given = problem["type"], _readable(problem["loc"], phases), problem["input"]
    if kind == "missing" and isinstance(problem["loc"][-1], int):
        return f"`{'.'.join(place[:-1])}` has too few entries"
    if kind == "union_tag_not_found":
        return f"`{'.'.join([*place, 'name'])}` is missing"
    if kind == "union_tag_invalid":
        place, given = [*place, "name"], problem["ctx"]["tag"]
    where = ".".join(place) or "recipe"
    if kind == "extra_forbidden":
        return f"unknown key `{where}`"
    if kind == "missing":
        return f"`{where}` is missing"
    if kind == "too_short":
        return f"`{where}` needs at least one entry"
    if kind == "string_pattern_mismatch":
        letters = "letters, digits, `.`" if "A-Z" in problem["ctx"]["pattern"] else "small letters, digits"
        said = f"should be of {letters}, `_` and `-`, with a letter or a digit first"
    elif kind == "union_tag_invalid" and given in RENAMED:
        said = f"is called {RENAMED[given]!r} now"
    elif kind in PLAIN:
        said = PLAIN[kind].format(**problem.get("ctx", {}))
    else:
        said = problem["msg"].removeprefix("Value error, ")
    return f"`{where}`: {said}{_shown(given, kind)}"


def _shown(given: Any, kind: str) -> str:
    if kind in ("value_error", "too_long") and (given is None or isinstance(given, dict | list)):
        return ""  # the message says what it is about
    if given is None:
        return " (is null)"
    if isinstance(given, dict | list):
        return f" (is a {'section' if isinstance(given, dict) else 'list'})"
    said = repr(given)
    return f" (is {said if len(said) <= 80 else said[:77] + '...'})"


def _phase(location: tuple[int | str, ...], phases: Any) -> str | None:
    """A hint for a phase's name where a section's should be."""
    listed = phases if isinstance(phases, list) else []
    names = [phase.get("name") for phase in listed if isinstance(phase, dict)]
    return f"did you mean `phases.{location[0]}`?" if len(location) == 1 and location[0] in names else None


def _nearest(location: tuple[int | str, ...], model: type[Section], raw: Any) -> str:
    """A hint for an unknown key: one of its section, or one that is called so in another."""
    key, section = str(location[-1]), _section(model, location[:-1], raw)
    known = list(_keys(section)) if section else []
    if "phases" in known:
        known += _AT_THE_TOP
    wanted = (key, *SYNONYMS.get(key, ()))
    near = [name for name in wanted if name in known]
    near = near or _elsewhere(wanted, model, location) or difflib.get_close_matches(key, known, 1, 0.5)
    return f"did you mean `{near[0]}`?" if near else f"known there: {', '.join(known)}"


def _elsewhere(wanted: Sequence[str], model: type[Section], location: tuple[int | str, ...]) -> list[str]:
    """Where a recipe has keys that are called so, first those in the section that was named."""
    found = [place for place in _places(model) if place[-1] in wanted]
    found.sort(key=lambda place: (place[0] != location[0], len(place)))
    return [".".join(place) for place in found]


def _places(section: type[Section]) -> Iterator[tuple[str, ...]]:
    for name, annotation in _keys(section).items():
        yield (name,)
        before = () if name == "phases" else (name,)  # `trainer` and `objective` may stand at the top
        for inner in kinds_of(annotation).values():
            yield from ((*before, *place) for place in _places(inner))


def _keys(section: type[Section]) -> dict[str, Any]:
    """Names of its keys -> their annotations."""
    return {field.alias or name: field.annotation for name, field in section.model_fields.items()}


def _section(model: type[Section], location: tuple[int | str, ...], raw: Any) -> type[Section] | None:
    """The section at a place; None if what is there has no keys of its own."""
    kinds: dict[str, type[Section]] = {"": model}
    for part in location:
        if isinstance(part, str):  # a number is a place in a list, whose entries are all of these kinds
            kinds = kinds_of(_keys(_chosen(kinds, raw))[part])
            if not kinds:
                return None
        raw = raw[part]
    return _chosen(kinds, raw)


def _chosen(kinds: dict[str, type[Section]], raw: Any) -> type[Section]:
    return kinds[raw["name"]] if len(kinds) > 1 else next(iter(kinds.values()))


def _readable(location: tuple[int | str, ...], phases: Any) -> list[str]:
    """A place as the user wrote it: phases by their name, none where it was implied."""
    parts = [str(part) for part in location]
    if parts[:1] != ["phases"] or len(parts) < 3:
        return parts
    phase, inner = phases[int(parts[1])], parts[2:]
    name = phase.get("name", parts[1]) if isinstance(phase, dict) else parts[1]
    return inner if name == IMPLIED_PHASE else ["phases", str(name), *inner]
