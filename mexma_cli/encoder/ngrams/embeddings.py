"""Subword n-gram embeddings: a word that the tokeniser splits becomes one token, made of its letter n-grams.

The embedding of such a word is the sum of the vectors of its n-grams, as in fastText (Bojanowski et al.
2017). The table of n-grams is a file beside the weights. In a sentence, split words get ids above the
vocabulary, which stand for rows of a matrix made for these sentences (`PackedBatch.extra_embeddings`).
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import xxhash
from safetensors import safe_open
from safetensors.numpy import save
from tokenizers import Tokenizer

from mexma_cli.encoder.loading.folder import NGRAMS_FILE
from mexma_cli.encoder.loading.weights import damage_as_message
from mexma_cli.encoder.model.weighted_embeddings import weighted_embeddings
from mexma_cli.encoder.ngrams.hashing import WORD_START, is_word, ngram_keys, pieces_of
from mexma_cli.encoder.ngrams.pairs import PairTokens
from mexma_cli.numerics import bags
from mexma_cli.numerics.quantised import QuantisedRows

_LONGEST = 255  # letters of an n-gram, for which its key has a byte
PART = 4
"""Numbers of an n-gram's vector that a byte stands for, where they are quantised."""


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

    def embed(self, words: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Token embeddings, float32 [words, D], and whether any n-gram of a word is known, bool [words]."""
        keys, counts = ngram_keys(words, self.sizes, self.consonants)
        places = np.searchsorted(self.keys, keys).clip(max=len(self.keys) - 1)
        known = self.keys[places] == keys
        owners = np.repeat(np.arange(len(words)), counts)[known]
        counts = np.bincount(owners, minlength=len(words))
        used, places = np.unique(places[known], return_inverse=True)
        sums = bags.sums(self.vectors[used], places, counts) / np.sqrt(counts.clip(1))[:, None]
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
        for start, length in zip(starts[lengths > 1].tolist(), lengths[lengths > 1].tolist(), strict=True):
            word = "".join(pieces[flat[start : start + length]])
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
        """The table in a folder; None if the folder has none.

        Raises:
            MexmaError: The file is damaged, or its vectors are not of this width.
        """
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
