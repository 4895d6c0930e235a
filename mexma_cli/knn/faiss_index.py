"""FAISS indexes over one side: the choice by size, training, filling, and files where memory is short."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import faiss
import numpy as np
import torch
import xxhash

from mexma_cli.errors import MexmaError
from mexma_cli.files import checksum_file, fsync_file
from mexma_cli.knn.cosines import EMPTY, keys_of, rows_of
from mexma_cli.knn.sides import SearchSide
from mexma_cli.numerics.devices import pick_device
from mexma_cli.store.journal import FileJournal

log = logging.getLogger(__name__)

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
"""(rows at most, index) for `auto`. Above the last number of rows, the last index is taken.

stopes has 1024 lists from 10,000 rows on and 65,536 from 10 million, for GPUs. On a CPU lists cost more to
train (time grows with their square) and to choose from than they save. Their number here is about four times
the square root of the number of rows. From 65,536 lists on, a graph (HNSW) finds the nearest ones. Inside a
list, vectors are product quantised to 4 bits and compared by table look-ups in registers (`x4fs`). On
sentence vectors that finds as much as 8-bit scalar codes do, two to four times as fast, if four times as many
hits as wanted are scored again. Up to 10,000 rows, the rows themselves (Flat) are as good.
"""

SEED = 42
"""Seed of the samples and of the training."""
EXACT_PAIRS = 300_000**2
"""Rows of one side times rows of the other up to which `auto` is the exact search: with 256
dimensions it takes no longer (at 500,000 a side it takes 1.4 times as long as finding 96 % does)."""

_FINE_UP_TO = 512
"""Dimensions up to which 4 bits stand for two numbers; above they stand for four: 256 bytes a row at most for
1024 dimensions. OPQ's rotation was tried: one per cent more neighbours for minutes of training."""


def choose_index(rows: int, dim: int, index: str = "auto") -> str:
    """The factory string of an index over `rows` rows of `dim` dimensions: `index`, or what `auto` takes."""
    if index != "auto":
        return index
    lists = next((name for most, name in SIZES if rows <= most), SIZES[-1][1])
    if lists == "Flat":
        return lists
    if faiss.get_num_gpus():
        return f"{lists},SQ8"  # faiss has no 4-bit codes on a GPU
    per_code = 2 if dim <= _FINE_UP_TO else 4
    padded = -(-dim // per_code) * per_code
    prefix = f"Pad{padded}," if padded != dim else ""
    return f"{prefix}{lists},PQ{padded // per_code}x4fs"


def takes_index(index: str, pairs: int) -> bool:
    """Whether a search of so many pairs of rows has indexes: not if there are none, or few and "auto"."""
    return pairs > (EXACT_PAIRS if index == "auto" else 0)


BLOCK = 1 << 12
"""Rows read at a time where all are read."""
ROWS_PER_LIST = 40  # training rows; faiss asks for 39 at least
ROUNDS = 5  # of k-means; faiss does 10, which takes twice as long and finds 0.3 % more
_TRAINING_ROWS = 1 << 16  # for indexes without lists
_QUERIES_AT_ONCE = 1024  # a call of faiss; four times as many are a tenth slower
_MOST_PROBES = _MOST_ANSWERS = 2048  # lists, and answers, that faiss knows on a GPU
_TIED = 16  # rows with equal scores that are looked at beyond those that are wanted
_PART_ROWS = 1 << 20  # of an index with lists
SLACK = 1.6
"""Times as much memory as rows take in an index: faiss rounds its lists up to powers of two."""


def gather(side: SearchSide, places: np.ndarray) -> np.ndarray:
    """Some kept rows of a side, by sorted place among them, as unit vectors float32 [n, d]."""
    out = np.empty((len(places), side.dim), dtype=np.float32)
    for start in range(0, len(side), BLOCK):
        first, last = np.searchsorted(places, (start, start + BLOCK)).tolist()
        if last - first > BLOCK // 64:
            out[first:last] = side.unit_vectors(start, start + BLOCK)[places[first:last] - start]
        else:
            for row in range(first, last):
                out[row] = side.unit_vectors(int(places[row]), int(places[row]) + 1)
    return out


def bytes_needed(rows: int, dim: int, factory: str) -> int:
    """Bytes of an index over so many rows, in memory and in its file, without its lists' centres. A factory
    string that faiss does not know is refused."""
    index = _made(dim, choose_index(rows, dim, factory))
    sample = np.random.default_rng(0).standard_normal((BLOCK, dim), dtype=np.float32)
    if faiss.try_extract_index_ivf(index) is None and not index.is_trained:
        index.train(sample)
    return round(rows * _bytes_per_row(index, sample[:64]))


class PartitionedIndex:
    """A faiss index in one part or several, copies of one trained index, each with some of the rows.

    Searching the same lists in all of them reads the same vectors as in a whole index. So an index with lists
    answers the same however its rows are cut into parts.

    Attributes:
        factory: What the index was made by.
        parameter: The name of its search parameter, or "".
        transforms: Whether rows are padded or rotated before they are looked up.
        held: For each part, the place of its first row among all, and the index or its file.
    """

    def __init__(self, factory: str, trained: faiss.Index) -> None:
        self.factory = factory
        self.transforms = isinstance(faiss.downcast_index(trained), faiss.IndexPreTransform)
        self.held: list[tuple[int, faiss.Index | Path]] = []
        lists = faiss.try_extract_index_ivf(trained)
        self.parameter, self._effort, self._most = "", 1, 1
        if lists is not None:
            self.parameter, self._effort, self._most = "nprobe", min(4, lists.nlist), -(-lists.nlist // 2)
            if faiss.get_num_gpus():
                self._most = min(self._most, _MOST_PROBES)
        elif "HNSW" in factory:
            self.parameter, self._effort, self._most = "efSearch", 32, 2048

    @property
    def probes(self) -> int:
        """Lists that are searched for a row."""
        return self._effort if self.parameter == "nprobe" else 0

    @property
    def refined(self) -> bool:
        """Whether faiss sorts the answers by finer codes (`RFlat`, `Refine(...)`)."""
        return re.search(",R(Flat|efine)", self.factory) is not None

    @property
    def effort(self) -> str:
        """The search parameter, such as "nprobe=4", or "" if the index has none."""
        return f"{self.parameter}={self._effort}" if self.parameter else ""

    @effort.setter
    def effort(self, effort: str) -> None:
        self._effort = int(effort.partition("=")[2] or 1)

    def try_harder(self) -> bool:
        """Double the search effort, up to its limit; returns whether it grew."""
        before = self._effort
        self._effort = max(before, min(2 * before, self._most))
        return self._effort > before

    def search(self, queries: np.ndarray, count: int) -> np.ndarray:
        """About the `count` nearest kept rows of unit vectors [n, d], best first, int64 [n, count], or -1.

        Of rows that the index cannot tell apart the first come first.
        """
        best = np.full((len(queries), count), EMPTY)
        asked = _Queries(queries)
        for first, held in self.held:
            part = _on_gpu(read_index(held)) if isinstance(held, Path) else held
            if part.ntotal == 0:
                continue
            if self.parameter:
                _parameters().set_index_parameter(part, self.parameter, self._effort)
            if self.parameter == "nprobe" and not self.refined:
                asked.choose_lists(part)
            for start in range(0, len(queries), _QUERIES_AT_ONCE):
                cut = slice(start, start + _QUERIES_AT_ONCE)
                found = _nearest(part, asked.some(cut), count, first)
                best[cut] = np.sort(np.concatenate([best[cut], found], axis=1), axis=1)[:, -count:]
            del part
        for start in range(0, len(best), _QUERIES_AT_ONCE):  # in place: all are most of a search's memory
            some = best[start : start + _QUERIES_AT_ONCE]
            some[:] = np.where(some == EMPTY, -1, rows_of(some))[:, ::-1]
        return best


@dataclass
class _Queries:
    """Unit vectors [n, d] and, if all parts of an index search the same, the lists that they search."""

    vectors: np.ndarray
    lists: np.ndarray | None = None
    nearness: np.ndarray | None = None

    def choose_lists(self, part: faiss.Index) -> None:
        """Find the lists once for all parts: that takes time for every list there is."""
        if self.lists is not None or faiss.get_num_gpus():
            return
        index = faiss.extract_index_ivf(part)
        self.vectors = _transformed(part, self.vectors)
        if (centres := _centres(index)) is not None:
            self.nearness, self.lists = _nearest_lists(self.vectors, centres, index.nprobe)
        else:
            self.nearness, self.lists = index.quantizer.search(self.vectors, index.nprobe)

    def some(self, which: slice | np.ndarray) -> _Queries:
        """Some of them."""
        if self.lists is None or self.nearness is None:
            return _Queries(self.vectors[which])
        return _Queries(self.vectors[which], self.lists[which], self.nearness[which])

    def search(self, part: faiss.Index, count: int) -> tuple[np.ndarray, np.ndarray]:
        """The answer of faiss: scores and places, [n, count] both."""
        if self.lists is None:
            found: tuple[np.ndarray, np.ndarray] = part.search(self.vectors, count)
        else:
            index = faiss.downcast_index(faiss.extract_index_ivf(part))
            found = index.search_preassigned(self.vectors, count, self.lists, self.nearness)
        return found


class SideIndex(PartitionedIndex):
    """A faiss index over the kept rows of a side, in memory or, in parts, in files.

    With a journal all of it is in files, whose checksums are facts of the journal: what an earlier run wrote
    is not made again.

    Args:
        share: Bytes that it may take, or None for no limit: then it is in memory.
        stem: Folder and beginning of the names of its files.
        progress: Is told how many rows more have been put in.

    Raises:
        MexmaError: As `train`, or it cannot be written, or a file is damaged.
    """

    def __init__(
        self,
        side: SearchSide,
        factory: str,
        share: int | None,
        stem: Path,
        journal: FileJournal | None,
        progress: Callable[[int], None],
    ) -> None:
        self._side, self._stem, self._journal, self._progress = side, stem, journal, progress
        self._trained, _ = self._kept("trained", lambda: train(side, factory, share))
        super().__init__(factory, self._trained)
        # A part is all that a killed search adds again. Other indexes answer otherwise in parts.
        self._rows = _PART_ROWS if self.parameter == "nprobe" and not self.refined else max(1, len(side))
        self._in_files = False
        if share is not None:
            per_row = _bytes_per_row(self._trained, side.unit_vectors(0, BLOCK)) * SLACK
            fit = max(1, int(share / per_row))
            self._in_files, self._rows = fit < len(side), min(fit, self._rows)

    @property
    def files(self) -> int:
        """Files that the index is in; 0: it is in memory."""
        return sum(isinstance(held, Path) for _, held in self.held)

    def fill(self) -> None:
        """Put all rows in."""
        for number, first in enumerate(range(0, len(self._side), self._rows)):
            part, path = self._kept(str(number), partial(self._filled, first), self._in_files)
            self.held.append((first, path if self._in_files else _on_gpu(part)))

    def _filled(self, first: int) -> faiss.Index:
        """The part whose rows begin at `first`."""
        stop = min(first + self._rows, len(self._side))
        return fill(faiss.clone_index(self._trained), self._side, first, stop, self._progress)

    def _kept(
        self, what: str, make: Callable[[], faiss.Index], in_file: bool = False
    ) -> tuple[faiss.Index, Path]:
        """An index that an earlier run wrote, or one that is made now; and its file, if it is to have one."""
        path, journal = self._stem.with_name(f"{self._stem.name}-{what}.faiss"), self._journal
        if journal is not None and path.name in journal.facts:
            index = read_index(path, journal.facts[path.name])
            self._progress(index.ntotal)
            return index, path
        index = make()
        if in_file or journal is not None:
            began = time.monotonic()
            checksum = write_index(index, path)
            if journal is not None:
                journal.note(began, **{path.name: checksum})
        return index, path


def train(side: SearchSide, factory: str, share: int | None = None) -> faiss.Index:
    """An index without rows, trained on a sample of a side; the same whatever the number of threads.

    Args:
        share: Bytes that the training may take; None: no limit.

    Raises:
        MexmaError: faiss does not know the factory string, or there are too few rows.
    """
    index = _made(side.dim, factory)
    _set_seed(index)
    if index.is_trained:
        return index
    lists = faiss.try_extract_index_ivf(index)
    rows = min(len(side), training_rows(lists.nlist if lists is not None else None))
    if share is not None:
        rows = min(rows, max(1, share // (12 * side.dim)))  # faiss makes two copies
    vectors = gather(side, np.sort(np.random.default_rng(SEED).choice(len(side), rows, replace=False)))
    try:
        if lists is not None and lists.nlist <= rows and _centres(lists) is not None:
            lists.quantizer.add(_clustered(_transformed(index, vectors), lists.nlist))
        index.train(vectors)
    except RuntimeError as error:
        raise MexmaError(
            f"the index {factory!r} cannot be trained on {rows:,} rows: {_reason(error)}",
            "an index with fewer lists, more --memory if that is short, or the exact search",
        ) from None
    if lists is not None and isinstance(graph := faiss.downcast_index(lists.quantizer), faiss.IndexHNSW):
        centres, threads = graph.reconstruct_n(0, lists.nlist), faiss.omp_get_max_threads()
        graph.reset()
        faiss.omp_set_num_threads(1)  # more of them make another graph each time
        try:
            graph.add(centres)
        finally:
            faiss.omp_set_num_threads(threads)
    return index


def _clustered(vectors: np.ndarray, lists: int) -> np.ndarray:
    """Unit centres [lists, d] of training vectors [n, d], by spherical k-means: what faiss computes, too, but
    its own products take four times as long as torch's on newer processors."""
    rng = np.random.default_rng(SEED)
    centres = vectors[rng.choice(len(vectors), lists, replace=False)]
    for _ in range(ROUNDS):
        nearest = _nearest_lists(vectors, centres, 1)[1][:, 0]
        order = np.argsort(nearest, kind="stable")
        found, first = np.unique(nearest[order], return_index=True)
        centres = vectors[rng.choice(len(vectors), lists)]  # where a list has none
        centres[found] = np.add.reduceat(vectors[order], first, axis=0)
        faiss.normalize_L2(centres)
    return centres


def _nearest_lists(vectors: np.ndarray, centres: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Cosines, float32 [n, count], and numbers, int64, of the lists whose centres are nearest to vectors."""
    near, lists = np.empty((len(vectors), count), np.float32), np.empty((len(vectors), count), np.int64)
    turned = torch.from_numpy(centres).T
    for start in range(0, len(vectors), _QUERIES_AT_ONCE):
        some = slice(start, start + _QUERIES_AT_ONCE)
        near[some], lists[some] = (torch.from_numpy(vectors[some]) @ turned).topk(count, dim=1)
    return near, lists


def _centres(lists: faiss.IndexIVF) -> np.ndarray | None:
    """The centres of lists, float32 [lists, d]; None: a graph of them is searched."""
    flat = faiss.downcast_index(lists.quantizer)
    return flat.reconstruct_n(0, flat.ntotal) if isinstance(flat, faiss.IndexFlat) else None


def _transformed(index: faiss.Index, vectors: np.ndarray) -> np.ndarray:
    """Vectors as the lists of an index have them. A rotation that is not trained yet learns from them."""
    inner = faiss.downcast_index(index)
    if isinstance(inner, faiss.IndexRefine):
        return _transformed(inner.base_index, vectors)
    if isinstance(inner, faiss.IndexPreTransform):
        for place in range(inner.chain.size()):
            transform = faiss.downcast_VectorTransform(inner.chain.at(place))
            if not transform.is_trained:
                transform.train(vectors)
            vectors = transform.apply(vectors)
    return vectors


def lists_in(factory: str) -> int | None:
    """How many lists an index has that a factory string makes; None: it is one without."""
    named = re.search(r"IVF(\d+)", factory)
    return int(named[1]) if named else None


def training_rows(lists: int | None) -> int:
    """Rows that train an index with so many lists, or one without."""
    return _TRAINING_ROWS if lists is None else max(ROWS_PER_LIST * lists, 1 << 14)


def fill(
    index: faiss.Index, side: SearchSide, start: int, stop: int, progress: Callable[[int], None] | None = None
) -> faiss.Index:
    """Put kept rows of a side into an index, and return it; `progress` is told how many, block by block."""
    for first in range(start, stop, BLOCK):
        rows = side.unit_vectors(first, min(first + BLOCK, stop))
        index.add(rows)
        if progress is not None:
            progress(len(rows))
    return index


def _nearest(part: faiss.Index, queries: _Queries, count: int, first: int, tied: int = _TIED) -> np.ndarray:
    """Keys of the `count` nearest rows of a part whose rows begin at `first`, int64 [n, count], ascending.

    faiss returns any of the rows with the last score, so it is asked for `tied` more.
    """
    asked = min(count + tied, part.ntotal, max(count, _MOST_ANSWERS))
    scores, places = queries.search(part, asked)
    keys = np.full((len(scores), max(count, asked)), EMPTY)
    keys[:, :asked] = np.where(places < 0, EMPTY, keys_of(scores, places + first))
    best: np.ndarray = np.sort(keys, axis=1)[:, -count:]
    if count < asked < min(part.ntotal, _MOST_ANSWERS):
        unsure = np.flatnonzero((places[:, -1] >= 0) & (scores[:, -1] == scores[:, count - 1]))
        if len(unsure):
            best[unsure] = _nearest(part, queries.some(unsure), count, first, 4 * tied)
    return best


@contextmanager
def with_threads() -> Iterator[None]:
    """Let faiss have as many threads as torch has, for the time of the block."""
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(torch.get_num_threads())
    try:
        yield
    finally:
        faiss.omp_set_num_threads(before)


def _made(dim: int, factory: str) -> faiss.Index:
    """An untrained index; a factory string that faiss does not know is refused."""
    try:
        return faiss.index_factory(dim, factory, faiss.METRIC_INNER_PRODUCT)
    except RuntimeError as error:
        raise MexmaError(
            f"faiss refuses the index {factory!r} for {dim} dimensions: {_reason(error)}",
            'write it as for faiss.index_factory, such as "IVF1024,PQ128x4fs", or "auto"',
        ) from None


def write_index(index: faiss.Index, path: Path) -> str:
    """Write an index to a file, and return its xxh3_128; if it cannot be written, there is no file."""
    digest = xxhash.xxh3_128()
    try:
        with path.open("wb") as file:

            def write(piece: bytes) -> int:
                digest.update(piece)
                return file.write(piece)

            # Where faiss writes to a file of its own, it only prints that the last bytes found no room.
            faiss.write_index(index, faiss.PyCallbackIOWriter(write))
            fsync_file(file)
    except (RuntimeError, OSError) as error:
        path.unlink(missing_ok=True)
        reason = _reason(error) if isinstance(error, RuntimeError) else error.strerror
        raise MexmaError(
            f"an index cannot be written to {path.parent}: {reason}",
            "free some space, name another folder, or, without an output file, give it more --memory",
        ) from None
    return digest.hexdigest()


def read_index(path: Path, checksum: str | None = None) -> faiss.Index:
    """Read an index.

    Args:
        checksum: What `write_index` returned, if another run wrote it.

    Raises:
        MexmaError: It is not what was written.
    """
    try:
        if checksum is not None and checksum_file(path) != checksum:
            raise RuntimeError("its checksum is not right")
        return faiss.read_index(str(path))
    except (RuntimeError, FileNotFoundError) as error:
        reason = _reason(error) if isinstance(error, RuntimeError) else "it is missing"
        raise MexmaError(
            f"{path} is damaged: {reason}", "remove the unfinished output and start the search anew"
        ) from None


def _on_gpu(index: faiss.Index) -> faiss.Index:
    """An index moved to a GPU, where faiss has one and such an index for it; otherwise as it is."""
    device = pick_device("auto")
    if device.type == "cpu":
        return index
    if faiss.get_num_gpus() == 0:
        log.info("searching the index on the processor: the installed faiss is without GPUs")
        return index
    try:
        there = faiss.index_cpu_to_gpu(faiss.StandardGpuResources(), device.index or 0, index)
    except RuntimeError as error:
        log.info("searching the index on the processor: %s", _reason(error))
        return index
    log.info("searching the index on a GPU")
    return there


def _parameters() -> faiss.ParameterSpace:
    """The object of faiss that sets search parameters, on GPUs too if this faiss has them."""
    return faiss.GpuParameterSpace() if faiss.get_num_gpus() else faiss.ParameterSpace()


def _bytes_per_row(trained: faiss.Index, sample: np.ndarray) -> float:
    """Bytes that every row adds to an index."""
    inner = faiss.downcast_index(trained)
    if isinstance(inner, faiss.IndexPreTransform):
        inner = faiss.downcast_index(inner.index)
    if isinstance(inner, faiss.IndexIVF):
        return float(inner.code_size + 8)
    filled = faiss.clone_index(trained)
    before = len(faiss.serialize_index(filled))
    filled.add(sample)
    return (len(faiss.serialize_index(filled)) - before) / len(sample)


def _set_seed(index: faiss.Index) -> None:
    """Seed all clusterings in an index, and let them be silent about few training rows."""
    inner = faiss.downcast_index(index)
    if isinstance(inner, faiss.IndexPreTransform):
        _set_seed(inner.index)
    elif isinstance(inner, faiss.IndexRefine):
        _set_seed(inner.base_index)
    if isinstance(inner, faiss.IndexIVF):
        inner.cp.niter = ROUNDS
    for owner in (inner, getattr(inner, "pq", None)):
        settings = getattr(owner, "cp", None)
        if settings is not None:
            settings.seed, settings.min_points_per_centroid = SEED, 1


def _reason(error: RuntimeError) -> str:
    """faiss's own words, without the place in its source."""
    text = re.sub(r"^.* at \S+:\d+: ", "", str(error), flags=re.DOTALL)
    return re.sub(r"^Error: '.*?' failed:? ?", "", text).strip() or text
