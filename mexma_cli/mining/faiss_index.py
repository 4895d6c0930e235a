"""FAISS indexes over one side: which for how many rows, training, filling, and files if it is too large."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import faiss
import numpy as np

from mexma_cli.errors import MexmaError
from mexma_cli.mining.arithmetic import FLOAT32
from mexma_cli.mining.blocks import Side

SIZES: tuple[tuple[int, str], ...] = (
    (10_000, "Flat"),
    (50_000, "IVF512"),
    (200_000, "IVF1024"),
    (500_000, "IVF2048"),
    (2_000_000, "IVF4096"),
    (8_000_000, "IVF8192"),
    (32_000_000, "IVF16384"),
    (128_000_000, "IVF65536_HNSW32"),
)
"""(rows at most, index) for `auto`; beyond the last, its last.

stopes has 1024 lists from 10,000 rows on and 65,536 from 10 million, for GPUs. On a CPU lists cost more to
train (time grows with their square) and to choose from than they save: about four times the root of the
number of rows. From 65,536 lists on a graph (HNSW) finds the nearest ones. Inside a list vectors are product
quantised to 4 bits and compared by table look-ups in registers (`x4fs`): on sentence vectors that found as
much as 8-bit scalar codes do, two to four times as fast, once four times as many hits as wanted were scored
again. Only the rows themselves (Flat) are as good up to 10,000 rows.
"""

EXACT_PAIRS = 300_000**2
"""Rows of one side times rows of the other up to which `auto` is the exact search: with 256
dimensions it takes no longer (at 500,000 a side it takes 1.4 times as long as finding 96 % does)."""

_FINE_UP_TO = 512
"""Dimensions up to which 4 bits stand for two numbers; above they stand for four: 256 bytes a row at most for
1024 dimensions. OPQ's rotation was tried: one per cent more neighbours for minutes of training."""


def choose(rows: int, dim: int) -> str:
    """The factory string that `auto` takes for an index over `rows` rows of `dim` dimensions."""
    lists = next((name for most, name in SIZES if rows <= most), SIZES[-1][1])
    if lists == "Flat":
        return lists
    per_code = 2 if dim <= _FINE_UP_TO else 4
    padded = -(-dim // per_code) * per_code
    prefix = f"Pad{padded}," if padded != dim else ""
    return f"{prefix}{lists},PQ{padded // per_code}x4fs"


BLOCK = 1 << 12
"""Rows read at a time where all are read."""
_ROWS_PER_LIST = 40  # training rows; faiss asks for 39 at least
_ROUNDS = 5  # of k-means; faiss does 10, which takes twice as long and finds 0.3 % more
_TRAINING_ROWS = 1 << 16  # for indexes without lists
_QUERIES_AT_ONCE = 1024  # a call of faiss; four times as many are a tenth slower
_SLACK = 1.6  # faiss rounds its lists up to powers of two


def units(side: Side, start: int, stop: int) -> np.ndarray:
    """Kept rows of a side, normalised, float32 [n, d]."""
    nowhere = np.zeros(side.dim, dtype=np.float32)
    return side.block(start, stop, FLOAT32, nowhere, nowhere).unit


def gather(side: Side, places: np.ndarray) -> np.ndarray:
    """Some kept rows of a side, by sorted place among them, as unit vectors float32 [n, d]."""
    out = np.empty((len(places), side.dim), dtype=np.float32)
    for start in range(0, len(side), BLOCK):
        first, last = np.searchsorted(places, (start, start + BLOCK)).tolist()
        if last - first > BLOCK // 64:
            out[first:last] = units(side, start, start + BLOCK)[places[first:last] - start]
        else:
            for row in range(first, last):
                out[row] = units(side, int(places[row]), int(places[row]) + 1)
    return out


class SideIndex:
    """A faiss index over the kept rows of a side, in memory or, in parts, in files.

    Parts are copies of one trained index, each with some of the rows. Searching the same lists in all of them
    reads what searching them in one would, so parts cost no recall, and any kind of index can be cut so.
    """

    def __init__(self, side: Side, factory: str, share: int | None, folder: Path, seed: int) -> None:
        """Train it.

        Args:
            share: Bytes that it may take, or None for no limit: then it is in memory.
            folder: Where the parts go otherwise; it need not be there.

        Raises:
            MexmaError: faiss does not know the factory string, or there are too few rows to train it.
        """
        self._side, self.factory, self._folder = side, factory, folder
        self._trained = self._train(share, seed)
        self._whole: faiss.Index | None = None
        self._parts: list[Path] = []
        self._rows = len(side)
        if share is not None:
            per_row = _bytes_per_row(self._trained, units(side, 0, BLOCK)) * _SLACK
            self._rows = max(1, int(share / per_row))
        lists = faiss.try_extract_index_ivf(self._trained)
        self.parameter, self._effort, self._most = "", 1, 1
        if lists is not None:
            self.parameter, self._effort, self._most = "nprobe", min(4, lists.nlist), -(-lists.nlist // 2)
        elif "HNSW" in factory:
            self.parameter, self._effort, self._most = "efSearch", 32, 2048

    @property
    def effort(self) -> str:
        """How hard it is searched, such as "nprobe=4", or "" if there is no choice."""
        return f"{self.parameter}={self._effort}" if self.parameter else ""

    def try_harder(self) -> bool:
        """Search twice as many lists from now on, if that is not too many."""
        before = self._effort
        self._effort = max(before, min(2 * before, self._most))
        return self._effort > before

    @property
    def parts(self) -> int:
        return len(self._parts)

    def _train(self, share: int | None, seed: int) -> faiss.Index:
        side = self._side
        try:
            index = faiss.index_factory(side.dim, self.factory, faiss.METRIC_INNER_PRODUCT)
        except RuntimeError as error:
            raise MexmaError(
                f"faiss refuses the index {self.factory!r} for {side.dim} dimensions: {_reason(error)}",
                'write it as for faiss.index_factory, such as "IVF1024,PQ128x4fs", or "auto"',
            ) from None
        _set_seed(index, seed)
        if index.is_trained:
            return index
        lists = faiss.try_extract_index_ivf(index)
        wanted = _TRAINING_ROWS if lists is None else max(_ROWS_PER_LIST * lists.nlist, 1 << 14)
        rows = min(len(side), wanted)
        if share is not None:
            rows = min(rows, max(1, share // (12 * side.dim)))  # faiss makes two copies
        chosen = np.sort(np.random.default_rng(seed).choice(len(side), rows, replace=False))
        try:
            index.train(gather(side, chosen))
        except RuntimeError as error:
            raise MexmaError(
                f"the index {self.factory!r} cannot be trained on {rows:,} rows: {_reason(error)}",
                "an index with fewer lists, more --memory if that is short, or the exact search",
            ) from None
        return index

    def fill(self, progress: Callable[[int], None]) -> None:
        """Put all rows in."""
        for first in range(0, len(self._side), self._rows):
            last = min(first + self._rows, len(self._side))
            part = faiss.clone_index(self._trained)
            for start in range(first, last, BLOCK):
                rows = units(self._side, start, min(start + BLOCK, last))
                part.add(rows)
                progress(len(rows))
            if self._rows >= len(self._side):
                self._whole = part
                return
            self._folder.mkdir(exist_ok=True)
            path = self._folder / f"part-{len(self._parts)}.faiss"
            try:
                faiss.write_index(part, str(path))
            except RuntimeError as error:
                raise MexmaError(
                    f"an index that needs more memory than there is cannot be written to {self._folder}: "
                    f"{_reason(error)}",
                    "free some space, name another folder, or give it more --memory",
                ) from None
            self._parts.append(path)

    def search(self, queries: np.ndarray, count: int) -> np.ndarray:
        """About the `count` nearest kept rows of unit vectors [n, d], best first, int64 [n, count], or -1."""
        ids = np.full((len(queries), count), -1, dtype=np.int64)
        near = np.full((len(queries), count), -np.inf, dtype=np.float32)
        for number in range(max(1, len(self._parts))):
            part = self._whole if self._whole is not None else faiss.read_index(str(self._parts[number]))
            if self.parameter:
                faiss.ParameterSpace().set_index_parameter(part, self.parameter, self._effort)
            for start in range(0, len(queries), _QUERIES_AT_ONCE):
                cut = slice(start, start + _QUERIES_AT_ONCE)
                scores, places = part.search(queries[cut], count)
                scores[places < 0] = -np.inf
                places[places >= 0] += number * self._rows
                if number == 0:
                    near[cut], ids[cut] = scores, places
                    continue
                both = np.concatenate([near[cut], scores], axis=1)
                order = np.argsort(-both, axis=1, kind="stable")[:, :count]
                near[cut] = np.take_along_axis(both, order, 1)
                ids[cut] = np.take_along_axis(np.concatenate([ids[cut], places], axis=1), order, 1)
            del part
        return ids


def _bytes_per_row(trained: faiss.Index, sample: np.ndarray) -> float:
    """What an index grows by with every row."""
    inner = faiss.downcast_index(trained)
    if isinstance(inner, faiss.IndexPreTransform):
        inner = faiss.downcast_index(inner.index)
    if isinstance(inner, faiss.IndexIVF):
        return float(inner.code_size + 8)
    filled = faiss.clone_index(trained)
    before = len(faiss.serialize_index(filled))
    filled.add(sample)
    return (len(faiss.serialize_index(filled)) - before) / len(sample)


def _set_seed(index: faiss.Index, seed: int) -> None:
    """Seed all clusterings in an index, and let them be silent about few training rows."""
    inner = faiss.downcast_index(index)
    if isinstance(inner, faiss.IndexPreTransform):
        _set_seed(inner.index, seed)
    elif isinstance(inner, faiss.IndexRefine):
        _set_seed(inner.base_index, seed)
    if isinstance(inner, faiss.IndexIVF):
        inner.cp.niter = _ROUNDS
    for owner in (inner, getattr(inner, "pq", None)):
        settings = getattr(owner, "cp", None)
        if settings is not None:
            settings.seed, settings.min_points_per_centroid = seed, 1


def _reason(error: RuntimeError) -> str:
    """faiss's own words, without the place in its source."""
    text = re.sub(r"^.* at \S+:\d+: ", "", str(error), flags=re.DOTALL)
    return re.sub(r"^Error: '.*?' failed:? ?", "", text).strip() or text
