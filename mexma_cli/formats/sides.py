"""How the two sides of pairs are told apart where a file does not say it by their order.

By the names of columns or fields (`sides_named`, `columns_of`): both stated languages, or `source` and
`target`, or what other tools call them. By tags of languages alone (`sides_among`, `choose_tags`): of fields,
of documents, and of segments of a translation memory, where there may be more than two, and regions.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from mexma_cli.errors import MexmaError
from mexma_cli.formats.bitext import FIELDS
from mexma_cli.languages import (
    UNSTATED,
    codes,
    has_region,
    known,
    members,
    own_names,
    spellings,
    subtags,
    tag_with_region,
)
from mexma_cli.languages import name as name_of

MOST_TAGS = 12
"""Tags that a message names."""
NO_SIDE = ""
"""In place of a language: nobody wants this side."""
_OF_SEVERAL = 3
"""How well a tag fits (`_grade`) of which one of several languages is wanted, or the other way round."""
_NONE_STATED = (UNSTATED, UNSTATED)
_REGION = re.compile(r"([a-z]{2,3})_(?:[a-z]{2}|\d{3})")
_OF_TEXT = re.compile(r"^(?:text|sentence|translation)_|_(?:text|sentence|translation)$")
"""What may stand beside a language in the name of a column: `text_en`, `sentence_eng_Latn`."""
_SOURCE = frozenset(
    {"source", "src", "src_text", "source_text", "source_sentence", "src_sentence", "sentence1", "sentence_1"}
    | {"sent1", "text1", "original", "origin", "src_sent", "source_segment", "anchor"}
)
_TARGET = frozenset(
    {"target", "tgt", "trg", "tgt_text", "trg_text", "target_text", "target_sentence", "tgt_sentence"}
    | {"trg_sentence", "sentence2", "sentence_2", "sent2", "text2", "translation", "translated", "tgt_sent"}
    | {"trg_sent", "target_segment", "positive"}
)
_SCORE = frozenset(
    {"score", "scores", "margin", "margin_score", "laser_score", "similarity", "cosine", "aligner_score"}
    | {"alignment_score", "bleualign", "bicleaner", "bicleaner_score", "bicleaner_ai", "bicleaner_ai_score"}
)
_OTHERS_NAMED = (
    "# no. nr. id index corpus url src_url trg_url tgt_url source_url target_url origin license hash "
    "src_lang tgt_lang trg_lang source_lang target_lang"
)
_OTHER_COLUMNS = frozenset(["", *_OTHERS_NAMED.split()])


class Columns(NamedTuple):
    """Which of `width` fields of a line are the sentences; by their names, the places of `FIELDS`; and the
    others' places and names."""

    source: int
    target: int
    width: int
    known: Mapping[str, int]
    others: Sequence[tuple[int, str]]

    @classmethod
    def at(cls, source: int, target: int, score: int | None, names: Sequence[str]) -> Columns:
        """The columns of these names, three of which are where the arguments say."""
        known, others = {} if score is None else {"score": score}, list[tuple[int, str]]()
        for place, name in enumerate(names):
            if place in (source, target, score):
                continue
            if (plain := _plain(name)) in FIELDS and plain not in known:
                known[plain] = place
            else:
                others.append((place, name))
        return cls(source, target, len(names), known, others)


@lru_cache(maxsize=4096)
def sides_named(names: tuple[str, ...], stated: tuple[str, str] = _NONE_STATED) -> tuple[int, int] | None:
    """The places of source and target among the names of columns or fields: both `stated` languages, or else
    `source` and `target`, or else names such as `src` and `tgt`; None where a side is missing."""
    plain = list(map(_plain, names))
    if sides := _both(_languages_among(plain), stated):
        return sides
    both = {"source", "target"} <= {*plain}
    found = [
        min(((name == first) != both, place) for place, name in enumerate(plain) if name in group)[1]
        for first, group in (("source", _SOURCE), ("target", _TARGET))
        if group & {*plain}
    ]
    return (found[0], found[1]) if len(found) == 2 else None


def columns_of(
    fields: Sequence[str],
    no_texts: Container[int] = (),
    stated: tuple[str, str] = _NONE_STATED,
    others: bool = False,
    where: str = "",
) -> Columns | None:
    """The columns that a header names; None for a line that is no header. The sides have names such as
    `source` and `target`, or languages, in code or in English; those that are not `stated` are refused.

    Args:
        no_texts: The places of columns of numbers or of codes (`No` is Norwegian, too).
        stated: Codes of the languages that are wanted, which choose the columns.
        others: Beside languages, columns may have any names.
    """
    names = list(map(_plain, fields))
    scores = [place for place, name in enumerate(names) if name in _SCORE]
    score = min(scores, key=lambda place: names[place] != "score", default=None)
    spoken = _languages_among(names)
    known = [name in _SCORE | _OTHER_COLUMNS for place, name in enumerate(names) if place not in spoken]
    if len(fields) > 2:
        spoken = {place: code for place, code in spoken.items() if place not in no_texts}
    if named := _both(spoken, stated) or sides_named(tuple(fields)):
        return Columns.at(*named, score, fields)
    if not others and not all(known):
        return None
    if len(spoken) > 2 and stated == _NONE_STATED:  # `id` is Indonesian, too
        bare = [_OF_TEXT.sub("", name) for name in names]
        spoken = {place: code for place, code in spoken.items() if bare[place] not in _OTHER_COLUMNS}
    if len(spoken) < 2 or len(set(spoken.values())) < 2:
        return None
    sides = _columns_spoken(spoken, stated)
    if sides is None and stated != _NONE_STATED:
        listed = ", ".join(fields[place].strip() for place in spoken)
        raise MexmaError(
            f"{where}: the columns are {listed}, and the languages {' and '.join(stated)} are stated",
            "state two that are there, or name the columns `source` and `target`",
        )
    return Columns.at(*sides, score, fields) if sides else None


def is_language(column: str) -> bool:
    """Whether the name of a column means a language."""
    return _language(_plain(column)) is not None


def _columns_spoken(spoken: Mapping[int, str], stated: tuple[str, str]) -> tuple[int, int] | None:
    """The places of source and target among columns of languages: the first two where no two languages are
    stated, and there are no more. A language in another script is the same one, if there is no nearer."""
    if stated[0] == stated[1]:
        first, second, *more = spoken
        return None if more else (first, second)
    found = []
    languages = {place: known(code) for place, code in spoken.items()}
    for language in stated:
        same = [place for place, code in languages.items() if code == language]
        near = [place for place, code in languages.items() if code.split("_")[0] == language.split("_")[0]]
        found.append(same or near)
    for side, other in (found, found[::-1]):
        if not side and UNSTATED in stated:
            side += [place for place in spoken if place not in other]
    one, other = found
    return (one[0], other[0]) if len(one) == len(other) == 1 and one != other else None


def _both(spoken: Mapping[int, str], stated: tuple[str, str]) -> tuple[int, int] | None:
    """The places of two stated languages among columns of languages; None where one is not there."""
    two = UNSTATED not in stated and stated[0] != stated[1]
    return _columns_spoken(spoken, stated) if two else None


def _languages_among(names: Sequence[str]) -> dict[int, str]:
    """The places of names that mean languages, and their codes."""
    return {place: code for place, name in enumerate(names) if (code := _language(name))}


def _plain(name: str) -> str:
    """The name of a column as the lists above have it."""
    return name.strip().strip('"').strip().lower().replace(" ", "_").replace("-", "_")


def _language(name: str) -> str | None:
    """The language that a name in a header means, and the region that stands behind it."""
    name = _OF_TEXT.sub("", name)
    found = _spoken().get(name)
    if found is None and (tag := _REGION.fullmatch(name)) and tag[1] in _spoken():
        return name
    return found


@lru_cache(maxsize=1)
def _spoken() -> dict[str, str]:
    """How a language is written in a header -> its code."""
    found = {}
    for code in codes():
        for name in (*spellings(code), name_of(code), *own_names(code)):
            found.setdefault(_plain(name), code)
    return found


class WantedSide(NamedTuple):
    """A side that is wanted, by its language.

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


def choose_tags(sides: Sequence[WantedSide], tags: Sequence[str]) -> list[str | None]:
    """The tag of each side; None where there is none, or nobody wants the side. An AmbiguousError says that a
    side means several tags, or both mean one.

    A tag that is written like the code wins. Otherwise a code without a region means the only tag of its
    language, with a region or without, and the only tag that stands for several languages with its own. Of
    several regions of the language, the first one is taken.
    """
    grades = [[_grade(side, tag) for tag in tags] for side in sides]
    exact = [tags[row.index(0)] if 0 in row else None for row in grades]
    chosen: list[str | None] = []
    for side, row, other in zip(sides, grades, exact[::-1], strict=True):
        left = [(grade, tag) for grade, tag in zip(row, tags, strict=True) if grade == 0 or tag != other]
        best = min((grade for grade, _ in left if grade is not None), default=None)
        found = [tag for grade, tag in left if grade == best and grade is not None]
        if len(found) > 1 and best == _OF_SEVERAL:
            raise AmbiguousError(side.tag, found)
        chosen.append(found[0] if found else None)
    if chosen[0] is not None and chosen[0] == chosen[1]:
        raise AmbiguousError(f"{sides[0].tag} and {sides[1].tag}", [chosen[0]])
    return chosen


def sides_among(
    languages: tuple[str, str], names: Sequence[str], where: str, options: str
) -> tuple[list[str], tuple[str, str]]:
    """The names of languages that are source and target, "" where one is missing; none where both are. Also
    the languages of the sides, from then on: where one is not stated, it is the name that is left.

    Refused: more languages than two that are not stated, and a side that may be several. Among the names,
    those that are no languages are passed over. `options` say how the user of the command states languages;
    empty if there is no way.
    """
    tags = [name for name in names if known(name) != UNSTATED]
    hint = f"state which: {options}" if options else None
    wanted_sides = [WantedSide(NO_SIDE if language == UNSTATED else language) for language in languages]
    try:
        chosen = choose_tags(wanted_sides, tags)
    except AmbiguousError as error:
        raise MexmaError(f"{where}: {error.side} may be {' and '.join(error.tags)}", hint) from None
    others, wanted = [tag for tag in tags if tag not in chosen], languages.count(UNSTATED)
    if len(others) > wanted:
        others = one_region(others, chosen)
    if wanted and len(others) > wanted:
        raise MexmaError(f"{where} has {', '.join(tags[:MOST_TAGS])}; two languages are read", hint)
    if len(others) < wanted or not (wanted or any(chosen)):
        return [], languages
    both = list(zip(languages, chosen, strict=True))
    found = [others.pop(0) if language == UNSTATED else tag or "" for language, tag in both]
    if wanted:
        first, second = (tag if own == UNSTATED else own for own, tag in zip(languages, found, strict=True))
        languages = as_codes((first, second))
    return found, languages


def one_region(tags: Sequence[str], taken: Iterable[str | None]) -> list[str]:
    """The first tag of each language but those that are taken already."""
    languages = {known(tag) for tag in taken if tag is not None}
    found = []
    for tag in tags:
        if known(tag) == UNSTATED or known(tag) not in languages:
            languages.add(known(tag))
            found.append(tag)
    return found


@lru_cache(maxsize=4096)
def _grade(side: WantedSide, tag: str) -> int | None:
    """How well a tag fits a side, the less the better; None if it does not fit."""
    if side.tag == NO_SIDE:
        return None
    stated, other = (tag_with_region(one) or one for one in (side.tag, tag))
    if subtags(stated) == subtags(other):
        return 0
    wanted, found = known(side.tag), known(tag)
    if wanted == found != UNSTATED:
        if not has_region(tag):
            return 1
        return None if side.strict and has_region(side.tag) else 2
    return _OF_SEVERAL if found in members(side.tag) or wanted in members(tag) else None


def as_codes(tags: tuple[str, str]) -> tuple[str, str]:
    """FLORES-200 codes of two tags as far as there are any and they differ; else the tags themselves."""
    first, second = (tag if known(tag) == UNSTATED else known(tag) for tag in tags)
    return tags if first == second else (first, second)
