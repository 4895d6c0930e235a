"""A bag of embeddings: a sentence is the sum of its tokens' vectors, trained by InfoNCE both ways.

Minutes on a processor, and what it learns is put into the transformer exactly: `export` sets the
weights so that the encoder's CLS has the direction of that sum, and every other branch is the identity.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import distributed, nn
from torch.nn import functional
from torch.nn.functional import embedding_bag

from mexma_cli.encoder.encoder import SentenceEncoder
from mexma_cli.encoder.model.weighted_embeddings import RESERVED, weight_axis_and_basis, weighted_embeddings
from mexma_cli.encoder.ngrams import (
    WORD_START,
    NgramEmbeddings,
    PairTokens,
    is_whole,
    ngram_keys,
    pieces_of,
    tokens_to_keep,
)
from mexma_cli.errors import MexmaError
from mexma_cli.objectives.bag.settings import BagSettings
from mexma_cli.objectives.base import Objective, Start, check_first_token
from mexma_cli.objectives.gather import all_rows
from mexma_cli.objectives.ranking import contrastive_terms, contrastive_weights
from mexma_cli.objectives.views import PairViews

NGRAM_LENGTH = 0.3
"""Expected length of an n-gram's vector at the start; a token's own is 1."""
OBSERVED = 4
"""One in so many sentences of a batch is taken into the second moment."""
MOMENT_RATE = 0.01
"""How much of the second moment is each batch's own."""
SMALLEST_EIGENVALUE = 1e-3
"""Least second moment, as a share of the mean."""


class Bag(Objective):
    """The bag of tokens, for an encoder of XLM-R's family that starts from nothing."""

    def __init__(self, encoder: SentenceEncoder, settings: BagSettings) -> None:
        super().__init__(encoder)
        self.settings = settings
        vocabulary = encoder.model.config.vocab_size
        dim = settings.width or encoder.dim - RESERVED
        pieces = pieces_of(encoder.fast_tokenizer.backend)
        own = torch.from_numpy(tokens_to_keep(pieces, settings.own_tokens or vocabulary))
        self.places: torch.Tensor  # of tokens' own vectors; -1: none
        self.register_buffer("places", torch.where(own, own.cumsum(0) - 1, -1), persistent=False)
        self.vectors = nn.Parameter(torch.randn(int(own.sum()), dim) * dim**-0.5)
        self.ngrams = None
        if settings.ngrams or settings.consonants:
            self.ngrams, self.keys = token_ngrams(encoder, settings.ngrams, settings.consonants)
            self.ngram_vectors = nn.Parameter(torch.randn(len(self.keys), dim) * NGRAM_LENGTH * dim**-0.5)
        self.pairs = PairTokens(pieces)
        self.special: torch.Tensor
        self.register_buffer("special", torch.tensor(encoder.tokenizer.all_special_ids), persistent=False)
        turned = settings.width or settings.whitening or settings.length
        self.moment: torch.Tensor | None
        self.register_buffer("moment", torch.eye(dim) / dim if turned else None)
        self.weights = contrastive_weights(settings)
        self.takes = ("negatives",) if settings.hard_negatives else ()

    @classmethod
    def check(cls, start: Start, settings: BagSettings) -> None:
        """The encoder is new, its vector is its first token's, and it is not wider than the embeddings."""
        check_first_token(settings.name, start.encoder)
        if not start.untrained:
            raise MexmaError(
                f"the objective `{settings.name}` overwrites all of an encoder's weights",
                "it can only be the first phase, on a `new` encoder",
            )
        room = start.encoder.dim - RESERVED
        if settings.width and settings.width < room:
            raise MexmaError(
                f"objective.width is {settings.width}, less than the {room} numbers that an "
                f"encoder of width {start.encoder.dim} has for the vectors",
                "leave it out, or make it larger",
            )

    def forward(self, views: PairViews) -> dict[str, torch.Tensor]:
        """InfoNCE between the sums of both sides."""
        ids, starts = self._bags(views.batch.input_ids, views.batch.cu_seqlens)
        with torch.autocast(ids.device.type, enabled=False):
            tokens, places = torch.unique(ids, return_inverse=True)
            sums = functional.embedding_bag(places, self.table(tokens), starts, mode="sum")
            if self.training and self.moment is not None:
                unit = all_rows(functional.normalize(sums.detach()[::OBSERVED].float(), dim=1))
                self.moment.lerp_(unit.T @ unit / len(unit), MOMENT_RATE)
        return contrastive_terms(views, sums, self.settings)

    def _bags(self, ids: torch.Tensor, cu_seqlens: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The tokens that are summed, one sentence after the other, and where each sentence begins.

        Pairs of tokens stand behind them. In training some are left out.
        """
        places, _, pairs = (
            torch.from_numpy(part).to(ids.device) for part in self.pairs.of(ids.cpu().numpy())
        )
        if (listed := pairs >= 0).any():
            sentences = torch.arange(len(cu_seqlens) - 1, device=ids.device)
            of = sentences.repeat_interleave(cu_seqlens.diff().long(), output_size=len(ids))
            of, order = torch.cat([of, of[places[listed]]]).sort(stable=True)
            ids = torch.cat([ids, pairs[listed]])[order]
            cu_seqlens = functional.pad(torch.bincount(of, minlength=len(sentences)).cumsum(0), (1, 0))
        kept = ~torch.isin(ids, self.special)
        if self.training and self.settings.token_dropout:
            kept &= torch.rand(len(ids), device=ids.device) >= self.settings.token_dropout
        return ids[kept], functional.pad(kept.cumsum(0), (1, 0))[cu_seqlens[:-1].long()]

    def table(self, tokens: torch.Tensor) -> torch.Tensor:
        """Vectors [T, dim] of different tokens, int64 [T]: their own, and those of their n-grams.

        The n-grams' sum is divided by the root of their number, so that it is as long for long tokens.
        """
        own = self._own(tokens)
        if self.ngrams is None:
            return own
        ngrams, starts = self.ngrams.of(tokens)
        counts = self.ngrams.counts[tokens]
        if self._sparse():
            sums = RowSums.apply(self.ngram_vectors, ngrams, starts, counts)
        else:
            sums = functional.embedding_bag(ngrams, self.ngram_vectors, starts, mode="sum")
        return own + sums * counts.clamp_min(1).rsqrt()[:, None]

    def _own(self, tokens: torch.Tensor) -> torch.Tensor:
        """The tokens' own vectors [T, dim], zeros where there are none."""
        places = self.places[tokens]
        (having,) = torch.nonzero(places >= 0, as_tuple=True)
        vectors = functional.embedding(places[having], self.vectors, sparse=self._sparse())
        return vectors.new_zeros(len(tokens), vectors.shape[1]).index_add(0, having, vectors)

    def _sparse(self) -> bool:
        """Whether gradients are of a batch's rows alone: on a processor, in a process that shares nothing."""
        return self.vectors.device.type == "cpu" and not distributed.is_initialized()

    def groups(self) -> dict[str, list[nn.Parameter]]:
        """The vectors alone."""
        return {"rows": list(self.parameters(recurse=False))}

    def export(self) -> SentenceEncoder:
        """The encoder, its CLS the direction of the sum of token vectors."""
        settings = self.settings
        with torch.no_grad():
            tokens = torch.arange(len(self.places), device=self.vectors.device)
            vectors = self.table(tokens) - (1 - settings.own_share) * self._own(tokens)
            lengths = vectors.norm(dim=1, keepdim=True).clamp_min(torch.finfo(vectors.dtype).tiny)
            pieces = pieces_of(self.encoder.fast_tokenizer.backend)
            begins = torch.tensor([piece.startswith(WORD_START) for piece in pieces])
            weights = torch.where(begins, 1.0, settings.inner_weight).to(vectors)
            vectors = self._main(vectors * lengths ** (settings.length_power - 1) * weights[:, None])
            mean = write_bag(self.encoder.model, vectors, self.special.tolist())
            if settings.length:
                end = weight_axis_and_basis(self.encoder.dim)[1][:1]
                weight = np.log([settings.length])
                words = self.encoder.model.get_input_embeddings().weight
                words[self.encoder.tokenizer.sep_token_id] = torch.from_numpy(
                    weighted_embeddings(end, weight)[0]
                )
            kept = settings.keep_ngrams and len(self.keys) > 0
            self.encoder.ngrams = self._ngram_embeddings(mean) if kept else None
        return self.encoder

    def _ngram_embeddings(self, mean: float) -> NgramEmbeddings:
        """The n-grams, for words whose weight is 1 where a token's mean log length is."""
        settings = self.settings
        vectors = self._main(self.ngram_vectors)
        return NgramEmbeddings(
            self.keys,
            (vectors @ _axis_and_basis(vectors, self.encoder.dim)[1]).half().cpu().numpy(),
            settings.ngrams,
            settings.consonants,
            settings.length_power,
            math.exp(mean / settings.length_power),
        )

    def _main(self, vectors: torch.Tensor) -> torch.Tensor:
        """Vectors [N, width in training] in as many directions as the transformer has room for.

        The first one is kept for `length`.
        """
        if self.moment is None:
            return vectors
        kept = int(self.settings.length > 0)
        dim = self.encoder.dim - RESERVED - kept
        return functional.pad(vectors @ principal(self.moment, dim, -self.settings.whitening / 2), (kept, 0))


def principal(moment: torch.Tensor, dim: int, power: float) -> torch.Tensor:
    """The directions [width, dim] of most variance, each as long as its variance to this power.

    Args:
        moment: [width, width], symmetric and positive; variances are multiples of their mean.
    """
    values, vectors = torch.linalg.eigh(moment.double())
    lengths = (values / values.mean()).clamp_min(SMALLEST_EIGENVALUE) ** power
    return (vectors * lengths)[:, -dim:].to(moment)


@torch.no_grad()
def write_bag(model: Any, vectors: torch.Tensor, special: list[int]) -> float:
    """Set an XLM-R's weights so that CLS is, up to its length, the sum of token vectors.

    Token embeddings are `weighted_embeddings`, whose weights are the vectors' lengths. In layer 0 a constant
    query, of one number a head, meets keys that read the log weights, so the attention weights are the
    lengths; values are the directions. All other residual branches end in zeros, which makes their layers
    the identity.

    Args:
        model: XLMRobertaModel of width D with LayerNorm weights 1 and biases 0 (untrained).
        vectors: float32 [vocabulary, D - 2].
        special: Token ids without a meaning; they weigh next to nothing.

    Returns:
        The mean logarithm of the lengths, which has the weight 1.
    """
    width = vectors.shape[1] + RESERVED
    embeddings, layers = model.embeddings, model.encoder.layer
    heads = layers[0].attention.self.num_attention_heads
    norm_direction, basis = _axis_and_basis(vectors, width)

    log_norms = vectors.norm(dim=1).clamp_min(1e-6).log()
    mean = log_norms.mean()
    rows, log_weights = (part.cpu().numpy() for part in (vectors @ basis, log_norms - mean))
    words = torch.from_numpy(weighted_embeddings(rows, log_weights)).to(vectors)
    # Not zeros: LayerNorm would blow up any step away from them by 1 / sqrt(epsilon), and a phase that trains
    # on from here would begin by burying the sum under <s>. A token without log norm weighs next to nothing,
    # values leave that direction out, and layer 0's bias takes it from CLS (with dropout it cannot).
    none = math.sqrt(width) * norm_direction
    words[special] = -none
    embeddings.word_embeddings.weight.copy_(words)
    embeddings.position_embeddings.weight.zero_()
    embeddings.token_type_embeddings.weight.zero_()

    for layer in layers:
        for dense in (layer.attention.output.dense, layer.output.dense):
            dense.weight.zero_()
            dense.bias.zero_()
    attention, head_dim = layers[0].attention, width // heads
    size = head_dim**0.25  # query times key over sqrt(head_dim) is then the log norm itself
    # A head's other queries stay random and meet keys of zero: if both were zero, neither could learn.
    attention.self.query.weight[::head_dim] = 0
    attention.self.query.bias.zero_()
    attention.self.query.bias[::head_dim] = size
    attention.self.key.weight.zero_()
    attention.self.key.weight[::head_dim] = size * norm_direction
    attention.self.key.bias.zero_()
    eye = torch.eye(width, dtype=vectors.dtype, device=vectors.device)
    attention.self.value.weight.copy_(eye - torch.outer(norm_direction, norm_direction))
    attention.self.value.bias.zero_()
    attention.output.dense.weight.copy_(eye)
    attention.output.dense.bias.copy_(none)
    return float(mean)


def _axis_and_basis(vectors: torch.Tensor, width: int) -> list[torch.Tensor]:
    """`weight_axis_and_basis` where these vectors are, and of their type."""
    return [torch.from_numpy(part).to(vectors) for part in weight_axis_and_basis(width)]


class RowSums(torch.autograd.Function):
    """Sums [T, D] of T groups of rows, on a processor; the table's gradient is sparse.

    A batch has a sixth of all n-grams, and the gradient of the others is neither made nor written.
    """

    @staticmethod
    def forward(
        ctx: Any, table: torch.Tensor, rows: torch.Tensor, starts: torch.Tensor, counts: torch.Tensor
    ) -> torch.Tensor:
        """Float32 [T, D], zeros for groups without rows.

        Args:
            table: float32 [N, D], contiguous.
            rows: int64, the groups' rows one after the other.
            starts, counts: int64 [T], where each group begins, and how many rows it has.
        """
        ctx.save_for_backward(rows, counts)
        ctx.shape = table.shape
        return embedding_bag(rows, table.detach(), starts, mode="sum")

    @staticmethod
    def backward(ctx: Any, *slopes: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        """The table's gradient: coalesced, of the rows that were summed."""
        rows, counts = ctx.saved_tensors
        ordered, order = rows.sort()
        different, uses = torch.unique_consecutive(ordered, return_counts=True)
        groups = torch.arange(len(counts)).repeat_interleave(counts)[order]
        sums = embedding_bag(groups, slopes[0].contiguous(), uses.cumsum(0) - uses, mode="sum")
        found = torch.sparse_coo_tensor(
            different[None], sums, ctx.shape, check_invariants=False, is_coalesced=True
        )
        return found, None, None, None


class TokenNgrams:
    """A row of integers for each token, of different lengths.

    Attributes:
        counts: int64 [vocabulary], length of each row.
    """

    def __init__(self, flat: Sequence[int] | np.ndarray, counts: Sequence[int] | np.ndarray) -> None:
        self.counts = torch.as_tensor(counts)
        self._flat = torch.as_tensor(flat)
        self._starts = self.counts.cumsum(0) - self.counts

    def of(self, tokens: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The rows of T tokens one after the other, int64 [N], and where each begins, int64 [T]."""
        self.counts, self._flat, self._starts = (
            table.to(tokens.device) for table in (self.counts, self._flat, self._starts)
        )  # only the first time: they stay where tokens are
        counts = self.counts[tokens]
        starts, total = counts.cumsum(0) - counts, int(counts.sum())
        # The shift of a token's whole row, from its place in the answer to that in the table.
        shift = (self._starts[tokens] - starts).repeat_interleave(counts, output_size=total)
        return self._flat[torch.arange(total, device=tokens.device) + shift], starts


def token_ngrams(
    encoder: SentenceEncoder, sizes: Sequence[int], consonants: Sequence[int]
) -> tuple[TokenNgrams, np.ndarray]:
    """The n-grams of each token as places in a table, and the table's keys, uint32 and ascending.

    N-grams of one token only are left out, but for those of tokens that have no other (`is_whole`).
    """
    pieces = pieces_of(encoder.fast_tokenizer.backend)
    tokens = [token for token, piece in enumerate(pieces) if piece]
    keys, counts = ngram_keys([pieces[token] for token in tokens], sizes, consonants)
    owners = np.repeat(tokens, counts)
    once = np.unique(np.stack([keys, owners]).astype(np.int64), axis=1)[0]
    found, tokens_with = np.unique(once, return_counts=True)
    whole = np.array([is_whole(piece) for piece in pieces])
    table = found[(tokens_with > 1) | np.isin(found, keys[whole[owners]])].astype(np.uint32)
    kept = np.isin(keys, table)
    return TokenNgrams(
        np.searchsorted(table, keys[kept]), np.bincount(owners[kept], minlength=len(pieces))
    ), table
