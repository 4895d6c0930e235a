"""Vectors of runs of neighbouring sentences: each as if the run were one sentence, joined by spaces.

A bag of embeddings (`model.bag`), such as `mini`, needs no text for it: the sums of a run are those of its
sentences (`SummedRuns`). With any other encoder each distinct run is embedded (`JoinedRuns`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Lock
from typing import Protocol

import numpy as np

from mexma_cli.encoder.encoder import SentenceEncoder
from mexma_cli.encoder.model.bag import BagOfEmbeddings
from mexma_cli.languages import UNSTATED
from mexma_cli.text.lines import is_blank

Runs = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""First sentences and numbers of sentences, int64 [R], to unit vectors of the runs, float32 [R, dim]."""

_POSITIONS = 1e-2
"""Positions that differ by less than this share of a token embedding's length do not matter."""
_ROWS = 1 << 13  # sentences, or runs, whose states are in memory together


class DocumentEncoder(Protocol):
    """Sentences of documents to their vectors and to those of runs of them.

    Attributes:
        takes_vectors: Whether the vectors of a store spare it work.
        dim: Length of the vectors.
        cut: Sentences of `documents` that were cut to the encoder's `max_tokens`; a copy counts by itself.
    """

    takes_vectors: bool
    dim: int
    cut: int

    def documents(
        self, texts: Sequence[Sequence[str]], known: Sequence[np.ndarray | None], language: str = UNSTATED
    ) -> list[tuple[np.ndarray, Runs]]:
        """Vectors of sentences and of runs, for each document.

        Blank sentences have vectors of zeros, and so have runs of these alone.

        Args:
            texts: The sentences of each document.
            known: Their vectors, float32 [sentences, dim], where a store has them.
            language: FLORES-200 code of the texts, for an encoder that needs it (SONAR).

        Returns:
            For each document unit vectors, float32 [sentences, dim], and those of runs.
        """


def document_encoder(encoder: SentenceEncoder) -> DocumentEncoder:
    """The way that fits an encoder: sums for a bag without a prefix, which a run would have once."""
    summed = not encoder.prefix and encoder.transformer.is_bag(encoder.pooling, _POSITIONS)
    ends = len(encoder.tokenize([""])[0]) if summed else 0
    return SummedRuns(encoder) if ends == 2 else JoinedRuns(encoder)


def stored_vectors(sentences: Sequence[str], vectors: np.ndarray) -> np.ndarray:
    """Sentences' vectors of a store, float32 [n, dim], with unit length, and zeros for blank ones: a copy."""
    largest = np.abs(vectors).max(axis=1, initial=0)
    extreme = np.isfinite(largest) & (largest > 0) & ((largest > 1e15) | (largest < 1e-15))
    if extreme.any():  # squares of these are no float32 any more: they are multiplied by a power of two
        vectors = vectors.copy()
        vectors[extreme] = np.ldexp(vectors[extreme], -np.frexp(largest[extreme])[1][:, None])
    found = _unit(vectors)
    found[list(map(is_blank, sentences))] = 0
    return found


class JoinedRuns:
    """Runs as text, for any encoder. Threads take turns with the encoder, which uses all cores."""

    takes_vectors = True

    def __init__(self, encoder: SentenceEncoder) -> None:
        self._encoder, self._turn = encoder, Lock()
        self.dim, self.cut = encoder.dim, 0

    def documents(
        self, texts: Sequence[Sequence[str]], known: Sequence[np.ndarray | None], language: str = UNSTATED
    ) -> list[tuple[np.ndarray, Runs]]:
        """See `DocumentEncoder.documents`; sentences without vectors are embedded together."""
        unknown = [text for text, vectors in zip(texts, known, strict=True) if vectors is None]
        new, cut = self._embed([sentence for text in unknown for sentence in text], language)
        self.cut += cut
        borders = np.cumsum([len(text) for text in unknown])[:-1]
        parts = iter(np.split(new, borders))
        found = []
        for text, vectors in zip(texts, known, strict=True):
            own = next(parts) if vectors is None else stored_vectors(text, vectors)
            found.append((own, self._runs_of(text, language)))
        return found

    def _runs_of(self, text: Sequence[str], language: str) -> Runs:
        def runs(starts: np.ndarray, sizes: np.ndarray) -> np.ndarray:
            both = zip(starts.tolist(), sizes.tolist(), strict=True)
            joined = [" ".join(text[start : start + size]).strip() for start, size in both]
            return self._embed(joined, language)[0]

        return runs

    def _embed(self, sentences: Sequence[str], language: str) -> tuple[np.ndarray, int]:
        """Unit vectors, and how many were cut; equal sentences are embedded once, blank ones are zeros."""
        places: dict[str, int] = {}
        rows = [places.setdefault(sentence, len(places)) for sentence in sentences]
        with self._turn:
            before = self._encoder.truncated
            self._encoder.set_language(language)
            vectors = self._encoder.embed(list(places))
            cut = self._encoder.truncated - before
        return stored_vectors(list(places), vectors)[rows], cut


class SummedRuns:
    """Runs from the sums of their sentences, for a bag (`Weights.is_bag`).

    The vectors are those of the joined text but for rounding, and for what `embed` would cut from a run of
    more than `max_tokens` tokens.
    """

    takes_vectors = False

    def __init__(self, encoder: SentenceEncoder) -> None:
        self._encoder, self._turn = encoder, Lock()
        self.dim, self.cut = encoder.dim, 0
        first, last = encoder.tokenize([""])[0]
        self._bag = encoder.transformer.made(BagOfEmbeddings, int(first))
        (self._end,) = self._bag.sums([np.array([last])], None)

    def documents(
        self, texts: Sequence[Sequence[str]], known: Sequence[np.ndarray | None], language: str = UNSTATED
    ) -> list[tuple[np.ndarray, Runs]]:
        """See `DocumentEncoder.documents`; the known vectors, of runs of one, are not needed."""
        sums = self._sums([sentence for text in texts for sentence in text])
        parts = np.split(sums, np.cumsum([len(text) for text in texts])[:-1])
        return [(self._vectors(len(own), own.__getitem__), self._runs_of(own)) for own in parts]

    def _runs_of(self, sums: np.ndarray) -> Runs:
        """The runs of a document whose sums become, in place, those of all sentences up to each."""
        for at in range(0, len(sums), _ROWS):
            own = sums[max(at - 1, 0) : at + _ROWS]
            np.cumsum(own, axis=0, out=own)

        def runs(starts: np.ndarray, sizes: np.ndarray) -> np.ndarray:
            def some(own: slice) -> np.ndarray:
                found, later = sums[starts[own] + sizes[own] - 1], np.flatnonzero(starts[own])
                found[later] -= sums[starts[own][later] - 1]
                return found

            return self._vectors(len(starts), some)

        return runs

    def _sums(self, sentences: Sequence[str]) -> np.ndarray:
        """The terms of all tokens but the special ones, summed: float64 [sentences, width + heads]."""
        found, start = np.empty((len(sentences), len(self._end))), 0
        with self._turn:
            before = self._encoder.truncated
            for _, some in self._encoder.tokenised([sentences]):
                end = start + len(some.tokens)
                found[start:end] = self._bag.sums([ids[1:-1] for ids in some.tokens], some.extra)
                start = end
            self.cut += self._encoder.truncated - before
        return found

    def _vectors(self, count: int, sums: Callable[[slice], np.ndarray]) -> np.ndarray:
        """Unit vectors of sums, float32 [count, dim], zeros for sums of nothing."""
        found = np.empty((count, self.dim), np.float32)
        for at in range(0, count, _ROWS):
            own = slice(at, at + _ROWS)
            some = sums(own)
            found[own] = _unit(self._encoder.finish(self._bag.hidden(some + self._end)))
            found[own][(some[:, -self._bag.heads :] == 0).all(axis=1)] = 0
        return found


def _unit(vectors: np.ndarray) -> np.ndarray:
    """Rows of length 1, a copy; rows that have no direction are zeros."""
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    usable = np.isfinite(norms) & (norms > 0)
    return np.divide(vectors, norms, out=np.zeros(vectors.shape, np.float32), where=usable)
