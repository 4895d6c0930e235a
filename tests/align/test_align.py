"""Alignment: what must hold for any vectors, and that planted alignments are found."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mexma_cli.align.align import Alignment, AlignSettings, Side, align


def unit(vectors: np.ndarray) -> np.ndarray:
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return np.divide(vectors, lengths, out=np.zeros_like(vectors), where=lengths > 0).astype(np.float32)


def side(vectors: np.ndarray) -> Side:
    """A document whose runs have the sums of their sentences' vectors."""

    def runs(starts: np.ndarray, sizes: np.ndarray) -> np.ndarray:
        assert (sizes >= 2).all() and (starts >= 0).all() and (starts + sizes <= len(vectors)).all()
        sums = [vectors[start : start + size].sum(axis=0) for start, size in zip(starts, sizes, strict=True)]
        return unit(np.array(sums).reshape(-1, vectors.shape[1]))

    return Side(unit(vectors), np.full(len(vectors), 50), runs)


def covered(alignments: list[Alignment], source: int, target: int) -> None:
    assert [row for one in alignments for row in one.source] == list(range(source))
    assert [row for one in alignments for row in one.target] == list(range(target))


@given(
    st.integers(0, 30),
    st.integers(0, 30),
    st.integers(1, 4),
    st.sampled_from(["random", "equal", "zero"]),
    st.integers(0, 99),
)
def test_every_sentence_is_in_one_alignment_in_order(n: int, m: int, size: int, kind: str, seed: int) -> None:
    random = np.random.default_rng(seed)
    scale = {"random": random.standard_normal((n + m, 6)), "equal": np.ones((n + m, 6))}
    vectors = scale.get(kind, np.zeros((n + m, 6))).astype(np.float32)
    found = align(side(vectors[:n]), side(vectors[n:]), AlignSettings(max_size=size))
    covered(found, n, m)
    for one in found:
        assert max(len(one.source), len(one.target)) <= size
        assert (one.source and one.target) or (len(one.source) + len(one.target) == 1 and one.score == 0)


def test_documents_shorter_than_the_largest_run() -> None:
    for n, m in ((1, 1), (2, 2), (2, 3), (3, 1)):
        vectors = unit(np.random.default_rng(n).standard_normal((max(n, m), 8)))
        covered(align(side(vectors[:n]), side(vectors[:m]), AlignSettings(6)), n, m)
