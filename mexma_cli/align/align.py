"""Monotone alignment of two documents that are translations of each other, from sentence vectors.

docs/align.md explains the method and says how good it is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from mexma_cli.align.kernels import best_of, best_path, contenders, products, values
from mexma_cli.knn.sides import dots
from mexma_cli.numerics.threads import in_slices

Runs = Callable[[np.ndarray, np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Side:
    """One document in one language: n sentences.

    Attributes:
        vectors: float32 [n, d], unit length; rows of zeros for empty sentences.
        lengths: int64 [n], characters of each sentence.
        runs: (starts int64 [R], sizes int64 [R], all at least 2) -> float32 [R, d], unit vectors of runs of
            sentences.
    """

    vectors: np.ndarray
    lengths: np.ndarray
    runs: Runs


@dataclass(frozen=True)
class AlignSettings:
    """How documents are aligned.

    Attributes:
        max_size: The most sentences of one side in an alignment.
    """

    max_size: int = 5


@dataclass(frozen=True)
class Alignment:
    """Sentences that are translations of each other.

    An empty range on one side: nothing of the other document is the translation of this sentence.

    Attributes:
        score: Their cosine without the documents' mean vectors: 0 is "no nearer than any two sentences of
            these documents", 1 the most. A cosine above a background, as the margin `distance` is. 0 for a
            sentence that is left alone.
    """

    source: range
    target: range
    score: float


_WHOLE = 1 << 20  # cells up to which all are searched
_RADIUS = 16  # of the band around a coarse path
_COARSE = 2  # blocks of one side in an alignment of the coarse search
_DOUBT = 3.0  # log-odds by which a path may be worse than the best and still be looked at again
_LARGEST = 254  # a step fits into a byte
_STEPS = 1 << 16  # steps whose runs are in memory together
_PRIOR = 5  # sentences of mean zero that are counted into a document's mean
Band = tuple[np.ndarray, np.ndarray, np.ndarray]
"""First column, last column and first cell of each row, int64 [n + 1] (see `kernels`)."""


def align(source: Side, target: Side, settings: AlignSettings = AlignSettings()) -> list[Alignment]:
    """The best monotone alignment: every sentence of both sides is in one alignment, in order.

    Time and memory grow linearly with the lengths of the documents. Equal input gives equal output on any
    number of threads.
    """
    x, y = _Document.of(source), _Document.of(target)
    search = _Search(x, y, _band(x, y), settings.max_size)
    search.measure_aligned()
    steps = search.steps_between()
    steps = steps[search.in_doubt(steps, _in_parts(steps, lambda part: _cosines((x, y), part)))]
    runs = source.runs, target.runs
    cosines = _in_parts(steps, lambda part: _cosines((x, y), part, runs))
    chosen = search.best_of(steps, cosines)
    return [
        Alignment(range(i, k), range(j, m), score)
        for (i, j, k, m), score in zip(steps[chosen].tolist(), cosines[chosen].tolist(), strict=True)
    ]


@dataclass(frozen=True)
class _Document:
    """A document whose runs have vectors without being embedded: the sums of its sentences' vectors.

    Attributes:
        sums: float32 [n, d], vectors minus the document's mean, times their weights.
        weights: float32 [n], roots of the lengths; 0 for empty sentences.
        ends: float64 [n + 1], characters before each sentence.
        centre: float32 [d], the mean.
    """

    sums: np.ndarray
    weights: np.ndarray
    ends: np.ndarray
    centre: np.ndarray

    @classmethod
    def of(cls, side: Side) -> _Document:
        has_vector = side.vectors.any(axis=1)
        centre = side.vectors.sum(axis=0) / (np.count_nonzero(has_vector) + _PRIOR)
        weights = np.where(has_vector, np.sqrt(side.lengths + 1), 0).astype(np.float32)
        sums = side.vectors - centre
        sums *= weights[:, None]
        return cls(sums, weights, np.append(0.0, np.cumsum(side.lengths)), centre)

    def __len__(self) -> int:
        return len(self.sums)

    def halved(self) -> _Document:
        """Each two sentences as one."""
        starts = np.arange(0, len(self), 2)
        sums, weights = (np.add.reduceat(part, starts, axis=0) for part in (self.sums, self.weights))
        return _Document(sums, weights, self.ends[np.append(starts, len(self))], self.centre)

    def norms(self, most: int) -> np.ndarray:
        """Lengths of the sums of the 1 to `most` sentences from each on, float32 [most, n]."""
        norms = np.zeros((most, len(self)))
        count = min(most, len(self))
        products = [
            np.einsum("ij,ij->i", self.sums[: len(self) - k], self.sums[k:], dtype=np.float64)
            for k in range(count)
        ]
        for size in range(1, count + 1):
            starts = len(self) - size + 1
            for k, found in enumerate(products[:size]):
                ones = sum(found[at : at + starts] for at in range(size - k))
                norms[size - 1, :starts] += ones if k == 0 else 2 * ones
        return np.sqrt(np.maximum(norms, 0)).astype(np.float32)

    def run_vectors(self, starts: np.ndarray, sizes: np.ndarray, runs: Runs | None) -> np.ndarray:
        """Unit vectors of runs, float32 [R, d], without the document's mean: of their sums; with `runs`, the
        mean direction of the sum and of the embedded run where there is more than one sentence."""
        sums, weights = self.sums[starts], self.weights[starts]
        for place in range(1, int(sizes.max(initial=0))):
            more = np.flatnonzero(sizes > place)
            sums[more] += self.sums[starts[more] + place]
            weights[more] += self.weights[starts[more] + place]
        longer = np.flatnonzero(sizes > 1)
        if runs is not None and len(longer):
            common = weights[longer, None] * self.centre
            length = np.linalg.norm(sums[longer] + common, axis=1, keepdims=True)
            embedded = runs(starts[longer], sizes[longer]) * length - common
            sums[longer] = _unit(sums[longer]) + _unit(embedded)
        return _unit(sums)


class _Search:
    """The best paths through a band, with the vectors of runs as `_Document` has them."""

    def __init__(self, x: _Document, y: _Document, band: Band, max_size: int) -> None:
        self.band, self.max_size = band, max_size
        self.ends = x.ends, y.ends
        cells = int(band[2][-1] + band[1][-1] - band[0][-1] + 1)
        self.norms = x.norms(max_size), y.norms(max_size)
        self.product = np.zeros(cells, np.float32)
        work = len(self.product) * x.sums.shape[1]
        in_slices(len(x), lambda a, b: products(x.sums, y.sums, band, (a, b), self.product), work)
        self.before = np.empty(cells)
        self.steps = np.empty((cells, 2), np.uint8)
        self._measure(x.ends[-1], y.ends[-1])

    def _measure(self, x_characters: float, y_characters: float) -> None:
        """Find the best paths, with lengths made comparable: as those of two texts of so many characters."""
        ratio = np.sqrt(y_characters / x_characters) if x_characters and y_characters else 1.0
        self.ends = self.ends[0] * ratio, self.ends[1] / ratio
        best_path(self.product, self.norms, self.ends, self.band, 0, self.before, self.steps)

    def measure_aligned(self) -> None:
        """Find the paths anew, with the ratio of the lengths of what is aligned."""
        path = self.path()
        spans = np.stack([np.diff(end[path[:, side]]) for side, end in enumerate(self.ends)])
        self._measure(*spans[:, (np.diff(path, axis=0) > 0).all(axis=1)].sum(axis=1).tolist())

    def path(self) -> np.ndarray:
        """The cells of the best path, int64 [P, 2], row and column."""
        low, _, first = self.band
        cells = [(len(low) - 1, int(self.band[1][-1]))]
        while cells[-1] != (0, 0):
            i, j = cells[-1]
            a, b = self.steps[first[i] + j - low[i]].tolist()
            cells.append((i - a, j - b))
        return np.array(cells[::-1], np.int64)

    def steps_between(self) -> np.ndarray:
        """The steps, int64 [E, 4], between the cells that are on nearly best paths (see `_DOUBT`)."""
        low, high, first = self.band
        cells = len(self.before)
        back = high[-1] - high[::-1], high[-1] - low[::-1], cells - np.append(first[1:], cells)[::-1]
        norms = _backwards(self.norms[0]), _backwards(self.norms[1])
        ends = tuple(np.ascontiguousarray(end[-1] - end[::-1]) for end in self.ends)
        product, after = np.ascontiguousarray(self.product[::-1]), np.empty(cells)
        best_path(product, norms, ends, back, 1, after, self.steps)
        self.after = np.ascontiguousarray(after[::-1])
        found = self.before, self.after, self.before[-1] - _DOUBT, self.max_size, self.band
        out = np.empty((4 * len(low), 4), np.int64)
        count = contenders(*found, out)
        if count > len(out):
            out = np.empty((count, 4), np.int64)
            contenders(*found, out)
        return out[:count]

    def in_doubt(self, steps: np.ndarray, cosines: np.ndarray) -> np.ndarray:
        """Which steps are on nearly best paths, bool [E]."""
        low, _, first = self.band
        start, end = (first[steps[:, at]] + steps[:, at + 1] - low[steps[:, at]] for at in (0, 2))
        value = self.before[start] + self.worth(steps, cosines) + self.after[end]
        return np.asarray(value >= self.before[-1] - _DOUBT)

    def worth(self, steps: np.ndarray, cosines: np.ndarray) -> np.ndarray:
        """The values of steps with these cosines, float64 [E]."""
        lengths = [end[steps[:, side + 2]] - end[steps[:, side]] for side, end in enumerate(self.ends)]
        return np.where(_are_alone(steps), 0, values(cosines, np.stack(lengths, axis=1)))

    def best_of(self, steps: np.ndarray, cosines: np.ndarray) -> np.ndarray:
        """The best path through some steps, whose cosines are given anew: their places, int64 [P]."""
        low, _, first = self.band
        worth = self.worth(steps, cosines)
        best, last = np.full(len(self.before), -np.inf), np.empty(len(self.before), np.int64)
        best[0] = 0
        best_of(steps, worth, self.band, best, last)
        i, j, found = len(low) - 1, int(self.band[1][-1]), []
        while i or j:
            found.append(last[first[i] + j - low[i]])
            i, j = steps[found[-1], :2].tolist()
        return np.array(found[::-1], np.int64)


def _are_alone(steps: np.ndarray) -> np.ndarray:
    """Which steps leave a sentence alone, bool [E]."""
    return np.asarray((steps[:, 0] == steps[:, 2]) | (steps[:, 1] == steps[:, 3]))


def _in_parts(steps: np.ndarray, task: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """A number for each step, float32 [E], computed for some steps at a time."""
    out = np.empty(len(steps), np.float32)
    for start in range(0, len(steps), _STEPS):
        out[start : start + _STEPS] = task(steps[start : start + _STEPS])
    return out


def _cosines(
    documents: tuple[_Document, _Document], steps: np.ndarray, runs: tuple[Runs, Runs] | None = None
) -> np.ndarray:
    """The cosines of steps, float32 [E]; 0 where a sentence is left alone."""
    both = np.flatnonzero(~_are_alone(steps))
    units, places = [], []
    for side, document in enumerate(documents):
        codes = steps[both, side] * (_LARGEST + 1) + steps[both, side + 2] - steps[both, side]
        spans, place = np.unique(codes, return_inverse=True)
        starts, sizes = spans // (_LARGEST + 1), spans % (_LARGEST + 1)
        units.append(document.run_vectors(starts, sizes, runs[side] if runs else None))
        places.append(place)
    cosines = np.zeros(len(steps), np.float32)
    if len(both):
        cosines[both] = dots(units[0], units[1], places[0], places[1])
    return cosines


def _band(x: _Document, y: _Document) -> Band:
    """Where to search: everywhere, or around the best path of a search with each two sentences as one."""
    rows = np.arange(len(x) + 1)
    if len(rows) * (len(y) + 1) <= _WHOLE or min(len(x), len(y)) <= 2 * _RADIUS:
        low, high = np.zeros_like(rows), np.full_like(rows, len(y))
    else:
        halves = x.halved(), y.halved()
        path = np.minimum(_Search(*halves, _band(*halves), _COARSE).path() * 2, (len(x), len(y)))
        first = np.searchsorted(path[:, 0], rows - _RADIUS, "right") - 1
        last = np.searchsorted(path[:, 0], rows + _RADIUS, "left")
        low = np.maximum(path[np.maximum(first, 0), 1] - _RADIUS, 0)
        high = np.minimum(path[np.minimum(last, len(path) - 1), 1] + _RADIUS, len(y))
    widths = high - low + 1
    return low, high, np.cumsum(widths) - widths


def _backwards(norms: np.ndarray) -> np.ndarray:
    """`_Document.norms` of a document whose order is reversed."""
    reversed_norms = np.zeros_like(norms)
    for size, own in enumerate(norms, 1):
        count = max(0, len(own) - size + 1)
        reversed_norms[size - 1, :count] = own[:count][::-1]
    return reversed_norms


def _unit(vectors: np.ndarray) -> np.ndarray:
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.divide(vectors, norms, out=np.zeros(vectors.shape, np.float32), where=norms > 0)
