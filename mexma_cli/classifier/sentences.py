"""Facts about sentences that features need, found once for all pairs that a sentence is in."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np
from anyascii import anyascii

from mexma_cli.classifier.ragged import Ragged, RaggedSpool
from mexma_cli.store.spool import Spool
from mexma_cli.text.characters import KATAKANA, SIGN
from mexma_cli.text.numbers import numbers

MARKS = {
    "question": "?\uff1f\u061f\u037e",
    "comma": ",\uff0c\u3001\u060c;\uff1b\u061b",
    "quote": '"\u201c\u201d\u201e\u00ab\u00bb\u300c\u300d\u300e\u300f\uff02\u2039\u203a',
    "colon": ":\uff1a",
}
"""Marks that are counted, and how they are written."""
_MARK = {character: place for place, kind in enumerate(MARKS.values()) for character in kind}
_ANY_MARK = re.compile(f"[{''.join(map(re.escape, _MARK))}]")
WORD = re.compile(rf"{KATAKANA}|(?:(?!{SIGN}|{KATAKANA})[^\W\d_])+|(?:{SIGN})+")
_LINES = 1 << 12
_KNOWN = 1 << 18  # words whose trigrams are remembered
_LETTERS = 24  # of a word that are looked at
NAME_LETTERS = 3
"""Letters of a name, at least."""
_TRIGRAMS = np.int64(1 << 24)
_DIGITS = 18  # of a number that are compared, the last ones


@dataclass(frozen=True)
class Sentences:
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


def look_at(texts: Iterable[str]) -> Sentences:
    """Look at N sentences: takes a tenth of a millisecond for each, and keeps what it finds on disk.

    Raises:
        MexmaError: The temporary disk is full.
    """
    lengths, all_marks = Spool(np.float32), Spool(np.float32)
    spools = [RaggedSpool(kind) for kind in (np.int64, np.int32, np.int64, np.int32)]
    of_names = spools[-1]
    known: dict[str, list[int]] = {}
    for block in _blocks(texts):
        marks = np.zeros((len(block), len(MARKS)), np.float32)
        digits, trigrams, names = list[list[int]](), list[list[int]](), list[list[int]]()
        new: list[list[int]] = []
        for row, text in enumerate(block):
            for mark in _ANY_MARK.findall(text):
                marks[row, _MARK[mark]] += 1
            digits.append([int(one[-_DIGITS:] or 0) for one in numbers(text).elements()])
            inside, own = set[int](), list[int]()
            for place, word in enumerate(WORD.findall(text)):
                if (of_word := known.get(word)) is None:
                    of_word = known[word] = trigrams_of(word)
                inside.update(of_word)
                if place and len(of_word) >= NAME_LETTERS and word[0].isupper():
                    own.append(of_names.rows + len(new))
                    new.append(of_word)
            trigrams.append(sorted(inside))
            names.append(own)
        lengths.write(np.fromiter(map(len, block), np.float32, len(block)))
        all_marks.write(marks.reshape(-1))
        for spool, rows in zip(spools, (digits, trigrams, names, new), strict=True):
            spool.write(rows)
        if len(known) > _KNOWN:
            known.clear()
    ragged = (spool.ragged() for spool in spools)
    return Sentences(lengths.array(), all_marks.array().reshape(-1, len(MARKS)), *ragged)


def _blocks(texts: Iterable[str]) -> Iterator[list[str]]:
    rest = iter(texts)
    while block := list(islice(rest, _LINES)):
        yield block


def trigrams_of(word: str) -> list[int]:
    """Three letters each of a word in lower-case Latin letters, as numbers: see `Sentences.trigrams`."""
    latin = (word if word.isascii() else anyascii(word)).lower().encode()[:_LETTERS]
    padded = b" " + latin + b" "
    return sorted({int.from_bytes(padded[at : at + 3], "big") for at in range(len(padded) - 2)})


def shared_numbers(own: Ragged, other: Ragged, source: np.ndarray, target: np.ndarray) -> np.ndarray:
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
    names: Sentences, other: Sentences, rows: np.ndarray, others: np.ndarray, alike: float = 0.5
) -> np.ndarray:
    """How many names of N sentences have less than this share of their trigrams in the other sentence.

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
    return np.bincount(pair[share < alike], minlength=len(rows)).astype(np.float32)
