"""Facts about sentences that features need, found once for all pairs that a sentence is in."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from unicodedata import normalize

import numpy as np
from anyascii import anyascii

from mexma_cli.store.spool import Ragged, RaggedSpool, Spool, distinct, flat
from mexma_cli.text.characters import KATAKANA, SIGN, SPACED_ALPHABET, Characters
from mexma_cli.text.numbers import numbers

MARKS = {
    "question": "?\uff1f\u061f\u037e",
    "comma": ",\uff0c\u3001\u060c;\uff1b\u061b",
    "quote": '"\u201c\u201d\u201e\u00ab\u00bb\u300c\u300d\u300e\u300f\uff02\u2039\u203a',
    "colon": ":\uff1a",
}
"""Marks that are counted, and how they are written."""
_KIND_OF_MARK = np.zeros(1 << 16, np.int64)  # by code point; 0: none
for _place, _kind in enumerate(MARKS.values(), 1):
    _KIND_OF_MARK[list(map(ord, _kind))] = _place
WORD = re.compile(rf"{KATAKANA}|[^{SPACED_ALPHABET}]+|(?:{SIGN})+")
_LINES = 1 << 12
_LETTERS = 24  # of a word that are looked at
NAME_LETTERS = 3
"""Letters of a name, at least."""
_TRIGRAMS = np.int64(1 << 24)
_DIGITS = 18  # of a number that are compared, the last ones


@dataclass(frozen=True)
class SentenceFacts:
    """The looks of N sentences.

    Attributes:
        lengths: float32 [N], in characters.
        marks: float32 [N, len(MARKS)], how often each mark is there.
        numbers: Those in digits, see `text.numbers`.
        trigrams: Three letters of a word in lower-case Latin letters, each once, ascending, as a number; a
            space stands before and after the word.
        names: The places, in `name_trigrams`, of words that begin with a capital inside the sentence.
        name_trigrams: The trigrams of those words.
    """

    lengths: np.ndarray
    marks: np.ndarray
    numbers: Ragged
    trigrams: Ragged
    names: Ragged
    name_trigrams: Ragged


def look_at_sentences(texts: Iterable[str]) -> SentenceFacts:
    """Look at N sentences, in Unicode's composed form: takes some hundredths of a millisecond for each, and
    keeps what it finds on disk."""
    lengths, marks = Spool(np.float32), Spool(np.float32)
    digits, trigrams, names, of_names = (
        RaggedSpool(kind) for kind in (np.int64, np.int32, np.int64, np.int32)
    )
    rest = iter(texts)
    while block := [normalize("NFC", text) for text in islice(rest, _LINES)]:
        characters = Characters(block)
        lengths.write(characters.lengths)
        marks.write(_marks(characters))
        in_digits = (numbers(text).elements() for text in block)
        digits.write(*flat([int(one[-_DIGITS:] or 0) for one in each] for each in in_digits))
        words, counts = flat(map(WORD.findall, block))
        places = {word: place for place, word in enumerate(dict.fromkeys(words))}
        of_words = trigrams_of(list(places))
        word = np.fromiter(map(places.__getitem__, words), np.int64, len(words))
        row = np.repeat(np.arange(len(block)), counts)
        values, owner = of_words.at(word)
        inside = _rows_of(distinct(row[owner] * _TRIGRAMS + values), len(block))
        trigrams.write(inside.values, np.diff(inside.ends))
        is_name = np.fromiter((word[0].isupper() for word in places), bool, len(places))
        is_name &= np.diff(of_words.ends) >= NAME_LETTERS
        inner = np.append(False, row[1:] == row[:-1])[: len(row)]  # not the first word of its sentence
        named = np.flatnonzero(inner & is_name[word])
        names.write(of_names.rows + np.arange(len(named)), np.bincount(row[named], minlength=len(block)))
        of_names.write(of_words.at(word[named])[0], of_words.counts(word[named]))
    return SentenceFacts(
        lengths.array(),
        marks.array().reshape(-1, len(MARKS)),
        *(spool.ragged() for spool in (digits, trigrams, names, of_names)),
    )


def _marks(characters: Characters) -> np.ndarray:
    """How often each mark is in each of N sentences, one sentence after the other, int64 [N * marks]."""
    kinds = _KIND_OF_MARK[np.minimum(characters.points, len(_KIND_OF_MARK) - 1)]
    places = np.flatnonzero(kinds)
    count = len(MARKS)
    rows = characters.rows(places)
    return np.bincount(rows * count + kinds[places] - 1, minlength=len(characters.lengths) * count)


def trigrams_of(words: Sequence[str]) -> Ragged:
    """Three letters each of words in lower-case Latin letters, as numbers: see `SentenceFacts.trigrams`."""
    latin = [(word.lower() if word.isascii() else _latin(word)).encode()[:_LETTERS] for word in words]
    letters = np.frombuffer(b"  ".join([b"", *latin, b""]), np.uint8).astype(np.int64)
    counts = np.fromiter(map(len, latin), np.int64, len(latin))
    word = np.repeat(np.arange(len(latin)), counts)
    middle = np.arange(len(word)) + 2 * word + 2
    three = (letters[middle - 1] << 16) + (letters[middle] << 8) + letters[middle + 1]
    return _rows_of(distinct(word * _TRIGRAMS + three), len(latin))


@lru_cache(1 << 18)
def _latin(word: str) -> str:
    return anyascii(word).lower()


def _rows_of(keys: np.ndarray, rows: int) -> Ragged:
    """Trigrams of so many rows; with each its row, as `_TRIGRAMS` times that."""
    return Ragged(keys % _TRIGRAMS, np.searchsorted(keys, np.arange(rows + 1) * _TRIGRAMS))


def count_shared_numbers(own: Ragged, other: Ragged, source: np.ndarray, target: np.ndarray) -> np.ndarray:
    """How many numbers both sentences of N pairs have, float32 [N]."""
    both = np.flatnonzero((own.counts(source) > 0) & (other.counts(target) > 0))
    shared = np.zeros(len(source), np.float32)
    keyed = [_numbered(*side.at(rows[both])) for side, rows in ((own, source), (other, target))]
    shared[both] = np.bincount(_common(*keyed), minlength=len(both))
    return shared


def _numbered(values: np.ndarray, owner: np.ndarray) -> np.ndarray:
    """(owner, value, how often it came before in the same owner), int64 [n, 3], sorted."""
    order = np.lexsort((values, owner))
    values, owner = values[order], owner[order]
    new = np.ones(len(values), bool)
    new[1:] = (values[1:] != values[:-1]) | (owner[1:] != owner[:-1])
    first = np.maximum.accumulate(np.where(new, np.arange(len(values)), 0))
    return np.stack([owner, values, np.arange(len(values)) - first], 1)


def _common(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """The owners of the rows that two arrays have in common; each has a row once."""
    rows = np.concatenate([left, right])
    rows = rows[np.lexsort(rows.T[::-1])]
    return rows[1:][(rows[1:] == rows[:-1]).all(axis=1), 0]


def missing_names(
    names: SentenceFacts, other: SentenceFacts, rows: np.ndarray, others: np.ndarray
) -> np.ndarray:
    """How many names of N sentences have less than half of their trigrams in the other sentence.

    Args:
        rows, others: int64 [N], the sentences of each pair.

    Returns:
        float32 [N].
    """
    name, pair = names.names.at(rows)
    values, of_name = names.name_trigrams.at(name)
    sentences, place_of = np.unique(others, return_inverse=True)
    there, of_sentence = other.trigrams.at(sentences)
    keys = of_sentence * _TRIGRAMS + there
    wanted = place_of[pair[of_name]] * _TRIGRAMS + values
    place = np.minimum(np.searchsorted(keys, wanted), max(len(keys) - 1, 0))
    shared = keys[place] == wanted if len(keys) else np.zeros(len(wanted), bool)
    share = np.bincount(of_name, shared, len(name)) / np.maximum(np.bincount(of_name, minlength=len(name)), 1)
    return np.bincount(pair[share < 0.5], minlength=len(rows)).astype(np.float32)
