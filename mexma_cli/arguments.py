"""The types of the public API's arguments, and the one check of all calls against them."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from numbers import Integral, Real
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, Literal, Unpack, get_args, get_origin, get_type_hints

import numpy as np

from mexma_cli.encoder.encoder import SentenceEncoder
from mexma_cli.errors import MexmaError, did_you_mean, nearest_names
from mexma_cli.settings.keywords import (
    AlignKeywords,
    EmbedKeywords,
    JudgingKeywords,
    MineKeywords,
    RuleKeywords,
    ScoreKeywords,
    SplitKeywords,
    TuneKeywords,
)
from mexma_cli.settings.section import alternatives_of, choices_of, shown_value
from mexma_cli.settings.stages import IdentifierName
from mexma_cli.store.embeddings import EmbeddingStore

__all__ = [
    "AlignKeywords",
    "Count",
    "EmbedKeywords",
    "Encoder",
    "IdentifierName",
    "JudgingKeywords",
    "MineKeywords",
    "Name",
    "Progress",
    "RuleKeywords",
    "ScoreKeywords",
    "SplitKeywords",
    "Text",
    "TuneKeywords",
    "Vectors",
]

Name = str | Path
Text = Name | EmbeddingStore
"""An embedding store, open or by its path, or a text file with one sentence a line."""
Encoder = Name | SentenceEncoder
"""A name, a folder, or a loaded encoder."""
Vectors = np.ndarray | EmbeddingStore
Count = Annotated[int, "1 or more"]
Progress = Callable[[int, int], object]
"""Called with what is done, and how much there is in all, 0 where nobody knows; by each step of the work."""


def fitted(
    function: Callable[..., Any], given: Sequence[Any], named: Mapping[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of a call, as the types of the function's parameters and settings want them: numbers of
    NumPy as Python's. Refused: one of another type, and a choice that there is not. Names that the function
    does not have are left to it."""
    types = types_of(function)
    first = [_fitted(value, types[name], f"`{name}`") for name, value in zip(types, given, strict=False)]
    rest = {
        name: _fitted(value, types[name], f"`{name}`") if name in types else value
        for name, value in named.items()
    }
    return (*first, *given[len(first) :]), rest


@cache
def types_of(function: Callable[..., Any]) -> dict[str, Any]:
    """The parameters' types in their order, and behind them those of the settings."""
    found = {}
    for name, written in function.__annotations__.items():
        if name != "return":  # whose type is imported by the function alone
            type_ = eval(written, globals())
            found |= get_type_hints(get_args(type_)[0]) if get_origin(type_) is Unpack else {name: type_}
    return found


def _fitted(value: Any, type_: Any, place: str) -> Any:
    alternatives, within = alternatives_of(type_), None
    if Path in alternatives and isinstance(value, os.PathLike):
        value = Path(value)
    for one in alternatives:
        if _is(value, one):
            try:
                return _taken(value, one, place)
            except MexmaError as error:
                within = within or error
    if within is not None:
        raise within
    hint = (
        did_you_mean(nearest_names(value, choices_of(alternatives))).strip() if isinstance(value, str) else ""
    )
    if {str, EmbeddingStore} <= {*alternatives}:
        hint = "write sentences to a file, one a line"
    raise MexmaError(f"{place}: should be {_in_words(type_)} (is {shown_value(value)})", hint or None)


def _is(value: Any, type_: Any) -> bool:
    """Whether a value is of a type that has no alternatives; what is in it is not looked at."""
    kind, parts = get_origin(type_) or type_, get_args(type_)
    if kind is Literal:
        return isinstance(value, str) and value in parts
    if kind is Annotated:
        return _is(value, parts[0]) and value >= 1
    if kind is Callable:
        return callable(value)
    if kind is tuple:
        return isinstance(value, list | tuple) and len(value) == len(parts)
    if kind in (Sequence, Iterable):
        return isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping)
    if kind in (int, float) and isinstance(value, bool):
        return False
    return isinstance(value, {bool: (bool, np.bool_), int: Integral, float: Real}.get(kind, kind))


def _taken(value: Any, type_: Any, place: str) -> Any:
    """A value of a type, and what is in it."""
    kind = get_origin(type_)
    if kind is Annotated:
        return _taken(value, get_args(type_)[0], place)
    if kind in (tuple, Sequence, Iterable):
        parts = get_args(type_)
        if kind is Sequence and isinstance(value, set | frozenset):  # files, in the same order every time
            value = sorted(value, key=str)
        items = (
            _fitted(item, parts[0], f"{place}, item {number}") for number, item in enumerate(value, 1)
        )  # of an Iterable looked at when they are asked for
        return items if kind is Iterable else list(items) if kind is Sequence else tuple(items)
    if type_ in (bool, int, float) and not isinstance(value, int | float):
        return type_(value)  # of NumPy
    return value


_WORDS = {
    NoneType: "None",
    bool: "True or False",
    int: "a whole number",
    float: "a number",
    str: "text",
    Path: "a path",
    Callable: "a function",
    np.ndarray: "an array",
    EmbeddingStore: "an EmbeddingStore",
    SentenceEncoder: "a SentenceEncoder",
}


def _in_words(type_: Any) -> str:
    """A type in words, for the message that a value is not of it."""
    alternatives, found = alternatives_of(type_), list[str]()
    for one in alternatives:
        kind, parts = get_origin(one) or one, get_args(one)
        if kind is Literal:
            found += map(repr, parts)
        elif kind is Annotated:
            found.append(f"{_in_words(parts[0])} of {parts[1]}")
        elif kind in (tuple, Sequence, Iterable):
            each = _in_words(parts[0])
            several = re.sub(r"\ban? (\w+)|\btext\b", lambda word: f"{word[1] or word[0]}s", each)
            found.append(f"a {'pair' if kind is tuple else 'list'} of {several}")
        elif kind is not str or Path not in alternatives:  # a path is text, too
            found.append(_WORDS[kind])
    return " or ".join(filter(None, (", ".join(found[:-1]), found[-1])))
