"""A recipe from YAML: inherited keys, phases spelled out, `--set` applied, and mistakes named by key."""

from __future__ import annotations

import contextlib
import glob
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import ValidationError

from mexma_cli import languages
from mexma_cli.errors import MexmaError, choice, did_you_mean, nearest_names
from mexma_cli.files import refuse_pipe, shipped_folder
from mexma_cli.limited_yaml import SIZE, parsed_yaml
from mexma_cli.settings.corpus import CorpusRecipe
from mexma_cli.settings.section import Empty, Section, explanation, in_words, kinds_of
from mexma_cli.settings.training import IMPLIED_PHASE, DecomposeRecipe, Recipe

R = TypeVar("R", bound=Section)
Raw = dict[str, Any]

_DOES: dict[type[Section], tuple[str, str]] = {
    Recipe: ("trains an encoder: it has no `kind: corpus`", "train"),
    DecomposeRecipe: ("trains on stored vectors (kind: decompose), not on text", "train"),
    CorpusRecipe: ("mines a corpus (kind: corpus), it trains nothing", "run"),
}
"""For each kind of recipe: what it does, in words for an error message, and the command that runs it."""
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


def shipped() -> dict[str, Path]:
    """The recipes that come with the package, by name; those in folders as ``ablations/no-koleo``."""
    folder = shipped_folder("recipes")
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
    """Read a recipe by path, or by the name of a shipped one. One with `extends` starts from another one.
    Overrides are ``key=value`` with dots in the key and YAML in the value. A phase is addressed by its name
    (``phases.train.trainer.steps=100``); ``trainer.steps=100`` means every phase.

    Refused: no such recipe or another kind, broken YAML, a circle of `extends`, a key or value that does not
    fit; the message names the key and the nearest right one.
    """
    return _of_kind(Recipe, source, _load(source, overrides))


def load_corpus(source: str | Path, overrides: Sequence[str] = ()) -> CorpusRecipe:
    """Read a recipe of `kind: corpus`; arguments and errors are those of `load`.

    With a relative `root`, each input is looked for in the folder of the recipe's file, then in the current
    folder.
    """
    recipe = _of_kind(CorpusRecipe, source, _load(source, overrides))
    folder = find_recipe(str(source)).parent
    if recipe.root.startswith(("/", "~")) or "://" in recipe.root:
        return recipe

    def placed(pattern: str) -> str:
        beside = str(folder / recipe.root / pattern)
        if "://" in pattern:
            return pattern
        return beside if glob.glob(beside, recursive=True) else str(Path(recipe.root) / pattern)

    texts = {code: text.but(input=tuple(map(placed, text.input))) for code, text in recipe.languages.items()}
    return recipe.but(root=".", languages=texts)


def load_any(source: str | Path, overrides: Sequence[str] = ()) -> Recipe | DecomposeRecipe:
    """Read a recipe that trains something, by its `kind`; without that key it is a `Recipe`. See `load`."""
    recipe = _load(source, overrides)
    return recipe if isinstance(recipe, DecomposeRecipe) else _of_kind(Recipe, source, recipe)


def _of_kind(wanted: type[R], source: str | Path, recipe: Section) -> R:
    if isinstance(recipe, wanted):
        return recipe
    does, by = _DOES[type(recipe)]
    raise MexmaError(f"{source} {does}", f"`mexma {by}` runs it")


def _load(source: str | Path, overrides: Sequence[str]) -> Recipe | DecomposeRecipe | CorpusRecipe:
    raw, chain = inherited(find_recipe(str(source)), find_recipe)
    changes = [overrides] if isinstance(overrides, str) else overrides
    for override in changes:
        _override(raw, override)
    kind = raw.get("kind")
    if kind is None and "languages" in raw and "data" not in raw:
        raise MexmaError(f"{source}: `kind` is missing", "`kind: corpus` mines the texts of `languages`")
    model = Recipe if kind is None else CorpusRecipe if kind == "corpus" else DecomposeRecipe
    try:
        recipe = model.model_validate(raw)
        return recipe if isinstance(recipe, CorpusRecipe) else recipe.changed_by(changes)
    except ValidationError as error:
        changed = "".join(f" --set {override}" for override in changes)
        raise explained(" extends ".join(map(str, chain)) + changed, model, raw, error) from None


def find_recipe(source: str, folder: Path = Path()) -> Path:
    """The file of a recipe; `folder` is where a relative path starts."""
    path = folder / source
    refuse_pipe(path)
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
    near = did_you_mean(nearest_names(name, known, 3))
    hint = near + all_
    if "/" in source or path.suffix:
        return MexmaError(f"{path}: no such file", hint if near else None)
    return MexmaError(f"no recipe {source!r}", hint)


def _override(raw: dict[str, Any], override: str) -> None:
    key, equals, text = override.partition("=")
    if not equals or not key:
        raise MexmaError(f"--set {override}: expected key=value", "for example --set trainer.steps=1000")
    value: Any = text
    with contextlib.suppress(yaml.YAMLError):
        value = parsed_yaml(text) if text.strip() else Empty()
    steps = key.strip().split(".")
    if steps == ["languages"]:
        value = _by_code(value)
    elif steps[0] == "languages":
        steps[1] = _coded(steps[1])
    listed = raw.get("phases")
    # What is not a phase is named when the recipe is validated.
    phases = [phase for phase in listed if isinstance(phase, dict)] if isinstance(listed, list) else []
    names = [str(phase.get("name", "?")) for phase in phases]
    if steps[0] == "phases" and len(steps) > 2:
        if steps[1] not in names:
            raise MexmaError(f"--set {key}: no phase {steps[1]!r}", choice(steps[1], names, "phases"))
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
        inner = {} if node.get(step) in (None, "") else node[step]
        # A copy, since by an alias (`*name` in YAML) it may stand in another place too.
        node[step] = dict(inner) if isinstance(inner, dict) else inner
        node = node[step]
    if not isinstance(node, dict):
        raise MexmaError(f"--set {'.'.join(steps)}: {steps[-1]!r} is not inside a section")
    node[steps[-1]] = value


def inherited(path: Path, find: Callable[[str, Path], Path]) -> tuple[Raw, list[Path]]:
    """A recipe's keys over those that it extends (those without a `kind` in the form with `phases`), and the
    files they are from, the recipe's own first. `find` leads from what `extends` says, and the folder of the
    file that says so, to a file.

    Sections merge key by key and phases by name; any other list, and an objective of another name, replaces
    the inherited one. A `trainer` beside inherited phases is for all of them, as with ``--set trainer...``.
    Refused: a file that cannot be read, and recipes that extend each other in a circle.
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
        raw = parsed_yaml(content.decode("utf-8"), unique=True)
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
    return raw | {"languages": _by_code(raw["languages"])} if "languages" in raw else raw


def _by_code(texts: Any) -> Any:
    """Texts by the codes of their languages; one that is there twice stays, for the recipe's check."""
    if not isinstance(texts, dict) or len({*map(_coded, texts)}) < len(texts):
        return texts
    return {_coded(name): text for name, text in texts.items()}


def _coded(name: Any) -> Any:
    """The FLORES-200 code of a language that a key names: `fr` and `fra_Latn` are one key, whoever writes
    it. Names of no language stay, for the recipe's check."""
    code = languages.known(name) if isinstance(name, str) else languages.UNSTATED
    return name if code == languages.UNSTATED else code


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
    """Merge a recipe into the one that it extends, which has `phases`: `trainer` goes into every phase, and
    `objective` into the only one."""
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
    """Lay `own` over `base`: sections key by key, anything else replaced."""
    if not isinstance(base, dict) or not isinstance(own, dict):
        return own
    result = dict(base)
    for key, value in own.items():
        old = base.get(key)
        other = key == "objective" and isinstance(value, dict) and value.get("name", _name(old)) != _name(old)
        result[key] = value if key not in base or other else _merged(old, value)
    return result


def explained(path: str, model: type[Section], raw: dict[str, Any], error: ValidationError) -> MexmaError:
    """One message with every key of `raw` that is wrong, and the nearest right one for the first unknown key;
    `path` names the recipe's file, and those that it extends."""
    phases = raw["phases"] if isinstance(raw.get("phases"), list) else []
    problems: list[dict[str, Any]] = [{**one, "loc": _place(one, raw)} for one in error.errors()]
    lines: list[str] = []
    for _, of_value in groupby(problems[: 5 * _SAID], key=itemgetter("loc")):
        wrong = list(of_value)
        if (
            wrong[0]["type"] != "too_short" or not lines
        ):  # else an entry that is wrong was left out of its list
            lines.append(_line(wrong, phases))
    general = [re.sub(r"`phases\.[^.`]+\.trainer", "`trainer", line) for line in lines]
    counts = Counter(general)  # what all phases share is said once
    said = [one if counts[one] == len(phases) else own for one, own in zip(general, lines, strict=True)]
    said = list(dict.fromkeys(said))
    more = f"; and more, {len(problems):,} in all" if len(said) > _SAID else ""
    unknown = [problem["loc"] for problem in problems if problem["type"] == "extra_forbidden"]
    missing = [problem["loc"] for problem in problems if problem["type"] == "missing"]
    hint = _nearest(unknown[0], model, raw, phases) if unknown else None
    if missing and not unknown and isinstance(key := missing[0][-1], str):
        about = explanation(_section(model, missing[0][:-1], raw), key).partition(". ")[0].rstrip(".")
        hint = f"`{key}`: {about}" if about else None
    return MexmaError(f"{path}: " + "; ".join(said[:_SAID]) + more, hint)


def _place(problem: Mapping[str, Any], raw: Any) -> Place:
    """The keys that lead to a mistake in `raw`: pydantic names the types of a value among them."""
    place: list[int | str] = []
    missing = problem["loc"][-1] if problem["type"] == "missing" else None
    for part in problem["loc"]:
        inside = isinstance(raw, list) and isinstance(part, int) and part < len(raw)
        if inside or (isinstance(raw, dict) and part in raw):
            raw = raw[part]
            place.append(part)
        elif part == missing and isinstance(raw, dict | list):
            place.append(part)
    return tuple(place)


def _line(wrong: Sequence[Mapping[str, Any]], phases: list[Any]) -> str:
    """One mistake: a key, and what is wrong with its value, for each type that it may have."""
    where, kind = ".".join(_readable(wrong[0]["loc"], phases)) or "recipe", wrong[0]["type"]
    if kind == "extra_forbidden":
        return f"unknown key `{where}`"
    return f"`{where}` is missing" if kind == "missing" else f"`{where}`: {in_words(*wrong)}"


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
    near = near or nearest_names(key, known)
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
