"""Matching in blocks: neighbours are read from disk, and pairs are sorted there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from mexma_cli.knn.neighbours import Neighbours
from mexma_cli.mining.estimate import NO_PARTNER, without
from mexma_cli.mining.margin import mean_of
from mexma_cli.mining.match import Candidates, Matching, best_first, best_of
from mexma_cli.stages.knn.row_filter import RowCounts
from mexma_cli.stages.knn.search import EXACT
from mexma_cli.stages.mine.documents import DocumentFiles
from mexma_cli.store.spool import GATHERED, Scattered, Spool, gathered, parts

BLOCK_ROWS = 1 << 21
"""Rows whose neighbours are looked at together: about 400 MB with temporary arrays for a k of 4."""
_BUFFERED = 1 << 23  # pairs of all runs together that are in memory while these are merged: 200 MB
_ENTRY_BYTES = 50  # of a neighbour that is looked at, with temporary arrays
_PAIR = np.dtype([("scores", "<f4"), ("source", "<i8"), ("target", "<i8"), ("cosines", "<f4")])


class Lists(Protocol):
    """The neighbours of the rows of a side, wherever they are."""

    @property
    def count(self) -> int:
        """Rows."""

    def at(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Cosines float32 and rows of the other side int64, both [n, k], of some rows, int64 [n]; as
        `knn.exact.Neighbours` has them."""


@dataclass(frozen=True)
class ListsInMemory:
    """As `Lists`."""

    cosines: np.ndarray
    ids: np.ndarray

    @property
    def count(self) -> int:
        """See `Lists`."""
        return len(self.ids)

    def at(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """See `Lists`."""
        return self.cosines[rows], self.ids[rows]


def take_part(ids: np.ndarray) -> np.ndarray:
    """bool [n]: rows with neighbours, ids [n, k], have taken part in the search."""
    return np.asarray((ids[:, :1] >= 0).any(axis=1))


def both_in_memory(found: Neighbours) -> tuple[ListsInMemory, ListsInMemory]:
    """Both directions of neighbours."""
    return (
        ListsInMemory(found.forward_scores, found.forward_ids),
        ListsInMemory(found.backward_scores, found.backward_ids),
    )


@dataclass(frozen=True)
class FewerNeighbours:
    """As `Lists`: the k nearest of each row, without the row that `partner`, int64 [rows], names, if there is
    one, as `mining.estimate.without_pairs` has them."""

    lists: Lists
    k: int
    partner: np.ndarray | None = None

    @property
    def count(self) -> int:
        """See `Lists`."""
        return self.lists.count

    def at(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """See `Lists`."""
        cosines, ids = self.lists.at(rows)
        if self.partner is None:
            return cosines[:, : self.k], ids[:, : self.k]
        return without(cosines, ids, self.partner[rows], self.k)


def partners(pairs: Candidates, counts: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    """The other row of the pair that each row of either side is in, int64 [rows], memory-mapped; -2: none.

    Raises:
        MexmaError: The temporary disk is full.
    """
    source, target = (Scattered(count, np.int64, NO_PARTNER) for count in counts)
    for part in slices(len(pairs)):
        source.put(pairs.source[part], pairs.target[part])
        target.put(pairs.target[part], pairs.source[part])
    return source.array(), target.array()


@dataclass(frozen=True)
class KnownLists:
    """The neighbours of two texts, how many of their rows take part, and as in `SearchResult`; with
    `documents`, only pairs of documents of the same id are wanted."""

    sides: tuple[Lists, Lists]
    counts: tuple[RowCounts, RowCounts]
    documents: DocumentFiles | None = None
    index: str = EXACT
    recall: float | None = None

    def facts(self) -> dict[str, Any]:
        """As those of `SearchResult`."""
        return {"index": self.index, "recall": self.recall}


def match_lists(
    lists: tuple[Lists, Lists], kind: str = "ratio", retrieval: str = "max", threshold: float | None = None
) -> Candidates:
    """As `mining.match.match`, to the same bytes, but for retrieval `all`; the pairs are memory-mapped.

    Takes less than a gigabyte and a bit for each row, and in temporary files 4 bytes a row and 24 a candidate
    and a pair.

    Raises:
        MexmaError: The temporary disk is full, or a file of neighbours is damaged.
    """
    means = [means_of(side) for side in lists]
    runs = SortedRuns()
    for side, backward in zip(lists, (False, True), strict=True):
        if retrieval == ("forward" if backward else "backward"):
            continue
        own_mean, other_mean = means[backward], means[not backward]
        for rows in _blocks(side.count):
            cosines, ids = side.at(rows)
            near = gathered(other_mean, ids)
            found = best_of(cosines, ids, own_mean[rows], near.__getitem__, kind)
            found = replace(found, source=rows[found.source])
            runs.add(best_first(found.turned() if backward else found))
    return taken_of(runs, retrieval, (lists[0].count, lists[1].count)).cut(retrieval, threshold)


def bytes_to_mine(rows: int, k: int) -> int:
    """Bytes of memory that mining takes for so many rows of both sides: pairs are matched in blocks, with a
    bit a row, and then their sentences are looked up, a hundredth of the pairs at a time."""
    looking = min(BLOCK_ROWS, rows) * (_ENTRY_BYTES * k + 4 * _PAIR.itemsize) + 4 * min(GATHERED, rows)
    merging = 3 * _PAIR.itemsize * min(_BUFFERED, rows)
    return max(looking, merging + rows // 8, rows * 60 // 100)


def taken_of(runs: SortedRuns, retrieval: str, rows: tuple[int, int]) -> Candidates:
    """The pairs that are taken of the candidates from either direction, memory-mapped, best first.

    Args:
        rows: Of both texts.
    """
    matching, found = Matching(retrieval, rows), PairSpool()
    for pairs in runs.merged():
        one_sided = retrieval in ("forward", "backward")
        found.write(pairs if one_sided else pairs.take(matching.taken(pairs)))
    return found.pairs()


class PairSpool:
    """Pairs in a temporary file."""

    def __init__(self) -> None:
        self._spool = Spool(_PAIR)

    def write(self, pairs: Candidates) -> None:
        """Append pairs."""
        self._spool.write(_records(pairs))

    def pairs(self) -> Candidates:
        """All of them, memory-mapped."""
        return _candidates(self._spool.array())


class SortedRuns:
    """Candidates that are sorted in parts, and merged."""

    def __init__(self) -> None:
        self._spool, self._ends = Spool(_PAIR), [0]

    def add(self, pairs: Candidates) -> None:
        """Add pairs that are sorted best first."""
        self._spool.write(_records(pairs))
        self._ends.append(self._spool.rows)

    def merged(self) -> Iterator[Candidates]:
        """All pairs, best first, in blocks."""
        places, ends = self._ends[:-1], self._ends[1:]
        step = max(1, _BUFFERED // max(1, len(ends)))
        held = [np.empty(0, _PAIR) for _ in ends]
        while True:
            for run, end in enumerate(ends):
                if not len(held[run]):
                    stop = min(places[run] + step, end)
                    held[run], places[run] = self._spool.read(places[run], stop), stop
            # What is better than the last pair of each run that has more on the disk is known to the end.
            open_ends = [
                _key(part[-1]) for part, place, end in zip(held, places, ends, strict=True) if place < end
            ]
            counts = [_up_to(part, min(open_ends)) if open_ends else len(part) for part in held]
            if not sum(counts):
                return
            some = np.concatenate([part[:count] for part, count in zip(held, counts, strict=True)])
            held = [part[count:] for part, count in zip(held, counts, strict=True)]
            yield best_first(_candidates(some))


def _key(record: np.void) -> tuple[float, int, int]:
    """What pairs are sorted by."""
    return -float(record["scores"]), int(record["source"]), int(record["target"])


def _up_to(records: np.ndarray, last: tuple[float, int, int]) -> int:
    """How many of some sorted pairs do not come after one."""
    falling = -records["scores"]
    start, stop = (int(np.searchsorted(falling, np.float32(last[0]), side)) for side in ("left", "right"))
    source, target = records["source"][start:stop], records["target"][start:stop]
    return start + int(((source < last[1]) | ((source == last[1]) & (target <= last[2]))).sum())


def _records(pairs: Candidates) -> np.ndarray:
    records = np.empty(len(pairs), _PAIR)
    for name in _PAIR.names or ():
        records[name] = getattr(pairs, name)
    return records


def _candidates(records: np.ndarray) -> Candidates:
    return Candidates(*(records[name] for name in _PAIR.names or ()))


def slices(count: int) -> Iterator[slice]:
    """Places of `count` pairs, or rows, in blocks."""
    return parts(count, BLOCK_ROWS)


def _blocks(count: int) -> Iterator[np.ndarray]:
    for part in slices(count):
        yield np.arange(part.start, part.stop)


def means_of(side: Lists) -> np.ndarray:
    """Mean cosine of every row's neighbours, float32 [rows], memory-mapped."""
    spool = Spool(np.float32)
    for rows in _blocks(side.count):
        spool.write(mean_of(*side.at(rows)))
    return spool.array()
