"""Equal sentences and pairs by their hashes, and pairs that are copies, not translations."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Literal
from unicodedata import category

import numpy as np
import xxhash

from mexma_cli.text.characters import every_character
from mexma_cli.text.lines import is_blank
from mexma_cli.text.normalise import normal_form

SLOTS = 1 << 22
"""Sentences remembered at most: 64 MB."""
Reason = Literal["identical", "near-identical"]
COPY_OVERLAP = 0.9
"""Share of letter trigrams in common from which two sentences are near-copies."""
_NO_LETTERS = re.compile(r"[\W\d_]+")
_HASHES, _SHIFT = 256, np.uint32(24)
_MIXED = np.array([0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D], dtype=np.uint32)
"""Odd numbers, as hashes have them: their products overflow, and the upper bits of the sum depend on all."""
_AT_ONCE = 128
"""Pairs whose trigrams are counted together: more are slower, since they leave the processor's cache."""


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
        """Enter a chunk: N sentences, those of the rows from `row` on. Returns int64 [N]: the earlier row
        that has the same sentence, or a sentence's own row."""
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


def fold(sentence: str) -> int:
    """Hash of a sentence's letters, marks and digits in lower case; of the whole sentence if it has none.

    Composed and decomposed characters, and those of full and half width, are the same.
    """
    plain = normal_form("NFKC", sentence.casefold().translate(_ignored())) or sentence
    return xxhash.xxh3_64_intdigest(plain.encode("utf-8"))


@cache
def _ignored() -> dict[int, None]:
    """Spaces, punctuation, symbols, control and invisible characters."""
    planes = *range(0x40000), *range(0xE0000, 0xF0000)  # the others have no characters, or private ones
    kinds = ((code, category(chr(code))) for code in planes)
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
    grams, others = _trigrams(first), _trigrams(second)
    enough = COPY_OVERLAP * (grams.total() + others.total()) / 2
    return "near-identical" if (grams & others).total() >= max(enough, 1) else None


def copy_reasons(sources: Sequence[str], targets: Sequence[str]) -> list[Reason | None]:
    """`copy_reason` of each of N pairs.

    The trigrams of most pairs need not be compared: they are counted by a few bits of a hash, for all pairs
    at once, and those counts have at least as much in common as the trigrams.
    """
    found: list[Reason | None] = [None] * len(sources)
    for start in range(0, len(sources), _AT_ONCE):
        sides = [side[start : start + _AT_ONCE] for side in (sources, targets)]
        one, other = map(_hashed_trigrams, sides)
        common, both = np.minimum(one, other).sum(axis=1), (one + other).sum(axis=1)
        for row in np.flatnonzero(2 * common >= COPY_OVERLAP * both).tolist():
            found[start + row] = copy_reason(sides[0][row], sides[1][row])
    return found


def _hashed_trigrams(sentences: Sequence[str]) -> np.ndarray:
    """How many letter trigrams of each sentence have each hash, int64 [N, _HASHES]."""
    plain = [normal_form("NFKC", sentence).casefold() for sentence in sentences]
    points = np.frombuffer("".join(plain).encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
    kept = np.flatnonzero(_is_letter()[points])
    rows = np.repeat(np.arange(len(plain)), list(map(len, plain)))[kept]
    letters = points[kept]
    mixed = (letters[:-2] * _MIXED[0] + letters[1:-1] * _MIXED[1] + letters[2:] * _MIXED[2]) >> _SHIFT
    keys = (rows[2:] * _HASHES + mixed)[rows[2:] == rows[:-2]]
    return np.bincount(keys, minlength=len(sentences) * _HASHES).reshape(-1, _HASHES)


@cache
def _is_letter() -> np.ndarray:
    """Whether `_NO_LETTERS` leaves each code point, bool [0x110000]."""
    every = every_character()
    letters = np.ones(len(every), dtype=bool)
    for found in _NO_LETTERS.finditer(every):
        letters[found.start() : found.end()] = False
    return letters


def _letters(sentence: str) -> str:
    return _NO_LETTERS.sub("", normal_form("NFKC", sentence).casefold())


def _trigrams(letters: str) -> Counter[str]:
    return Counter(letters[i : i + 3] for i in range(len(letters) - 2))
