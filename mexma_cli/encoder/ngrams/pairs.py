"""Pairs of neighbouring tokens that are one more token: signs of unspaced scripts, Vietnamese syllables.

A word of these is most often several tokens, and a bag of them would not know which stood side by side.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mexma_cli.encoder.ngrams.hashing import WORD_START, is_word
from mexma_cli.text.characters import is_unspaced, is_vietnamese

_NONE, _SIGN, _SYLLABLE, _WORD, _UNKNOWN = range(5)


def kind_of(piece: str) -> int:
    """What decides which neighbours are a pair (`joined`)."""
    word = piece.removeprefix(WORD_START)
    if not piece.startswith(WORD_START) or WORD_START in word:
        return _NONE
    if is_unspaced(word):
        return _SIGN
    if is_vietnamese(word):
        return _SYLLABLE
    return _WORD if is_word(word) else _NONE


def joined(kinds: np.ndarray) -> np.ndarray:
    """Which of N tokens and the next one are a pair, bool [N - 1]: two signs, or a syllable and a word.

    Args:
        kinds: uint8 [N], their `kind_of`.
    """
    left, right = kinds[:-1], kinds[1:]
    words = (left >= _SYLLABLE) & (right >= _SYLLABLE)
    return (left == _SIGN) & (right == _SIGN) | words & ((left == _SYLLABLE) | (right == _SYLLABLE))


class PairTokens:
    """The pairs in a vocabulary, and those that sentences have.

    Args:
        pieces: The vocabulary. A pair is both tokens as one piece, each with WORD_START.
    """

    def __init__(self, pieces: Sequence[str]) -> None:
        self._pieces, self._size = pieces, len(pieces)
        self._kinds = np.full(
            len(pieces), _UNKNOWN, np.uint8
        )  # of all of them they would take longer than a page
        places = {piece: place for place, piece in enumerate(pieces)}
        keys = {}
        for place, piece in enumerate(pieces):
            cut = piece.find(WORD_START, 1)
            if cut > 0 and piece[:cut] in places and piece[cut:] in places:
                keys[places[piece[:cut]] * self._size + places[piece[cut:]]] = place
        self._keys = np.array(sorted(keys), np.int64)
        self._tokens = np.array([keys[key] for key in self._keys.tolist()], np.int64)

    def of(self, ids: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The pairs in sentences that stand one after the other, each with its special tokens.

        Returns:
            int64 [P], where each pair's first token is; int64 [P, 2], its two tokens; and int64 [P], the
            pair's own token, -1 where the vocabulary has none.
        """
        for token in np.unique(ids[self._kinds[ids] == _UNKNOWN]).tolist():
            self._kinds[token] = kind_of(self._pieces[token])
        places = np.flatnonzero(joined(self._kinds[ids]))
        tokens = np.stack([ids[places], ids[places + 1]], axis=1)
        if not len(self._keys):
            return places, tokens, np.full(len(places), -1)
        keys = tokens[:, 0] * self._size + tokens[:, 1]
        found = np.searchsorted(self._keys, keys).clip(max=len(self._keys) - 1)
        return places, tokens, np.where(self._keys[found] == keys, self._tokens[found], -1)
