"""Exact nearest neighbours in both directions from one pass over the similarity matrix.

LASER asks an index twice, once a direction, and so multiplies the same two matrices twice. Here every tile of
`x @ y.T` is made once and looked at along its rows and along its columns. What is kept of a row or a column
is its k best so far; a tile is compared with the k-th best (one sequential read) and only the few numbers
that exceed it are taken out and sorted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch

X_TILE, Y_TILE = 2048, 2048  # a tile is 16 MiB of scores; the rest of the memory is the two lists of k best
_EMPTY = np.iinfo(np.int64).min
_FAST_FROM = 1 << 31  # multiplications below which looking for a faster kernel does not pay
_FLOAT32_ERROR = 1e-6  # float32 sums over unit vectors err by about 1e-7, bfloat16 by 3e-4


class VectorSource(Protocol):
    """Whatever has rows of vectors: an EmbeddingStore, or anything that reads like one."""

    @property
    def rows(self) -> int: ...

    @property
    def dim(self) -> int: ...

    def vectors(self, start: int, stop: int) -> np.ndarray: ...


@dataclass(frozen=True)
class Neighbours:
    """The nearest rows of the other side, by cosine, for every row of both sides.

    `forward_scores` float32 [N, k] and `forward_ids` int64 [N, k] belong to the rows of x and point into y;
    `backward_scores` [M, k'] and `backward_ids` [M, k'] the other way round. Each row is sorted by (score
    descending, id ascending). k is at most the number of candidates. A row that was left out has ids of -1
    and scores of -inf, and is nobody's neighbour.
    """

    forward_scores: np.ndarray
    forward_ids: np.ndarray
    backward_scores: np.ndarray
    backward_ids: np.ndarray


def knn(
    x: np.ndarray | VectorSource,
    y: np.ndarray | VectorSource,
    k: int,
    *,
    keep_x: np.ndarray | None = None,
    keep_y: np.ndarray | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> Neighbours:
    """Find the k nearest rows by cosine, from x to y and from y to x, exactly in float32.

    Args:
        x, y: [N, d] and [M, d], arrays or sources that are read block by block. Rows need not be normalised;
            a row of zeros has cosine 0 with everything. Not-finite numbers are a ValueError.
        k: neighbours a row; a side with fewer rows gives as many as it has.
        keep_x, keep_y: bool [N] and [M], False for rows that take no part. Default: all take part.
        on_progress: called with (tiles done, tiles in all).
    """
    if k < 1:
        raise ValueError(f"k must be at least 1, not {k}")
    left, right = _Side(x, keep_x), _Side(y, keep_y)
    if left.dim != right.dim:
        raise ValueError(f"vectors of {left.dim} and of {right.dim} dimensions")
    if len(right) > 0xFFFFFFFF or len(left) > 0xFFFFFFFF:
        raise ValueError("more than 2^32 rows")
    forward = np.full((len(left), min(k, len(right))), _EMPTY, dtype=np.int64)
    backward = np.full((len(right), min(k, len(left))), _EMPTY, dtype=np.int64)
    with _float32_matmul(len(left), len(right), left.dim):
        _sweep(left, right, forward, backward, on_progress)
    return Neighbours(*_unpack(forward, left, right), *_unpack(backward, right, left))


def _sweep(
    left: _Side,
    right: _Side,
    forward: np.ndarray,
    backward: np.ndarray,
    on_progress: Callable[[int, int], None] | None,
) -> None:
    """Go over all tiles, x outside and y inside, and fill both lists of keys in place."""
    height, width = min(X_TILE, max(len(left), 1)), min(Y_TILE, max(len(right), 1))
    scores, mask = torch.empty(height * width), np.empty(height * width, dtype=bool)
    tiles = -(-len(left) // height) * -(-len(right) // width)
    done = 0
    for top in range(0, len(left), height):
        rows = left.block(top, top + height)
        for start in range(0, len(right), width):
            columns = right.block(start, start + width)
            size = len(rows) * len(columns)
            tile = scores[:size].view(len(rows), len(columns))
            hits = mask[:size].reshape(len(rows), len(columns))
            torch.matmul(rows, columns.T, out=tile)
            _take_rows(tile, hits, forward[top : top + height], start)
            _take_columns(tile, hits, backward[start : start + width], top)
            done += 1
            if on_progress is not None:
                on_progress(done, tiles)


class _Side:
    """The kept rows of one side, normalised on the way in."""

    def __init__(self, source: np.ndarray | VectorSource, keep: np.ndarray | None) -> None:
        self._source = source
        if isinstance(source, np.ndarray):
            self.rows, self.dim = source.shape
        else:
            self.rows, self.dim = source.rows, source.dim
        if keep is not None and keep.shape != (self.rows,):
            raise ValueError(f"a mask of shape {keep.shape} for {self.rows} rows")
        self.ids = np.arange(self.rows) if keep is None else np.flatnonzero(keep)

    def __len__(self) -> int:
        return len(self.ids)

    def block(self, start: int, stop: int) -> torch.Tensor:
        """Kept rows start to stop as unit vectors, float32 [n, d]; zeros stay zeros."""
        ids = self.ids[start:stop]
        first, last = int(ids[0]), int(ids[-1]) + 1
        source = self._source
        span = source[first:last] if isinstance(source, np.ndarray) else source.vectors(first, last)
        if len(span) != len(ids):
            span = span[ids - first]
        block = torch.from_numpy(np.array(span, dtype=np.float32, order="C"))
        norms = torch.linalg.vector_norm(block, dim=1, keepdim=True)
        if not bool(torch.isfinite(norms).all()):
            row = int(ids[int((~torch.isfinite(norms[:, 0])).nonzero()[0])])
            raise ValueError(f"the vector of row {row} is not finite")
        return block.div_(torch.where(norms == 0, 1.0, norms))


def _take_rows(tile: torch.Tensor, hits: np.ndarray, best: np.ndarray, first_id: int) -> None:
    """Merge what a tile [r, c] has into the k best of its rows, `best` [r, k]."""
    bound = _bound(best, tile, dim=1)
    np.greater_equal(tile.numpy(), bound[:, None], out=hits)
    flat = np.flatnonzero(hits)
    if len(flat):
        row, column = np.divmod(flat, tile.shape[1])
        _merge(best, row, column + first_id, tile.numpy().reshape(-1)[flat])


def _take_columns(tile: torch.Tensor, hits: np.ndarray, best: np.ndarray, first_id: int) -> None:
    """Merge what a tile [r, c] has into the k best of its columns, `best` [c, k]."""
    bound = _bound(best, tile, dim=0)
    np.greater_equal(tile.numpy(), bound[None, :], out=hits)
    flat = np.flatnonzero(hits)
    if len(flat):
        row, column = np.divmod(flat, tile.shape[1])
        order = np.argsort(column.astype(np.uint16), kind="stable")  # a tile has at most 2^16 columns
        _merge(best, column[order], row[order] + first_id, tile.numpy().reshape(-1)[flat][order])


def _bound(best: np.ndarray, tile: torch.Tensor, dim: int) -> np.ndarray:
    """The score, float32, that an entry of the tile must reach to enter the k best of its row or column.

    Where k are known already it is the number just above the k-th: tiles come in order of their ids, so an
    equal score has a higher id and stays out. Where they are not, k groups of entries whose maxima reach b
    prove k entries that reach b.
    """
    kth = best[:, 0]
    full = kth != _EMPTY
    known = np.nextafter(_score(np.where(full, kth, 0)), np.float32(np.inf))
    bound = np.where(full, known, np.float32(-np.inf))
    k, length = best.shape[1], tile.shape[dim]
    groups = max(64, 4 * k)
    if not full.all() and length >= 2 * groups:
        used = tile.narrow(dim, 0, length - length % groups).unflatten(dim, (-1, groups))
        kth_maximum = used.amax(dim).topk(k, dim=dim).values.select(dim, -1)
        bound = np.where(full, bound, kth_maximum.numpy())
    return bound


def _merge(best: np.ndarray, row: np.ndarray, ids: np.ndarray, scores: np.ndarray) -> None:
    """Put hits, sorted by row, into `best` in place. Rows with many hits are not paid for by the others."""
    keys = _key(scores, ids)
    counts = np.bincount(row, minlength=len(best))
    place = np.arange(len(row)) - (np.cumsum(counts) - counts)[row]
    k, low = best.shape[1], 0
    while low < (most := int(counts.max())):
        high = min(max(8, 4 * low), most)
        chosen = np.flatnonzero((counts > low) & (counts <= high))
        if len(chosen):
            position = np.full(len(best), -1)
            position[chosen] = np.arange(len(chosen))
            mine = position[row] >= 0
            table = np.full((len(chosen), k + high), _EMPTY, dtype=np.int64)
            table[:, :k] = best[chosen]
            table[position[row[mine]], k + place[mine]] = keys[mine]
            table.sort(axis=1)
            best[chosen] = table[:, -k:]
        low = high


def _key(scores: np.ndarray, ids: np.ndarray) -> np.ndarray:
    """One int64 that orders as (score ascending, id descending), so that a plain sort is the whole rule."""
    bits = (scores + np.float32(0)).view(np.int32)  # -0.0 becomes 0.0
    ordered = np.where(bits < 0, bits ^ np.int32(0x7FFFFFFF), bits).astype(np.int64)
    return (ordered << 32) | (np.int64(0xFFFFFFFF) - ids)


def _score(keys: np.ndarray) -> np.ndarray:
    ordered = (keys >> 32).astype(np.int32)
    return np.where(ordered < 0, ordered ^ np.int32(0x7FFFFFFF), ordered).view(np.float32)


def _unpack(keys: np.ndarray, own: _Side, other: _Side) -> tuple[np.ndarray, np.ndarray]:
    """Keys of kept rows, ascending -> scores and ids of all rows, best first."""
    scores = np.full((own.rows, keys.shape[1]), -np.inf, dtype=np.float32)
    ids = np.full((own.rows, keys.shape[1]), -1, dtype=np.int64)
    if keys.size:
        scores[own.ids] = _score(keys)[:, ::-1]
        ids[own.ids] = other.ids[np.int64(0xFFFFFFFF) - (keys[:, ::-1] & np.int64(0xFFFFFFFF))]
    return scores, ids


@contextmanager
def _float32_matmul(rows: int, columns: int, dim: int) -> Iterator[None]:
    """Use the faster matrix product for the time of the block, if it is still float32 here.

    torch's 'medium' precision sends float32 to oneDNN, twice as fast as the default on AMD processors. On
    processors with bfloat16 matrix units it also rounds to bfloat16; a product of random unit vectors tells.
    """
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    if rows * columns * dim >= _FAST_FROM:
        torch.set_float32_matmul_precision("medium")
        noise = torch.randn(1024, dim, generator=torch.Generator().manual_seed(0))
        units = torch.nn.functional.normalize(noise)
        exact = units[:64].double() @ units.double().T
        if float((units @ units.T)[:64].sub(exact).abs().max()) > _FLOAT32_ERROR:
            torch.set_float32_matmul_precision("highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
