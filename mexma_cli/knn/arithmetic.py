"""The arithmetic of cosine estimates: float32, bfloat16, or int8 with a step for each row.

All three give the same neighbours to the last bit (blocks.py says why); they differ in speed, and in how many
pairs must be computed exactly because an estimate does not decide.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from mexma_cli.numerics.devices import pick_device
from mexma_cli.numerics.precisions import default_device

_PROBE_FROM = 1 << 31  # multiplications below which looking for a faster arithmetic does not pay
_PROBE = 512, 2048  # rows of the two matrices that are multiplied to see how long it takes
_NARROW_FROM = 1 << 35  # multiplications from which it pays to look for directions of little variance
_PARTS = range(3, 13)
_NARROW = 1.25  # times as long, for turning rows, and so that it pays where more pairs pass than was judged
_WHOLE = 10240  # rows whose tiles are made in all directions in any case (sweep.py), those of both sides
_PAIR_SECONDS = 2e-10  # for each dimension of a pair that is computed exactly, memory's part included
_ENDS = 127  # int8 rows are symmetric, from -127 to 127


@dataclass(frozen=True)
class Arithmetic:
    """The numbers that estimates are computed in, and the device.

    Attributes:
        dtype: float32, bfloat16 or int8. Results of products in int8 are bfloat16.
        spread: The relative error of a product's result when it is stored: bfloat16 has 8 bits.
        loss: About the length of what a row loses when it is rounded, as a share of its length.
        device: Makes the estimates and selects pairs by them (device.py); None: the processor does, with
            `product` and scanning.py.
        width: Estimates are made of so many directions, those of most variance (blocks.py); None: of all.
    """

    dtype: torch.dtype
    spread: float
    loss: float
    device: str | None = None
    width: int | None = None

    def empty(self, *shape: int) -> np.ndarray:
        """Memory for such numbers, from torch: its products take twice as long where rows of NumPy's 16-byte
        aligned memory are multiplied."""
        return _as_array(torch.empty(shape, dtype=self.dtype))

    def buffer(self, numbers: int) -> np.ndarray | None:
        """Memory for the results of a `product`; None for int8, whose results come in memory of their own."""
        return None if self.dtype == torch.int8 else self.empty(numbers)

    def product(self, y: np.ndarray, steps: np.ndarray, height: int) -> Product:
        """A function that multiplies rows of x, [r, d], with all rows of y, each times its step.

        It may be called on several threads at once, and gives [r, m]: float32, or bfloat16 as uint16.

        Args:
            y: [m, d], from `empty`.
            steps: float32 [m]; all 1 except for int8.
            height: The usual number of rows of x.
        """
        right = as_tensor(y)
        if self.dtype == torch.int8:
            multiply = _int8_product(right, torch.from_numpy(steps), height)
            return lambda x, buffer: _as_array(multiply(as_tensor(x)))

        def product(x: np.ndarray, buffer: np.ndarray | None) -> np.ndarray:
            assert buffer is not None
            out = buffer[: len(x) * len(y)].reshape(len(x), len(y))
            torch.matmul(as_tensor(x), right.T, out=as_tensor(out))
            return out

        return product


Product = Callable[[np.ndarray, np.ndarray | None], np.ndarray]
"""What `Arithmetic.product` makes: it multiplies rows, into large enough memory from `Arithmetic.buffer`."""

FLOAT32 = Arithmetic(torch.float32, 0.0, 2.0**-24)
BFLOAT16 = Arithmetic(torch.bfloat16, 2.0**-8, 2.0**-9)
INT8 = Arithmetic(torch.int8, 2.0**-8, 2.0**-7)
KINDS = (FLOAT32, BFLOAT16, INT8)


def choose_arithmetic(work: int, dim: int, pairs: Callable[[Arithmetic], float]) -> Arithmetic:
    """The arithmetic in which a search will take the least time on this machine; results are the same in all.

    On a GPU it is bfloat16, for small searches only if `computing_on` names that GPU.

    Args:
        work: Multiplications to be done in all.
        pairs: About how many pairs will have to be computed exactly.

    Raises:
        MexmaError: This machine has no such device.
    """
    device = pick_device("auto")
    if device.type != "cpu" and (work >= _PROBE_FROM or default_device() != "auto"):
        return replace(BFLOAT16, device=str(device))
    if work < _PROBE_FROM:
        return FLOAT32
    share = work / (_PROBE[0] * _PROBE[1] * dim)
    first = min(1.0, _WHOLE / math.sqrt(work / dim))
    exact = _PAIR_SECONDS * dim / torch.get_num_threads()
    taken: dict[Arithmetic, float] = {}
    for kind in KINDS:
        taken[kind] = _seconds(kind, dim, min(taken.values(), default=np.inf))
    best, chosen = np.inf, FLOAT32
    for kind in sorted(KINDS, key=taken.__getitem__):
        found = 0.0
        for width in _widths(work, dim):
            part, dearer = (first + (1 - first) * width / dim, _NARROW) if width else (1.0, 1.0)
            product = share * taken[kind] * part
            if dearer * (product + exact * found) >= best:
                continue  # since fewer directions do not leave fewer pairs
            found = pairs(narrow := replace(kind, width=width))
            seconds = dearer * (product + exact * found)
            if seconds < best:
                best, chosen = seconds, narrow
    return chosen


def _widths(work: int, dim: int) -> list[int | None]:
    """How many directions estimates may be made of, most first: all (None), or so many sixteenths of them."""
    narrow = {round(dim * part / 16) for part in _PARTS} if work >= _NARROW_FROM else ()
    return [None, *(width for width in sorted(narrow, reverse=True) if 0 < width < dim)]


def _seconds(arithmetic: Arithmetic, dim: int, fastest: float) -> float:
    """Seconds for a product. Infinite if this machine has no such product, if it is wrong, or if its first
    rows take longer than all rows in the fastest arithmetic: int8 is far slower without oneDNN's kernel."""
    rng = np.random.default_rng(0)
    x, y = (_as_array(torch.from_numpy(_extremes(rng, rows, dim)).to(arithmetic.dtype)) for rows in _PROBE)
    buffer = arithmetic.buffer(len(x) * len(y))
    try:
        multiply = arithmetic.product(y, np.ones(len(y), dtype=np.float32), len(x))
        found = as_tensor(multiply(x[:16], buffer)).double().numpy()
    except (
        AttributeError,
        NotImplementedError,
        RuntimeError,
        TypeError,
    ):  # the product of int8 is not public
        return np.inf
    exact = as_tensor(x[:16]).double().numpy() @ as_tensor(y).double().numpy().T
    if (np.abs(found - exact) > np.abs(exact) * arithmetic.spread + (_ENDS * dim) ** 2 * 2.0**-24).any():
        return np.inf  # sums of int8 overflow on processors that have no instruction for them
    if timed(lambda: multiply(x[:16], buffer)) > fastest:
        return np.inf
    return min(timed(lambda: multiply(x, buffer)) for _ in range(3))


def _extremes(rng: np.random.Generator, rows: int, dim: int) -> np.ndarray:
    """The largest int8 numbers, float32 [rows, dim]; in some rows nearly all have the same sign."""
    signs = np.where(rng.random((rows, dim)) < rng.random((rows, 1)) * 2, np.float32(1), np.float32(-1))
    return _ENDS * signs


def timed(work: Callable[[], object]) -> float:
    """Seconds that some work takes."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _int8_product(
    right: torch.Tensor, steps: torch.Tensor, height: int
) -> Callable[[torch.Tensor], torch.Tensor]:
    """oneDNN's linear layer of int8 weights, as `torch.compile` uses it: twice as fast as bfloat16 on AMX,
    where torch's public product of int8 is slower than that. Sums are exact, in int32."""
    operations: Any = torch.ops.onednn
    packed = operations.qlinear_prepack(right, [height, right.shape[1]])
    zeros = torch.zeros(len(right), dtype=torch.int32)

    def multiply(left: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = operations.qlinear_pointwise(
            left, 1.0, 0, packed, steps, zeros, None, 1.0, 0, torch.bfloat16, "none", [], ""
        )
        return made

    return multiply


def _as_array(tensor: torch.Tensor) -> np.ndarray:
    """A tensor as NumPy sees it, bfloat16 as uint16, without a copy."""
    if tensor.dtype == torch.bfloat16:
        return tensor.view(torch.int16).numpy().view(np.uint16)
    return tensor.numpy()


def as_tensor(array: np.ndarray) -> torch.Tensor:
    if array.dtype == np.uint16:
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)
