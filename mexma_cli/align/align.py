"""Monotone alignment of two documents that are translations of each other, from sentence vectors.

docs/align.md explains the method and says how good it is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from mexma_cli.align.paths import Band, RunsBefore, best_of_steps, best_path, gains, steps_near_best, values
from mexma_cli.knn.sides import dots
from mexma_cli.numerics.threads import in_blocks
from mexma_cli.settings.stages import AlignSettings

Runs = Callable[[np.ndarray, np.ndarray], np.ndarray]


@dataclass(frozen=True)
class DocumentVectors:
    """One document in one language: n sentences.

    Attributes:
        vectors: float32 [n, d], unit length; rows of zeros for empty sentences.
        lengths: int64 [n], characters of each sentence.
        runs: (starts int64 [R], sizes int64 [R], all at least 2) -> float32 [R, d], unit vectors of runs of
            sentences.
        headings: int8 [n], lines that may well be on one side only: 1 for headings, 2 for page numbers and
            running heads, which most often are, 0 for sentences; None: all are sentences.
    """

    vectors: np.ndarray
    lengths: np.ndarray
    runs: Runs
    headings: np.ndarray | None = None


@dataclass(frozen=True)
class Alignment:
    """Sentences that are translations of each other.

    An empty range on one side: nothing of the other document is the translation of this sentence.

    Attributes:
        score: Their cosine without the documents' mean vectors and a share of the sentences beside them: 0 is
            "no nearer than any two sentences of these documents", 1 the most. A cosine above a background, as
            the margin `distance` is. 0 for a sentence that is left alone.
    """

    source: range
    target: range
    score: float


_WHOLE = 1 << 20  # cells up to which all are searched
_RADIUS = 16  # of the band around a coarse path
_COARSE = 2  # blocks of one side in an alignment of the coarse search
_DOUBT = 3.0  # log-odds by which a path may be worse than the best and still be looked at again
_LARGEST = 254  # sentences of a run, and more
_RUNS = 1 << 9  # or sentences, whose vectors are made together: they stay in the processor's cache
_PASSES = 8  # over the vectors of runs, about
_STEPS = 1 << 13  # steps whose runs are in memory together
_PRIOR = 5  # sentences of mean zero that are counted into a document's mean
_BESIDE = 3  # sentences before and after each that are its rivals
_RIVAL = 0.05  # the share of each rival that is taken from a sentence


def align(
    source: DocumentVectors, target: DocumentVectors, settings: AlignSettings = AlignSettings()
) -> list[Alignment]:
    """The best monotone alignment: every sentence of both sides is in one alignment, in order.

    Time and memory grow linearly with the lengths of the documents. Equal input gives equal output on any
    number of threads.
    """
    band = _band(
        len(source.lengths),
        len(target.lengths),
        lambda: (_Document.of(source).halved(), _Document.of(target).halved()),
    )
    x, y = _Document.of(source), _Document.of(target)  # again: the search before needed the memory
    search = _Search(x, y, band, settings.max_size)
    search.compare_aligned()
    steps = search.steps_in_doubt()
    cosines = np.empty(len(steps), np.float32)
    for at in range(0, len(steps), _STEPS):
        cosines[at : at + _STEPS] = _cosines((x, y), steps[at : at + _STEPS], (source.runs, target.runs))
    chosen = best_of_steps(steps, search.worth(steps, cosines))
    return [
        Alignment(range(i, k), range(j, m), score)
        for (i, j, k, m), score in zip(steps[chosen].tolist(), cosines[chosen].tolist(), strict=True)
    ]


@dataclass(frozen=True)
class _Document:
    """A document whose runs have vectors without being embedded: the sums of its sentences' vectors.

    Attributes:
        sums: float32 [n, d], vectors minus the document's mean and their rivals', times their weights.
        weights: float32 [n], roots of the lengths; 0 for empty sentences.
        ends: float64 [n + 1], characters before each sentence.
        headings: int8 [n], as of `DocumentVectors`.
        vectors: float32 [n, d], as they were; of no use where sentences are joined two by two.
    """

    sums: np.ndarray
    weights: np.ndarray
    ends: np.ndarray
    headings: np.ndarray
    vectors: np.ndarray

    @classmethod
    def of(cls, side: DocumentVectors) -> _Document:
        has_vector = np.asarray(side.vectors.any(axis=1))
        centre = side.vectors.sum(axis=0) / np.float32(np.count_nonzero(has_vector) + _PRIOR)
        weights = np.where(has_vector, np.sqrt(side.lengths + 1), 0).astype(np.float32)
        sums = np.empty_like(side.vectors)
        for at in range(0, len(sums), _RUNS):
            first = max(at - _BESIDE, 0)
            near = slice(first, at + _RUNS + _BESIDE)
            own = side.vectors[near] - centre
            own[~has_vector[near]] = 0
            rivals = np.zeros_like(own)
            for away in range(1, _BESIDE + 1):
                rivals[away:] += own[:-away]
                rivals[:-away] += own[away:]
            rivals *= np.float32(_RIVAL)
            own -= rivals
            sums[at : at + _RUNS] = own[at - first :][:_RUNS]
        sums *= weights[:, None]
        headings = np.zeros(len(sums), np.int8) if side.headings is None else side.headings
        return cls(sums, weights, np.append(0.0, np.cumsum(side.lengths)), headings, side.vectors)

    def __len__(self) -> int:
        return len(self.sums)

    def halved(self) -> _Document:
        """This document with every two sentences merged into one."""
        parts = self.sums, self.weights, self.headings
        sums, weights, headings = (part[::2].copy() for part in parts)
        for own, part, join in zip(
            (sums, weights, headings), parts, (np.add, np.add, np.minimum), strict=True
        ):
            pairs = own[: len(part) // 2]
            join(pairs, part[1::2], out=pairs)
        ends = np.append(self.ends[:-1:2], self.ends[-1])
        return _Document(sums, weights, ends, headings, self.vectors)

    def norms(self, most: int) -> np.ndarray:
        """Lengths of the sums of the 1 to `most` sentences before each point, float32 [most, n + 1]; 0 where
        there are fewer."""
        norms = np.zeros((most, len(self) + 1))
        count = min(most, len(self))
        products = [
            np.einsum("ij,ij->i", self.sums[: len(self) - k], self.sums[k:], dtype=np.float64)
            for k in range(count)
        ]
        for size in range(1, count + 1):
            starts = len(self) - size + 1
            for k, found in enumerate(products[:size]):
                ones = sum(found[at : at + starts] for at in range(size - k))
                norms[size - 1, size:] += ones if k == 0 else 2 * ones
        return np.sqrt(np.maximum(norms, 0)).astype(np.float32)

    def run_vectors(self, starts: np.ndarray, sizes: np.ndarray, runs: Runs) -> np.ndarray:
        """Unit vectors of runs, float32 [R, d], without the document's mean and rivals; of several sentences
        the mean direction of their sum and of the embedded run."""
        found, longer = np.empty((len(starts), self.sums.shape[1]), np.float32), sizes > 1
        if longer.any():
            found[longer] = runs(starts[longer], sizes[longer])

        def some(own: slice) -> None:
            first, count = starts[own], sizes[own]
            sums, both = _summed(self.sums, first, count), np.flatnonzero(longer[own])
            whole = _summed(self.vectors, first[both], count[both], self.weights)
            embedded = found[own][both] * _norms(whole) - (whole - sums[both])
            sums[both] = _unit(sums[both]) + _unit(embedded)
            found[own] = _unit(sums)

        in_blocks(len(starts), _RUNS, some, found.size * _PASSES)
        return found


def _summed(
    vectors: np.ndarray, starts: np.ndarray, sizes: np.ndarray, weights: np.ndarray | None = None
) -> np.ndarray:
    """The sums of runs of vectors, each times its weight, float32 [R, d]."""

    def taken(rows: np.ndarray) -> np.ndarray:
        return vectors[rows] if weights is None else vectors[rows] * weights[rows, None]

    sums = taken(starts)
    for place in range(1, int(sizes.max(initial=0))):
        more = np.flatnonzero(sizes > place)
        sums[more] += taken(starts[more] + place)
    return sums


class _Search:
    """The best paths through a band, with the vectors of runs as `_Document` has them."""

    def __init__(self, x: _Document, y: _Document, band: Band, max_size: int) -> None:
        self._documents, self._band = (x, y), band
        self._norms = x.norms(max_size), y.norms(max_size)
        self._ends = x.ends, y.ends
        self._compare(x.ends[-1], y.ends[-1])

    def _compare(self, x_characters: float, y_characters: float) -> None:
        """Make lengths comparable: as those of two texts of so many characters."""
        ratio = np.sqrt(y_characters / x_characters) if x_characters and y_characters else 1.0
        self._ends = self._ends[0] * ratio, self._ends[1] / ratio

    def compare_aligned(self) -> None:
        """Make lengths comparable by the ratio of what is aligned."""
        path = self.path()
        spans = np.stack([np.diff(end[path[:, side]]) for side, end in enumerate(self._ends)])
        self._compare(*spans[:, (np.diff(path, axis=0) > 0).all(axis=1)].sum(axis=1).tolist())

    def _runs(self) -> tuple[RunsBefore, RunsBefore]:
        found = []
        for document, norms, ends in zip(self._documents, self._norms, self._ends, strict=True):
            starts = np.arange(len(ends)) - np.arange(1, len(norms) + 1)[:, None]
            scales = np.divide(1, norms, out=np.zeros_like(norms), where=norms > 0)
            lengths, worth = (
                (upto - upto[np.maximum(starts, 0)]).astype(np.float32)
                for upto in (ends, _gains(ends, document))
            )
            found.append(RunsBefore(document.sums, scales, lengths, worth))
        return found[0], found[1]

    def path(self) -> np.ndarray:
        """The cells of the best path, int64 [P, 2], row and column."""
        return best_path(*self._runs(), self._band)

    def steps_in_doubt(self) -> np.ndarray:
        """The steps on nearly best paths, int64 [E, 4] (see `_DOUBT`)."""
        return steps_near_best(*self._runs(), self._band, _DOUBT)

    def worth(self, steps: np.ndarray, cosines: np.ndarray) -> np.ndarray:
        """The values of steps with these cosines, float64 [E]."""
        both = [
            (end, _gains(end, document)) for end, document in zip(self._ends, self._documents, strict=True)
        ]
        lengths, worth = (
            [own[k][steps[:, side + 2]] - own[k][steps[:, side]] for side, own in enumerate(both)]
            for k in (0, 1)
        )
        return np.where(_are_alone(steps), 0, values(cosines, *lengths) + worth[0] + worth[1])


def _gains(ends: np.ndarray, document: _Document) -> np.ndarray:
    """The `gains` of all sentences of a document before each point, float64 [n + 1].

    Args:
        ends: float64 [n + 1], the characters before each.
    """
    return np.append(0.0, np.cumsum(gains(np.diff(ends), document.headings)))


def _are_alone(steps: np.ndarray) -> np.ndarray:
    """Which steps leave a sentence alone, bool [E]."""
    return np.asarray((steps[:, 0] == steps[:, 2]) | (steps[:, 1] == steps[:, 3]))


def _cosines(
    documents: tuple[_Document, _Document], steps: np.ndarray, runs: tuple[Runs, Runs]
) -> np.ndarray:
    """The cosines of steps, float32 [E]; 0 where a sentence is left alone."""
    both = np.flatnonzero(~_are_alone(steps))
    units, places = [], []
    for side, document in enumerate(documents):
        codes = steps[both, side] * (_LARGEST + 1) + steps[both, side + 2] - steps[both, side]
        spans, place = np.unique(codes, return_inverse=True)
        starts, sizes = spans // (_LARGEST + 1), spans % (_LARGEST + 1)
        units.append(document.run_vectors(starts, sizes, runs[side]))
        places.append(place)
    cosines = np.zeros(len(steps), np.float32)
    if len(both):
        cosines[both] = dots(units[0], units[1], places[0], places[1])
    return cosines


def _band(n: int, m: int, halved: Callable[[], tuple[_Document, _Document]]) -> Band:
    """Where to search in documents of n and m sentences: everywhere, or around the best path of a search with
    each two sentences as one (`halved`)."""
    rows = np.arange(n + 1)
    if (n + 1) * (m + 1) <= _WHOLE or min(n, m) <= 2 * _RADIUS:
        low, high = np.zeros_like(rows), np.full_like(rows, m)
    else:
        x, y = halved()
        band = _band(len(x), len(y), lambda: (x.halved(), y.halved()))
        path = np.minimum(_Search(x, y, band, _COARSE).path() * 2, (n, m))
        first = np.searchsorted(path[:, 0], rows - _RADIUS, "right") - 1
        last = np.searchsorted(path[:, 0], rows + _RADIUS, "left")
        low = np.maximum(path[np.maximum(first, 0), 1] - _RADIUS, 0)
        high = np.minimum(path[np.minimum(last, len(path) - 1), 1] + _RADIUS, m)
    widths = high - low + 1
    return Band(low, high, np.cumsum(widths) - widths)


def _norms(vectors: np.ndarray) -> np.ndarray:
    """Lengths, [n, 1]; NumPy's own function takes a third longer."""
    return np.sqrt(np.square(vectors).sum(axis=1, keepdims=True))


def _unit(vectors: np.ndarray) -> np.ndarray:
    norms = _norms(vectors)
    return vectors / np.where(norms > 0, norms, 1)
