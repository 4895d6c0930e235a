"""Masked tokens: which are chosen, what stands in their place, and how they lie behind clean sentences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from mexma_cli.encoder.model.packing import PackedBatch
from mexma_cli.objectives.views import PairViews, Sides, TokenPairs, Vocabulary

_GOLDEN = 0x9E3779B97F4A7C15


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
    sides = Sides.of(pairs, vocabulary)
    shown, hidden = sides.by_length, sides.translations
    if not symmetric:
        is_hidden = _one_side(sides.of_run[: len(pairs.ids)], pairs.seed)[hidden]
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


def _one_side(sources: np.ndarray, seed: int) -> np.ndarray:
    """Which sentences of B pairs are masked, one of each: bool [2B], sources first.

    Args:
        sources: int64 [B], what the source sentences are in the run.
    """
    keys = token_keys([1] * len(sources), sources.astype(np.uint64), seed)
    chosen = uniform(keys, 3) < 0.5  # draws 0 to 2 are `mask_tokens`'s
    return np.concatenate([chosen, ~chosen])


def token_keys(lengths: Sequence[int], sentences: np.ndarray, seed: int) -> np.ndarray:
    """A random number of its own for every token, whatever batch or process it comes in.

    Args:
        lengths: Tokens in each of N sentences.
        sentences: uint64 [N], what the sentence is in the run (`Sides.of_run`).

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
