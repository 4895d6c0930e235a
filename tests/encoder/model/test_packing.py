"""Packing: borders, positions, and batches that hold every row once."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mexma_cli.encoder.model.packing import by_token_budget, pack

lengths = st.lists(st.integers(1, 40), min_size=1, max_size=30)


@given(lengths, st.integers(0, 2))
def test_pack_puts_sentences_one_after_the_other(lengths: list[int], first: int) -> None:
    sentences = [np.arange(length) + 100 * i for i, length in enumerate(lengths)]
    batch = pack(sentences, first)
    assert batch.lengths == tuple(lengths)
    assert len(batch.input_ids) == len(batch.position_ids) == sum(lengths)
    for i, length in enumerate(lengths):
        start, end = batch.cu_seqlens[i : i + 2].tolist()
        assert end - start == length
        assert batch.input_ids[start:end].tolist() == sentences[i].tolist()
        counted = sentences[i] != first - 1 if first else np.ones(length, bool)  # in RoBERTa, without padding
        expected = np.where(counted, np.cumsum(counted) + first - 1, first - 1)
        assert batch.position_ids[start:end].tolist() == expected.tolist()


@given(st.lists(st.integers(1, 40), max_size=50), st.integers(1, 100))
def test_every_row_is_in_one_batch_within_the_budget(lengths: list[int], budget: int) -> None:
    batches = [rows.tolist() for rows in by_token_budget(lengths, budget)]
    assert sorted(row for rows in batches for row in rows) == list(range(len(lengths)))
    for rows in batches:
        assert rows
        assert len(rows) == 1 or sum(lengths[row] for row in rows) <= budget
    in_order = [lengths[row] for rows in batches for row in rows]
    assert in_order == sorted(lengths, reverse=True)
