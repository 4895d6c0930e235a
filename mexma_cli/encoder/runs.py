"""Vectors of runs of neighbouring sentences: each as if the run were one sentence, joined by spaces.

An encoder of one layer whose positions do not matter, such as `mini`, needs no text for it: the first token
attends with the same query in every sentence, so its state follows from two sums over tokens for each head,
of the attention's weights and of the weighted values (`SummedRuns`). The sums of a run are those of its
sentences. With any other encoder each distinct run is embedded (`JoinedRuns`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Lock
from typing import Protocol

import numpy as np
import torch
from torch.nn.functional import embedding_bag, layer_norm, linear

from mexma_cli.encoder.encoder import SENTENCES_PER_BUFFER, SentenceEncoder
from mexma_cli.encoder.model.packing import token_embeddings
from mexma_cli.encoder.model.pooling import FIRST_ONLY
from mexma_cli.encoder.model.transformer import ACTIVATIONS

Runs = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""First sentences and numbers of sentences, int64 [R], to unit vectors of the runs, float32 [R, dim]."""

_POSITIONS = 1e-2
"""Positions that differ by less than this share of a token embedding's length do not matter."""
_ROWS = 1 << 14  # runs whose sums are in memory at a time


class RunEncoder(Protocol):
    """Sentences of documents to their vectors and to those of runs of them.

    Attributes:
        takes_vectors: Whether the vectors of a store spare it work.
        one_thread: Whether torch has to have one thread where it is called, so that bits are always the same.
        dim: Length of the vectors.
    """

    takes_vectors: bool
    one_thread: bool
    dim: int

    def documents(
        self, texts: Sequence[Sequence[str]], known: Sequence[np.ndarray | None]
    ) -> list[tuple[np.ndarray, Runs]]:
        """Vectors of sentences and of runs, for each document.

        Blank sentences have vectors of zeros, and so have runs of these alone.

        Args:
            texts: The sentences of each document.
            known: Their vectors, float32 [sentences, dim], where a store has them.

        Returns:
            For each document unit vectors, float32 [sentences, dim], and those of runs.
        """


def run_encoder(encoder: SentenceEncoder) -> RunEncoder:
    """The way that fits an encoder."""
    return SummedRuns(encoder) if is_bag(encoder) else JoinedRuns(encoder)


def is_bag(encoder: SentenceEncoder) -> bool:
    """Whether the vector of a run follows from sums over the tokens of its sentences."""
    transformer = encoder.transformer
    config = transformer.config
    if not transformer.is_bert or config.num_hidden_layers != 1 or encoder.pooling not in FIRST_ONLY:
        return False
    if encoder.prefix or config.hidden_act not in ACTIVATIONS or len(encoder.tokenize([""])[0]) != 2:
        return False
    positions, words = (
        transformer.weights[f"embeddings.{name}_embeddings.weight"].float() for name in ("position", "word")
    )
    spread = (positions - positions.mean(dim=0)).norm(dim=1).max()
    return bool(spread < _POSITIONS * words.norm(dim=1).mean())


def stored_vectors(sentences: Sequence[str], vectors: np.ndarray) -> np.ndarray:
    """Sentences' vectors of a store, float32 [n, dim], with unit length, and zeros for blank ones: a copy."""
    found = _unit(vectors)
    found[[not sentence or sentence.isspace() for sentence in sentences]] = 0
    return found


class JoinedRuns:
    """Runs as text, for any encoder. Threads take turns with the encoder, which uses all cores."""

    takes_vectors = True
    one_thread = False

    def __init__(self, encoder: SentenceEncoder) -> None:
        self._encoder, self._turn = encoder, Lock()
        self.dim = encoder.dim

    def documents(
        self, texts: Sequence[Sequence[str]], known: Sequence[np.ndarray | None]
    ) -> list[tuple[np.ndarray, Runs]]:
        """As `RunEncoder.documents`; the sentences that have no vectors are embedded together."""
        unknown = [text for text, vectors in zip(texts, known, strict=True) if vectors is None]
        new = self._embed([sentence for text in unknown for sentence in text])
        borders = np.cumsum([len(text) for text in unknown])[:-1]
        parts = iter(np.split(new, borders))
        found = []
        for text, vectors in zip(texts, known, strict=True):
            own = next(parts) if vectors is None else stored_vectors(text, vectors)
            found.append((own, self._runs_of(text)))
        return found

    def _runs_of(self, text: Sequence[str]) -> Runs:
        def runs(starts: np.ndarray, sizes: np.ndarray) -> np.ndarray:
            both = zip(starts.tolist(), sizes.tolist(), strict=True)
            return self._embed([" ".join(text[start : start + size]).strip() for start, size in both])

        return runs

    def _embed(self, sentences: Sequence[str]) -> np.ndarray:
        """Unit vectors; equal sentences are embedded once, and blank ones are zeros."""
        places: dict[str, int] = {}
        rows = [places.setdefault(sentence, len(places)) for sentence in sentences]
        with self._turn:
            vectors = self._encoder.embed(list(places))
        return stored_vectors(list(places), vectors)[rows]


class SummedRuns:
    """Runs from the sums of their sentences, for an encoder that `is_bag`.

    The vectors are those of the joined text but for rounding, and for what `embed` would cut from a run of
    more than `max_tokens` tokens.
    """

    takes_vectors = False
    one_thread = True

    def __init__(self, encoder: SentenceEncoder) -> None:
        self._encoder, self._turn = encoder, Lock()
        self.dim = encoder.dim
        transformer, config = encoder.transformer, encoder.transformer.config
        self._weights = {name: weight.float().cpu() for name, weight in transformer.weights.items()}
        self._modules = encoder.modules
        self._eps, self._activation = float(config.layer_norm_eps), ACTIVATIONS[config.hidden_act]
        self._heads = config.num_attention_heads
        special = torch.from_numpy(encoder.tokenize([""])[0].astype(np.int64))
        positions = self._weights["embeddings.position_embeddings.weight"]
        self._position = positions.mean(dim=0)
        with torch.inference_mode():
            self._first = self._hidden(special[:1], None, positions[transformer.first_position])
            query = self._linear("encoder.layer.0.attention.self.query", self._first)
            self._query = query.view(self._heads, -1) * (query.shape[1] // self._heads) ** -0.5
            self._special = self._terms(self._first) + self._terms(self._hidden(special[1:], None))

    def documents(
        self, texts: Sequence[Sequence[str]], known: Sequence[np.ndarray | None]
    ) -> list[tuple[np.ndarray, Runs]]:
        """As `RunEncoder.documents`; known vectors are not needed, since they are those of runs of one."""
        sums = self._sums([sentence for text in texts for sentence in text])
        parts = sums.split([len(text) for text in texts])
        return [(self._vectors(own), self._runs_of(own)) for own in parts]

    def _runs_of(self, sums: torch.Tensor) -> Runs:
        def runs(starts: np.ndarray, sizes: np.ndarray) -> np.ndarray:
            found = np.empty((len(starts), self.dim), np.float32)
            for at in range(0, len(starts), _ROWS):
                first, count = (torch.from_numpy(part[at : at + _ROWS]) for part in (starts, sizes))
                bags = first.repeat_interleave(count)
                ends = count.cumsum(0)
                bags += torch.arange(len(bags)) - (ends - count).repeat_interleave(count)
                found[at : at + _ROWS] = self._vectors(embedding_bag(bags, sums, ends - count, mode="sum"))
            return found

        return runs

    @torch.inference_mode()
    def _sums(self, sentences: Sequence[str]) -> torch.Tensor:
        """The terms of all tokens but the special ones, summed: float32 [sentences, width + heads]."""
        found = [torch.zeros(0, self._special.shape[1])]
        for at in range(0, len(sentences), SENTENCES_PER_BUFFER):
            with self._turn:
                tokens, extra = self._encoder.inputs(sentences[at : at + SENTENCES_PER_BUFFER])
            ids = torch.from_numpy(np.concatenate([own[1:-1] for own in tokens]).astype(np.int64))
            counts = torch.tensor([len(own) - 2 for own in tokens])
            different, places = torch.unique(ids, return_inverse=True)
            terms = self._terms(self._hidden(different, extra))
            found.append(embedding_bag(places, terms, counts.cumsum(0) - counts, mode="sum"))
        return torch.cat(found)

    def _hidden(
        self, ids: torch.Tensor, extra: torch.Tensor | None, position: torch.Tensor | None = None
    ) -> torch.Tensor:
        """What layer 0 gets of tokens, float32 [tokens, width], at the mean position if none is given."""
        states = token_embeddings(self._weights["embeddings.word_embeddings.weight"], ids, extra)
        states = states + self._weights["embeddings.token_type_embeddings.weight"][0]
        return self._norm("embeddings", states + (self._position if position is None else position))

    def _terms(self, states: torch.Tensor) -> torch.Tensor:
        """Weighted values, and weights, of each head: float32 [tokens, width + heads]."""
        keys, values = (
            self._linear(f"encoder.layer.0.attention.self.{name}", states).unflatten(1, (self._heads, -1))
            for name in ("key", "value")
        )
        weights = torch.einsum("thd,hd->th", keys, self._query).exp()
        return torch.cat([(values * weights[:, :, None]).flatten(1), weights], dim=1)

    @torch.inference_mode()
    def _vectors(self, sums: torch.Tensor) -> np.ndarray:
        """Unit vectors of sums, zeros for sums of nothing."""
        total = sums + self._special
        width = total.shape[1] - self._heads
        context = total[:, :width].unflatten(1, (self._heads, -1)) / total[:, width:, None]
        layer = "encoder.layer.0"
        state = self._linear(f"{layer}.attention.output.dense", context.flatten(1))
        state = self._norm(f"{layer}.attention.output", self._first + state)
        inner = self._activation(self._linear(f"{layer}.intermediate.dense", state))
        state = self._norm(f"{layer}.output", state + self._linear(f"{layer}.output.dense", inner))
        device = next((part.device for part in self._modules.parameters()), state.device)
        found = _unit(self._modules(state.to(device)).cpu().numpy())
        found[(sums[:, width:] == 0).all(dim=1).numpy()] = 0
        return found

    def _linear(self, name: str, states: torch.Tensor) -> torch.Tensor:
        return linear(states, self._weights[f"{name}.weight"], self._weights[f"{name}.bias"])

    def _norm(self, name: str, states: torch.Tensor) -> torch.Tensor:
        weight, bias = (self._weights[f"{name}.LayerNorm.{part}"] for part in ("weight", "bias"))
        return layer_norm(states, weight.shape, weight, bias, self._eps)


def _unit(vectors: np.ndarray) -> np.ndarray:
    """Rows of length 1, a copy; rows that have no direction are zeros."""
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    usable = np.isfinite(norms) & (norms > 0)
    return np.divide(vectors, norms, out=np.zeros(vectors.shape, np.float32), where=usable)
