"""Masked tokens: which are chosen, what stands in their place, how they lie behind clean sentences; the head
of a checkpoint that predicts them."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import nn
from transformers import MODEL_FOR_MASKED_LM_MAPPING, PreTrainedConfig, PreTrainedModel
from transformers.activations import ACT2FN

from mexma_cli.encoder.loading.folder import BESIDE_NGRAMS, locate
from mexma_cli.encoder.loading.load import refused
from mexma_cli.encoder.loading.settings import read_settings
from mexma_cli.encoder.loading.weights import FILES, read_weights
from mexma_cli.encoder.model.hugging_face import build_model
from mexma_cli.encoder.model.packing import PackedBatch
from mexma_cli.errors import MexmaError
from mexma_cli.objectives.views import PairViews, StackedSides, TokenPairs, Vocabulary

_GOLDEN = 0x9E3779B97F4A7C15
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Masking:
    """How many tokens are chosen, and what becomes of them: <mask>, a random token, or the token itself."""

    ratio: float
    mask_share: float
    random_share: float


@dataclass(frozen=True)
class MaskedSequences:
    """The masked sequences of a batch: N sequences of T tokens in all.

    Attributes:
        ids: The tokens of each.
        of_run: int64 [N], what each sequence is in the run.
        positions: int64 [T], from 0.
        from_source: bool [T], whether a token is a source's.
    """

    ids: list[np.ndarray]
    of_run: np.ndarray
    positions: np.ndarray
    from_source: np.ndarray


def masked_views(
    pairs: TokenPairs, vocabulary: Vocabulary, masking: Masking, symmetric: bool = True
) -> PairViews:
    """Both sides of B pairs, clean and masked, the masked sentences in the order of the clean ones.

    Args:
        symmetric: If not, one side of each pair, drawn at random, is masked, and only the other is clean.
    """
    sides = StackedSides.of(pairs, vocabulary)
    shown, hidden = sides.by_length, sides.translations
    if not symmetric:
        sources = sides.of_run[: len(pairs.ids)].astype(np.uint64)
        chosen = (
            uniform(token_keys([1] * len(sources), sources, pairs.seed), 3) < 0.5
        )  # 0 to 2: `mask_tokens`
        is_hidden = np.concatenate([chosen, ~chosen])[hidden]
        shown, hidden = hidden[~is_hidden], hidden[is_hidden]
    ids = [sides.ids[side] for side in hidden]
    lengths = [len(sentence) for sentence in ids]
    sequences = MaskedSequences(
        ids,
        sides.of_run[hidden],
        np.concatenate([np.arange(length) for length in lengths]),
        np.repeat(hidden < len(pairs.ids), lengths),
    )
    return with_masked(sides.views(shown, hidden), sequences, masking, vocabulary, pairs.seed)


def with_masked(
    views: PairViews, sequences: MaskedSequences, masking: Masking, vocabulary: Vocabulary, seed: int
) -> PairViews:
    """The views of clean sentences, with masked sequences behind them."""
    flat, lengths = np.concatenate(sequences.ids), tuple(len(ids) for ids in sequences.ids)
    keys = token_keys(lengths, sequences.of_run.astype(np.uint64), seed)
    replaced, places = mask_tokens(flat, keys, masking, vocabulary)
    of_source = sequences.from_source[places]
    places = np.concatenate([places[of_source], places[~of_source]])
    batch = views.batch
    ends = batch.cu_seqlens[-1] + torch.from_numpy(np.cumsum(lengths).astype(np.int32))
    positions = torch.from_numpy(sequences.positions + vocabulary.first_position)
    return replace(
        views,
        batch=PackedBatch(
            torch.cat([batch.input_ids, torch.from_numpy(replaced.astype(np.int64))]),
            torch.cat([batch.position_ids, positions]),
            torch.cat([batch.cu_seqlens, ends]),
            batch.lengths + lengths,
            batch.extra_embeddings,
        ),
        masked_tokens=torch.from_numpy(places.astype(np.int64)),
        labels=torch.from_numpy(flat[places].astype(np.int64)),
        source_labels=int(of_source.sum()),
    )


def mask_tokens(
    ids: np.ndarray, keys: np.ndarray, masking: Masking, vocabulary: Vocabulary
) -> tuple[np.ndarray, np.ndarray]:
    """Choose tokens with probability `ratio` each and replace them (80/10/10 in the authors' code).

    Special tokens are not chosen, nor are words by their n-grams, which a head over the vocabulary cannot
    find.

    Args:
        ids: integers [T].
        keys: uint64 [T], what is random about each token (`token_keys`).

    Returns:
        The replaced ids [T] and the chosen places, int64 [M], ascending.
    """
    assert vocabulary.mask is not None, "masking needs a mask token"
    chosen = uniform(keys, 0) < masking.ratio
    chosen &= ~np.isin(ids, list(vocabulary.special)) & (ids < vocabulary.size)
    places = np.flatnonzero(chosen)
    fate = uniform(keys[places], 1)
    random_ids = (uniform(keys[places], 2) * vocabulary.size).astype(ids.dtype)
    replaced = ids.copy()
    replaced[places] = np.where(
        fate < masking.mask_share,
        vocabulary.mask,
        np.where(fate < masking.mask_share + masking.random_share, random_ids, ids[places]),
    )
    return replaced, places


def token_keys(lengths: Sequence[int], sentences: np.ndarray, seed: int) -> np.ndarray:
    """A random number of its own for every token, whatever batch or process it comes in.

    Args:
        lengths: Tokens in each of N sentences.
        sentences: uint64 [N], what the sentence is in the run (`StackedSides.of_run`).

    Returns:
        uint64 [T].
    """
    keys = _mixed(_mixed(np.array([seed % 2**64], dtype=np.uint64)) ^ sentences)
    ends = np.cumsum(lengths)
    places = np.arange(ends[-1]) - np.repeat(ends - lengths, lengths)
    return _mixed(np.repeat(keys, lengths) + places.astype(np.uint64) * np.uint64(_GOLDEN))


def uniform(keys: np.ndarray, draw: int) -> np.ndarray:
    """The n-th draw of each key: float64 in [0, 1)."""
    return (_mixed(keys ^ np.uint64(draw)) >> np.uint64(11)) * 2.0**-53


def _mixed(values: np.ndarray) -> np.ndarray:
    """splitmix64 of uint64 values: neighbours get unrelated numbers."""
    values = values + np.uint64(_GOLDEN)
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


class VocabularyHead(nn.Module):
    """The head of XLM-R and BERT: a linear layer, an activation, LayerNorm, and a bias for each token.

    The caller multiplies the result with the token embeddings and adds the bias.
    """

    def __init__(
        self, dense: nn.Linear, activation: nn.Module, norm: nn.LayerNorm, bias: nn.Parameter
    ) -> None:
        super().__init__()
        self.dense, self.activation, self.norm, self.bias = dense, activation, norm, bias

    @classmethod
    def fresh(cls, config: PreTrainedConfig, output_scale: float = 1.0) -> VocabularyHead:
        """An untrained head: weights are normal with the config's `initializer_range`, biases zero.

        Args:
            output_scale: Of the LayerNorm, so that the first logits are not large where word embeddings are
                long.
        """
        width = config.hidden_size
        dense = nn.Linear(width, width)
        nn.init.normal_(dense.weight, std=config.initializer_range)
        nn.init.zeros_(dense.bias)
        norm = nn.LayerNorm(width, eps=config.layer_norm_eps)
        nn.init.constant_(norm.weight, output_scale)
        return cls(dense, ACT2FN["gelu"], norm, nn.Parameter(torch.zeros(config.vocab_size)))

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """[M, dim] to [M, dim], to be multiplied with the token embeddings."""
        return self.norm(self.activation(self.dense(hidden)))


def load_masked_lm(name: str) -> tuple[PreTrainedModel, VocabularyHead]:
    """The transformer of a checkpoint, float32, and its head.

    A checkpoint without a head gets an untrained one, with a warning.

    Args:
        name: As for `SentenceEncoder.load`.

    Raises:
        MexmaError: It cannot be loaded.
    """
    settings = read_settings(locate(name))
    try:
        weights = read_weights(settings.transformer, (BESIDE_NGRAMS, *FILES))
        model, report = build_model(settings.config, weights, torch.float32, MODEL_FOR_MASKED_LM_MAPPING)
    except MexmaError:
        raise
    except Exception as error:  # transformers raises whatever it likes
        raise refused(name, error) from None
    base = getattr(model, model.base_model_prefix)
    absent = [key for key in report["missing_keys"] if not key.startswith(f"{model.base_model_prefix}.")]
    if absent:
        log.warning("%s has no masked-LM head: an untrained one takes its place", name)
        return base, VocabularyHead.fresh(model.config)
    bias = model.get_output_embeddings().bias
    if hasattr(model, "lm_head"):
        found = model.lm_head
        return base, VocabularyHead(found.dense, ACT2FN["gelu"], found.layer_norm, bias)
    transform = model.cls.predictions.transform
    return base, VocabularyHead(transform.dense, transform.transform_act_fn, transform.LayerNorm, bias)
