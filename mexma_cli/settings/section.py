"""The base class of all models of settings, and how a field becomes an option of a command."""

from __future__ import annotations

import ast
import inspect
import logging
import re
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from types import UnionType
from typing import Annotated, Any, Literal, Self, Union, get_args, get_origin

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    ValidatorFunctionWrapHandler,
    field_validator,
)
from pydantic_core import PydanticCustomError

from mexma_cli.errors import MexmaError


def _in_utf8(name: str) -> str:
    try:
        name.encode()
    except UnicodeEncodeError:
        raise ValueError("the tokeniser's library takes only names that are UTF-8") from None
    return name


def _a_number(value: float) -> float:
    if value != value:
        raise ValueError("no score is above or below nan")
    return value


PHASE_NAME, _RUN_NAME = "^[a-z0-9][a-z0-9_-]*$", "^[A-Za-z0-9][A-Za-z0-9._-]*$"
_PATTERNS = {
    PHASE_NAME: "should be of a to z, digits, `_` and `-`, with a letter or a digit first",
    _RUN_NAME: "should be of A to Z, a to z, digits, `.`, `_` and `-`, with a letter or a digit first",
}
"""The patterns of texts, in words."""

_TYPES = {
    "bool_parsing": "should be true or false",
    "bool_type": "should be true or false",
    "dict_type": "should be a section, with `key: value` lines",
    "float_parsing": "should be a number",
    "float_type": "should be a number",
    "int_from_float": "should be a whole number",
    "int_parsing": "should be a whole number",
    "int_type": "should be a whole number",
    "list_type": "should be a list",
    "model_attributes_type": "should be a section, with `key: value` lines",
    "model_type": "should be a section, with `key: value` lines",
    "path_type": "should be text, which may need quotes",
    "string_type": "should be text, which may need quotes",
    "too_long": "should have at most {max_length} entries",
    "too_short": "should have at least {min_length} entries",
    "tuple_type": "should be a list",
}
"""Pydantic's kinds of errors whose words are of Python -> what is said of them."""


def in_a_tuple(value: object) -> object:
    """A text where a list may be is a list of one."""
    return (value,) if isinstance(value, str) else value


Folder = Annotated[str, AfterValidator(_in_utf8)]
"""A folder in which a tokeniser is saved."""

RunName = Annotated[str, Field(pattern=_RUN_NAME)]
"""The name of a run, which its files and folders have in theirs."""

Score = Annotated[float, Field(allow_inf_nan=True), AfterValidator(_a_number)]
"""A number that scores are compared with; it may be infinite."""


class Empty(str):
    """A value of a setting that is nothing as it was typed: null where the setting may be that, else a text
    without characters."""

    __slots__ = ()


@dataclass(frozen=True)
class Option:
    """In the `Annotated` type of a field: commands have the field as an option.

    Attributes:
        section: The heading in the help.
        metavar: What the help calls the value.
        flags: How the option is written; none for the field's name.
        unset: What is done where no value is given, for a field whose default is None.
        values: Those of the field's values that the option takes; none for all.
    """

    section: str = "Options"
    metavar: str | None = None
    flags: tuple[str, ...] = ()
    unset: str | None = None
    values: tuple[str, ...] = ()


IN_PYTHON = {
    "model": "encoder",
    "neighbourhood": "k",
    "set": "overrides",
    "o": "output",
    **dict.fromkeys(("source", "target"), "ids"),
    **dict.fromkeys(("lang", "langs", "source_lang", "target_lang"), "languages"),
}
"""Options of the commands that are keywords of another name."""


class Section(BaseModel):
    """A part of a recipe: frozen, and unknown keys are refused. The string below a field explains it."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        populate_by_name=True,
        allow_inf_nan=False,
        defer_build=True,  # until something is validated: --help does not wait for it
    )

    @field_validator("*", mode="wrap")
    @classmethod
    def _true_is_no_number(cls, given: Any, taken: ValidatorFunctionWrapHandler) -> Any:
        if isinstance(given, Empty):
            with suppress(ValidationError):
                return taken(None)
            given = ""
        found = taken(given)
        if isinstance(given, bool) and not isinstance(found, bool):
            raise PydanticCustomError("number_type", "should be a number")
        return found

    @classmethod
    def kinds(cls) -> dict[str, type[Section]]:
        """The sections that may stand in place of this one, by name: only itself where there is no choice."""
        return {"": cls}

    @classmethod
    def of(cls, settings: Mapping[str, Any], names: Collection[str] = ()) -> Self:
        """The settings that a caller of the Python API names, perhaps of these `names` alone; a TypeError
        says that there is no such setting, a MexmaError that a value does not fit."""
        known = names or cls.model_fields
        for name in settings:
            if name in known:
                continue
            if name in IN_PYTHON:
                raise TypeError(f"unknown setting {name!r}: in Python it is `{IN_PYTHON[name]}`")
            raise TypeError(f"unknown setting {name!r}; there are: {', '.join(known)}")
        try:
            return cls(**settings)
        except ValidationError as error:
            name = error.errors()[0]["loc"][0]
            wrong = [one for one in error.errors() if one["loc"][0] == name]
            raise MexmaError(f"`{name}`: {in_words(*wrong)}") from None

    def but(self, **changes: Any) -> Self:
        """These settings with other values, which are taken as they are."""
        return self.model_copy(update=changes)

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        """What differs from the defaults."""
        for name, value in super().__repr_args__():
            if value != type(self).model_fields[str(name)].get_default(call_default_factory=True):
                yield name, value

    def to_yaml(self) -> str:
        """The settings as YAML; a whole recipe is kept so beside its output."""
        import yaml

        raw = self.model_dump(mode="json", by_alias=True)
        return yaml.safe_dump(raw, sort_keys=False, allow_unicode=True)


def kinds_of(annotation: Any) -> dict[str, type[Section]]:
    """The sections that a value of this type may be, or may have in its list, by name."""
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return annotation.kinds()
    return {name: kind for part in get_args(annotation) for name, kind in kinds_of(part).items()}


def in_words(*wrong: Mapping[str, Any]) -> str:
    """Pydantic's descriptions of a wrong value, one for each type that it may have, in our words, with the
    value if it is short."""
    for one in wrong:
        if one["type"] == "value_error":
            return one["msg"].removeprefix("Value error, ")  # which has the value
    first, *others = dict.fromkeys(map(_should_be, wrong))
    said = " or ".join([first, *(other.removeprefix("should be ") for other in others)])
    given = wrong[0]["input"]
    if isinstance(given, dict | list):
        return f"{said} (is a {'section' if isinstance(given, dict) else 'list'})"
    told = of_percent(given) if any(one.get("ctx", {}).get("le") == 1 for one in wrong) else ""
    return f"{said} (is {'null' if given is None else shown_value(given)}){told}"


def _should_be(wrong: Mapping[str, Any]) -> str:
    ctx = wrong.get("ctx", {})
    if wrong["type"] == "string_pattern_mismatch":
        return _PATTERNS[ctx["pattern"]]
    return _TYPES.get(wrong["type"], "").format(**ctx) or wrong["msg"].removeprefix("Input ")


def first_mistake(error: ValidationError) -> str:
    """The first of the mistakes in a file: a key, and what is wrong with it."""
    wrong = error.errors()[0]
    where = ".".join(map(str, wrong["loc"]))
    return f"`{where}` is missing" if wrong["type"] == "missing" else f"`{where}`: {in_words(wrong)}"


def shown_value(given: Any) -> str:
    """A value as a message has it."""
    found = " ".join(repr(given).split())
    return found if len(found) <= 80 else f"{found[:77]}..."


def of_percent(given: Any) -> str:
    """The end of a message about a number that should be a share, if it is one in percent."""
    is_one = isinstance(given, int | float) and 1 < given <= 100
    return f"; did you mean {given / 100:g}?" if is_one else ""


def option_of(section: type[Section], name: str) -> Option | None:
    """How a field is an option of commands; None if it is none."""
    return next((one for one in section.model_fields[name].metadata if isinstance(one, Option)), None)


_OPTION = re.compile(r"`mexma [^`]*`|(?<![\w-])--?([a-z][a-z-]*)(?![\w./=])(?: ([^\s,;:)`]+))?")
"""In a message: a command, which stays, or an option, perhaps with its value."""


def change_options(
    said: str,
    known: Callable[[str], tuple[str, Any] | None],
    given: Callable[[str, str, Sequence[Any]], str],
    commands: Callable[[str], str] = lambda name: "",
) -> str:
    """A message with something else in place of the options of a command: `known` says what is meant by one
    (`k`, `min_aligned`), and its type, and `given` writes that with a value (True: that of a flag), for the
    types that it may have. `commands` says what stands in place of a command; empty: it stays."""

    def named(found: re.Match[str]) -> str:
        if found[1] is None:
            return commands(found[0].strip("`").split()[1]) or found[0]
        meant, value = known(found[1].replace("-", "_")), found[2] or ""
        if meant is None:
            return found[0]
        name, kinds = meant[0], alternatives_of(meant[1])
        if bool in kinds:
            return f"{given(name, 'True', kinds)} {value}".rstrip()
        last = found.end() == len(said)
        if value[:1].isdigit() or "=" in value or (value and (last or value in choices_of(kinds))):
            return given(name, value, kinds)
        return f"`{name}` {value}".rstrip()

    return re.sub(r"(`[a-z]+`) and \1", r"\1", _OPTION.sub(named, said))


_reworded: ContextVar[Callable[[str], str] | None] = ContextVar("_reworded", default=None)
"""How the calls of Python that run here say what names options of commands."""


@cache
def _reword_notes() -> None:
    """Have notes and warnings of this package reworded when they are made, whichever handler shows them."""
    made_before = logging.getLogRecordFactory()

    def made(*args: Any, **named: Any) -> logging.LogRecord:
        record, reworded = made_before(*args, **named), _reworded.get()
        if reworded and record.name.split(".")[0] == "mexma_cli":
            record.msg, record.args = reworded(record.getMessage()), ()
        return record

    logging.setLogRecordFactory(made)


@contextmanager
def naming_keywords(types: Mapping[str, Any]) -> Iterator[None]:
    """Errors that come out of here, and notes and warnings, name keywords of Python, which have these types,
    in place of the options of commands."""

    def known(option: str) -> tuple[str, Any] | None:
        name = option if option in types else IN_PYTHON.get(option, "")
        if option == "encoding" and option not in types:  # a few functions have such a keyword
            return "os.environ['MEXMA_ENCODING']", str
        return (name, types[name]) if name in types else None

    def given(name: str, value: str, kinds: Sequence[Any]) -> str:
        number = re.fullmatch("[0-9.]+|True", value)
        several = Sequence in map(get_origin, kinds)
        return f"{name}={value if number else [value] if several else repr(value)}"

    def reworded(said: str) -> str:
        return change_options(said, known, given)

    _reword_notes()
    before = _reworded.set(reworded)
    try:
        yield
    except MexmaError as error:
        error.reword(reworded(error.message), reworded(error.hint or "") or None)
        raise
    finally:
        _reworded.reset(before)


def with_keys(said: str, sections: Mapping[str, type[Section]]) -> str:
    """A message with keys of a recipe in place of the options of commands, and of commands that are keys;
    `sections` are the places where these keys stand, with their models."""

    def known(option: str) -> tuple[str, Any] | None:
        for place, section in sections.items():
            if option in section.model_fields:
                return f"{place}.{option}", section.model_fields[option].annotation
        return None

    def given(key: str, value: str, kinds: Sequence[Any]) -> str:
        if value == "True":
            return f"`{key}: true`"
        return f"`{key}: [{value}]`" if tuple in map(get_origin, kinds) else f"`{key}: {value}`"

    def section_of(command: str) -> str:
        places = (place for place, section in sections.items() if command in section.model_fields)
        return "".join(f"`{place}.{command}: {{}}`" for place in places)

    return change_options(said, known, given, section_of).replace("` `", "` and `")


_OF_OTHERS = re.compile(r"(?<![\w-])--(?!encoding\b)[a-z]")


@contextmanager
def naming_keys(sections: Mapping[str, type[Section]]) -> Iterator[None]:
    """Errors that come out of here are `with_keys`; what their hints say of other options is left out."""
    try:
        yield
    except MexmaError as error:
        parts = with_keys(error.hint or "", sections).split("; ")
        hint = "; ".join(part for part in parts if not _OF_OTHERS.search(re.sub("`[^`]*`", "", part)))
        error.reword(with_keys(error.message, sections), hint or None)
        raise


def alternatives_of(type_: Any) -> list[Any]:
    """The types that a union has; of any other type, that one."""
    return list(get_args(type_)) if get_origin(type_) in (Union, UnionType) else [type_]


def choices_of(alternatives: Sequence[Any]) -> list[str]:
    """The texts that types allow by name."""
    return [name for one in alternatives if get_origin(one) is Literal for name in get_args(one)]


def explanation(section: type[Section], name: str) -> str:
    """The string below a field, or what a section that this one is derived from says there."""
    own = (one for one in section.__mro__ if issubclass(one, Section) and one is not Section)
    texts = (_strings_below_fields(one.__module__).get((one.__name__, name)) for one in own)
    return next(filter(None, texts), "")


@cache
def _strings_below_fields(module: str) -> dict[tuple[str, str], str]:
    """For each class of a module and each of its fields: the string below the field."""
    found = {}
    for section in ast.parse(inspect.getsource(sys.modules[module])).body:
        for line, after in pairwise(section.body if isinstance(section, ast.ClassDef) else ()):
            match line, after:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                    assert isinstance(section, ast.ClassDef)
                    found[section.name, name] = " ".join(text.split())
    return found
