from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mexma_cli.errors import MexmaError
from mexma_cli.mining.margin import margin as margin_of
from mexma_cli.settings.stages import MineSettings, ScoreSettings
from mexma_cli.stages.search import find_hits, found_pairs, lines_of, nearest_sentences, places
from mexma_cli.store.embeddings import EmbeddingStore, StorePair
from tests.reference import laser, laser_text
from tests.stores import make_store, mine


def random_vectors(rows: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((rows, 8)).astype(np.float32)


def stores(folder: Path, n: int = 20, m: int = 12) -> StorePair:
    return (
        make_store(folder / "q.emb", [f"q{row}" for row in range(n)], random_vectors(n)),
        make_store(folder / "t.emb", [f"t{row}" for row in range(m)], random_vectors(m, 1)),
    )


def lines(
    queries: EmbeddingStore,
    target: EmbeddingStore,
    settings: ScoreSettings = ScoreSettings(),
    top: int = 1,
) -> list[list[str]]:
    hits = find_hits(queries, target, settings, top=top)
    found = found_pairs(queries, target, hits, places(target))
    return [line[:-1].split("\t") for (line,), _ in lines_of(found)]


@pytest.fixture(scope="module")
def laser_stores(tmp_path_factory: pytest.TempPathFactory) -> StorePair:
    folder = tmp_path_factory.mktemp("laser")
    source, target = (
        make_store(folder / f"{side}.emb", laser_text(side), laser()[side], rows_per_shard=1 << 13)
        for side in ("src", "tgt")
    )
    return source, target


@pytest.mark.parametrize("k", [4, 16])
@pytest.mark.parametrize("kind", ["ratio", "distance", "absolute"])
def test_finds_what_laser_finds(kind: str, k: int, laser_stores: StorePair) -> None:
    ours = lines(*laser_stores, ScoreSettings(margin=kind, k=k))
    theirs = [f"t-{row}" for row in laser()[f"search.max.{kind}.k{k}.rows"][:, 0]]
    assert [row[2] for row in ours] == theirs
    assert [row[1] for row in ours] == list(laser_stores[0].sentences())


@pytest.fixture(scope="module")
def random_stores(tmp_path_factory: pytest.TempPathFactory) -> StorePair:
    return stores(tmp_path_factory.mktemp("random"))


@given(top=st.integers(1, 14), k=st.integers(1, 14), kind=st.sampled_from(["ratio", "distance", "absolute"]))
def test_hits_are_the_best_by_margin_of_the_nearest(
    random_stores: StorePair, top: int, k: int, kind: str
) -> None:
    hits = find_hits(*random_stores, ScoreSettings(margin=kind, k=k), top=top)
    x, y = (
        side / np.linalg.norm(side, axis=1, keepdims=True)
        for side in (random_vectors(20), random_vectors(12, 1))
    )
    cosines = (x @ y.T).astype(np.float32)
    forward, backward = (np.sort(-side, axis=1)[:, :k].mean(axis=1) * -1 for side in (cosines, cosines.T))
    margins = margin_of(cosines, forward[:, None], backward[None], kind)
    nearest_rows = np.argsort(-cosines, axis=1)[:, : max(k, top)]
    assert hits.rows.shape == (20, min(top, 12)) and hits.without == 0
    for row, (found, scores) in enumerate(zip(hits.rows, hits.scores, strict=True)):
        among = nearest_rows[row]
        best = among[np.argsort(-margins[row, among])][:top]
        assert found.tolist() == best.tolist()
        assert scores == pytest.approx(margins[row, best], rel=1e-4, abs=1e-4)


def test_the_best_are_the_forward_pairs_of_mine(tmp_path: Path) -> None:
    sides = stores(tmp_path)
    found = mine(*sides, MineSettings(retrieval="forward")).candidates
    hits = find_hits(*sides)
    order = np.argsort(found.source)
    assert hits.rows[:, 0].tolist() == found.target[order].tolist()
    assert np.array_equal(hits.scores[:, 0], found.scores[order])


def test_every_query_has_its_line(tmp_path: Path) -> None:
    """Repeated queries are answered each by its own vector; those that cannot be, in their place."""
    x = random_vectors(6)
    x[3] = 0
    x[5] = x[0]
    queries = make_store(tmp_path / "q.emb", ["same", "same", " ", "zero", "tab\there", "same"], x)
    target = make_store(
        tmp_path / "t.emb", ["A", "B", "A", "", "C"], np.concatenate([x[[4, 1, 0, 2]], x[:1] * -1])
    )
    for kind in ("absolute", "ratio"):
        found = lines(queries, target, ScoreSettings(margin=kind, k=2))
        assert [row[1] for row in found] == ["same", "same", " ", "zero", "tab here", "same"]
        assert [row[2] for row in found][:4] == ["A", "B", "", ""]
        assert found[0] == found[5] and found[0][4:] == ["3", "t"]  # of equal lines the last
        assert [row[0] == "nan" for row in found] == [False, False, True, True, False, False]
    several = lines(queries, target, ScoreSettings(margin="absolute"), top=5)
    assert [row[3] for row in several] == [*"123", *"123", "0", "0", *"123", *"123"]
    assert {row[2] for row in several[:3]} == {"A", "B", "C"}  # A once, and never the empty line
    assert find_hits(queries, target).without == 2
    one = make_store(tmp_path / "one.emb", ["A"], x[:1])
    assert [row[3] for row in lines(queries, one, top=5)] == ["1", "1", "0", "0", "1", "1"]


NOTHING = [["nan", query, "", "0", "0", ""] for query in "ab"]


def test_nothing_to_search_in(tmp_path: Path) -> None:
    queries = make_store(tmp_path / "q.emb", ["a", "b"], random_vectors(2))
    target = make_store(tmp_path / "t.emb", ["", " "], random_vectors(2))
    assert lines(queries, target) == NOTHING
    assert nearest_sentences(target, random_vectors(1)[0], 3) == []
    without_rows = make_store(tmp_path / "e.emb", [], random_vectors(0))
    assert lines(queries, without_rows) == NOTHING
    assert nearest_sentences(without_rows, random_vectors(1)[0], 3) == []


def test_refuses_another_encoder(tmp_path: Path) -> None:
    queries, _ = stores(tmp_path)
    with pytest.raises(MexmaError, match="different encoders"):
        find_hits(queries, make_store(tmp_path / "o.emb", ["a"], random_vectors(1), fingerprint="other"))


@given(
    texts=st.lists(st.sampled_from(["a", "b", "c", "d", "e", "f", " "]), min_size=1, max_size=30),
    top=st.integers(1, 8),
    seed=st.integers(0, 99),
)
def test_nearest_are_the_different_sentences_with_the_highest_cosines(
    texts: list[str], top: int, seed: int
) -> None:
    vectors = random_vectors(len(texts), seed)
    vectors[len(texts) // 2] = 0
    query = random_vectors(1, seed + 100)[0]
    norms = np.linalg.norm(vectors, axis=1) * np.linalg.norm(query)
    cosines = {}
    for text, vector, norm in zip(texts, vectors, norms, strict=True):
        if text.strip() and norm:
            cosines[text] = max(cosines.get(text, -1.0), float(vector @ query / norm))
    wanted = sorted(((cosine, text) for text, cosine in cosines.items()), reverse=True)[:top]
    with tempfile.TemporaryDirectory() as folder:
        found = nearest_sentences(make_store(Path(folder) / "t.emb", texts, vectors), query, top)
    assert [text for _, text, _ in found] == [text for _, text in wanted]
    assert all(texts[row] == text for _, text, row in found)
    assert [score for score, _, _ in found] == pytest.approx([score for score, _ in wanted], abs=1e-5)
