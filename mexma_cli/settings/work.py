"""Parameters, tokens and operations of training steps, counted from shapes alone."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Shape:
    """The shape of a transformer of BERT's kind.

    Attributes:
        positions, types: Rows of its other embeddings.
    """

    layers: int
    width: int
    ffn: int
    vocabulary: int
    positions: int = 514
    types: int = 1

    @property
    def products(self) -> int:
        """Weights of a layer's matrices: attention and feed-forward part."""
        return 4 * self.width**2 + 2 * self.width * self.ffn

    @property
    def of_layer(self) -> int:
        """Parameters of a layer, with biases and two LayerNorms."""
        return self.products + 9 * self.width + self.ffn

    @property
    def embeddings(self) -> int:
        """Parameters before the layers."""
        return (self.vocabulary + self.positions + self.types + 2) * self.width

    @property
    def parameters(self) -> int:
        """All of them, without a pooler."""
        return self.embeddings + self.layers * self.of_layer

    @property
    def vocabulary_head(self) -> int:
        """Parameters of a head of BERT's kind over the tokens, with the word embeddings of another."""
        return self.width**2 + 3 * self.width + self.vocabulary


@dataclass(frozen=True)
class Pass:
    """Layers over sequences.

    Attributes:
        shape: Of these layers.
        sequences: Of each pair.
        sentences: Sentences in a sequence.
        trained: With a backward pass, which computes twice as much as the forward pass.
    """

    shape: Shape
    sequences: float
    sentences: int = 1
    trained: bool = True

    def tokens(self, length: float) -> float:
        """Tokens of a pair whose sentences have `length` tokens each."""
        return self.sequences * self.sentences * length

    def forward(self, length: float) -> float:
        """Operations (a multiplication and an addition are two): two a weight and token, and `attention`."""
        return self.shape.layers * self.tokens(length) * 2 * self.shape.products + self.attention(length)

    def attention(self, length: float) -> float:
        """Operations of a pair in the products of queries, keys and values."""
        a_token = 4 * self.sentences * length * self.shape.width
        return self.shape.layers * self.tokens(length) * a_token


@dataclass(frozen=True)
class Work:
    """The operations of an objective for a pair, and the parameters that it trains beside the encoder.

    Attributes:
        passes: Of the encoder, heads and teachers.
        guessed: Sentences of which every token is compared with the whole vocabulary; a share of them counts
            as a share.
        heads: Parameters that are trained beside the encoder's.
        frozen: Parameters that are there and not trained.
    """

    passes: tuple[Pass, ...]
    guessed: float = 0.0
    heads: int = 0
    frozen: int = 0

    def forward(self, length: float) -> float:
        """Operations of a pair's forward passes."""
        return sum(one.forward(length) for one in self.passes) + self._logits(length)

    def training(self, length: float) -> float:
        """Operations of a pair's forward and backward passes."""
        passes = sum((3 if one.trained else 1) * one.forward(length) for one in self.passes)
        return passes + 3 * self._logits(length)

    def _logits(self, length: float) -> float:
        shape = self.passes[0].shape
        return 2 * self.guessed * length * shape.width * shape.vocabulary
