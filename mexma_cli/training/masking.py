"""From token ids of pairs to the packed views that an objective asks for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
import xxhash

from mexma_cli.encoder.packing import pack
from mexma_cli.objectives.base import Masking, PairViews


@dataclass(frozen=True)
class Vocabulary:
    """The ids that building a batch needs.

    Attributes:
        bos, eos, mask: <s>, </s>, <mask>.
        special: All special ids; none of them is ever chosen for masking.
        size: Number of tokens; random replacements are drawn from all of them, as in the authors' code.
        first_position: Position id of a sentence's first token.
    """

    bos: int
    eos: int
    mask: int
    special: frozenset[int]
    size: int
    first_position: int


_GOLDEN = 0x9E3779B97F4A7C15


def token_keys(lengths: Sequence[int], sentences: np.ndarray, seed: int) -> np.ndarray:
    """A random number of its own for every token, whatever batch or process it comes in.

    Args:
        lengths: Tokens in each of N sentences.
        sentences: uint64 [N], what the sentence is in the run: twice its pair's position, plus its side.

    Returns:
        uint64 [T].
    """
    keys = _mixed(_mixed(np.array([seed % 2**64], dtype=np.uint64)) ^ sentences)
    ends = np.cumsum(lengths)
    places = np.arange(ends[-1]) - np.repeat(ends - lengths, lengths)
    return _mixed(np.repeat(keys, lengths) + places.astype(np.uint64) * np.uint64(_GOLDEN))


def _mixed(values: np.ndarray) -> np.ndarray:
    """splitmix64 of uint64 values: neighbours get unrelated numbers."""
    values = values + np.uint64(_GOLDEN)
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def _uniform(keys: np.ndarray, draw: int) -> np.ndarray:
    """The n-th draw of each key: float64 in [0, 1)."""
    return (_mixed(keys ^ np.uint64(draw)) >> np.uint64(11)) * 2.0**-53


def mask_tokens(
    ids: np.ndarray, keys: np.ndarray, masking: Masking, vocabulary: Vocabulary
) -> tuple[np.ndarray, np.ndarray]:
    """Choose tokens with probability `ratio` each and replace them (80/10/10 in the authors' code).

    Args:
        ids: integers [T].
        keys: uint64 [T], what is random about each token (`token_keys`).

    Returns:
        The replaced ids [T] and the chosen places, int64 [M], ascending.
    """
    chosen = _uniform(keys, 0) < masking.ratio
    chosen &= ~np.isin(ids, list(vocabulary.special))
    places = np.flatnonzero(chosen)
    fate = _uniform(keys[places], 1)
    random_ids = (_uniform(keys[places], 2) * vocabulary.size).astype(ids.dtype)
    replaced = ids.copy()
    replaced[places] = np.where(
        fate < masking.mask_share,
        vocabulary.mask,
        np.where(fate < masking.mask_share + masking.random_share, random_ids, ids[places]),
    )
    return replaced, places


def build_views(
    pairs: Sequence[tuple[np.ndarray, np.ndarray]],
    masking: Masking | None,
    vocabulary: Vocabulary,
    seed: int = 0,
    start: int = 0,
) -> PairViews:
    """Pack both sides of B pairs by length, and once more masked where `masking` is given.

    With masking that is not symmetric: of each pair the one side clean, the other masked.

    Args:
        pairs: Token ids of source and target, without <s> and </s>.
        seed: Of the masks.
        start: Position in the run of the first pair. A pair's masks come from its position and the seed
            alone, so that they are the same however many processes share the run.
    """
    count = len(pairs)
    sides = [
        np.concatenate([[vocabulary.bos], ids, [vocabulary.eos]]).astype(np.int64)
        for ids in (*(pair[0] for pair in pairs), *(pair[1] for pair in pairs))
    ]
    order = np.argsort([len(ids) for ids in sides], kind="stable")
    of_run = 2 * (start + np.arange(2 * count) % count) + np.arange(2 * count) // count
    shown = hidden = order
    if masking is not None and not masking.symmetric:
        is_hidden = _one_side(of_run[:count], seed)[order]
        shown, hidden = order[~is_hidden], order[is_hidden]
    row = np.full(2 * count, -1)
    row[shown] = np.arange(len(shown))
    pair_rows = row if len(shown) == 2 * count else row[:0]

    sentences = [sides[side] for side in shown]
    # Not Python's hash: it differs from process to process.
    identities = [xxhash.xxh3_64_intdigest(ids.tobytes()) - 2**63 for ids in sentences]
    places = labels = label_side = np.empty(0, dtype=np.int64)
    if masking is not None:
        flat = np.concatenate([sides[side] for side in hidden])
        lengths = [len(sides[side]) for side in hidden]
        keys = token_keys(lengths, of_run[hidden].astype(np.uint64), seed)
        replaced, places = mask_tokens(flat, keys, masking, vocabulary)
        sentences = sentences + np.split(replaced, np.cumsum(lengths)[:-1])
        labels = flat[places]
        label_side = np.repeat(hidden, lengths)[places]
    return PairViews(
        pack(sentences, vocabulary.first_position),
        source_rows=torch.from_numpy(pair_rows[:count]),
        target_rows=torch.from_numpy(pair_rows[count:]),
        partners=torch.from_numpy(row[(hidden + count) % (2 * count)]),
        identities=torch.tensor(identities),
        masked_tokens=torch.from_numpy(places.astype(np.int64)),
        labels=torch.from_numpy(labels.astype(np.int64)),
        label_is_source=torch.from_numpy(label_side < count),
    )


def _one_side(sources: np.ndarray, seed: int) -> np.ndarray:
    """Which sentences of B pairs are masked, one of each: bool [2B], sources first.

    Args:
        sources: int64 [B], what the source sentences are in the run.
    """
    keys = token_keys([1] * len(sources), sources.astype(np.uint64), seed)
    chosen = _uniform(keys, 3) < 0.5  # draws 0 to 2 are `mask_tokens`'s
    return np.concatenate([chosen, ~chosen])
