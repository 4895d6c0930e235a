"""Equal sentences and pairs by their hashes, near-duplicates by MinHash, and pairs that are copies.

MinHash with bands is that of Broder (1997) and of Leskovec and others (Mining of Massive Datasets, ch. 3).
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Literal
from unicodedata import category

import numpy as np
import xxhash

from mexma_cli.numerics.compiling import compiled
from mexma_cli.text.lines import is_blank
from mexma_cli.text.normalise import normal_form

SLOTS = 1 << 22
"""Sentences remembered at most: 64 MB."""
RUN = 5
"""Characters of the runs that sentences are compared by."""
_LOOKED_AT = 1 << 16
"""Characters of a sentence that are compared; nobody writes so long a one."""
HASHES = 128
_FACTOR = np.uint64(0x9E3779B97F4A7C15)
Reason = Literal["identical", "near-identical"]
COPY_OVERLAP = 0.9
"""Share of letter trigrams in common from which two sentences are near-copies."""
_NO_LETTERS = re.compile(r"[\W\d_]+")


class Seen:
    """The row where a sentence stood first, for the sentences seen last.

    Every sentence has one slot, by its hash, and a sentence that comes later takes it over: a line that is
    repeated again and again is still known after about as many others as there are slots. The sentences that
    are known depend on the rows entered so far and on how they were cut into chunks: a run that was killed
    and enters the same chunks again finds the same rows.

    Args:
        slots: A power of two; each takes 16 bytes.
    """

    def __init__(self, slots: int = SLOTS) -> None:
        assert slots & (slots - 1) == 0, slots
        self._mask = np.uint64(slots - 1)
        # `row` counts from 1, so that a slot of zeros is a free one.
        self._slots = np.zeros(slots, dtype=[("tag", "<u8"), ("row", "<i8")])

    def first_rows(self, sentences: Sequence[str], row: int) -> np.ndarray:
        """Enter a chunk.

        Args:
            sentences: N sentences, those of the rows from `row` on.

        Returns:
            int64 [N]: the earlier row that has the same sentence, or a sentence's own row.
        """
        first: dict[str, int] = {}
        inside = np.array([first.setdefault(text, at) for at, text in enumerate(sentences)], dtype=np.int64)
        new = np.array(list(first.values()), dtype=np.int64)
        digests = b"".join(xxhash.xxh3_128_digest(text.encode("utf-8")) for text in first)
        # Half of the 128 bits chooses the slot, the other 64 are compared: of a billion lines one is taken
        # for another with a chance of 5e-11, so the sentences themselves need not be kept.
        halves = np.frombuffer(digests, dtype="<u8").reshape(-1, 2)
        slots, tags = halves[:, 0] & self._mask, halves[:, 1]
        there = self._slots[slots]
        known = (there["row"] > 0) & (there["tag"] == tags)
        rows = inside + row
        rows[new[known]] = there["row"][known] - 1
        there["tag"], there["row"] = tags, rows[new] + 1
        self._slots[slots] = there
        return rows[inside]


def bands_of(similarity: float) -> tuple[int, int]:
    """Bands, and hashes in each, with which half of the pairs of a similarity are found.

    A pair of similarity s shares a band with the chance 1 - (1 - s^hashes)^bands, which is steepest there.
    """
    sizes = [(HASHES // size, size) for size in range(1, HASHES + 1)]
    return min(sizes, key=lambda pair: abs(1 - (1 - similarity ** pair[1]) ** pair[0] - 0.5))


class Signatures:
    """The bands of sentences: those that share one are near-duplicates.

    Args:
        similarity: Of the sets of their runs of `RUN` characters (Jaccard): half of the pairs with this one
            are found, most of those above it, few below.
    """

    def __init__(self, similarity: float) -> None:
        self._bands, self._size = bands_of(similarity)
        numbers = _mixed(np.arange(2 * self._bands * self._size, dtype=np.uint64)).astype(np.uint32)
        self._factors, self._terms = numbers[::2] | np.uint32(1), numbers[1::2]

    def bands(self, sentences: Sequence[str]) -> np.ndarray:
        """uint64 [N, bands]: equal numbers in a column are equal bands."""
        if not sentences:
            return np.empty((0, self._bands), dtype=np.uint64)
        hashes, starts = _runs(sentences)
        rows = np.full((len(sentences), len(self._factors)), np.iinfo(np.uint32).max, dtype=np.uint32)
        _least(hashes, starts, self._factors, self._terms, rows)
        bands = np.zeros((len(sentences), self._bands), dtype=np.uint64)
        for column in range(self._size):
            bands = _mixed(bands ^ rows[:, column :: self._size])
        return (bands + np.arange(self._bands, dtype=np.uint64)) * _FACTOR


@compiled
def _least(
    hashes: np.ndarray, starts: np.ndarray, factors: np.ndarray, terms: np.ndarray, out: np.ndarray
) -> None:
    """The least of factor * hash + term modulo 2^32, for each sentence and each factor, which is odd: so each
    is an order of all hashes, and two sentences have the same least one as often as their sets are alike."""
    for row in range(len(out)):
        least = out[row]
        for place in range(starts[row], starts[row + 1]):
            for order in range(len(factors)):
                value = np.uint32(factors[order] * hashes[place] + terms[order])
                least[order] = min(least[order], value)


def _runs(sentences: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Hashes of all runs of `RUN` characters, uint32; where those of each sentence begin, and the end."""
    padded = [sentence[:_LOOKED_AT].casefold().ljust(RUN) for sentence in sentences]
    points = np.frombuffer("".join(padded).encode("utf-32-le"), dtype=np.uint32).astype(np.uint64)
    hashes = np.zeros(len(points) - RUN + 1, dtype=np.uint64)
    for place in range(RUN):
        hashes = _mixed(hashes + points[place : len(hashes) + place])
    lengths = np.fromiter(map(len, padded), dtype=np.int64, count=len(padded))
    ends = np.cumsum(lengths)
    inside = np.ones(len(points), dtype=bool)
    for place in range(1, RUN):
        inside[ends - place] = False  # a run that begins here ends in the next sentence
    starts = np.concatenate([[0], np.cumsum(lengths - RUN + 1)])
    return hashes[inside[: len(hashes)]].astype(np.uint32), starts


def _mixed(numbers: np.ndarray) -> np.ndarray:
    """Numbers (uint64), each with its bits stirred."""
    numbers = numbers * _FACTOR
    return numbers ^ (numbers >> np.uint64(32))


def fold(sentence: str) -> int:
    """Hash of a sentence's letters, marks and digits in lower case; of the whole sentence if it has none.

    Composed and decomposed characters, and those of full and half width, are the same.
    """
    plain = normal_form("NFKC", sentence.casefold().translate(_ignored())) or sentence
    return xxhash.xxh3_64_intdigest(plain.encode("utf-8"))


@cache
def _ignored() -> dict[int, None]:
    """Spaces, punctuation, symbols, control and invisible characters."""
    kinds = ((code, category(chr(code))) for code in range(sys.maxunicode + 1))
    return {code: None for code, kind in kinds if kind[0] in "ZPS" or kind in ("Cc", "Cf")}


def folded(lines: Iterable[str]) -> set[int]:
    """Hashes of the sentences in lines of text or of tables: a whole line, and each of its columns."""
    found = set()
    for line in lines:
        for text in {line, *line.split("\t")}:
            if not is_blank(text):
                found.add(fold(text))
    return found


def pair_hash(source: str, target: str, seed: int = 0) -> int:
    """64-bit hash of a pair as it stands."""
    return xxhash.xxh3_64_intdigest(f"{source}\t{target}".encode(), seed=seed)


def copy_reason(source: str, target: str) -> Reason | None:
    """Why a pair is a copy and no translation; None if it does not look like a copy.

    identical: equal except for white space at the ends. near-identical: equal letters after case folding
    (numbers and punctuation may differ), or `COPY_OVERLAP` of all letter trigrams in common (Dice's
    coefficient of both multisets). Two sides without any letter are copies, too.
    """
    if source.strip() == target.strip():
        return "identical"
    first, second = _letters(source), _letters(target)
    if first == second:
        return "near-identical"
    shorter, longer = sorted((max(0, len(first) - 2), max(0, len(second) - 2)))
    if 2 * shorter < COPY_OVERLAP * (shorter + longer):
        return None  # too few trigrams on one side, whatever they are
    enough = COPY_OVERLAP * (shorter + longer) / 2
    # A trigram in common is a first letter in common, and letters are counted ten times as fast.
    one, other = first[:-2], second[:-2]
    if sum(min(one.count(letter), other.count(letter)) for letter in set(one)) < max(enough, 1):
        return None
    return "near-identical" if (_trigrams(first) & _trigrams(second)).total() >= max(enough, 1) else None


def _letters(sentence: str) -> str:
    return _NO_LETTERS.sub("", normal_form("NFKC", sentence).casefold())


def _trigrams(letters: str) -> Counter[str]:
    return Counter(letters[i : i + 3] for i in range(len(letters) - 2))
