"""From token ids of pairs to the packed views that an objective asks for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

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


def mask_tokens(
    ids: np.ndarray, masking: Masking, vocabulary: Vocabulary, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Choose tokens with probability `ratio` each and replace them (80/10/10 in the authors' code).

    Args:
        ids: integers [T].

    Returns:
        The replaced ids [T] and the chosen places, int64 [M], ascending.
    """
    chosen = rng.random(len(ids)) < masking.ratio
    chosen &= ~np.isin(ids, list(vocabulary.special))
    places = np.flatnonzero(chosen)
    fate = rng.random(len(places))
    random_ids = rng.integers(0, vocabulary.size, len(places))
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
    rng: np.random.Generator,
) -> PairViews:
    """Pack both sides of B pairs by length, and once more masked where `masking` is given.

    Args:
        pairs: Token ids of source and target, without <s> and </s>.
    """
    count = len(pairs)
    sides = [pair[0] for pair in pairs] + [pair[1] for pair in pairs]
    order = np.argsort([len(ids) for ids in sides], kind="stable")
    place = np.empty(2 * count, dtype=np.int64)
    place[order] = np.arange(2 * count)
    clean = [
        np.concatenate([[vocabulary.bos], sides[side], [vocabulary.eos]]).astype(np.int64) for side in order
    ]

    sentences = clean
    places = labels = label_side = np.empty(0, dtype=np.int64)
    if masking is not None:
        flat = np.concatenate(clean)
        replaced, places = mask_tokens(flat, masking, vocabulary, rng)
        lengths = [len(ids) for ids in clean]
        sentences = clean + np.split(replaced, np.cumsum(lengths)[:-1])
        labels = flat[places]
        label_side = np.repeat(order, lengths)[places]
    return PairViews(
        pack(sentences, vocabulary.first_position),
        source_rows=torch.from_numpy(place[:count]),
        target_rows=torch.from_numpy(place[count:]),
        partners=torch.from_numpy(place[(order + count) % (2 * count)]),
        identities=torch.tensor([hash(ids.tobytes()) for ids in clean]),
        masked_tokens=torch.from_numpy(places.astype(np.int64)),
        labels=torch.from_numpy(labels.astype(np.int64)),
        label_is_source=torch.from_numpy(label_side < count),
    )
