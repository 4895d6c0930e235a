"""The choice of the product in which a search will take the least time on this machine.

Neighbours are the same in all of them, to the last bit. They differ in speed, and in how many pairs must be
computed exactly because an estimate does not decide.
"""

from __future__ import annotations

import functools
import math
import sys
import time
from collections.abc import Callable

import numpy as np

from mexma_cli.knn.products import Float32, Int8, Samples
from mexma_cli.knn.sides import SearchSide
from mexma_cli.numerics.precisions import default_device
from mexma_cli.numerics.threads import one_thread_each

WORK = 1 << 37
"""Multiplications from which it pays to load torch for a product that may be faster."""
_PROBE_FROM = 1 << 34  # multiplications from which it pays to look for the fastest product
LOOPS_FROM = 1 << 27
"""Pairs of rows from which it pays to load compiled loops."""
_PROBE = 512, 2048  # rows of the two matrices that are multiplied to see how long it takes
_PAIR_SECONDS = 2e-10  # for each dimension of a pair that is computed exactly, memory's part included
_SAMPLE = 512  # rows by which the number of pairs is judged, at most
_FEWER = 4  # times as few rows, from which it follows how the share of such pairs falls


def choose_product(sides: tuple[SearchSide, SearchSide], sizes: tuple[int, int], k: int) -> Float32:
    """The product in which a search of k neighbours takes the least time.

    On a GPU it is float16; for small searches only if `computing_on` names that GPU.

    Args:
        sides: Rows like those that are searched.
        sizes: How many are searched.

    Raises:
        MexmaError: This machine has no such device.
    """
    pairs, dim = sizes[0] * sizes[1], sides[0].dim
    work = pairs * dim
    if work < _PROBE_FROM and not _names_gpu():
        return Float32(compiled=pairs >= LOOPS_FROM or "mexma_cli.knn.kernels" in sys.modules)
    samples = sides[0].sample(), sides[1].sample()
    if uses_torch(work):
        from mexma_cli.numerics.devices import pick_device

        device = pick_device("auto")
        if device.type != "cpu":
            from mexma_cli.knn.device import OnDevice

            return OnDevice(samples, str(device))
    share = work / (_PROBE[0] * _PROBE[1] * dim)
    best, chosen, found = math.inf, Float32, kinds()
    for seconds, kind in sorted(zip(times(dim, found), found, strict=True), key=lambda one: one[0]):
        if share * seconds < best:
            computed = pairs_needed(kind(samples), samples, sizes, k)
            total = share * seconds + _PAIR_SECONDS * dim * computed
            if total < best:
                best, chosen = total, kind
    return chosen(samples)


def uses_torch(work: int) -> bool:
    """Whether a search of so many multiplications may use torch, which takes memory of its own: large ones
    load it, and smaller ones take it where it is loaded."""
    return work >= WORK or _names_gpu() or (work >= _PROBE_FROM and "torch" in sys.modules)


def _names_gpu() -> bool:
    return default_device() not in ("auto", "cpu")


def pairs_needed(product: Float32, samples: Samples, sizes: tuple[int, int], k: int) -> float:
    """About how many pairs of two sides of such sizes must be computed exactly.

    These are the pairs whose estimate may exceed the k-th best cosine among what their row has met so far.
    Their share is counted in the samples, for rows that have met all of it and for rows that have met a part.
    As it falls from the latter to the former, so it goes on.
    """
    left, right = samples[0][:: -(-len(samples[0]) // _SAMPLE) or 1], samples[1]
    if not min(*sizes, len(left), len(right) // _FEWER):
        return 0.0
    x, y = product.block(left, 0), product.block(right, 1)
    cosines = left @ right.T
    bounds = cosines + (x.error * y.reach + x.loose)[:, None] + (y.error * x.reach + y.loose)
    shares = []
    for met in (cosines[:, ::_FEWER], cosines):
        place = max(met.shape[1] - k, 0)
        kth = np.partition(met, place, axis=1)[:, place]
        shares.append((bounds >= kth[:, None]).mean())
    fall = math.log(shares[0] / shares[1]) / math.log(_FEWER)
    found = 0.0
    for own, other in (sizes, sizes[::-1]):
        met = np.geomspace(1, other, 256)
        found += own * np.trapezoid(np.minimum(shares[1] * (len(right) / met) ** fall, 1), met)
    return float(found)


def kinds() -> tuple[type[Float32], ...]:
    """The products of this processor: those of torch only where it is loaded."""
    from mexma_cli.numerics.lanes import quads

    found: tuple[type[Float32], ...] = (Float32, Int8) if quads() else (Float32,)
    if "torch" not in sys.modules:
        return found
    from mexma_cli.knn.torch_products import BFloat16, TorchFloat32

    return *found, TorchFloat32, BFloat16


@functools.cache
def times(dim: int, kinds: tuple[type[Float32], ...]) -> tuple[float, ...]:
    """Seconds that a small product takes on one thread, for each of `kinds`."""
    taken = [math.inf]
    with one_thread_each(2) as in_order:  # torch has one thread there

        def measured(kind: type[Float32]) -> float:
            return _seconds(kind, dim, min(taken))

        for kind in kinds:
            taken += in_order(measured, [kind])
    return tuple(taken[1:])


def _seconds(kind: Callable[[Samples], Float32], dim: int, fastest: float) -> float:
    """Seconds for a product. Infinite if it is wrong, or if its first rows take longer than all rows in the
    fastest one: bfloat16 is far slower on processors that emulate it."""
    samples = _extremes(_PROBE[0], dim), _extremes(_PROBE[1], dim)
    few = slice(4)
    product = kind(samples)
    x, y = product.block(samples[0], 0), product.block(samples[1], 1)
    memory, multiply = product.memory(*_PROBE), product.against(y.low)
    found = product.here(multiply(x.low[few], memory))
    exact = samples[0][few].astype(np.float64) @ samples[1].T.astype(np.float64)
    error = np.abs(found + x.bias[few, None] + y.bias - exact) - np.abs(found) * product.relative_error
    if (error > (x.error * y.reach + x.loose)[few, None] + (y.error * x.reach + y.loose)).any():
        return math.inf
    if timed(lambda: multiply(x.low[few], memory)) > fastest:
        return math.inf
    taken = timed(lambda: multiply(x.low, memory))
    return (
        taken if taken > 2 * fastest else min(taken, *(timed(lambda: multiply(x.low, memory)) for _ in "ab"))
    )


def _extremes(rows: int, dim: int) -> np.ndarray:
    """Unit vectors, float32 [rows, dim], of numbers of one size, in some rows nearly all of one sign."""
    rng = np.random.default_rng(rows)
    signs = np.where(rng.random((rows, dim)) < rng.random((rows, 1)) * 2, np.float32(1), np.float32(-1))
    return signs / np.sqrt(np.float32(dim))


def timed(work: Callable[[], object]) -> float:
    """Seconds that some work takes."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began
