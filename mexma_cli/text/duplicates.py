"""Equal sentences and pairs by their hashes, and pairs that are copies, not translations."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Literal
from unicodedata import category

import numpy as np
import xxhash

from mexma_cli.text.characters import every_character
from mexma_cli.text.lines import is_blank
from mexma_cli.text.normalise import normal_form

if TYPE_CHECKING:
    import regex

SLOTS = 1 << 22
"""Sentences remembered at most: 64 MB."""
Reason = Literal["identical", "near-identical"]
NEAR_COPY = 0.95
"""Edit similarity from which two sentences are near-copies: some more of the translations between Danish and
Bokmål would be with 0.9."""
_LETTERS = 4000
"""Letters of a long line that are compared: the time grows with their square."""
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


def letters_of(sentence: str) -> str:
    """The letters and marks of a sentence, in lower case: no numbers, spaces and punctuation."""
    return _no_letters().sub("", normal_form("NFKC", sentence).casefold())


@cache
def _no_letters() -> regex.Pattern[str]:
    import regex  # knows the classes of Unicode

    return regex.compile(r"[^\p{L}\p{M}]+")


def edit_distance(one: str, other: str) -> int:
    """Levenshtein distance: characters to insert, delete or replace.

    A column of the table is a number of as many bits as `one` has characters (Myers, 1999; Hyyrö, 2003).
    """
    places: dict[str, int] = {}
    for place, character in enumerate(one):
        places[character] = places.get(character, 0) | 1 << place
    every, last = (1 << len(one)) - 1, 1 << len(one) >> 1
    rises, falls, distance = every, 0, len(one) or len(other)
    for character in other if one else "":
        equal = places.get(character, 0)
        level = (((equal & rises) + rises) ^ rises) | equal | falls
        up, down = falls | (every & ~(level | rises)), level & rises
        distance += bool(up & last) - bool(down & last)
        up, down = up << 1 | 1, down << 1
        rises, falls = (down | ~(level | up)) & every, up & level & every
    return distance


def copy_reason(source: str, target: str, limit: float = NEAR_COPY) -> Reason | None:
    """Why a pair is a copy and no translation; None if it does not look like a copy.

    identical: equal except for white space at the ends. near-identical: an edit similarity of `limit` or more
    between the letters of both (numbers, case and punctuation may differ), 1 minus their edit distance by the
    length of the longer one. Two sides without any letter are copies, too.
    """
    if source.strip() == target.strip():
        return "identical"
    first, second = sorted((letters_of(source), letters_of(target)), key=len)
    if len(second) and len(first) / len(second) < limit:
        return None
    first, second = first[:_LETTERS], second[:_LETTERS]
    longer = len(second) or 1
    return "near-identical" if (longer - edit_distance(first, second)) / longer >= limit else None


def copy_reasons(
    sources: Sequence[str], targets: Sequence[str], limit: float = NEAR_COPY
) -> list[Reason | None]:
    """The `copy_reason` of each of N pairs.

    The letters of most pairs need not be compared: an edit changes three trigrams at most (Ukkonen, 1992).
    These are counted by a few bits of a hash, for all pairs at once, and those counts have at least as much
    in common as the trigrams.
    """
    found: list[Reason | None] = [None] * len(sources)
    for start in range(0, len(sources), _AT_ONCE):
        sides = [side[start : start + _AT_ONCE] for side in (sources, targets)]
        one, other = map(_hashed_trigrams, sides)
        common, most = np.minimum(one, other).sum(axis=1), np.maximum(one.sum(axis=1), other.sum(axis=1))
        edits = np.floor((1 - limit) * (most + 2) + 1e-6)
        for row in np.flatnonzero(common >= most - 3 * edits).tolist():
            found[start + row] = copy_reason(sides[0][row], sides[1][row], limit)
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
    """Whether `letters_of` leaves each code point, bool [0x110000]."""
    every = every_character()
    letters = np.ones(len(every), dtype=bool)
    for found in _no_letters().finditer(every):
        letters[found.start() : found.end()] = False
    return letters
