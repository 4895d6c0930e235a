"""The settings that functions of the public API take as keywords, for editors and type checkers.

Made by `make docs` from the models beside this file, which explain them; do not edit it here.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal, TypedDict


class ScoreKeywords(TypedDict, total=False):
    """Keywords of `evaluate` and `search`."""

    margin: Literal["ratio", "distance", "absolute"]
    k: int


class JudgingKeywords(ScoreKeywords, total=False):
    """Keywords of `score`."""

    classifier: str | Path | None
    plugin: str | Path | None


class MineKeywords(JudgingKeywords, total=False):
    """Keywords of `mine`."""

    index: str
    recall: float
    memory: int | str | None
    score: Literal["margin", "probability"] | None
    retrieval: Literal["max", "intersect", "forward", "backward"] | Literal["all"]
    threshold: float | Literal["auto"] | None
    precision: float | None
    max_score: float | None
    drop_copies: bool
    top: int | None


class AlignKeywords(TypedDict, total=False):
    """Keywords of `align`."""

    max_size: int
    threshold: float | None
    min_aligned: float | None
    chunks: int | None
    keep: Literal["all", "1-1"]


class RuleKeywords(TypedDict, total=False):
    """Keywords of `filter`."""

    on: Sequence[str]
    off: Sequence[str]
    lid: Literal["py3langid", "heliport", "none"]
    lid_model: str | Path | None


class SplitKeywords(RuleKeywords, total=False):
    """Keywords of `split`."""

    document: Literal["line", "blank", "file"]
    format: Literal["text", "jsonl", "tmx", "html", "warc"] | None
    text_field: str
    id_field: str
    error_pages: bool
    keep_html: bool
    splitter: Literal["auto", "sentencex", "moses", "sat"]
    splitter_model: str | None


class EmbedKeywords(TypedDict, total=False):
    """Keywords of `embed`."""

    clean: bool
    no_normalise: bool
    store_dtype: Literal["float16", "float32", "int8"]


class TuneKeywords(JudgingKeywords, total=False):
    """Keywords of `tune`."""

    score: Literal["margin", "probability"] | None
    retrieval: Literal["max", "intersect", "forward", "backward"] | Literal["all"]
    max_score: float | None
    drop_copies: bool
