"""The product on a GPU, and all that a search does with estimates there: only lists of the best come back.

Copying a tile to the processor would take longer than computing it, and so would waiting for the device in
every small step. So tiles are large, few numbers of them are looked at twice, and cosines are computed there:
they are sums that float64 holds exactly (cosines.py), the same numbers as on a processor.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from mexma_cli.knn import cosines
from mexma_cli.knn.cosines import EMPTY, TileLimits, TilePairs
from mexma_cli.knn.products import Block, Multiply, Samples
from mexma_cli.knn.torch_products import BFloat16
from mexma_cli.numerics.devices import pick_device
from mexma_cli.numerics.threads import ahead

log = logging.getLogger(__name__)

_GROUP = 64  # estimates of a row of which the largest is looked at first
_TOGETHER = 1 << 18  # such groups whose estimates are read at once
_NUMBERS = 1 << 26  # of pairs whose cosines are computed together
_AMPLE = 40 << 30  # bytes with which there is room for larger tiles
_LAYERS = 64  # estimates in each group of which maxima are taken for a first limit


def load_libraries() -> None:
    """Load what products on a GPU need, a gigabyte or more of this machine's memory, if one is to search."""
    device = pick_device("auto")
    if device.type != "cpu":
        one = torch.ones(1, 1, dtype=torch.float16, device=device)
        torch.matmul(one, one)


class OnDevice(BFloat16):
    """float16 on a GPU (or, to test the same code, "cpu"): numbers below 1 have smaller errors than in
    bfloat16, in the same time.

    Args:
        device: Where it is.
        larger: How many times as many rows of x and of y as on a processor are multiplied at once; None: as
            its memory allows.
    """

    dtype = torch.float16
    relative_error = np.float32(2.0**-11)
    memory_errors = (torch.OutOfMemoryError,)
    library = torch
    layers = _LAYERS

    def __init__(self, samples: Samples, device: str, larger: tuple[int, int] | None = None) -> None:
        super().__init__(samples)
        self.device = torch.device(device)
        self.larger = larger or ((32, 8) if self._free() > _AMPLE else (16, 4))
        self._centres = [self.put(centre) for centre in self.centres]
        if self.device.type == "cuda":
            log.info("searching on %s", torch.cuda.get_device_name(self.device))

    def threads(self) -> int:
        """One: the device has work enough from it."""
        return 1

    def ahead(self, blocks: Iterable[np.ndarray]) -> Iterator[np.ndarray]:
        """Read on a thread: the processor has nothing else to do."""
        return ahead(blocks)

    def rows_held(self, dim: int, k: int) -> int:
        """Rows of x in half of the memory that the device has left."""
        return self._free() // 2 // (6 * dim + 8 * k + 64)

    def _free(self) -> int:
        """Bytes that the device has left."""
        return torch.cuda.mem_get_info(self.device)[0] if self.device.type == "cuda" else 0

    def put(self, array: np.ndarray) -> torch.Tensor:
        """A copy on the device."""
        return torch.from_numpy(array).to(self.device)

    def fetch(self, best: torch.Tensor, lists: np.ndarray) -> None:
        """Copy lists back."""
        torch.from_numpy(lists).copy_(best)

    def block(self, unit: Any, side: int) -> Block:
        centre, other = self._centres[side], self._centres[1 - side]
        bias = unit @ other
        if side:
            bias -= centre @ other
        exact = unit - centre
        low = exact.to(self.dtype)
        kept = low.float()
        length = (kept if side else exact).norm(dim=1) * 1.0001
        error = (exact - kept).norm(dim=1) * 1.0001
        sums = torch.full_like(error, 2 * unit.shape[1] * 2.0**-24 + 1e-6)  # and for the smallest numbers
        return Block(low, bias, error, sums, length.max() if len(length) else length.sum())

    def memory(self, rows: int, columns: int) -> Any:
        return torch.empty(rows * columns, dtype=self.dtype, device=self.device)

    def against(self, low: Any) -> Multiply:
        multiply = super().against(low)

        def exactly(rows: torch.Tensor, memory: torch.Tensor) -> torch.Tensor:
            with _float32_sums():
                return multiply(rows, memory)

        return exactly

    def near(self, tile: Any, rows: TileLimits, columns: TileLimits) -> Iterator[TilePairs]:
        """`cosines.near`, by groups of which the largest estimate is above the least of their limits."""
        groups = tile.shape[1] // _GROUP
        whole = groups * _GROUP
        if groups:
            # Estimates of a group lie apart, so that neighbouring maxima come from neighbours in memory.
            in_groups = tile[:, :whole].unflatten(1, (_GROUP, groups))
            need, above = (part[:whole].view(_GROUP, groups) for part in columns)
            for_rows = rows.need[:, None] - above.amax(0)
            for_columns = need.amin(0) - rows.above[:, None]
            places = (in_groups.amax(1) >= torch.minimum(for_rows, for_columns)).nonzero()
            for some in places.split(_TOGETHER):
                row, group = some.unbind(1)
                estimates = in_groups[row, :, group].float()
                for_row, for_column = (
                    rows.need[row, None] - above.T[group],
                    need.T[group] - rows.above[row, None],
                )
                which, layer = (estimates >= torch.minimum(for_row, for_column)).nonzero().unbind(1)
                yield TilePairs(row[which], layer * groups + group[which], estimates[which, layer])
        if whole < tile.shape[1]:
            rest = TileLimits(*(part[whole:] for part in columns))
            for pairs in cosines.near(tile[:, whole:], rows, rest, torch):
                yield TilePairs(pairs.rows, pairs.columns + whole, pairs.estimates.float())

    def kth(self, tile: Any, k: int, layers: int, groups: int, other: Any, axis: int) -> Any:
        whole, length = layers * groups, tile.shape[1 - axis]
        found, step = [], max(1, _NUMBERS // whole)
        for start in range(0, length, step):
            part = tile.narrow(1 - axis, start, min(step, length - start)).narrow(axis, 0, whole).float()
            part += other[:whole] if axis else other[:whole, None]
            maxima = part.unflatten(axis, (layers, groups)).amax(axis)
            found.append(maxima.topk(k, axis).values.select(axis, -1))
        return torch.cat(found)

    def scores(self, keys: torch.Tensor) -> torch.Tensor:
        ordered = (keys >> 32).to(torch.int32)
        scores = torch.where(ordered < 0, ordered ^ 0x7FFFFFFF, ordered).view(torch.float32)
        return torch.where(keys == EMPTY, -torch.inf, scores)

    def dots(self, x: torch.Tensor, y: torch.Tensor, rows: torch.Tensor, columns: torch.Tensor) -> Any:
        at_once = max(1, _NUMBERS // x.shape[1])
        parts = zip(rows.split(at_once), columns.split(at_once), strict=True)
        sums = [x[own].double().mul_(y[other]).sum(1).float() for own, other in parts]
        return torch.cat(sums)

    def offer(self, best: torch.Tensor, rows: torch.Tensor, ids: torch.Tensor, scores: torch.Tensor) -> None:
        """`cosines.offer` there."""
        bits = (scores + 0.0).view(torch.int32).long()
        keys = (torch.where(bits < 0, bits ^ 0x7FFFFFFF, bits) << 32) | (0xFFFFFFFF - ids)
        better = keys > best[rows, 0]
        keys, order = keys[better].sort(descending=True)
        rows, order = rows[better][order].sort(stable=True)
        keys, k = keys[order], best.shape[1]
        rank = torch.arange(len(rows), device=rows.device) - torch.searchsorted(rows, rows)
        first = rank < k
        touched, places = torch.unique_consecutive(rows[first], return_inverse=True)
        new = torch.full((len(touched), k), EMPTY, device=rows.device)
        new[places, rank[first]] = keys[first]
        best[touched] = torch.cat([best[touched], new], 1).sort(1).values[:, -k:]


@contextmanager
def _float32_sums() -> Iterator[None]:
    """Sums of products in float32 to the end: the bounds count on it."""
    settings = torch.backends.cuda.matmul
    before = settings.allow_fp16_reduced_precision_reduction
    settings.allow_fp16_reduced_precision_reduction = False
    try:
        yield
    finally:
        settings.allow_fp16_reduced_precision_reduction = before
