"""Words that the tokeniser has no token for, embedded as one token made of their letters' n-grams.

A word in pieces is a bag of pieces that training may have seen in other words; its n-grams overlap, so that
each letter is seen with its neighbours, as in fastText. A table of n-grams stands beside the weights
(`FILE`), and a sentence's split words become ids above the vocabulary, rows of a matrix made for them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import xxhash
from anyascii import anyascii
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from tokenizers import Tokenizer, pre_tokenizers
from torch.nn import functional

from mexma_cli.encoder.model.bag import word_rows
from mexma_cli.encoder.model.modules import damaged
from mexma_cli.numerics.trellis import Coded

FILE = "spelling.safetensors"
WORD_START = pre_tokenizers.Metaspace().replacement
"""Stands before the first token of a word in a Unigram vocabulary."""
_DAMAGE = (SafetensorError, OSError, LookupError, ValueError, TypeError, AttributeError, RuntimeError)
_PLAIN, _CONSONANTS = 1, 3  # kinds of n-grams; the whole words of each are the next kind
_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_VOWELS = np.frombuffer(b"aeiouyj", np.uint8)


def ngram_keys(
    words: Sequence[str], sizes: Sequence[int], consonants: Sequence[int]
) -> tuple[np.ndarray, np.ndarray]:
    """Hashes of all n-grams of words as the tokeniser writes them, spelled in lower-case Latin letters.

    So a Russian or Greek name has n-grams of its English form. `<` stands for the start of a word. The whole
    spelling counts as one more, that tokens with and without a word's start share.

    Args:
        consonants: Sizes of n-grams of the spelling without vowels; if there are any, its whole is one too.

    Returns:
        uint32 [N], the words' n-grams one word after the other, and int64 [words], how many each has.
    """
    spelled = [word.replace(WORD_START, "<") for word in words]
    spelled = [(word if word.isascii() else anyascii(word)).lower() for word in spelled]
    letters = np.frombuffer("".join(spelled).encode(), np.uint8)
    word = np.repeat(np.arange(len(words)), [len(one) for one in spelled])
    found = _of_letters(letters, word, len(words), sizes, _PLAIN)
    if consonants:
        kept = ~np.isin(letters, _VOWELS)
        found += _of_letters(letters[kept], word[kept], len(words), consonants, _CONSONANTS)
    keys, owners = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return keys[np.argsort(owners, kind="stable")], np.bincount(owners, minlength=len(words))


def _of_letters(
    letters: np.ndarray, word: np.ndarray, words: int, sizes: Sequence[int], kind: int
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Keys and words, of the n-grams of each size and of the whole words (`kind` + 1)."""
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


class Spelling:
    """N-grams with vectors, and the word embeddings that words have by them.

    A word's vector is the sum of those of its n-grams that are in the table, over the root of their number;
    its direction and its weight in a sentence are written into a word embedding as `bag.word_rows` has it.

    Args:
        keys: uint32 [N], ascending (`ngram_keys`).
        vectors: float16 [N, D], D the model's width, or as they are stored small.
        sizes: Of n-grams.
        consonants: Of n-grams of the letters without vowels.
        power: What a vector's length is raised to, for the word's weight.
        unit: The length whose weight is that of the vocabulary's mean token.
    """

    def __init__(
        self,
        keys: np.ndarray,
        vectors: torch.Tensor | Coded,
        sizes: Sequence[int],
        consonants: Sequence[int],
        power: float,
        unit: float,
    ) -> None:
        self.keys, self.vectors = keys, vectors
        self.sizes, self.consonants = list(sizes), list(consonants)
        self.power, self.unit = power, unit
        self._pieces: tuple[np.ndarray, np.ndarray] | None = None

    def rows(self, words: Sequence[str]) -> tuple[torch.Tensor, np.ndarray]:
        """Word embeddings, float32 [words, D], and whether any of a word's n-grams is known, bool [words]."""
        keys, counts = ngram_keys(words, self.sizes, self.consonants)
        places = np.searchsorted(self.keys, keys).clip(max=len(self.keys) - 1)
        known = self.keys[places] == keys
        owners = np.repeat(np.arange(len(words)), counts)[known]
        counts = np.bincount(owners, minlength=len(words))
        starts = torch.from_numpy(np.cumsum(counts) - counts)
        places = places[known]
        vectors = self.vectors.rows(places) if isinstance(self.vectors, Coded) else self.vectors
        sums = functional.embedding_bag(torch.from_numpy(places), vectors, starts, mode="sum").float()
        for word in torch.nonzero(~sums.isfinite().all(dim=1)).flatten().tolist():
            # A word of some 100,000 letters, too much for float16.
            own = places[starts[word] :][: counts[word]]
            own, times = np.unique(own, return_counts=True)
            sums[word] = torch.from_numpy(times).float() @ vectors[own].float()
        sums = sums / torch.from_numpy(counts).clamp_min(1).sqrt()[:, None]
        lengths = (sums.norm(dim=1) / self.unit).clamp_min(1e-6)
        return word_rows(sums, self.power * lengths.log()), counts > 0

    def replaced(
        self, tokens: Sequence[np.ndarray], tokenizer: Tokenizer
    ) -> tuple[list[np.ndarray], torch.Tensor]:
        """Sentences with one id for each word that is in pieces, and what these ids stand for.

        Args:
            tokens: Sentences of token ids.

        Returns:
            The sentences, in which the vocabulary's size plus i stands for row i, and the rows, float32
            [rows, D].
        """
        if self._pieces is None:
            listed = pieces_of(tokenizer)
            starts_word = [not piece or piece.startswith(WORD_START) for piece in listed]
            self._pieces = np.array(listed, dtype=object), np.array(starts_word)
        pieces, begins = self._pieces
        flat = np.concatenate(tokens)
        starts = np.flatnonzero(begins[flat])
        lengths = np.diff(starts, append=len(flat))
        places: list[tuple[int, int, int]] = []
        words: dict[str, int] = {}
        for start, length in zip(starts[lengths > 1].tolist(), lengths[lengths > 1].tolist(), strict=True):
            word = "".join(pieces[flat[start : start + length]])
            if word[1:].isalpha():
                places.append((start, length, words.setdefault(word, len(words))))
        rows, known = self.rows(list(words))
        keep = np.ones(len(flat), bool)
        for start, length, row in places:
            if known[row]:
                flat[start] = len(pieces) + row
                keep[start + 1 : start + length] = False
        borders = np.cumsum([len(ids) for ids in tokens])[:-1]
        return [
            ids[kept] for ids, kept in zip(np.split(flat, borders), np.split(keep, borders), strict=True)
        ], rows

    def hash_into(self, digest: xxhash.xxh3_128) -> None:
        """Add all that its rows depend on."""
        digest.update(self.keys.tobytes())
        if isinstance(self.vectors, Coded):
            self.vectors.hash_into(digest)
        else:
            digest.update(self.vectors.numpy().tobytes())
        digest.update(json.dumps(self._facts()).encode())

    def _facts(self) -> dict[str, Any]:
        return {"sizes": self.sizes, "consonants": self.consonants, "power": self.power, "unit": self.unit}

    def save(self, folder: Path, small: bool) -> None:
        """Write the table beside the weights.

        Args:
            small: Vectors in few bits, 2 if they are float16 now.
        """
        vectors = self.vectors
        if small and not isinstance(vectors, Coded):
            vectors = Coded.of(vectors, np.full(len(vectors), 2, np.uint8))
        elif not small and isinstance(vectors, Coded):
            vectors = vectors.restore()
        stored = {"keys": torch.from_numpy(self.keys.view(np.int32))}
        stored |= vectors.tensors() if isinstance(vectors, Coded) else {"vectors": vectors}
        facts = {name: json.dumps(value) for name, value in self._facts().items()}
        (folder / FILE).write_bytes(_in_order(save(stored, facts)))

    @classmethod
    def load(cls, folder: Path, width: int) -> Spelling | None:
        """The folder's table, if it has one.

        Raises:
            MexmaError: It is damaged, or not of this width.
        """
        path = folder / FILE
        if not path.is_file():
            return None
        try:
            with safe_open(path, "pt") as file:
                facts = {name: json.loads(value) for name, value in file.metadata().items()}
                stored = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            keys = stored["keys"].numpy().view(np.uint32)
            if "vectors" not in stored:
                return cls(keys, Coded.read(stored, len(keys), width), **facts)
            if stored["vectors"].shape != (len(keys), width):
                shape = tuple(stored["vectors"].shape)
                raise ValueError(f"{shape} numbers for {len(keys):,} n-grams of {width}")
            return cls(keys, stored["vectors"], **facts)
        except _DAMAGE as error:
            raise damaged(path, error) from None


def _in_order(content: bytes) -> bytes:
    """A safetensors file with its facts in order: the library shuffles them, and equal tables differ."""
    end = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:end])
    header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
    ordered = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    assert len(ordered) <= end - 8
    return content[:8] + ordered.ljust(end - 8) + content[end:]


def word_embeddings(
    vocabulary: torch.Tensor, ids: torch.Tensor, spelled: torch.Tensor | None
) -> torch.Tensor:
    """The word embeddings [..., D] of ids [...]; those above the vocabulary are rows of `spelled`."""
    if spelled is None:
        return vocabulary[ids]
    size = len(vocabulary)
    words = vocabulary[ids.clamp(max=size - 1)]
    above = ids >= size
    words[above] = spelled.to(words)[ids[above] - size]
    return words


def pieces_of(tokenizer: Tokenizer) -> list[str]:
    """The vocabulary's tokens as they are written; of <s> and the like, which have no letters, nothing."""
    special = {id for id, token in tokenizer.get_added_tokens_decoder().items() if token.special}
    pieces = (tokenizer.id_to_token(id) for id in range(tokenizer.get_vocab_size()))
    return ["" if id in special or piece is None else piece for id, piece in enumerate(pieces)]


def needed(pieces: Sequence[str], first: int) -> np.ndarray:
    """Which tokens an encoder that spells cannot do without, bool [vocabulary].

    Args:
        first: So many of the vocabulary's first tokens, and beside them all that is not spelled: single
            letters, and what is not of letters.
    """
    letters = [piece.removeprefix(WORD_START) for piece in pieces]
    spelled = np.array([len(part) > 1 and part.isalpha() for part in letters])
    return ~spelled | (np.arange(len(pieces)) < first)
