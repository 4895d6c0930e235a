"""The best paths are those that trying all steps one after the other finds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mexma_cli.align import paths
from mexma_cli.align.paths import Band, RunsBefore, best_of_steps, best_path, steps_near_best

DOUBT = 2.0
Step = tuple[int, int, int, int]


def runs(random: np.random.Generator, count: int, most: int) -> RunsBefore:
    """Those of made-up sentences, one in five without a vector."""
    sums = random.standard_normal((count, 5)) * (random.random((count, 1)) < 0.8)
    ends = np.append(0, np.cumsum(random.integers(0, 40, count)))
    scales, lengths, worth = np.zeros((3, most, count + 1), np.float32)
    gains = np.append(0, np.cumsum(paths.gains(np.diff(ends), np.arange(count) % 4 == 3)))
    for size in range(1, min(most, count) + 1):
        norms = [np.linalg.norm(sums[end - size : end].sum(axis=0)) for end in range(size, count + 1)]
        scales[size - 1, size:] = [1 / norm if norm else 0 for norm in norms]
        lengths[size - 1, size:] = ends[size:] - ends[: len(ends) - size]
        worth[size - 1, size:] = gains[size:] - gains[: len(ends) - size]
    return RunsBefore(sums.astype(np.float32), scales, lengths, worth)


def narrow(random: np.random.Generator, n: int, m: int) -> Band:
    """A band around a random path."""
    low = np.sort(random.integers(0, m + 1, n + 1))
    low[0] = 0
    high = np.append(low[1:], m)
    high = np.maximum.accumulate(np.maximum(high, np.minimum(low + random.integers(0, 3, n + 1), m)))
    return Band(low, high, np.cumsum(high - low + 1) - (high - low + 1))


def all_steps(x: RunsBefore, y: RunsBefore, band: Band) -> dict[Step, float]:
    """Every step in the band and its value."""
    low, high, _ = band
    cells = {(i, j) for i in range(len(low)) for j in range(low[i], high[i] + 1)}
    found: dict[Step, float] = {}
    for i, j in sorted(cells):
        for a in range(len(x.scales) + 1):
            for b in range(len(x.scales) + 1):
                k, c = i - a, j - b
                if (k, c) not in cells or a + b == 0 or (a * b == 0 and a + b > 1):
                    continue
                one, other = x.sums[k:i].sum(axis=0), y.sums[c:j].sum(axis=0)
                cosine = one @ other * x.scales[a - 1, i] * y.scales[b - 1, j]
                numbers = cosine, x.lengths[a - 1, i], y.lengths[b - 1, j]
                (value,) = paths.values(*(np.array([number], float) for number in numbers))
                value += x.gains[a - 1, i] + y.gains[b - 1, j]
                found[k, c, i, j] = value if a and b else 0.0
    return found


@given(
    st.integers(0, 9),
    st.integers(0, 9),
    st.integers(1, 4),
    st.booleans(),
    st.sampled_from([1, 99, 1 << 15]),
    st.integers(0, 999),
)
def test_paths_are_the_best(n: int, m: int, most: int, whole: bool, at_once: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    x, y = runs(random, n, most), runs(random, m, most)
    rows = np.arange(n + 1)
    band = Band(rows * 0, rows * 0 + m, rows * (m + 1)) if whole else narrow(random, n, m)
    steps = all_steps(x, y, band)
    before, after = {(0, 0): 0.0}, {(n, m): 0.0}
    for k, c, i, j in sorted(steps, key=lambda step: step[2:]):
        value = before.get((k, c), -np.inf) + steps[k, c, i, j]
        before[i, j] = max(before.get((i, j), -np.inf), value)
    for k, c, i, j in sorted(steps, reverse=True):
        value = after.get((i, j), -np.inf) + steps[k, c, i, j]
        after[k, c] = max(after.get((k, c), -np.inf), value)
    loss = {
        s: before[n, m] - before.get(s[:2], -np.inf) - v - after.get(s[2:], -np.inf) for s, v in steps.items()
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(paths, "_AT_ONCE", at_once)
        path, near = best_path(x, y, band), steps_near_best(x, y, band, DOUBT)
    taken = [(*start, *end) for start, end in zip(path[:-1].tolist(), path[1:].tolist(), strict=True)]
    assert sum(steps[step] for step in taken) == pytest.approx(before[n, m], abs=1e-4)
    found = list(map(tuple, near.tolist()))
    assert found == sorted(found)
    assert {step for step, lost in loss.items() if lost < DOUBT - 1e-4} <= set(found)
    assert all(loss[step] < DOUBT + 1e-4 for step in found)
    chosen = best_of_steps(near, np.array([steps[step] for step in found]))
    assert sum(steps[found[place]] for place in chosen) == pytest.approx(before[n, m], abs=1e-4)
