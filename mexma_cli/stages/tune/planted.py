"""Known translations that are planted in texts: which of them take part, how they score, and their recall."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import xxhash

from mexma_cli.errors import MexmaError
from mexma_cli.knn.keys import EMPTY, keys_of
from mexma_cli.knn.sides import VectorSource
from mexma_cli.knn.tiled import Span, merged, neighbours_in, search_tile
from mexma_cli.mining.candidates import Candidates
from mexma_cli.mining.estimate import ScoreModel
from mexma_cli.mining.lists import Lists, slices, take_part
from mexma_cli.stages.knn.row_filter import have_direction
from mexma_cli.store.embeddings import EmbeddingStore, StorePair
from mexma_cli.store.spool import Spool
from mexma_cli.text.lines import is_blank

_TEST = 1.22  # of Kolmogorov and Smirnov at 10 %
_KIND = 0.7  # error of recall's log odds since planted pairs are never quite of the text's kind
_PER_SHIFT = 4.0


@dataclass(frozen=True)
class Planted:
    """Known translations that were mined together with the texts."""

    scores: np.ndarray
    """float64 [n] of those that came back, falling."""
    pairs: int
    """How many took part."""
    empty: int
    """Left out: one side is empty, or its vector is zero or not a number."""
    repeated: int
    """Left out: one of the two sentences is in an earlier pair."""
    copies: tuple[int, int]
    """Lines of source and target left out, since they are planted sentences."""

    def recall(self, threshold: float) -> float:
        """Share of the planted pairs that come back above a threshold."""
        return int((self.scores > threshold).sum()) / self.pairs

    def compared(self, model: ScoreModel) -> Comparison:
        """With the text's own translations, above the threshold of best F1: below it these are not known."""
        floor = model.cut(model.choose())
        scores = self.scores[self.scores > floor.threshold]
        if len(scores) < 2 or floor.right < 2:
            return Comparison(True, 0.0, np.inf)
        error = np.sqrt(1 / len(scores) + 1 / floor.right)
        own = (model.count_above(scores) - model.wrong_above(scores)) / floor.right
        more = own - np.arange(len(scores)) / len(scores)
        mean = -np.trapezoid(np.append(more, 0), np.append(scores, floor.threshold))
        unlike = bool(np.max(np.abs(more)) > _TEST * error)
        return Comparison(unlike, float(mean / max(scores.std(), 1e-9)), float(error))


@dataclass(frozen=True)
class Comparison:
    """How planted pairs score beside the text's own translations."""

    unlike: bool
    """They are of another kind, by Kolmogorov and Smirnov's test at 10 %."""
    shift: float
    """By how many standard deviations the own ones score higher in the mean."""
    error: float
    """Standard error of that."""

    def recall_interval(self, planted: Planted, threshold: float, translations: float) -> tuple[float, float]:
        """95 % interval of the text's recall.

        Both the planted pairs and the text's translations are a sample. A difference between them that
        is no more than chance may be one of kind: the log odds of recall differ by up to `_PER_SHIFT` for a
        standard deviation of the scores, and by `_KIND` besides, as benchmarks/thresholds.py has it.
        """
        share = (planted.recall(threshold) * planted.pairs + 1) / (planted.pairs + 2)
        chance = (1 / planted.pairs + 1 / max(translations, 1)) / max(share * (1 - share), 0.02)
        half = 1.96 * np.sqrt(chance + _KIND**2 + (_PER_SHIFT * self.error) ** 2)
        odds = np.log(share / (1 - share))
        low = odds - half + _PER_SHIFT * min(self.shift, 0)
        high = odds + half + _PER_SHIFT * max(self.shift, 0)
        return float(1 / (1 + np.exp(-low))), float(1 / (1 + np.exp(-high)))


@dataclass(frozen=True)
class LeftOut:
    """See `Planted`."""

    empty: int = 0
    repeated: int = 0
    copies: tuple[int, int] = (0, 0)


class Chained:
    """The rows of one source after those of another, read block by block from where they are."""

    def __init__(self, first: VectorSource, second: VectorSource) -> None:
        self._first, self._second = first, second
        self.rows, self.dim = first.rows + second.rows, first.dim

    def vectors(self, start: int, stop: int) -> np.ndarray:
        border = self._first.rows
        if stop <= border:
            return self._first.vectors(start, stop)
        if start >= border:
            return self._second.vectors(start - border, stop - border)
        return np.concatenate([self._first.vectors(start, border), self._second.vectors(0, stop - border)])


def pairs_to_plant(
    source: EmbeddingStore, target: EmbeddingStore
) -> tuple[np.ndarray, tuple[set[bytes], set[bytes]], LeftOut]:
    """(bool [rows], the digests of both sides' sentences, and what was left out)."""
    if source.rows != target.rows:
        names = [store.manifest.source.path for store in (source, target)]
        raise MexmaError(
            f"{names[0]} has {source.rows:,} lines, {names[1]} has {target.rows:,}",
            "line n of one must be the translation of line n of the other",
        )
    have_vectors = have_direction(source) & have_direction(target)
    keep, lines, repeated = np.zeros(source.rows, dtype=bool), (set[bytes](), set[bytes]()), 0
    for row, pair in enumerate(zip(source.sentences(), target.sentences(), strict=True)):
        if not have_vectors[row] or is_blank(pair[0]) or is_blank(pair[1]):
            continue
        digests = [_digest(sentence) for sentence in pair]
        if digests[0] in lines[0] or digests[1] in lines[1]:
            repeated += 1
            continue
        keep[row] = True
        lines[0].add(digests[0])
        lines[1].add(digests[1])
    kept = int(keep.sum())
    if not kept:
        raise MexmaError(f"{source.manifest.source.path}: no pair to plant; all are empty or have no vector")
    return keep, lines, LeftOut(source.rows - kept - repeated, repeated)


def drop_copies(store: EmbeddingStore, keep: np.ndarray, planted: set[bytes]) -> int:
    """Leave out of `keep`, bool [rows], the lines that are planted sentences; how many there are."""
    copies = np.fromiter((_digest(line) in planted for line in store.sentences()), bool, store.rows)
    keep &= ~copies
    if not keep.any():
        raise MexmaError(
            f"{store.manifest.source.path}: nothing is left beside the planted sentences",
            "plant translations into the text that you want to mine",
        )
    return int(copies.sum())


def lines_of(known: EmbeddingStore, text: EmbeddingStore) -> np.ndarray:
    """bool [rows of `known`], which of its sentences are lines of a text."""
    digests = [_digest(sentence) for sentence in known.sentences()]
    wanted = set(digests)
    there = {digest for line in text.sentences() if (digest := _digest(line)) in wanted}
    return np.array([digest in there for digest in digests], dtype=bool)


def _digest(sentence: str) -> bytes:
    return xxhash.xxh3_128_digest(sentence.encode("utf-8"))


def came_back(first: Candidates, rows: tuple[int, int], pairs: int, left_out: LeftOut) -> Planted:
    """What came back of so many planted pairs, which follow the `rows` of the texts."""
    scores = [np.empty(0, np.float64)]
    for part in slices(len(first)):
        some = first.take(part)
        number = some.source - rows[0]
        right = (number >= 0) & (number == some.target - rows[1])
        scores.append(some.scores[right].astype(np.float64))
    return Planted(np.concatenate(scores), pairs, **vars(left_out))


class _KeptLists:
    """Neighbours, as `Lists`, in a temporary file."""

    def __init__(self, k: int) -> None:
        self._k, self._keys = k, Spool(np.int64)

    @property
    def count(self) -> int:
        """Rows in all."""
        return self._keys.rows // self._k

    def write(self, *keys: np.ndarray) -> None:
        """Append the best of several lists of keys, int64 [n, k], of the same rows."""
        self._keys.write(merged(keys, self._k).reshape(-1))

    def at(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """See `Lists`."""
        return neighbours_in(self._keys.array().reshape(-1, self._k)[rows])


def with_planted(
    stores: StorePair, known: StorePair, lists: tuple[Lists, Lists], keep_known: np.ndarray, k: int
) -> tuple[Lists, Lists]:
    """The k nearest neighbours of texts with known translations after their lines, in temporary files.

    Args:
        lists: Those of the texts alone. A row of theirs that has none takes no part.
        keep_known: bool, which known translations take part.

    Raises:
        MexmaError: The temporary disk is full.
    """
    sides = Chained(stores[0], known[0]), Chained(stores[1], known[1])
    new = [Span(store.rows, side.rows) for store, side in zip(stores, sides, strict=True)]
    found = _KeptLists(k), _KeptLists(k)
    of_known = [np.empty((len(keep_known), 0), np.int64) for _ in sides]  # in the other side's text
    for side, own in enumerate(lists):
        for part in slices(own.count):
            scores, ids = own.at(np.arange(part.start, part.stop))
            keep, span = take_part(ids), Span(part.start, part.stop)
            if side == 0:
                near, far = search_tile(sides, (keep, keep_known), (span, new[1]), k)
            else:
                far, near = search_tile(sides, (keep_known, keep), (new[0], span), k)
            found[side].write(np.where(ids < 0, EMPTY, keys_of(scores, ids)), near)
            of_known[1 - side] = merged([of_known[1 - side], far], k)
    corner = search_tile(sides, (keep_known, keep_known), (new[0], new[1]), k)
    for one, keys, last in zip(found, of_known, corner, strict=True):
        one.write(keys, last)
    return found
