"""The sampler: a permutation that costs no memory, the wanted shares, and the same again after a resume."""

from __future__ import annotations

import cProfile
import pstats
import threading
import tracemalloc
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mexma_cli.objectives.masking import Masking, masked_views
from mexma_cli.objectives.views import PairViews, TokenPairs, Vocabulary
from mexma_cli.training.sampler import Batches, SampledPairs, Sampler, permute


@given(st.integers(1, 3000), st.integers(0, 2**40))
def test_permute_is_a_bijection(size: int, seed: int) -> None:
    assert np.array_equal(np.sort(permute(np.arange(size), size, seed)), np.arange(size))


def test_permute_shuffles_and_depends_on_the_seed() -> None:
    size = 10_000
    one, other = (permute(np.arange(size), size, seed) for seed in (1, 2))
    assert (one == other).mean() < 0.01
    for order in (one, other):
        assert abs(np.corrcoef(order, np.arange(size))[0, 1]) < 0.05
        assert (np.diff(order) == 1).mean() < 0.01


@given(
    st.lists(st.integers(1, 60), min_size=1, max_size=5),
    st.integers(0, 3),
    st.integers(1, 50),
)
def test_an_epoch_has_every_pair_once(sizes: list[int], epoch: int, block: int) -> None:
    sampler = Sampler(sizes, [1.0] * len(sizes), ["a"] * len(sizes), seed=7)
    total = sum(sizes)
    assert sampler.epoch_length == total
    seen: list[tuple[int, int]] = []
    for start in range(0, total, block):
        stores, rows = sampler.pairs(epoch * total + start, min(block, total - start))
        seen += zip(stores.tolist(), rows.tolist(), strict=True)
    assert sorted(seen) == [(store, row) for store, size in enumerate(sizes) for row in range(size)]


def test_epochs_differ() -> None:
    sampler = Sampler([500], [1.0], ["a"])
    first, second = sampler.pairs(0, 500)[1], sampler.pairs(500, 500)[1]
    assert (first == second).mean() < 0.05


def test_positions_are_the_same_however_they_are_asked_for() -> None:
    settings = ([300, 40, 7], [1.0, 2.0, 0.5], ["a", "b", "b"], 2.0, 3)
    whole = Sampler(*settings).pairs(0, 900)
    resumed = Sampler(*settings)
    pieces = [resumed.pairs(start, 30) for start in range(600, 900, 30)]
    for side in (0, 1):
        assert np.array_equal(np.concatenate([piece[side] for piece in pieces]), whole[side][600:])


def shares(sampler: Sampler, stores: int) -> list[float]:
    drawn, _ = sampler.pairs(0, sampler.epoch_length)
    return (np.bincount(drawn, minlength=stores) / sampler.epoch_length).tolist()


def test_weights_repeat_pairs() -> None:
    sampler = Sampler([100, 100], [1.0, 3.0], ["a", "b"])
    assert sampler.epoch_length == 400
    assert shares(sampler, 2) == [0.25, 0.75]
    stores, rows = sampler.pairs(0, 400)
    assert np.bincount(rows[stores == 0]).tolist() == [1] * 100
    assert np.bincount(rows[stores == 1]).tolist() == [3] * 100


def test_a_share_below_one_sees_every_pair_over_epochs() -> None:
    sampler = Sampler([100, 100], [1.0, 0.25], ["a", "b"])
    assert sampler.epoch_length == 125
    stores, rows = sampler.pairs(0, 4 * 125)
    assert np.bincount(rows[stores == 1]).tolist() == [1] * 100


def test_temperature_flattens_languages_not_corpora() -> None:
    # a: 900 pairs in two corpora, b: 100; at temperature 2 the shares are 30 to 10.
    sampler = Sampler([600, 300, 100], [1.0] * 3, ["a", "a", "b"], temperature=2.0)
    assert shares(sampler, 3) == pytest.approx([0.5, 0.25, 0.25], abs=0.002)


def test_a_tiny_corpus_is_never_without_a_share() -> None:
    assert Sampler([1_000_000, 3], [1.0, 0.01], ["a", "b"]).shares[1] == 1


def calls(sampler: Sampler, start: int) -> int:
    """Functions that are called for a batch of 150."""
    profile = cProfile.Profile()
    profile.runcall(sampler.pairs, start, 150)
    return pstats.Stats(profile).total_calls  # type: ignore[attr-defined]


def test_two_billion_pairs_take_no_memory() -> None:
    """81 languages in four corpora each, temperature and weights, at any place in the run."""
    rng = np.random.default_rng(0)
    sizes = rng.pareto(1.2, 81 * 4) + 0.01
    sizes = (sizes / sizes.sum() * 2_000_000_000).astype(np.int64) + 1
    languages = [f"l{i // 4}" for i in range(len(sizes))]
    tracemalloc.start()
    sampler = Sampler(sizes.tolist(), [1.0, 2.0, 0.5, 1.0] * 81, languages, temperature=2.0)
    batches = [sampler.pairs(1_987_654_321 + 2400 * step, 150) for step in range(20)]
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert sampler.sizes.sum() >= 2_000_000_000
    assert peak < 1_000_000  # bytes
    assert calls(sampler, 1_987_654_321) < 2 * calls(sampler, 0) < 100_000  # no search from the beginning
    stores, rows = (np.concatenate(part) for part in zip(*batches, strict=True))
    assert (rows >= 0).all() and (rows < sampler.sizes[stores]).all()
    assert len(np.unique(stores)) > 100
    again = Sampler(sizes.tolist(), [1.0, 2.0, 0.5, 1.0] * 81, languages, temperature=2.0)
    assert np.array_equal(again.pairs(1_987_654_321 + 2400 * 7, 150)[1], batches[7][1])


COUNT = 4
PAPER = Masking(0.4, 0.8, 0.1)
VOCABULARY = Vocabulary(bos=0, eos=2, mask=99, special=frozenset({0, 1, 2, 99}), size=100, first_position=2)
BROKEN = 1000


class Drawn(SampledPairs):
    """Pairs that follow from their positions; notes in which thread they were asked for."""

    def __init__(self) -> None:
        self.threads: dict[int, threading.Thread] = {}

    def ids(self, start: int, count: int) -> list[tuple[np.ndarray, np.ndarray]]:
        self.threads[start] = threading.current_thread()
        if start == BROKEN:
            raise OSError("the disk is gone")
        return [
            tuple(np.random.default_rng(start + i).integers(3, 99, (2, 5 + i % 3)))  # type: ignore[misc]
            for i in range(count)
        ]

    def languages(self, start: int, count: int) -> np.ndarray:
        return np.zeros(count, np.int64)


def masked(pairs: TokenPairs) -> PairViews:
    return masked_views(pairs, VOCABULARY, PAPER)


def batches(pairs: SampledPairs) -> Batches:
    return Batches(pairs, masked, seed=7, count=COUNT)


def tensors(views: PairViews) -> Iterator[torch.Tensor]:
    yield from (views.batch.input_ids, views.batch.cu_seqlens, views.partners, views.identities)
    yield from (views.masked_tokens, views.labels, torch.tensor(views.source_labels))


@given(st.lists(st.tuples(st.integers(0, 5), st.none() | st.integers(0, 5)), min_size=1, max_size=6))
def test_whatever_is_asked_for_after_whatever(asked: list[tuple[int, int | None]]) -> None:
    """Also where another one was announced than is asked for then, as after a run went back a step."""
    pairs = Drawn()
    ahead = batches(pairs)
    for start, following in asked:
        expected = masked(TokenPairs(pairs.ids(start, COUNT), 7, start))
        found = ahead.at(start, following)
        assert all(map(torch.equal, tensors(found), tensors(expected)))


def test_the_next_one_is_made_in_another_thread() -> None:
    pairs = Drawn()
    ahead = batches(pairs)
    ahead.at(0, following=COUNT)
    ahead.at(COUNT)
    assert pairs.threads[0] is threading.current_thread() is not pairs.threads[COUNT]


def test_what_fails_ahead_is_said_in_its_turn() -> None:
    ahead = batches(Drawn())
    ahead.at(0, following=BROKEN)
    with pytest.raises(OSError, match="the disk is gone"):
        ahead.at(BROKEN)
