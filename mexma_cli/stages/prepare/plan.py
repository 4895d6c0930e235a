"""The plan of `prepare`: files, pairs and disk by language and corpus, and missing files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from mexma_cli.settings.training import Data
from mexma_cli.stages.prepare.corpora import Bitext, find_bitexts
from mexma_cli.stages.prepare.language import Quota
from mexma_cli.stages.prepare.prepare import chains_of, excluded_files
from mexma_cli.stages.prepare.selection import BYTES_PER_PAIR
from mexma_cli.text.lines import TextSize, estimate_size

BYTES_PER_TOKEN = 4
"""Bytes of UTF-8 text; tokens of XLM-R are longer in most languages, so that estimates are too high."""
_ID = 4
_OFFSETS = 16


@dataclass(frozen=True)
class PlannedCorpus:
    """One corpus in one language, before anything is done.

    Attributes:
        files: Files, or members of zips.
        pairs: Pairs in the files, before any filter.
        counted: `pairs` was counted, and not estimated from the beginnings and sizes of the files.
        used: Pairs that the caps leave, if no pair is dropped for another reason.
        disk: Bytes of the store, estimated.
    """

    corpus: str
    language: str
    target: str
    files: int
    pairs: int
    counted: bool
    used: int
    disk: int
    looked: str


@dataclass(frozen=True)
class PreparePlan:
    """The corpora in the order of the recipe, what has to be found or taken out of the recipe before
    `prepare` can run, and bytes of temporary files at most, with one process."""

    corpora: list[PlannedCorpus]
    missing: list[str]
    temporary: int


def plan_data(data: Data, on_progress: Callable[[int, int, str], object]) -> PreparePlan:
    """Look at the files of a recipe and write nothing; `on_progress` is told corpora done, corpora in all,
    and which is looked at."""
    bitexts, missing = find_bitexts(data)
    missing += excluded_files(data)[1]
    planned: dict[str, PlannedCorpus] = {}
    looks: dict[Path, TextSize] = {}
    for chain in chains_of(data, bitexts):
        for bitext in chain:
            on_progress(len(looks), len(bitexts), bitext.label)
            looks[bitext.path] = _look(bitext)
        quota = Quota.of(data, chain, lambda bitext, most: looks[bitext.path].lines)
        for bitext in chain:
            found = _planned(bitext, looks[bitext.path], quota.limit(bitext), data.negatives)
            planned[str(bitext.path)] = found
            quota.kept += found.used
    on_progress(len(bitexts), len(bitexts), "")
    rows = [planned[str(bitext.path)] for bitext in bitexts]
    largest = max((row.pairs for row in rows if row.used), default=0)
    return PreparePlan(rows, [error.message for error in missing], BYTES_PER_PAIR * largest)


def _planned(bitext: Bitext, look: TextSize, limit: int | None, negatives: int) -> PlannedCorpus:
    """A corpus, of whose files `_look` said something."""
    pairs, size, counted = look
    used = pairs if limit is None else min(pairs, limit)
    sides = 1 + negatives / 2  # as many hard negatives as there may be, as long as a side is
    disk = round(used * sides * (size / max(1, pairs) / BYTES_PER_TOKEN * _ID + _OFFSETS)) if used else 0
    corpus, files = bitext.corpus, len(bitext.files)
    of = corpus.name, bitext.language, corpus.target
    return PlannedCorpus(*of, files, pairs, counted, used, disk, bitext.looked)


def _look(bitext: Bitext) -> TextSize:
    """A corpus's pairs and their bytes of text, and whether the pairs were counted."""
    pairs, size, counted = 0, 0, True
    for part in bitext.parts:
        found = [estimate_size(file) for file in part.files]
        pairs += found[0].lines
        size += sum(text.size for text in found)
        counted &= found[0].counted
    return TextSize(pairs, size, counted)
