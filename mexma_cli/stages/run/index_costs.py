"""What the units of a search with indexes take: measured on made-up vectors, and scaled up."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable
from dataclasses import dataclass

import faiss
import numpy as np

from mexma_cli.knn import faiss_index
from mexma_cli.knn.faiss_index import ROUNDS, Parts, training_rows
from mexma_cli.knn.index_search import (
    BLOCK_BYTES,
    CHUNK,
    MEASURED_ON,
    ROWS,
    TUNED_ON,
    Direction,
    exact,
    pairs_of,
    score_tile,
)
from mexma_cli.knn.sides import Side
from mexma_cli.knn.tiled import Span
from mexma_cli.stages.knn.tiles import spans_of
from mexma_cli.store.layout import Frozen

PROBES = 16
"""Lists that are looked at for each row, as long as a run has not found how many its recall needs."""
HITS = 64
_ROWS, _QUERIES, _TRAINED_BY = 32_768, 2048, 16_384
_FEW, _MANY = 64, 512  # lists
_GRAPH = 4096  # lists with which a row could be compared while a graph finds the nearest; not measured
_BYTES = 8  # of a key, a pair of row numbers, or the number of a row


class Cost(Frozen):
    """Of units of one kind, in seconds of processor time, of all threads together: for each unit, and for
    each row, or line, that it handles; and how much more a row takes of twice as many."""

    unit: float
    row: float
    doubling: float = 0.0

    def of(self, units: int, rows: int) -> float:
        """Seconds of so many units, which handle so many rows in all."""
        row = self.row + self.doubling * math.log2(max(1, rows / max(1, units)))
        return units * self.unit + rows * max(0.0, row)


class IndexCosts(Frozen):
    """In seconds of processor time.

    Attributes:
        codes: To learn the codes of an index.
        centre: For a row and a list, while lists are learnt or a row is put into one.
        add: For a row that is put into an index, besides.
        near: For a row and a list, while the lists are found that a row is looked up in.
        look: For a row that is looked up, besides.
        shard: For a row that is looked up in a shard, besides.
        a_list: For a list that is looked at, in a shard.
        code: To compare a row with the code of another one.
        sample: For a cell of the exact search of a sample.
        vector: To read and normalise a row.
        pair: For the exact cosine of a pair that is found, from one side, and all that is done with it.
    """

    codes: float
    centre: float
    add: float
    near: float
    look: float
    shard: float
    a_list: float
    code: float
    sample: float
    vector: float
    pair: float


def measure(dim: int) -> IndexCosts:
    """Measure on this machine, with vectors of so many dimensions around some topics."""
    rng = np.random.default_rng(0)
    topics = rng.standard_normal((_ROWS // 64, dim), dtype=np.float32)
    rows = topics[rng.integers(0, len(topics), _ROWS)] + rng.standard_normal((_ROWS, dim), dtype=np.float32)
    side = Side(rows, None)
    queries, sample = side.units(0, _QUERIES), Side(rows[:_TRAINED_BY], None)
    factory = re.sub(r"IVF\d+", "IVF{}", faiss_index.choose(1 << 15, dim))
    indexes: dict[int, faiss.Index] = {}

    def training(lists: int) -> float:
        began = time.process_time()
        indexes[lists] = faiss_index.train(sample, factory.format(lists), 0)
        return time.process_time() - began

    one, other = training(_FEW), training(_MANY)
    centre = max(0.0, other - one) / (ROUNDS * _TRAINED_BY * (_MANY - _FEW))
    vector = spent(lambda: side.units(0, _ROWS)) / _ROWS

    empty = faiss.clone_index(indexes[_MANY])
    adding = spent(lambda: sum(faiss_index.add(faiss.clone_index(empty), side, 0, _ROWS))) / _ROWS

    def direction_of(lists: int, own: np.ndarray, other: Side, shards: int = 1) -> Direction:
        """Some rows, and an index over others."""
        parts = Parts(factory.format(lists), indexes[lists])
        for span in spans_of(len(other), len(other) // shards):
            shard = faiss.clone_index(indexes[lists])
            sum(faiss_index.add(shard, other, *span))
            parts.held.append((span.start, shard))
        return Direction(Side(own, None), other, parts)

    whole, halves = direction_of(_MANY, queries, side), direction_of(_MANY, queries, side, 2)
    few = direction_of(_FEW, queries, side)

    def looking(direction: Direction, probes: int) -> float:
        """Seconds for a row."""
        direction.index.effort = f"nprobe={probes}"
        return spent(lambda: pairs_of(direction, HITS, 4)) / _QUERIES

    least = looking(whole, 4)
    long = (looking(few, 16) - looking(few, 4)) / 12
    short = (looking(whole, 64) - least) / 60
    code = max(0.0, long - short) / (_ROWS / _FEW - _ROWS / _MANY)
    a_list = max(0.0, short - code * _ROWS / _MANY)
    shard = max(0.0, looking(halves, 4) - least - 4 * a_list)
    quantizer = faiss.extract_index_ivf(indexes[_MANY]).quantizer
    near = spent(lambda: quantizer.search(queries, 16)) / (_QUERIES * _MANY)
    # As in a run, rows that are near one another are found from both sides, and count once.
    both = rows[: _ROWS // 4], rows[_ROWS // 4 : _ROWS // 2]
    found = [
        pairs_of(direction_of(_MANY, own, Side(other, None)), HITS, 4) for own, other in (both, both[::-1])
    ]
    spans, keep = (Span(0, len(both[0])), Span(0, len(both[1]))), [np.ones(len(one), bool) for one in both]
    sources = _Made(both[0]), _Made(both[1])
    scoring = spent(lambda: score_tile(sources, (keep[0], keep[1]), spans, (found[0], found[1]), 4))
    return IndexCosts(
        codes=max(0.0, one - ROUNDS * _TRAINED_BY * _FEW * centre),
        centre=centre,
        add=max(0.0, adding - _MANY * centre - vector),
        near=near,
        look=max(0.0, least - _MANY * near - 4 * short - vector - shard),
        shard=shard,
        a_list=a_list,
        code=code,
        sample=spent(lambda: exact(queries[:MEASURED_ON], side, 4)) / (MEASURED_ON * _ROWS),
        vector=vector,
        pair=max(0.0, scoring - vector * sum(map(len, both))) / sum(map(len, found)),
    )


class _Made:
    """An array as a source."""

    def __init__(self, rows: np.ndarray) -> None:
        self._rows = rows
        self.rows, self.dim = rows.shape

    def vectors(self, start: int, stop: int) -> np.ndarray:
        return self._rows[start:stop]


def spent(function: Callable[[], object], tries: int = 2) -> float:
    """Seconds of processor time, the least of some tries."""
    seconds = []
    for _ in range(tries):
        began = time.process_time()
        function()
        seconds.append(time.process_time() - began)
    return min(seconds)


@dataclass(frozen=True)
class Amounts:
    """What a side of a pair is looked up in.

    Attributes:
        rows: Of the side.
        indexed: Rows of the other side.
        factory: Of the index over them.
        tile: Rows of a span, on both sides.
        probes: Lists that are looked at for each row.
        hits: Answers that get an exact cosine.
    """

    rows: int
    indexed: int
    factory: str
    tile: int
    probes: int = PROBES
    hits: int = HITS

    @property
    def lists(self) -> int:
        """Of the index; 1: it has none."""
        named = re.search(r"IVF(\d+)", self.factory)
        return int(named[1]) if named else 1

    @property
    def compared(self) -> int:
        """Lists with which a row is compared to find the nearest of them."""
        return min(self.lists, _GRAPH) if "HNSW" in self.factory else self.lists

    @property
    def codes(self) -> float:
        """Codes that a row is compared with."""
        return min(1.0, self.probes / self.lists) * self.indexed

    @property
    def found_bytes(self) -> int:
        """Of the pairs that are found."""
        return _BYTES * self.hits * self.rows

    @property
    def shards(self) -> int:
        """Of the index."""
        return -(-self.indexed // self.tile)


def train_seconds(costs: IndexCosts, one: Amounts) -> float:
    """To train the index."""
    rows = min(one.indexed, training_rows(one.lists))
    return costs.codes + rows * (costs.vector + ROUNDS * one.lists * costs.centre)


def fill_seconds(costs: IndexCosts, one: Amounts) -> float:
    """To put all rows into shards of the index."""
    return one.indexed * (costs.vector + costs.add + one.compared * costs.centre)


def effort_seconds(costs: IndexCosts, both: tuple[Amounts, Amounts], k: int) -> float:
    """To find the effort: two samples of each side are searched exactly; they, and about a fourth of their
    neighbours, are looked up until the effort is enough."""
    total = 0.0
    for one in both:
        total += one.indexed * ((TUNED_ON + MEASURED_ON) * costs.sample + 2 * costs.vector)
        tries = 1 + math.log2(max(4, one.probes) / 4)
        looked_up = (tries * TUNED_ON + MEASURED_ON) * (1 + k / 4)
        total += looked_up * _look(costs, one)
    return total


def look_up_seconds(costs: IndexCosts, one: Amounts) -> float:
    """To look up all rows of the side."""
    return one.rows * _look(costs, one)


def score_seconds(costs: IndexCosts, both: tuple[Amounts, Amounts]) -> float:
    """To score what was found, in all tiles."""
    return sum(one.rows * (one.hits * costs.pair + one.shards * costs.vector) for one in both)


def _look(costs: IndexCosts, one: Amounts) -> float:
    lists = one.compared * costs.near
    shards = one.shards * (costs.shard + min(one.probes, one.lists) * costs.a_list)
    return costs.vector + costs.look + lists + shards + one.codes * costs.code


def index_bytes(dim: int, one: Amounts) -> int:
    """Of the index in files, each with the centres of all lists."""
    centres = 4 * dim * one.lists * (one.shards + 1)
    return centres + faiss_index.bytes_needed(one.indexed, dim, one.factory)


def unit_bytes(dim: int, one: Amounts) -> int:
    """Bytes of memory that a unit takes at most, besides what every process has: to train the index, to look
    rows up, or to score them."""
    tile = min(one.tile, max(one.rows, one.indexed))
    centres = 4 * dim * one.lists
    shard = centres + round(1.6 * faiss_index.bytes_needed(min(tile, one.indexed), dim, one.factory))
    a_row = 8 * dim + 20 * one.hits + 24 * one.probes
    training = 12 * dim * min(one.indexed, training_rows(one.lists)) + 2 * _BYTES * one.indexed
    looking = min(CHUNK, a_row * tile) + 3 * _BYTES * one.hits * tile + shard
    scoring = 4 * dim * min(ROWS, tile) + BLOCK_BYTES + 6 * _BYTES * 2 * one.hits * tile
    return max(training, looking + _BYTES * one.indexed, scoring)
