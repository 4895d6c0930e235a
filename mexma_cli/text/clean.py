"""Which pairs of parallel text are not for training, each with the reason."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Set
from dataclasses import dataclass, field
from functools import cache
from unicodedata import category, normalize

import xxhash

REASONS = {
    "missing": "a side is empty or white space",
    "malformed": "no TAB in the line",
    "other part": "the corpus's `keep` file names another part for the line",
    "short": "a side has fewer characters than min_chars",
    "long": "a side has more characters than max_chars",
    "ratio": "one side is more than max_length_ratio times as long as the other",
    "excluded": "a side is a sentence of an `exclude` file, but for case, spaces and punctuation",
    "duplicate": "the same pair came before in this corpus",
    "cap": "the corpus or the language has more pairs than its cap",
    "no tokens": "a side has no tokens",
}
"""Reason code -> meaning, in the order in which they are checked."""

SMOOTHING = 10
"""Characters added to both sides before the ratio, so that short sentences may differ."""


@dataclass(frozen=True)
class PairFilter:
    """The limits that every single pair must meet.

    Attributes:
        excluded: `fold` hashes of sentences that may not be on either side.
    """

    min_chars: int = 1
    max_chars: int = 1000
    max_length_ratio: float = 3.0
    excluded: Set[int] = field(default_factory=frozenset)

    def reason(self, source: str, target: str) -> str | None:
        """Why a pair (without white space at the ends) is dropped, or None."""
        shorter, longer = sorted((len(source), len(target)))
        if shorter == 0:
            return "missing"
        if shorter < self.min_chars:
            return "short"
        if longer > self.max_chars:
            return "long"
        if self.max_length_ratio and longer + SMOOTHING > self.max_length_ratio * (shorter + SMOOTHING):
            return "ratio"
        if self.excluded and (fold(source) in self.excluded or fold(target) in self.excluded):
            return "excluded"
        return None


def fold(sentence: str) -> int:
    """Hash of a sentence's letters, marks and digits in lower case; of the whole sentence if it has none.

    Composed and decomposed characters, and those of full and half width, are the same.
    """
    plain = normalize("NFKC", sentence.casefold().translate(_ignored())) or sentence
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
            if text and not text.isspace():
                found.add(fold(text))
    return found


def pair_hash(source: str, target: str, seed: int = 0) -> int:
    """64-bit hash of a pair as it stands."""
    return xxhash.xxh3_64_intdigest(f"{source}\t{target}".encode(), seed=seed)
