"""Subword n-gram embeddings: a word that the tokeniser splits becomes one token, made of its letter n-grams,
and pairs of neighbouring tokens become one more token.

The embedding of such a word is the sum of the vectors of its n-grams, as in fastText (Bojanowski et al.
2017). The table of n-grams is a file beside the weights. In a sentence, split words get ids above the
vocabulary, which stand for rows of a matrix made for these sentences (`PackedBatch.extra_embeddings`).

Pairs are of signs of scripts without spaces and of Vietnamese syllables: a word of these is most often
several tokens, and a bag of them would not know which stood side by side.
"""

from __future__ import annotations

import json
import math
import re
import unicodedata
from collections.abc import Sequence
from functools import cache, cached_property
from itertools import compress, filterfalse, islice, pairwise
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import xxhash
from anyascii import anyascii
from safetensors import safe_open
from safetensors.numpy import save
from tokenizers import Tokenizer, pre_tokenizers

from mexma_cli.encoder.loading.folder import NGRAMS_FILE
from mexma_cli.encoder.loading.weights import damage_as_message
from mexma_cli.encoder.model.weighted_embeddings import weighted_embeddings
from mexma_cli.numerics import bags
from mexma_cli.numerics.quantised import QuantisedRows
from mexma_cli.text.characters import is_unspaced, is_vietnamese, simplified

WORD_START = pre_tokenizers.Metaspace().replacement
"""Stands before the first token of a word in a Unigram vocabulary."""
_PLAIN, _CONSONANTS = 1, 3  # kinds of n-grams; the whole words of each are the next kind
_WHOLE, _OWN = 5, 7  # signs of unspaced scripts, and pairs of tokens; letters of other scripts
_OWN_SIZES, _SYLLABLE_SIZES = (3, 4), (1, 2)
_HANGUL = re.compile("[\uac00-\ud7a3]")
_OTHER = re.compile("[\u0530-\u0dff]")
_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_VOWELS = np.frombuffer(b"aeiouyj", np.uint8)
_NONE, _SIGN, _SYLLABLE, _WORD, _UNKNOWN = range(5)
_LONGEST = 255  # letters of an n-gram, for which its key has a byte
_KEPT = 1 << 15  # words whose embeddings are remembered
_TURN = Lock()  # of threads, with the words that are remembered
_TOGETHER = 1 << 12  # words whose embeddings are made together: few, for little memory
PART = 4
"""Numbers of an n-gram's vector that a byte stands for, where they are quantised."""


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


def token_kind(piece: str) -> int:
    """The kind of a token, by which `joined` decides which neighbours are a pair."""
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
        kinds: uint8 [N], their `token_kind`.
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

    @cached_property
    def _known(self) -> tuple[np.ndarray, np.ndarray]:
        """Keys of the vocabulary's pairs, int64, ascending, and their tokens; most texts need none."""
        places = {piece: place for place, piece in enumerate(self._pieces)}
        keys = {}
        for place, piece in enumerate(self._pieces):
            cut = piece.find(WORD_START, 1)
            if cut > 0 and piece[:cut] in places and piece[cut:] in places:
                keys[places[piece[:cut]] * self._size + places[piece[cut:]]] = place
        return np.array(sorted(keys), np.int64), np.array([keys[key] for key in sorted(keys)], np.int64)

    def of(self, ids: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The pairs in sentences that stand one after the other, each with its special tokens.

        Returns:
            int64 [P], where each pair's first token is; int64 [P, 2], its two tokens; and int64 [P], the
            pair's own token, -1 where the vocabulary has none.
        """
        for token in set(ids[self._kinds[ids] == _UNKNOWN].tolist()):
            self._kinds[token] = token_kind(self._pieces[token])
        places = np.flatnonzero(joined(self._kinds[ids]))
        tokens = np.stack([ids[places], ids[places + 1]], axis=1)
        if not len(places) or not len(self._known[0]):
            return places, tokens, np.full(len(places), -1)
        listed, own = self._known
        keys = tokens[:, 0] * self._size + tokens[:, 1]
        found = np.searchsorted(listed, keys).clip(max=len(listed) - 1)
        return places, tokens, np.where(listed[found] == keys, own[found], -1)


class NgramEmbeddings:
    """A table of n-gram vectors, and the token embeddings of words that follow from it.

    A word's vector is the sum of the vectors of its n-grams in the table, divided by the square root of
    their number. Its direction and its length make a token embedding (`weighted_embeddings`): the length
    decides how much the word weighs in its sentence.

    Args:
        keys: uint32 [N], hashes of the n-grams, ascending (`ngram_keys`).
        vectors: float16 [N, D], D being the model's width; or the same quantised, of which only the rows
            that a text needs are restored.
        sizes: Lengths in letters of the n-grams.
        consonants: Lengths of the n-grams of the word without its vowels.
        power: A word's weight is the length of its vector to this power.
        unit: The length at which a word weighs as much as the vocabulary's mean token.
    """

    def __init__(
        self,
        keys: np.ndarray,
        vectors: np.ndarray | QuantisedRows,
        sizes: Sequence[int],
        consonants: Sequence[int],
        power: float,
        unit: float,
    ) -> None:
        self.keys, self.vectors = keys, vectors
        self.sizes, self.consonants = list(sizes), list(consonants)
        self.power, self.unit = power, unit
        self._pieces: tuple[np.ndarray, np.ndarray, PairTokens] | None = None

    @property
    def vectors(self) -> np.ndarray | QuantisedRows:
        """The vectors of the n-grams; embeddings of words that were made of other ones are forgotten."""
        return self._vectors

    @vectors.setter
    def vectors(self, vectors: np.ndarray | QuantisedRows) -> None:
        self._vectors = vectors
        self._kept: dict[str, bytes] = {}

    def embed(self, words: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Token embeddings, float32 [words, D], and whether any n-gram of a word is known, bool [words].

        Zeros stand for words without.
        """
        with _TURN:
            return self._of_words(words)

    def _of_words(self, words: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        kept = self._kept
        new = [word for word in words if word not in kept]
        for start in range(0, len(new), _TOGETHER):
            some = new[start : start + _TOGETHER]
            for word, row, is_known in zip(some, *self._embed(some), strict=True):
                kept[word] = row.tobytes() if is_known else b""
        found = [kept[word] for word in words]
        for word in words:
            kept[word] = kept.pop(word)  # behind those that were used before
        for word in list(islice(kept, max(0, len(kept) - _KEPT))):
            del kept[word]
        width = self.vectors.shape[1]
        none = bytes(4 * width)
        rows = np.frombuffer(bytearray().join([row or none for row in found]), np.float32)
        return rows.reshape(-1, width), np.array(list(map(bool, found)), bool)

    def _embed(self, words: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        keys, counts = ngram_keys(words, self.sizes, self.consonants)
        keys, which = np.unique(keys, return_inverse=True)  # in order they are found faster
        places = np.searchsorted(self.keys, keys).clip(max=len(self.keys) - 1)
        known, places = (self.keys[places] == keys)[which], places[which]
        owners = np.repeat(np.arange(len(words)), counts)[known]
        counts = np.bincount(owners, minlength=len(words))
        sums = bags.sums(self.vectors, places[known], counts) / np.sqrt(counts.clip(1))[:, None]
        lengths = (np.linalg.norm(sums, axis=1) / self.unit).clip(1e-6)
        return weighted_embeddings(sums, self.power * np.log(lengths)), counts > 0

    def merge_split_words(
        self, tokens: Sequence[np.ndarray], tokenizer: Tokenizer
    ) -> tuple[list[np.ndarray], np.ndarray]:
        """Replace the tokens of each split word by one id, if the table knows any of its n-grams.

        Pairs of tokens (`PairTokens`) stand behind their first one, those that are tokens or that the table
        knows.

        Args:
            tokens: Token ids of each sentence.

        Returns:
            The sentences, in which the vocabulary's size plus i stands for row i of the embeddings; and
            these embeddings, float32 [rows, D].
        """
        if self._pieces is None:
            listed = pieces_of(tokenizer)
            starts_word = [not piece or piece.startswith(WORD_START) for piece in listed]
            self._pieces = np.array(listed, dtype=object), np.array(starts_word), PairTokens(listed)
        pieces, begins, pairs = self._pieces
        flat = np.concatenate(tokens)
        sentence = np.repeat(np.arange(len(tokens)), [len(ids) for ids in tokens])
        pair_places, halves, found = pairs.of(flat)
        starts = np.flatnonzero(begins[flat])
        lengths = np.diff(starts, append=len(flat))
        split: list[tuple[int, int, int]] = []
        words: dict[str, int] = {}
        own = pieces[flat].tolist()
        for start, length in zip(starts[lengths > 1].tolist(), lengths[lengths > 1].tolist(), strict=True):
            word = "".join(own[start : start + length])
            if is_word(word[1:]):
                split.append((start, length, words.setdefault(word, len(words))))
        unlisted = np.flatnonzero(found < 0)
        different, which = np.unique(halves[unlisted], axis=0, return_inverse=True)
        rows, known = self.embed([*words, *(left + right for left, right in pieces[different].tolist())])
        keep = np.ones(len(flat), bool)
        for start, length, row in split:
            if known[row]:
                flat[start] = len(pieces) + row
                keep[start + 1 : start + length] = False
        which = which.reshape(-1) + len(words)
        found[unlisted] = np.where(known[which], len(pieces) + which, -1)
        pair_places, found = pair_places[found >= 0], found[found >= 0]
        # A pair's second token begins a word, so its place is kept.
        place = np.concatenate([np.flatnonzero(keep), pair_places + 0.5])
        order = np.argsort(place, kind="stable")
        flat = np.concatenate([flat[keep], found])[order]
        of = np.concatenate([sentence[keep], sentence[pair_places]])[order]
        borders = np.searchsorted(of, np.arange(len(tokens) + 1)).tolist()
        return [flat[start:end] for start, end in pairwise(borders)], rows

    def hash_into(self, digest: xxhash.xxh3_128) -> None:
        """Add everything that the embeddings depend on."""
        digest.update(self.keys.data)
        for part in _arrays(self.vectors).values():
            digest.update(part.data)
        digest.update(json.dumps(self._facts()).encode())

    def _facts(self) -> dict[str, Any]:
        return {"sizes": self.sizes, "consonants": self.consonants, "power": self.power, "unit": self.unit}

    def save(self, folder: Path, small: bool) -> None:
        """Write the table beside the weights.

        Args:
            small: Quantise the vectors, to a byte for `PART` numbers. Vectors that were read quantised are
                written so in any case, which changes none of them.
        """
        vectors = self.vectors
        if small and not isinstance(vectors, QuantisedRows):
            vectors = QuantisedRows.of(vectors.astype(np.float32), PART)
        stored = {"keys": self.keys.view(np.int32), **_arrays(vectors)}
        facts = {name: json.dumps(value) for name, value in self._facts().items()}
        (folder / NGRAMS_FILE).write_bytes(_in_order(save(stored, facts)))

    @classmethod
    def load(cls, folder: Path, width: int) -> NgramEmbeddings | None:
        """The table in a folder; None if the folder has none. Refused: a damaged file, and vectors of another
        width."""
        path = folder / NGRAMS_FILE
        if not path.is_file():
            return None
        with damage_as_message(path):
            with safe_open(path, "numpy") as file:
                facts = {name: json.loads(value) for name, value in file.metadata().items()}
                stored = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            keys = stored["keys"].view(np.uint32)
            vectors = QuantisedRows.read(stored) if "codes" in stored else stored["vectors"]
            if vectors.shape != (len(keys), width) or not len(keys):
                raise ValueError(f"{vectors.shape} numbers for {len(keys):,} n-grams of {width}")
            table = cls(keys, vectors, **facts)
            lengths = [*table.sizes, *table.consonants]
            if not all(isinstance(length, int) and 0 < length <= _LONGEST for length in lengths):
                raise ValueError("a length of its n-grams is out of range")
            if not (math.isfinite(table.power) and 0 < table.unit < math.inf):
                raise ValueError("the weight of its words is out of range")
            return table


def _arrays(vectors: np.ndarray | QuantisedRows) -> dict[str, np.ndarray]:
    """The arrays that are stored for a table's vectors."""
    return vectors.arrays() if isinstance(vectors, QuantisedRows) else {"vectors": vectors}


def _in_order(content: bytes) -> bytes:
    """A safetensors file with sorted metadata: the library shuffles it, and bytes would differ each time."""
    end = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:end])
    header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
    ordered = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    assert len(ordered) <= end - 8
    return content[:8] + ordered.ljust(end - 8) + content[end:]
