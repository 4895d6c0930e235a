"""The letter n-grams of words, as hashes."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import cache
from itertools import compress, filterfalse

import numpy as np
from anyascii import anyascii
from tokenizers import Tokenizer, pre_tokenizers

from mexma_cli.text.characters import is_unspaced, simplified

WORD_START = pre_tokenizers.Metaspace().replacement
"""Stands before the first token of a word in a Unigram vocabulary."""
_PLAIN, _CONSONANTS = 1, 3  # kinds of n-grams; the whole words of each are the next kind
_WHOLE, _OWN = 5, 7  # signs of unspaced scripts, and pairs of tokens; letters of other scripts
_OWN_SIZES, _SYLLABLE_SIZES = (3, 4), (1, 2)
_HANGUL = re.compile("[\uac00-\ud7a3]")
_OTHER = re.compile("[\u0530-\u0dff]")
_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_VOWELS = np.frombuffer(b"aeiouyj", np.uint8)


def ngram_keys(
    words: Sequence[str], sizes: Sequence[int], consonants: Sequence[int]
) -> tuple[np.ndarray, np.ndarray]:
    """Hashes of all n-grams of words, which are first written in lower-case Latin letters.

    A Russian or Greek name shares n-grams with its English form in this way. `<` stands for the start of a
    word. The whole word, without `<`, is one more n-gram. A sign of a script without spaces, and a pair of
    tokens, are one n-gram, in simplified characters.

    Args:
        words: As the tokeniser writes its tokens, with WORD_START where a word begins.
        sizes: Lengths of n-grams in letters.
        consonants: Lengths of n-grams of the word without its vowels. If any is given, the whole word
            without its vowels is one more n-gram.

    Returns:
        uint32 [N], the hashes, one word after the other, and int64 [words], how many each word has.
    """
    whole = np.array([is_whole(word) for word in words], bool)
    marked = [word.replace(WORD_START, "<") for word in words]
    latin = [(word if word.isascii() else anyascii(word)).lower() for word in compress(marked, ~whole)]
    letters = np.frombuffer("".join(latin).encode(), np.uint8)
    word = np.repeat(np.flatnonzero(~whole), [len(one) for one in latin])
    found = _of_letters(letters, word, ~whole, sizes, _PLAIN)
    if consonants:
        kept = ~np.isin(letters, _VOWELS)
        found += _of_letters(letters[kept], word[kept], ~whole, consonants, _CONSONANTS)
    for pattern, own_sizes in ((_HANGUL, _SYLLABLE_SIZES), (_OTHER, _OWN_SIZES)):
        these = ~whole & np.array([pattern.search(word) is not None for word in words], bool)
        if these.any():
            found += _of_letters(*_codes(marked, these), these, own_sizes, _OWN)
    if whole.any():
        signs = [word.replace("<", " ").translate(simplified()) for word in marked]
        found += _of_letters(*_codes(signs, whole), whole, [], _WHOLE)
    keys, owners = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return keys[np.argsort(owners, kind="stable")], np.bincount(owners, minlength=len(words))


def _codes(words: Sequence[str], those: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Code points of some of the words, uint32, and whose they are."""
    chosen = list(compress(words, those))
    letters = np.frombuffer("".join(chosen).encode("utf-32-le"), np.uint32)
    return letters, np.repeat(np.flatnonzero(those), [len(one) for one in chosen])


def is_word(text: str) -> bool:
    """Whether a text is only letters and the marks on them."""
    return text.isalpha() or (not text.isascii() and "".join(filterfalse(_is_mark, text)).isalpha())


@cache
def _is_mark(character: str) -> bool:
    return unicodedata.category(character)[0] == "M"


def is_whole(word: str) -> bool:
    """Whether a token is one n-gram: a sign of a script without spaces, or a pair of tokens."""
    return WORD_START in word[1:] or is_unspaced(word.removeprefix(WORD_START))


def _of_letters(
    letters: np.ndarray, word: np.ndarray, those: np.ndarray, sizes: Sequence[int], kind: int
) -> list[tuple[np.ndarray, np.ndarray]]:
    """(keys, words) of the n-grams of each size, and of the whole words, whose kind is `kind` + 1.

    Args:
        letters, word: Codes, and whose they are.
        those: bool [words], the words that these are the letters of.
    """
    codes, found = letters.astype(np.uint64), []
    for size in sizes:
        starts = max(0, len(codes) - size + 1)
        inside = np.flatnonzero(word[:starts] == word[len(word) - starts :])
        keys = np.full(len(inside), kind << 8 | size, np.uint64)
        for place in range(size):
            keys = (keys + codes[inside + place]) * _FACTOR
        found.append((_folded(keys), word[inside]))
    first = np.searchsorted(word, word)  # where each letter's word begins
    own = letters != ord("<")
    powers = np.cumprod(np.full(int((np.arange(len(word)) - first).max(initial=0)) + 2, _FACTOR))
    place = np.cumsum(own) - own
    within = place - place[first] if len(first) else place
    sums = np.zeros(len(those), np.uint64)
    np.add.at(sums, word[own], codes[own] * powers[within[own]])
    found.append((_folded(sums[those] * _FACTOR + np.uint64(kind + 1)), np.flatnonzero(those)))
    return found


def _folded(keys: np.ndarray) -> np.ndarray:
    keys = (keys ^ keys >> np.uint64(29)) * _FACTOR
    return (keys >> np.uint64(32)).astype(np.uint32)


def pieces_of(tokenizer: Tokenizer) -> list[str]:
    """The vocabulary's tokens as strings; "" for special tokens such as <s>, which have no letters."""
    special = {id for id, token in tokenizer.get_added_tokens_decoder().items() if token.special}
    pieces = map(tokenizer.id_to_token, range(tokenizer.get_vocab_size()))
    return ["" if id in special or piece is None else piece for id, piece in enumerate(pieces)]


def tokens_to_keep(pieces: Sequence[str], first: int) -> np.ndarray:
    """Which tokens n-gram embeddings cannot replace, bool [vocabulary].

    These are single letters and tokens that are not only letters.

    Args:
        first: How many of the vocabulary's first tokens to keep, too.
    """
    letters = [piece.replace(WORD_START, "") for piece in pieces]
    replaceable = np.array([len(part) > 1 and is_word(part) for part in letters])
    return ~replaceable | (np.arange(len(pieces)) < first)
