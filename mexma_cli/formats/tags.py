"""Which of a unit's languages are the two sides that are wanted, by the tags that are written in the file."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from mexma_cli.languages import UNSTATED, known, members

NO_SIDE = ""
"""In place of a language: nobody wants this side."""
_PARTS = re.compile("[-_.@]")
_REGION = re.compile(r"[A-Za-z]{2}|\d{3}")


class Side(NamedTuple):
    """A side that is wanted.

    Attributes:
        tag: The code that the user wrote, or the file.
        strict: Of a language with a region other regions are not meant, too.
    """

    tag: str
    strict: bool = True


class AmbiguousError(Exception):
    """The tags that a side may mean, or the one that both sides mean."""

    def __init__(self, side: str, tags: Sequence[str]) -> None:
        super().__init__(side, tags)
        self.side, self.tags = side, tags


def choose(sides: Sequence[Side], tags: Sequence[str]) -> list[str | None]:
    """The tag of each side; None where there is none, or nobody wants the side.

    A tag that is written like the code wins. Otherwise a code without a region means the only tag of its
    language, with a region or without, and the only tag that stands for several languages with its own.

    Raises:
        AmbiguousError: A side means several tags, or both mean one.
    """
    grades = [[_grade(side, tag) for tag in tags] for side in sides]
    exact = [tags[row.index(0)] if 0 in row else None for row in grades]
    chosen: list[str | None] = []
    for side, row, other in zip(sides, grades, exact[::-1], strict=True):
        left = [(grade, tag) for grade, tag in zip(row, tags, strict=True) if grade == 0 or tag != other]
        best = min((grade for grade, _ in left if grade is not None), default=None)
        found = [tag for grade, tag in left if grade == best and grade is not None]
        if len(found) > 1:
            raise AmbiguousError(side.tag, found)
        chosen.append(found[0] if found else None)
    if chosen[0] is not None and chosen[0] == chosen[1]:
        raise AmbiguousError(f"{sides[0].tag} and {sides[1].tag}", [chosen[0]])
    return chosen


@lru_cache(maxsize=4096)
def _grade(side: Side, tag: str) -> int | None:
    """How well a tag fits a side, the less the better; None if it does not fit."""
    if side.tag == NO_SIDE:
        return None
    if _parts(side.tag) == _parts(tag):
        return 0
    wanted, found = known(side.tag), known(tag)
    if wanted == found != UNSTATED:
        if not _has_region(tag):
            return 1
        return None if side.strict and _has_region(side.tag) else 2
    return 3 if found in members(side.tag) or wanted in members(tag) else None


def _parts(tag: str) -> list[str]:
    return _PARTS.split(tag.lower())


def _has_region(tag: str) -> bool:
    return any(_REGION.fullmatch(part) for part in _PARTS.split(tag)[1:])


def as_codes(tags: tuple[str, str]) -> tuple[str, str]:
    """FLORES-200 codes of two tags as far as there are any and they differ; else the tags themselves."""
    first, second = (tag if known(tag) == UNSTATED else known(tag) for tag in tags)
    return tags if first == second else (first, second)
