"""What estimates of cosines are computed in: float32, bfloat16, or int8 with a step for each row.

All three give the same neighbours to the last bit (blocks.py says why); they differ in speed, and in how many
pairs must be computed exactly because an estimate cannot tell.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

_PROBE_FROM = 1 << 31  # multiplications below which looking for a faster arithmetic does not pay
_PROBE = 512, 2048  # rows of the two matrices that are multiplied to see how long it takes
_PAIR_SECONDS = 2e-10  # for each dimension of a pair that is computed exactly, memory's part included
_ENDS = 127  # int8 rows are symmetric, from -127 to 127


@dataclass(frozen=True)
class Arithmetic:
    """What estimates are computed in.

    Attributes:
        dtype: float32, bfloat16 or int8. Results of products in int8 are bfloat16.
        spread: The relative error with which a product is written down: bfloat16 has 8 bits.
    """

    dtype: torch.dtype
    spread: float

    def empty(self, *shape: int) -> np.ndarray:
        """Room for such numbers, from torch: its products take twice as long where rows of NumPy's 16-byte
        aligned memory are multiplied."""
        return _as_array(torch.empty(shape, dtype=self.dtype))

    def product(self, y: np.ndarray, steps: np.ndarray, height: int) -> Callable[[np.ndarray], np.ndarray]:
        """A function that multiplies rows of x, [r, d], with all rows of y, each times its step.

        It may be called on several threads at once, and gives [r, m]: float32, or bfloat16 as uint16.

        Args:
            y: [m, d], from `empty`.
            steps: float32 [m]; all 1 except for int8.
            height: The usual number of rows of x.
        """
        right = _as_tensor(y)
        if self.dtype != torch.int8:
            return lambda x: _as_array(torch.matmul(_as_tensor(x), right.T))
        multiply = _int8_product(right, torch.from_numpy(steps), height)
        return lambda x: _as_array(multiply(_as_tensor(x)))


FLOAT32 = Arithmetic(torch.float32, 0.0)
BFLOAT16 = Arithmetic(torch.bfloat16, 2.0**-8)
INT8 = Arithmetic(torch.int8, 2.0**-8)


def choose_arithmetic(work: int, dim: int, pairs: Callable[[Arithmetic], float]) -> Arithmetic:
    """The arithmetic in which a search will take the least time on this machine; results are the same in all.

    Args:
        work: Multiplications to be done in all.
        pairs: About how many pairs will have to be computed exactly.
    """
    if work < _PROBE_FROM:
        return FLOAT32
    share = work / (_PROBE[0] * _PROBE[1] * dim)
    exact = _PAIR_SECONDS * dim / torch.get_num_threads()
    seconds = {kind: share * _seconds(kind, dim) + exact * pairs(kind) for kind in (FLOAT32, BFLOAT16, INT8)}
    return min(seconds, key=seconds.__getitem__)


def _seconds(arithmetic: Arithmetic, dim: int) -> float:
    """Seconds for a product; infinite where it is not to be had, or is wrong."""
    rng = np.random.default_rng(0)
    x, y = (_as_array(torch.from_numpy(_extremes(rng, rows, dim)).to(arithmetic.dtype)) for rows in _PROBE)
    try:
        multiply = arithmetic.product(y, np.ones(len(y), dtype=np.float32), len(x))
        found = _as_tensor(multiply(x[:16])).double().numpy()
    except (
        AttributeError,
        NotImplementedError,
        RuntimeError,
        TypeError,
    ):  # the product of int8 is not public
        return np.inf
    exact = _as_tensor(x[:16]).double().numpy() @ _as_tensor(y).double().numpy().T
    if (np.abs(found - exact) > np.abs(exact) * arithmetic.spread + (_ENDS * dim) ** 2 * 2.0**-24).any():
        return np.inf  # sums of int8 overflow on processors that have no instruction for them
    return min(_timed(lambda: multiply(x)) for _ in range(3))


def _extremes(rng: np.random.Generator, rows: int, dim: int) -> np.ndarray:
    """float32 [rows, dim] of largest numbers, of one sign in some rows."""
    signs = np.where(rng.random((rows, dim)) < rng.random((rows, 1)) * 2, np.float32(1), np.float32(-1))
    return _ENDS * signs


def _timed(work: Callable[[], object]) -> float:
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


def _as_tensor(array: np.ndarray) -> torch.Tensor:
    if array.dtype == np.uint16:
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)
