"""The letter n-grams of words, as hashes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from anyascii import anyascii
from tokenizers import Tokenizer, pre_tokenizers

WORD_START = pre_tokenizers.Metaspace().replacement
"""Stands before the first token of a word in a Unigram vocabulary."""
_PLAIN, _CONSONANTS = 1, 3  # kinds of n-grams; the whole words of each are the next kind
_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_VOWELS = np.frombuffer(b"aeiouyj", np.uint8)


def ngram_keys(
    words: Sequence[str], sizes: Sequence[int], consonants: Sequence[int]
) -> tuple[np.ndarray, np.ndarray]:
    """Hashes of all n-grams of words, which are first written in lower-case Latin letters.

    A Russian or Greek name shares n-grams with its English form in this way. `<` stands for the start of a
    word. The whole word, without `<`, is one more n-gram.

    Args:
        words: As the tokeniser writes its tokens, with WORD_START where a word begins.
        sizes: Lengths of n-grams in letters.
        consonants: Lengths of n-grams of the word without its vowels. If any is given, the whole word
            without its vowels is one more n-gram.

    Returns:
        uint32 [N], the hashes, one word after the other, and int64 [words], how many each word has.
    """
    latin = [word.replace(WORD_START, "<") for word in words]
    latin = [(word if word.isascii() else anyascii(word)).lower() for word in latin]
    letters = np.frombuffer("".join(latin).encode(), np.uint8)
    word = np.repeat(np.arange(len(words)), [len(one) for one in latin])
    found = _of_letters(letters, word, len(words), sizes, _PLAIN)
    if consonants:
        kept = ~np.isin(letters, _VOWELS)
        found += _of_letters(letters[kept], word[kept], len(words), consonants, _CONSONANTS)
    keys, owners = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return keys[np.argsort(owners, kind="stable")], np.bincount(owners, minlength=len(words))


def _of_letters(
    letters: np.ndarray, word: np.ndarray, words: int, sizes: Sequence[int], kind: int
) -> list[tuple[np.ndarray, np.ndarray]]:
    """(keys, words) of the n-grams of each size, and of the whole words, whose kind is `kind` + 1."""
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
    sums = np.zeros(words, np.uint64)
    np.add.at(sums, word[own], codes[own] * powers[within[own]])
    found.append((_folded(sums * _FACTOR + np.uint64(kind + 1)), np.arange(words)))
    return found


def _folded(keys: np.ndarray) -> np.ndarray:
    keys = (keys ^ keys >> np.uint64(29)) * _FACTOR
    return (keys >> np.uint64(32)).astype(np.uint32)


def pieces_of(tokenizer: Tokenizer) -> list[str]:
    """The vocabulary's tokens as strings; "" for special tokens such as <s>, which have no letters."""
    special = {id for id, token in tokenizer.get_added_tokens_decoder().items() if token.special}
    pieces = (tokenizer.id_to_token(id) for id in range(tokenizer.get_vocab_size()))
    return ["" if id in special or piece is None else piece for id, piece in enumerate(pieces)]


def tokens_to_keep(pieces: Sequence[str], first: int) -> np.ndarray:
    """Which tokens n-gram embeddings cannot replace, bool [vocabulary].

    These are single letters and tokens that are not only letters.

    Args:
        first: How many of the vocabulary's first tokens to keep, too.
    """
    letters = [piece.removeprefix(WORD_START) for piece in pieces]
    replaceable = np.array([len(part) > 1 and part.isalpha() for part in letters])
    return ~replaceable | (np.arange(len(pieces)) < first)
