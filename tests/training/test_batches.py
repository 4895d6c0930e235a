"""Micro-batches made ahead are those that would have been made in their turn."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mexma_cli.objectives.masking import Masking, masked_views
from mexma_cli.objectives.views import PairViews, TokenPairs, Vocabulary
from mexma_cli.training.batches import Batches, SampledPairs

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
