"""The sentences of chosen rows, and those of mined pairs with ranks and means, kept on disk until written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import NamedTuple

import numpy as np

from mexma_cli.mining.candidates import Candidates
from mexma_cli.mining.lists import Lists
from mexma_cli.mining.margin import mean_of
from mexma_cli.mining.match import rank_of
from mexma_cli.store.embeddings import StorePair
from mexma_cli.store.spool import Spool, Table, TextSpool, distinct
from mexma_cli.text.amounts import brief

_LINES = 1 << 16  # read at a time


class KeptTexts:
    """The sentences of some rows, int64 [n] in any order, repeated or not, of a text whose sentences are read
    once, in order: 16 bytes of memory each, the text in a temporary file."""

    def __init__(self, sentences: Iterator[str], rows: np.ndarray) -> None:
        self._rows = distinct(rows)
        self._ends = np.zeros(len(self._rows) + 1, dtype=np.int64)
        self._texts = TextSpool()
        self._fill(sentences)

    def take(self, rows: np.ndarray) -> list[str]:
        """The sentences of some of the rows, in their order."""
        places = np.searchsorted(self._rows, rows)
        ends = self._ends[places + 1]
        return self._texts.read(ends, ends - self._ends[places])

    def _fill(self, sentences: Iterator[str]) -> None:
        first = done = 0
        while done < len(self._rows) and (block := list(islice(sentences, _LINES))):
            until = int(np.searchsorted(self._rows, first + len(block)))
            sizes = self._texts.write(block[row] for row in (self._rows[done:until] - first).tolist())
            self._ends[done + 1 : until + 1] = self._ends[done] + np.cumsum(sizes)
            first, done = first + len(block), until


_PLACES = 1 << 18  # pairs of a bucket, if there are not more than `_BUCKETS` of them
_BUCKETS = 100  # at most, since a process may have 1024 files open
_ROW = np.dtype([("row", "<i8"), ("other", "<i8"), ("place", "<i8")])
_RECORD = np.dtype([("place", "<i8"), ("size", "<i4"), ("rank", "<i4"), ("mean", "<f4")])


class Ranks(NamedTuple):
    """Ranks of rows of one side among the neighbours of rows of the other, int64 [n] (1 = nearest, 0 = not
    among them), and the mean cosines of these neighbours, float32 [n]."""

    rank: np.ndarray
    mean: np.ndarray


LookUp = Callable[[np.ndarray, np.ndarray], Ranks]
"""From rows of one side, ascending, and rows of the other, int64 [n] each, to the ranks of the latter."""


def ranks_in(lists: Lists, twins: tuple[np.ndarray, np.ndarray] | None = None) -> LookUp:
    """Look up the ranks of pairs in neighbours; with `twins` those of the rows that stand for theirs."""

    def look_up(rows: np.ndarray, others: np.ndarray) -> Ranks:
        if twins is not None:
            rows, others = twins[0][rows], twins[1][others]
        cosines, ids = lists.at(rows)
        return Ranks(rank_of(ids, others), mean_of(cosines, ids))

    return look_up


@dataclass(frozen=True)
class SideTexts:
    """One side of n pairs: the sentences, and rank and mean as in `Ranks`, 0 if they were not asked for."""

    sentences: list[str]
    rank: np.ndarray
    mean: np.ndarray


@dataclass(frozen=True)
class PairTexts:
    """The sentences of both sides of pairs; `places` int64 [n] are those of which the others were dropped."""

    sides: tuple[JoinedSide, JoinedSide]
    places: np.ndarray | None = None

    __repr__ = brief

    @classmethod
    def join(
        cls, pairs: Candidates, stores: StorePair, ranks: tuple[LookUp, LookUp] | None = None
    ) -> PairTexts:
        """Look up the sentences of pairs and, with `ranks`, ranks and means."""
        rows, sides = (pairs.source, pairs.target), []
        for side, store in enumerate(stores):
            look_up = ranks and ranks[side]
            sides.append(JoinedSide(rows[side], rows[1 - side], store.sentences(), look_up))
        return cls((sides[0], sides[1]))

    def of(self, part: slice | np.ndarray) -> tuple[SideTexts, SideTexts]:
        """Both sides of the pairs at some places, int64 [n], or from one place up to another."""
        if self.places is not None:
            part = np.array(self.places[part])
        elif isinstance(part, slice):
            part = np.arange(part.start, part.stop)
        return self.sides[0].take(part), self.sides[1].take(part)


class JoinedSide:
    """One side of pairs, from its rows, int64 [n], of which one may be in several, and the rows of the other
    side, with ranks and means, if there is a `look_up`. Takes little memory, however many there are: rows are
    sorted on disk, the text is read once, in order, and its lines go into buckets of pairs that follow one
    another."""

    def __init__(
        self, rows: np.ndarray, others: np.ndarray, sentences: Iterator[str], look_up: LookUp | None = None
    ) -> None:
        self._step = max(_PLACES, -(-len(rows) // _BUCKETS))
        buckets = -(-len(rows) // self._step)
        self._records = [Spool(_RECORD) for _ in range(buckets)]
        self._texts = [TextSpool() for _ in range(buckets)]
        self._open = -1, np.empty(0, _RECORD), np.zeros(1, np.int64)
        table, last = Table(_ROW, "row"), -1
        for start in range(0, len(rows), _PLACES):
            part = slice(start, start + _PLACES)
            table.append(row=rows[part], other=others[part], place=np.arange(start, start + len(rows[part])))
            last = max(last, int(rows[part].max()))
        starts = range(0, last + 1, _LINES)
        chosen = table.below(start + _LINES for start in starts)
        for start, some in zip(starts, chosen, strict=True):
            self._write(some, list(islice(sentences, _LINES)), start, look_up)

    def take(self, places: np.ndarray) -> SideTexts:
        """One side of the pairs at some places, int64 [n]; quick where they are in order."""
        texts: list[str] = [""] * len(places)
        rank, mean = np.zeros(len(places), np.int64), np.zeros(len(places), np.float32)
        numbers = places // self._step
        for number in np.unique(numbers).tolist():
            wanted = np.flatnonzero(numbers == number)
            records, ends = self._bucket(number)
            own = places[wanted] - number * self._step
            rank[wanted], mean[wanted] = records["rank"][own], records["mean"][own]
            found = self._texts[number].read(ends[own], records["size"][own])
            for at, text in zip(wanted.tolist(), found, strict=True):
                texts[at] = text
        return SideTexts(texts, rank, mean)

    def _bucket(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        """The records of a bucket in the order of the pairs, and where their sentences end in its file."""
        if self._open[0] != number:
            spool = self._records[number]
            records = spool.read(0, spool.rows)
            order = np.argsort(records["place"], kind="stable")
            self._open = number, records[order], np.cumsum(records["size"], dtype=np.int64)[order]
        return self._open[1:]

    def _write(self, chosen: np.ndarray, lines: list[str], first: int, look_up: LookUp | None) -> None:
        """Put what is known of some rows into the buckets of their pairs."""
        if not len(chosen):
            return
        records = np.zeros(len(chosen), _RECORD)
        records["place"] = chosen["place"]
        if look_up is not None:
            records["rank"], records["mean"] = look_up(chosen["row"], chosen["other"])
        numbers = chosen["place"] // self._step
        order = np.argsort(numbers, kind="stable")
        records, rows = records[order], (chosen["row"][order] - first).tolist()
        borders = np.searchsorted(numbers[order], np.arange(len(self._records) + 1)).tolist()
        for number, (start, stop) in enumerate(pairwise(borders)):
            if start < stop:
                part = records[start:stop]
                part["size"] = self._texts[number].write(lines[row] for row in rows[start:stop])
                self._records[number].write(part)
