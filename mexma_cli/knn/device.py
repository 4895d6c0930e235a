"""Estimates of cosines that a GPU makes and searches, so that only pairs that may be near come back.

The bounds are those of blocks.py. The processor computes these pairs exactly, by the same loop as always, so
that neighbours are the same to the last bit as without a GPU. A tile stays on the device: copying it
would take longer than computing it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch

from mexma_cli.errors import MexmaError
from mexma_cli.knn import tiles
from mexma_cli.knn.arithmetic import Arithmetic, as_tensor
from mexma_cli.knn.blocks import Block
from mexma_cli.knn.tiles import groups_of
from mexma_cli.numerics.devices import pick_device

log = logging.getLogger(__name__)

_PAIR_BYTES = 32  # of a tile on the device: products, errors, bounds, and the results of comparing them


def load_libraries() -> None:
    """Load what products on a GPU need, a gigabyte or more of this machine's memory, if one is to search."""
    device = pick_device("auto")
    if device.type != "cpu":
        one = torch.ones(1, 1, dtype=torch.bfloat16, device=device)
        torch.matmul(one, one)


class DeviceHits(NamedTuple):
    """Pairs that may be among the nearest: int32 [2, p], rows (ascending) and columns of a tile, and their
    estimates without biases, float32 [p]."""

    pairs: np.ndarray
    estimates: np.ndarray


@dataclass(frozen=True)
class OnDevice:
    """A block's numbers on the device: low [n, d], as_row, as_column, bias float32 [n]."""

    low: torch.Tensor
    as_row: torch.Tensor
    as_column: torch.Tensor
    bias: torch.Tensor


class Device:
    """A GPU (or, to test the same code, "cpu") that looks for candidates.

    Attributes:
        height: Rows of x that fit at once with Y_TILE of y into half of the memory that is free now.
    """

    def __init__(self, arithmetic: Arithmetic) -> None:
        assert arithmetic.device is not None and arithmetic.dtype != torch.int8
        self._device = torch.device(arithmetic.device)
        self._spread = arithmetic.spread
        self.height = tiles.X_TILE
        if self._device.type == "cuda":
            free = torch.cuda.mem_get_info(self._device)[0]
            self.height = min(tiles.X_TILE, free // 2 // (_PAIR_BYTES * tiles.Y_TILE))
            log.info("searching on %s", torch.cuda.get_device_name(self._device))
        if self.height < 1:
            raise _full()

    def put(self, block: Block) -> OnDevice:
        """Copy the numbers that estimates need."""
        with _full_as_message():
            stats = (block.as_row, block.as_column, block.bias)
            return OnDevice(
                as_tensor(block.low).to(self._device), *(torch.from_numpy(s).to(self._device) for s in stats)
            )

    def floors(
        self, x: Block, y: OnDevice, slack: np.ndarray, k: tuple[int, int]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Lower bounds of the k-th best cosine of each row and of each column, float32 [r] and [c].

        They are the k-th best of the maxima of groups, as on the processor; -inf where a side is too short.

        Args:
            slack: x.slack(y), float32 [r].
            k: Neighbours of a row of x and of a row of y.
        """
        row_floors = np.full(len(x), -np.inf, dtype=np.float32)
        column_floors = np.full(len(y.low), -np.inf, dtype=np.float32)
        for start in range(0, len(x), self.height):
            own = slice(start, start + self.height)
            with _full_as_message(), _exact_sums():
                part = self.put(x.part(own.start, own.stop))
                product, wide = self._estimates(part, y)
                lower = product.sub_(wide).add_(y.bias)
                lower += (part.bias - torch.from_numpy(slack[own]).to(self._device))[:, None]
                if groups := groups_of(k[0], lower.shape[1]):
                    row_floors[own] = _floor(lower, groups, k[0]).cpu().numpy()
                if groups := groups_of(k[1], lower.shape[0]):
                    np.maximum(column_floors, _floor(lower.T, groups, k[1]).cpu().numpy(), out=column_floors)
        return row_floors, column_floors

    def near(
        self,
        x: Block,
        y: OnDevice,
        slack: np.ndarray,
        row_bound: np.ndarray,
        column_bound: np.ndarray,
        most: int,
    ) -> Iterator[DeviceHits]:
        """Pairs whose cosine may reach its row's or its column's bound, some at a time, rows ascending.

        Args:
            slack: x.slack(y), float32 [r].
            row_bound: float32 [r], a cosine. column_bound: float32 [c], a cosine less y's bias.
            most: Pairs at a time, and not less than y has rows.
        """
        for start in range(0, len(x), self.height):
            own = slice(start, start + self.height)
            with _full_as_message(), _exact_sums():
                part = self.put(x.part(own.start, own.stop))
                above = part.bias + torch.from_numpy(slack[own]).to(self._device)
                rows, columns = (torch.from_numpy(b).to(self._device) for b in (row_bound[own], column_bound))
                product, wide = self._estimates(part, y)
                upper = wide.add_(product)
                reached = upper + above[:, None] >= columns
                reached |= upper.add_(y.bias) >= (rows - above)[:, None]
                counts = reached.sum(dim=1).cpu().numpy()
            for first, last in _cuts(counts, most):
                with _full_as_message():
                    pairs = reached[first:last].nonzero().T
                    estimates = product[first:last][reached[first:last]]
                    pairs[0] += start + first
                    found = DeviceHits(pairs.int().cpu().numpy(), estimates.cpu().numpy())
                yield found

    def _estimates(self, x: OnDevice, y: OnDevice) -> tuple[torch.Tensor, torch.Tensor]:
        """Products of low-precision rows, float32 [r, c], and their largest errors without the slack."""
        product = torch.matmul(x.low, y.low.T).float()
        return product, torch.outer(x.as_row, y.as_column).add_(product.abs(), alpha=self._spread)


def _floor(lower: torch.Tensor, groups: int, k: int) -> torch.Tensor:
    """The k-th largest of the maxima of groups of columns, float32 [r]."""
    length = lower.shape[1] // groups * groups
    return lower[:, :length].unflatten(1, (-1, groups)).amax(dim=1).topk(k, dim=1).values[:, -1]


def _cuts(counts: np.ndarray, most: int) -> Iterator[tuple[int, int]]:
    """First and last row of stretches that have at least one pair and at most `most`."""
    ends, first = np.cumsum(counts), 0
    while first < len(counts):
        before = int(ends[first] - counts[first])
        last = max(first + 1, int(np.searchsorted(ends, before + most, side="right")))
        if ends[last - 1] > before:
            yield first, last
        first = last


@contextmanager
def _exact_sums() -> Iterator[None]:
    """Sums of products in float32 to the end: the bounds count on it."""
    settings = torch.backends.cuda.matmul
    before = settings.allow_bf16_reduced_precision_reduction
    settings.allow_bf16_reduced_precision_reduction = False
    try:
        yield
    finally:
        settings.allow_bf16_reduced_precision_reduction = before


@contextmanager
def _full_as_message() -> Iterator[None]:
    try:
        yield
    except torch.OutOfMemoryError:
        raise _full() from None


def _full() -> MexmaError:
    return MexmaError("the memory of the GPU is full", "free some of it, or search without it: --device cpu")
