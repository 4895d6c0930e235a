"""Alignment: what must hold for any vectors, and that planted alignments are found."""

from __future__ import annotations

import importlib
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mexma_cli.align.align import Alignment, DocumentVectors, align
from mexma_cli.settings.stages import AlignSettings


def unit(vectors: np.ndarray) -> np.ndarray:
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return np.divide(vectors, lengths, out=np.zeros_like(vectors), where=lengths > 0).astype(np.float32)


def side(vectors: np.ndarray) -> DocumentVectors:
    """A document whose runs have the sums of their sentences' vectors."""

    def runs(starts: np.ndarray, sizes: np.ndarray) -> np.ndarray:
        assert len(sizes) and (sizes >= 2).all()
        assert (starts >= 0).all() and (starts + sizes <= len(vectors)).all()
        sums = [vectors[start : start + size].sum(axis=0) for start, size in zip(starts, sizes, strict=True)]
        return unit(np.array(sums).reshape(-1, vectors.shape[1]))

    return DocumentVectors(unit(vectors), np.full(len(vectors), 50), runs)


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
        covered(align(side(vectors[:n]), side(vectors[:m]), AlignSettings(max_size=6)), n, m)


def planted(
    random: np.random.Generator, shapes: list[tuple[int, int]]
) -> tuple[DocumentVectors, DocumentVectors, list[Alignment]]:
    """Documents whose alignments have these shapes: the vectors of both sides of each have the same sum."""
    source, target, gold, at = [], [], [], [0, 0]
    lengths: tuple[list[int], list[int]] = [], []
    for a, b in shapes:
        parts = random.standard_normal((max(a, b), 64))
        for side_parts, own, count in ((source, lengths[0], a), (target, lengths[1], b)):
            cut = np.array_split(parts, count) if count else []
            side_parts += [rows.sum(axis=0) for rows in cut]
            own += [60 * len(rows) for rows in cut]
        gold.append(Alignment(range(at[0], at[0] + a), range(at[1], at[1] + b), 0.0))
        at = [at[0] + a, at[1] + b]
    both = [side(np.array(rows, np.float32).reshape(-1, 64)) for rows in (source, target)]
    left, right = (replace(own, lengths=np.array(n, int)) for own, n in zip(both, lengths, strict=True))
    return left, right, gold


def without_scores(alignments: list[Alignment]) -> list[Alignment]:
    return [replace(one, score=0.0) for one in alignments]


kinds = st.sampled_from([(1, 2), (2, 1), (3, 1), (1, 4), (1, 0), (0, 1)])
shapes = st.lists(kinds, max_size=12).map(
    lambda drawn: [(1, 1)] * 5 + [x for one in drawn for x in (one, (1, 1), (1, 1))]
)


@given(shapes, st.integers(0, 99))
def test_planted_alignments_are_found(kinds: list[tuple[int, int]], seed: int) -> None:
    source, target, gold = planted(np.random.default_rng(seed), kinds)
    found = set(without_scores(align(source, target)))
    # Sentences left alone on both sides, one after the other, have no order.
    assert found >= {one for one in gold if one.source and one.target}


@given(shapes, st.integers(0, 99))
def test_the_other_way_round(kinds: list[tuple[int, int]], seed: int) -> None:
    source, target, _ = planted(np.random.default_rng(seed), kinds)
    there, back = align(source, target), align(target, source)
    both = [(one.source, one.target) for one in there if one.source and one.target]
    assert both == [(one.target, one.source) for one in back if one.source and one.target]


def test_a_long_document_is_searched_in_a_band(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(1)
    kinds = [(1, 1), (1, 2), (2, 1), (1, 1)] * 100
    kinds[150:150] = [(0, 1)] * 60
    source, target, gold = planted(random, kinds)
    whole = align(source, target)
    monkeypatch.setattr(importlib.import_module("mexma_cli.align.align"), "_WHOLE", 1000)
    assert align(source, target) == whole
    assert without_scores(whole) == gold


def test_only_runs_in_doubt_are_asked_for_each_once() -> None:
    source, target, _ = planted(np.random.default_rng(2), [(1, 1)] * 60 + [(2, 1)] * 20)
    asked: list[tuple[int, int]] = []

    def runs(starts: np.ndarray, sizes: np.ndarray) -> np.ndarray:
        asked.extend(zip(starts.tolist(), sizes.tolist(), strict=True))
        return source.runs(starts, sizes)

    align(replace(source, runs=runs), target)
    assert len(set(asked)) == len(asked)
    assert {(start, 2) for start in range(60, 100, 2)} <= set(asked)
    assert len(asked) < 30


def test_one_sentence_against_many() -> None:
    random = np.random.default_rng(3)
    vectors = random.standard_normal((10_000, 64)).astype(np.float32)
    found = align(side(vectors[5000:5001]), side(vectors))
    covered(found, 1, 10_000)
    assert [one.target for one in found if one.source] == [range(5000, 5001)]


def test_unrelated_documents_have_low_scores() -> None:
    random = np.random.default_rng(4)
    source, target, _ = planted(random, [(1, 1)] * 80)
    other, _, _ = planted(random, [(1, 1)] * 80)
    right = [one.score for one in align(source, target)]
    wrong = [one.score for one in align(other, target) if one.source and one.target]
    assert min(right) > 0.9 > 0.5 > max(wrong, default=0)


def test_blank_sentences_are_left_alone() -> None:
    source, target, _ = planted(np.random.default_rng(5), [(1, 1)] * 10)
    source.vectors[4], source.lengths[4], target.vectors[7], target.lengths[7] = 0, 0, 0, 0
    blank = [one for one in align(source, target) if 4 in one.source or 7 in one.target]
    assert all(not one.source or not one.target for one in blank if len(one.source) + len(one.target) == 1)
    assert Alignment(range(4, 5), range(0, 0), 0.0).source in [one.source for one in blank]


@pytest.mark.parametrize("same", [True, False])
def test_page_numbers_that_face_each_other_are_aligned_only_if_they_are_alike(same: bool) -> None:
    source, target, _ = planted(np.random.default_rng(6), [(1, 1)] * 20)
    number, other = unit(np.random.default_rng(7).standard_normal((2, 64)))
    pages = [
        replace(
            side(np.insert(own.vectors, 8, found, axis=0)),
            lengths=np.insert(own.lengths, 8, 3),
            headings=np.insert(np.zeros(20, np.int8), 8, 2),
        )
        for own, found in ((source, number), (target, number if same else other))
    ]
    found = [(one.source, one.target) for one in align(*pages)]
    assert ((range(8, 9), range(8, 9)) in found) == same
    assert len(found) == 21 + (not same)


@pytest.mark.parametrize("length", [2, 12])
def test_page_numbers_and_headings_of_one_side_stay_alone(length: int) -> None:
    source, target, gold = planted(np.random.default_rng(6), [(1, 1)] * 20)
    random = np.random.default_rng(7)
    at = [5, 11, 16]

    def with_more(own: np.ndarray, extra: np.ndarray) -> np.ndarray:
        return np.insert(own, at, extra, axis=0)

    like = source.vectors[at] + 0.5 * unit(random.standard_normal((3, 64)))  # as headings are
    more = side(with_more(source.vectors, unit(like)))
    lengths, marked = with_more(source.lengths, np.full(3, length)), with_more(np.zeros(20, bool), np.ones(3))
    found = align(replace(more, lengths=lengths, headings=marked if length > 4 else None), target)
    assert [one.source.start for one in found if not one.target] == [5, 12, 18]
    assert [one.target for one in found if one.target] == [one.target for one in gold]
