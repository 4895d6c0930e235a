"""From token ids of pairs to the packed views that an objective asks for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
import xxhash

from mexma_cli.encoder.model.packing import PackedBatch, pack
from mexma_cli.objectives.base import Masking, PairViews, Rebuilding, Rebuilt


@dataclass(frozen=True)
class Vocabulary:
    """The ids that building a batch needs.

    Attributes:
        bos, eos: <s>, </s>.
        mask: <mask>; None where the tokeniser has none, and nothing can be masked.
        special: All special ids; none of them is ever chosen for masking.
        size: Number of tokens; random replacements are drawn from all of them, as in the authors' code.
        first_position: Position id of a sentence's first token.
        joint: What stands for the second sentence's first token where two are one sequence: </s> in
            RoBERTa's family (<s> x </s></s> y </s>), and nothing in BERT's ([CLS] x [SEP] y [SEP]).
        spell: From sentences to those with one id, from `size` on, for each word in pieces, and what these
            ids stand for (`NgramEmbeddings.merge_split_words`); None: words stay in pieces.
    """

    bos: int
    eos: int
    mask: int | None
    special: frozenset[int]
    size: int
    first_position: int
    joint: int | None = None
    spell: Callable[[list[np.ndarray]], tuple[list[np.ndarray], torch.Tensor]] | None = None


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

    Special tokens are not chosen, nor are spelled words, which a head over the vocabulary cannot find.

    Args:
        ids: integers [T].
        keys: uint64 [T], what is random about each token (`token_keys`).

    Returns:
        The replaced ids [T] and the chosen places, int64 [M], ascending.
    """
    assert vocabulary.mask is not None, "masking needs a mask token"
    chosen = _uniform(keys, 0) < masking.ratio
    chosen &= ~np.isin(ids, list(vocabulary.special)) & (ids < vocabulary.size)
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
    wanted: Masking | Rebuilding | None,
    vocabulary: Vocabulary,
    seed: int = 0,
    start: int = 0,
    languages: np.ndarray | None = None,
) -> PairViews:
    """Pack both sides of B pairs by length, and what an objective wants besides.

    Args:
        pairs: Token ids of source and target, without <s> and </s>.
        wanted: `Masking`: both sides once more, masked (not symmetric: of each pair the one side clean, the
            other masked; concatenated: each pair once more, as one masked sequence). `Rebuilding`: the
            places of each pair's tokens for a rebuilding head.
        seed: Of the masks.
        start: Position in the run of the first pair. A pair's masks come from its position and the seed
            alone, so that they are the same however many processes share the run.
        languages: int64 [B], which of the run's source languages each pair has; None: all the same.
    """
    count = len(pairs)
    sides = [
        np.concatenate([[vocabulary.bos], ids, [vocabulary.eos]]).astype(np.int64)
        for ids in (*(pair[0] for pair in pairs), *(pair[1] for pair in pairs))
    ]
    # Of the pieces, since a spelled word's id is the batch's own. Not Python's hash: it differs from process
    # to process.
    identities = np.array([xxhash.xxh3_64_intdigest(ids.tobytes()) - 2**63 for ids in sides])
    spelled = None
    if vocabulary.spell is not None:
        sides, spelled = vocabulary.spell(sides)
    order = np.argsort([len(ids) for ids in sides], kind="stable")
    of_run = 2 * (start + np.arange(2 * count) % count) + np.arange(2 * count) // count
    shown = hidden = order
    masking = wanted if isinstance(wanted, Masking) else None
    if masking is not None and not masking.symmetric:
        is_hidden = _one_side(of_run[:count], seed)[order]
        shown, hidden = order[~is_hidden], order[is_hidden]
    row = np.full(2 * count, -1)
    row[shown] = np.arange(len(shown))
    pair_rows = row if len(shown) == 2 * count else row[:0]

    nothing = torch.empty(0, dtype=torch.int64)
    views = PairViews(
        pack([sides[side] for side in shown], vocabulary.first_position, spelled),
        source_rows=torch.from_numpy(pair_rows[:count]),
        target_rows=torch.from_numpy(pair_rows[count:]),
        partners=torch.from_numpy(row[(hidden + count) % (2 * count)]),
        identities=torch.from_numpy(identities[shown]),
        masked_tokens=nothing,
        labels=nothing,
        source_labels=0,
    )
    if masking is not None:
        whole = _joined(sides, of_run, vocabulary) if masking.concatenated else _apart(sides, hidden, of_run)
        return _with_masked(views, whole, masking, vocabulary, seed)
    if isinstance(wanted, Rebuilding):
        found = _rebuilt(views.batch, row, of_run, wanted, vocabulary.first_position, seed, languages)
        return replace(views, rebuilt=found)
    return views


@dataclass(frozen=True)
class _Sequences:
    """What is masked: sequences with their numbers in the run; of each token its position and its side."""

    ids: list[np.ndarray]
    of_run: np.ndarray
    positions: np.ndarray
    from_source: np.ndarray


def _apart(sides: list[np.ndarray], hidden: np.ndarray, of_run: np.ndarray) -> _Sequences:
    """The hidden sentences, each for itself."""
    ids = [sides[side] for side in hidden]
    lengths = [len(sentence) for sentence in ids]
    return _Sequences(
        ids,
        of_run[hidden],
        np.concatenate([np.arange(length) for length in lengths]),
        np.repeat(hidden < len(sides) // 2, lengths),
    )


def _joined(sides: list[np.ndarray], of_run: np.ndarray, vocabulary: Vocabulary) -> _Sequences:
    """Pairs as one sequence each, by length. A target's tokens have the positions that they have alone."""
    count = len(sides) // 2
    skipped = int(vocabulary.joint is None)
    targets = [ids.copy() for ids in sides[count:]]
    for target in targets:
        target[0] = vocabulary.joint or 0
    order = np.argsort([len(sides[i]) + len(targets[i]) for i in range(count)], kind="stable")
    pairs = [(sides[i], targets[i][skipped:]) for i in order]
    positions = [(np.arange(len(x)), np.arange(len(y)) + skipped) for x, y in pairs]
    return _Sequences(
        [np.concatenate(pair) for pair in pairs],
        of_run[order],
        np.concatenate([part for pair in positions for part in pair]),
        np.concatenate([np.repeat([True, False], [len(x), len(y)]) for x, y in pairs]),
    )


def _with_masked(
    views: PairViews, whole: _Sequences, masking: Masking, vocabulary: Vocabulary, seed: int
) -> PairViews:
    """The clean sentences' views, and behind the clean sentences the masked ones."""
    flat, lengths = np.concatenate(whole.ids), tuple(len(ids) for ids in whole.ids)
    keys = token_keys(lengths, whole.of_run.astype(np.uint64), seed)
    replaced, places = mask_tokens(flat, keys, masking, vocabulary)
    of_source = whole.from_source[places]
    places = np.concatenate([places[of_source], places[~of_source]])
    batch = views.batch
    ends = batch.cu_seqlens[-1] + torch.from_numpy(np.cumsum(lengths).astype(np.int32))
    return replace(
        views,
        batch=PackedBatch(
            torch.cat([batch.input_ids, torch.from_numpy(replaced.astype(np.int64))]),
            torch.cat([batch.position_ids, torch.from_numpy(whole.positions + vocabulary.first_position)]),
            torch.cat([batch.cu_seqlens, ends]),
            batch.lengths + lengths,
            batch.extra_embeddings,
        ),
        masked_tokens=torch.from_numpy(places.astype(np.int64)),
        labels=torch.from_numpy(flat[places].astype(np.int64)),
        source_labels=int(of_source.sum()),
    )


def _rebuilt(
    batch: PackedBatch,
    row: np.ndarray,
    of_run: np.ndarray,
    wanted: Rebuilding,
    first_position: int,
    seed: int,
    languages: np.ndarray | None,
) -> Rebuilt:
    """Where a rebuilding head finds the tokens of each pair, by length, and which of them are hidden from it.

    Args:
        batch: The clean sentences.
        row: int64 [2B], where each side stands among them, sources first.
        of_run: int64 [2B], what each side is in the run.
    """
    count = len(row) // 2
    starts, lengths = batch.cu_seqlens.numpy()[row], np.array(batch.lengths)[row]
    order = np.argsort(lengths[:count] + lengths[count:], kind="stable")
    backward = of_run[:count] // 2 % 2 == 0 if wanted.direction == "both" else wanted.direction == "backward"
    backward = np.broadcast_to(backward, count)[order]
    sides = np.stack([order, order + count], axis=1).ravel()
    inner = lengths[sides] - 1
    within = np.arange(inner.sum()) - np.repeat(np.cumsum(inner) - inner, inner) + 1
    offset = np.where(sides < count, 0, lengths[sides - count])
    is_rebuilt = np.repeat((sides < count) == np.repeat(backward, 2), inner)
    keys = token_keys(inner.tolist(), of_run[sides].astype(np.uint64), seed)
    pair_lengths = inner.reshape(count, 2).sum(axis=1)
    language = np.zeros(count, np.int64) if languages is None else languages
    places = np.repeat(starts[sides], inner) + within
    packed = PackedBatch(
        batch.input_ids[torch.from_numpy(places)],
        torch.from_numpy(np.repeat(offset, inner) + within + first_position),
        torch.from_numpy(np.concatenate([[0], np.cumsum(pair_lengths)]).astype(np.int32)),
        tuple(pair_lengths.tolist()),
    )
    return Rebuilt(
        packed,
        torch.from_numpy(places),
        torch.from_numpy(is_rebuilt & (_uniform(keys, 4) < wanted.ratio)),
        torch.from_numpy(is_rebuilt & np.repeat(backward, pair_lengths)),
        torch.from_numpy(np.repeat(language[order], pair_lengths)),
    )


def _one_side(sources: np.ndarray, seed: int) -> np.ndarray:
    """Which sentences of B pairs are masked, one of each: bool [2B], sources first.

    Args:
        sources: int64 [B], what the source sentences are in the run.
    """
    keys = token_keys([1] * len(sources), sources.astype(np.uint64), seed)
    chosen = _uniform(keys, 3) < 0.5  # draws 0 to 2 are `mask_tokens`'s
    return np.concatenate([chosen, ~chosen])
