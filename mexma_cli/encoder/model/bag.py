"""The forward pass of an encoder that is a bag of embeddings, such as `mini` or a static one, in NumPy.

With one layer, and with positions that do not matter, the first token attends with the same query in every
sentence. Its state follows from two sums over tokens for each head, of the attention's weights and of the
weighted values, and the sums of several sentences are those of the sentences as one. Sums and products are of
float64, so that rounding to float32 hides in what order a processor computes them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from threading import Lock
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from mexma_cli.encoder.model.families import STATIC, TABLE, Pooling
from mexma_cli.encoder.model.transformer import EmbedBatch, Sentences, Weights
from mexma_cli.errors import MexmaError
from mexma_cli.numerics import bags
from mexma_cli.numerics.threads import in_blocks

if TYPE_CHECKING:
    import torch

_LAYER = "encoder.layer.0"
_ROWS = 1 << 9  # tokens or sentences whose states are made together: they stay in the processor's cache
_LANES = 8  # rows by whose multiples products are computed: libraries compute what remains in another order
_KEPT = 1 << 15  # tokens whose terms are kept
_TOKENS = 1 << 14  # of sentences whose terms are looked up together


class TokenVectors(Weights):
    """A static encoder: token vectors, whose mean is that of a sentence.

    Args:
        vectors: float32 [tokens, dim].
    """

    pools = True

    def __init__(self, vectors: np.ndarray) -> None:
        self.vectors = vectors

    @property
    def config(self) -> Any:
        rows, dim = self.vectors.shape
        return SimpleNamespace(model_type=STATIC, hidden_size=dim, vocab_size=rows)

    @property
    def weights(self) -> dict[str, torch.Tensor]:
        import torch

        return {TABLE: torch.from_numpy(self.vectors)}

    @property
    def stored(self) -> dict[str, np.ndarray]:
        return {TABLE: self.vectors}

    def to(self, device: torch.device, dtype: torch.dtype) -> None:
        """Refuse to be moved or cast."""
        raise MexmaError(
            "a table of token vectors is used on a processor and in fp32",
            "leave out --device, --dtype and the attention",
        )

    def is_bag(self, pooling: Pooling, tolerance: float = 0.0) -> bool:
        return True

    def embedding(self, prefix: str, max_tokens: int, most: int | None, low: bool) -> EmbedBatch:
        return self.embed

    def embed(self, some: Sentences) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Means of tokens' vectors, of float64 (`EmbedBatch`); zeros for a sentence without any."""
        counts = np.fromiter(map(len, some.tokens), np.int64, len(some.tokens))
        found = bags.sums(self.vectors, np.concatenate([*some.tokens, counts[:0]]), counts)
        found /= np.maximum(counts, 1)[:, None]
        yield np.arange(len(found)), found.astype(np.float32)


class BagOfEmbeddings:
    """Weights that are a bag (`Weights.is_bag`), with their values as they are when this is made.

    Attributes:
        width: Length of hidden states.
        heads: Number of attention heads.

    Args:
        first: Id of the first token.
    """

    def __init__(self, transformer: Weights, first: int) -> None:
        arrays, config = transformer.arrays, transformer.config
        assert arrays is not None
        self._words = arrays["embeddings.word_embeddings.weight"]
        self._weights = {
            name: np.array(weight, np.float64)
            for name, weight in arrays.items()
            if not name.startswith("embeddings.word")
        }
        self._eps, self.heads = float(config.layer_norm_eps), int(config.num_attention_heads)
        self._activation = _activation(config.hidden_act)
        positions = self._weights.pop("embeddings.position_embeddings.weight")
        self._added = self._weights.pop("embeddings.token_type_embeddings.weight")[0]
        positions = positions[transformer.first_position :]
        start = positions[0] - positions.mean(axis=0)
        self._added = self._added + positions.mean(axis=0)
        self._first = self._states(np.array([first]), None, start)
        query = self._linear("attention.self.query", self._first).reshape(self.heads, -1)
        query = query * query.shape[1] ** -0.5
        keys = self._weights.pop(f"{_LAYER}.attention.self.key.weight").reshape(*query.shape, -1)
        query = np.einsum("hd,hdw->wh", query, keys)
        # The first token's own weight is 1, so that a sum is never zero; the keys' bias is the same for all.
        shift, name = -(self._first @ query)[0], f"{_LAYER}.attention.self.value"
        self._to_terms = np.concatenate([self._weights.pop(f"{name}.weight").T, query], axis=1)
        self._moved = np.concatenate([self._weights.pop(f"{name}.bias"), shift])
        self.width = len(self._added)
        self._own = self._terms(self._first)[0]
        self._kept, self._turn = _Kept(max(_KEPT, len(positions)), self.width + self.heads), Lock()

    def embed(self, some: Sentences) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Last hidden states of the first tokens, which each sentence has (`transformer.EmbedBatch`)."""
        sums = self.sums([ids[1:] for ids in some.tokens], some.extra)
        yield np.arange(len(sums)), self.hidden(sums)

    def sums(self, tokens: Sequence[np.ndarray], extra: np.ndarray | None) -> np.ndarray:
        """Weighted values and weights of each head, summed over tokens: float64 [N, width + heads].

        Args:
            tokens: Ids of N sentences without the first token.
            extra: What ids above the vocabulary stand for, float32 [rows, width].
        """
        counts = np.fromiter(map(len, tokens), np.int64, len(tokens))
        found = np.zeros((len(counts), self.width + self.heads))
        before = np.cumsum(counts)
        with self._turn:
            self._kept.forget(len(self._words))
            start = 0
            while start < len(counts):
                most = before[start] - counts[start] + _TOKENS
                stop = max(int(np.searchsorted(before, most, "right")), start + 1)
                places = self._kept.places(np.concatenate(tokens[start:stop]), partial(self._made, extra))
                found[start:stop] = bags.sums(self._kept.rows, places, counts[start:stop])
                start = stop
        return found

    def _made(self, extra: np.ndarray | None, ids: np.ndarray) -> np.ndarray:
        """The terms of tokens: of each the same bits, whatever others it is computed with."""
        found = np.empty((len(ids) + -len(ids) % _LANES, self.width + self.heads))
        ids = np.pad(ids, (0, len(found) - len(ids)), "edge")

        def some(own: slice) -> None:
            found[own] = self._terms(self._states(ids[own], extra))

        in_blocks(len(ids), _ROWS, some, found.size * self.width)
        return found

    def hidden(self, sums: np.ndarray) -> np.ndarray:
        """The first token's last state, float32 [N, width], where these are the `sums` of all others."""
        states = np.empty((len(sums), self.width), np.float32)

        def some(own: slice) -> None:
            states[own] = self._hidden(sums[own] + self._own)

        in_blocks(len(sums), _ROWS, some, states.size * self.width)
        return states

    def _hidden(self, total: np.ndarray) -> np.ndarray:
        values, weights = total[:, : self.width], total[:, self.width :]
        context = values / np.repeat(weights, self.width // self.heads, axis=1)
        state = self._norm(
            f"{_LAYER}.attention.output", self._first + self._linear("attention.output.dense", context)
        )
        inner = self._weights[f"{_LAYER}.output.dense.bias"]
        if self._weights[f"{_LAYER}.output.dense.weight"].any():
            inner = self._linear("output.dense", self._activation(self._linear("intermediate.dense", state)))
        return self._norm(f"{_LAYER}.output", state + inner)

    def _states(self, ids: np.ndarray, extra: np.ndarray | None, moved: float | np.ndarray = 0) -> np.ndarray:
        """The layer's input for tokens, float64 [tokens, width]; `moved` is added to the mean position."""
        size = len(self._words)
        states = self._words[np.minimum(ids, size - 1)].astype(np.float64)
        if extra is not None:
            states[ids >= size] = extra[ids[ids >= size] - size]
        return self._norm("embeddings", states + self._added + moved)

    def _terms(self, states: np.ndarray) -> np.ndarray:
        """Weighted values, and weights, of each head: float64 [tokens, width + heads]."""
        found: np.ndarray = states @ self._to_terms
        found += self._moved
        values, weights = found[:, : self.width], found[:, self.width :]
        np.exp(weights, out=weights)
        by_head = values.reshape(len(found), self.heads, -1)  # in place
        by_head *= weights[:, :, None]
        return found

    def _linear(self, name: str, states: np.ndarray) -> np.ndarray:
        weights = self._weights
        found: np.ndarray = states @ weights[f"{_LAYER}.{name}.weight"].T
        found += weights[f"{_LAYER}.{name}.bias"]
        return found

    def _norm(self, name: str, states: np.ndarray) -> np.ndarray:
        states = states - states.mean(axis=1, keepdims=True)
        scale = 1 / np.sqrt(np.square(states).mean(axis=1, keepdims=True) + self._eps)
        weight, bias = (self._weights[f"{name}.LayerNorm.{part}"] for part in ("weight", "bias"))
        states *= scale
        states *= weight
        states += bias
        return states


class _Kept:
    """Rows for ids, float64 [size, width]: those that were used last are kept."""

    def __init__(self, size: int, width: int) -> None:
        self.rows = np.empty((size, width))
        self._ids, self._used = np.full(size, -1), np.zeros(size, np.int64)
        self._places, self._now = np.full(0, -1), 0

    def forget(self, first: int) -> None:
        """Forget the rows of all ids from this one on."""
        gone = self._ids >= first
        self._places[first:] = -1
        self._ids[gone], self._used[gone] = -1, 0

    def places(self, ids: np.ndarray, make: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        """Where in `rows` those of some ids are, int64; `make` makes the rows of new ids."""
        lacking = max(0, int(ids.max(initial=-1)) + 1 - len(self._places))
        self._places = np.append(self._places, np.full(lacking, -1)) if lacking else self._places
        self._now += 1
        found = self._places[ids]
        self._used[found[found >= 0]] = self._now
        new = np.unique(ids[found < 0])
        if not len(new):
            return found
        rows = make(new)
        room = np.argpartition(self._used, len(new) - 1)[: len(new)]
        lost = self._ids[room]
        self._places[lost[lost >= 0]] = -1
        self.rows[room], self._ids[room], self._used[room] = rows[: len(new)], new, self._now
        self._places[new] = room
        return self._places[ids]


def _activation(name: str) -> Callable[[np.ndarray], np.ndarray]:
    if name == "relu":
        return lambda x: np.maximum(x, 0)
    if name == "gelu_new":
        return lambda x: 0.5 * x * (1 + np.tanh((2 / np.pi) ** 0.5 * (x + 0.044715 * x**3)))

    def gelu(x: np.ndarray) -> np.ndarray:
        import torch

        return torch.nn.functional.gelu(torch.from_numpy(x)).numpy()

    return gelu
