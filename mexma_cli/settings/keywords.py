"""The settings that functions of the public API take as keywords, for editors and type checkers.

They are the fields of the models beside this file, which explain them; a test compares the two.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal, TypedDict

from mexma_cli.settings.stages import IdentifierName, Kind, MarginName, Retrieval, StoreType


class ScoreKeywords(TypedDict, total=False):
    """Keywords of `evaluate` and `search`."""

    margin: MarginName
    k: int


class JudgingKeywords(ScoreKeywords, total=False):
    """Keywords of `score`."""

    classifier: str | Path | None
    plugin: str | Path | None


class MineKeywords(JudgingKeywords, total=False):
    """Keywords of `mine`."""

    score: Literal["margin", "probability"] | None
    retrieval: Retrieval | Literal["all"]
    threshold: float | Literal["auto"] | None
    precision: float | None
    max_score: float | None
    drop_copies: bool
    top: int | None
    index: str
    recall: float
    memory: int | str | None


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
    lid: IdentifierName
    lid_model: str | Path | None


class SplitKeywords(RuleKeywords, total=False):
    """Keywords of `split`."""

    document: Literal["line", "blank", "file"]
    format: Kind | None
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
    store_dtype: StoreType
