"""Header lines of TSV and CSV, as OPUS, OpusCleaner, Bitextor, data frames and spreadsheets write them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from mexma_cli import languages

_REGION = re.compile(r"([a-z]{2,3})_(?:[a-z]{2}|\d{3})")
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
    | {"alignment_score", "bleualign", "bicleaner_score", "bicleaner_ai_score"}
)
_OTHERS = frozenset(
    {
        "",
        "id",
        "index",
        "corpus",
        "url",
        "src_url",
        "trg_url",
        "tgt_url",
        "source_url",
        "target_url",
        "origin",
    }
    | {"license", "hash", "src_lang", "tgt_lang", "trg_lang", "source_lang", "target_lang"}
)


class Columns(NamedTuple):
    """Which of `width` fields of a line are the sentences and, if there is one, the score."""

    source: int
    target: int
    score: int | None
    width: int


def columns_of(fields: Sequence[str]) -> Columns | None:
    """The columns that a header names; None for a line that is no header.

    The sides have names such as `source` and `target`, or two languages, in code or in English.
    """
    names = [field.strip().strip('"').strip().lower().replace(" ", "_").replace("-", "_") for field in fields]
    score = next((place for place, name in enumerate(names) if name in _SCORE), None)
    sources = [place for place, name in enumerate(names) if name in _SOURCE]
    targets = [place for place, name in enumerate(names) if name in _TARGET]
    if sources and targets:
        return Columns(sources[0], targets[0], score, len(fields))
    spoken = [place for place, name in enumerate(names) if _language(name)]
    if len(spoken) > 2:  # `id` is Indonesian, too
        spoken = [place for place in spoken if names[place] not in _OTHERS]
    others = (name for place, name in enumerate(names) if place not in spoken)
    if len(spoken) == 2 and all(name in _SCORE | _OTHERS for name in others):
        first, second = spoken
        if _language(names[first]) != _language(names[second]):
            return Columns(first, second, score, len(fields))
    return None


def _language(name: str) -> str | None:
    """The language that a name in a header means, and the region that stands behind it."""
    found = _spoken().get(name)
    if found is None and (tag := _REGION.fullmatch(name)) and tag[1] in _spoken():
        return name
    return found


@lru_cache(maxsize=1)
def _spoken() -> dict[str, str]:
    """How a language is written in a header -> its code."""
    found = {}
    for code in languages.codes():
        found[languages.name(code).lower().replace(" ", "_")] = code
        for name in languages.spellings(code):
            found[name.lower()] = code
    return found
