"""Sentences and pairs as hashes: as they stand, or but for case, spaces and punctuation."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from functools import cache
from unicodedata import category

import xxhash

from mexma_cli.text.lines import is_blank
from mexma_cli.text.normalise import normal_form


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
