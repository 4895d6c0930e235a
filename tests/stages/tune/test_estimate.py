from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from mexma_cli.errors import MexmaError
from mexma_cli.knn.exact import knn
from mexma_cli.mining import lists, ranked
from mexma_cli.mining.lists import sides_of, without_pairs
from mexma_cli.mining.match import match
from mexma_cli.settings.stages import MineSettings
from mexma_cli.stages.knn.row_filter import RowCounts
from mexma_cli.stages.mine.documents import read_documents
from mexma_cli.stages.mine.mine import KnownLists, mine
from mexma_cli.stages.tune.estimate import estimate, mine_twice, mine_twice_with
from mexma_cli.stages.tune.planted import Chained, Comparison, Planted
from mexma_cli.store.embeddings import EmbeddingStore, StorePair
from tests.stores import make_store

DIM, OWN, LINES, KNOWN = 12, 100, 300, 60
Text = dict[str, tuple[list[str], np.ndarray]]


@pytest.fixture
def text() -> Text:
    """300 lines a side, 100 of them translations, and 60 known translations, all with noise."""
    rng = np.random.default_rng(0)

    def pairs(count: int) -> tuple[np.ndarray, np.ndarray]:
        vectors = rng.standard_normal((count, DIM)).astype(np.float32)
        return vectors, vectors + 0.5 * rng.standard_normal((count, DIM)).astype(np.float32)

    (own_s, own_t), (known_s, known_t) = pairs(OWN), pairs(KNOWN)
    noise_s, noise_t = pairs(LINES - OWN)[0], pairs(LINES - OWN)[0]
    return {
        "s": ([f"s{i}" for i in range(LINES)], np.concatenate([own_s, noise_s])),
        "t": ([f"t{i}" for i in range(LINES)], np.concatenate([own_t, noise_t])),
        "ks": ([f"ks{i}" for i in range(KNOWN)], known_s),
        "kt": ([f"kt{i}" for i in range(KNOWN)], known_t),
    }


def stores(folder: Path, text: Text) -> tuple[EmbeddingStore, EmbeddingStore, StorePair]:
    """The texts and the known translations."""
    s, t, ks, kt = (make_store(folder / f"{name}.emb", *text[name]) for name in ("s", "t", "ks", "kt"))
    return s, t, (ks, kt)


def nearest(source: EmbeddingStore, target: EmbeddingStore) -> KnownLists:
    """The five of every row."""
    counts = [RowCounts(store.rows, 0, 0, 0) for store in (source, target)]
    return KnownLists(sides_of(knn(source, target, 5)), (counts[0], counts[1]))


@pytest.mark.parametrize("name", ["s", "t", "ks", "kt"])
def test_a_store_that_is_made_anew_meanwhile_is_refused(name: str, tmp_path: Path, text: Text) -> None:
    source, target, known = stores(tmp_path, text)

    def overwrite(done: int, total: int) -> None:
        shutil.rmtree(tmp_path / f"{name}.emb")
        make_store(tmp_path / f"{name}.emb", text[name][0], -text[name][1])

    with pytest.raises(MexmaError, match=rf"/{name}\.emb was made anew while it was read"):
        mine_twice(source, target, MineSettings(), known=known, on_progress=overwrite)


@pytest.mark.parametrize(
    ("retrieval", "margin", "k"),
    [("max", "ratio", 4), ("intersect", "distance", 2), ("forward", "absolute", 3)],
)
def test_is_mining_both_together(tmp_path: Path, text: Text, retrieval: str, margin: str, k: int) -> None:
    source, target, known = stores(tmp_path, text)
    rounds = mine_twice(source, target, MineSettings(margin=margin, k=k, retrieval=retrieval), known=known)
    both = [np.concatenate([text[own][1], text[more][1]]) for own, more in (("s", "ks"), ("t", "kt"))]
    near = knn(*both, k + 1)
    mined = match(near.first(k), margin, retrieval)
    again = match(without_pairs(near, mined, k), margin, retrieval)
    for found, wanted in ((rounds.pairs.scores, mined), (rounds.second.scores, again)):
        own = (wanted.source < LINES) & (wanted.target < LINES)
        assert found.tolist() == wanted.scores[own].tolist()
    right = (mined.source >= LINES) & (mined.source == mined.target)
    assert rounds.planted is not None and rounds.planted.scores.tolist() == mined.scores[right].tolist()
    assert (rounds.planted.pairs, rounds.planted.empty, rounds.planted.repeated) == (KNOWN, 0, 0)


@pytest.mark.parametrize(
    ("retrieval", "rows"), [pytest.param("max", 7, marks=pytest.mark.slow), ("intersect", 64)]
)
def test_with_known_neighbours_in_blocks_it_is_the_same(
    tmp_path: Path, text: Text, retrieval: str, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lists, "BLOCK_ROWS", rows)
    monkeypatch.setattr(ranked, "_AT_ONCE", rows)
    source, target, known = stores(tmp_path, text)
    near = nearest(source, target)
    settings = MineSettings(retrieval=retrieval)
    for planted in (None, known):
        wanted = mine_twice(source, target, settings, known=planted)
        found = mine_twice_with((source, target), near, settings, known=planted)
        for one, other in ((found.pairs, wanted.pairs), (found.second, wanted.second)):
            assert one.scores.tolist() == other.scores.tolist()
            assert one.target.tolist() == other.target.tolist()
        assert (found.rows, found.planted is None) == (wanted.rows, wanted.planted is None)
        assert estimate(found, found.model()).best == estimate(wanted, wanted.model()).best
        if found.planted is not None and wanted.planted is not None:
            assert found.planted.scores.tolist() == wanted.planted.scores.tolist()


def test_known_translations_that_are_lines_of_the_texts_are_left_out(tmp_path: Path, text: Text) -> None:
    text["ks"][0][:7] = text["s"][0][10:17]
    source, target, known = stores(tmp_path, text)
    near = nearest(source, target)
    planted = mine_twice_with((source, target), near, MineSettings(), known=known).planted
    assert planted is not None and (planted.pairs, planted.repeated) == (KNOWN - 7, 7)
    text["ks"][0][:] = text["s"][0][:KNOWN]
    known = make_store(tmp_path / "all.emb", *text["ks"]), known[1]
    with pytest.raises(MexmaError, match="all of its pairs are lines of the texts"):
        mine_twice_with((source, target), near, MineSettings(), known=known)


def test_without_planted_pairs_it_is_mining_with_its_filters(tmp_path: Path, text: Text) -> None:
    text["t"][0][:10] = text["s"][0][:10]
    source, target, _ = stores(tmp_path, text)
    settings = MineSettings(drop_copies=True, max_score=1.25)
    rounds, mined = mine_twice(source, target, settings), mine(source, target, settings)
    assert rounds.pairs.scores.tolist() == mined.candidates.scores.tolist() and rounds.planted is None
    assert rounds.pairs.scores.max() <= 1.25 and rounds.second.scores.max() <= 1.25
    assert mined.dropped["max-score"] and sum(mined.dropped.values()) > mined.dropped["max-score"]


def test_within_documents_it_is_mining_there(tmp_path: Path, text: Text) -> None:
    source, target, known = stores(tmp_path, text)
    for name in ("s", "t"):
        (tmp_path / f"{name}.docs").write_text("".join(f"{n // 50}\n" for n in range(LINES)))
    documents = read_documents(tmp_path / "s.docs", tmp_path / "t.docs")
    rounds = mine_twice(source, target, MineSettings(), documents=documents)
    mined = mine(source, target, MineSettings(), documents=documents).candidates
    assert rounds.pairs.scores.tolist() == mined.scores.tolist()
    assert (rounds.pairs.source // 50 == rounds.pairs.target // 50).all()
    planted = mine_twice(source, target, MineSettings(), known=known, documents=documents).planted
    assert planted is not None and len(planted.scores) > 0.9 * KNOWN


def test_the_estimate_is_near_what_is_there(tmp_path: Path, text: Text) -> None:
    source, target, known = stores(tmp_path, text)
    rounds = mine_twice(source, target, MineSettings(), known=known)
    found = estimate(rounds, rounds.model(), 0.9)
    above = rounds.pairs.take(rounds.pairs.scores > found.best.threshold)
    right = (above.source == above.target) & (above.source < OWN)
    low, high = found.best.precision_interval
    assert low <= right.mean() <= high and found.best.precision >= 0.9 and found.best in found.steps
    assert found.planted is not None and not found.unlike
    assert found.best.recall == pytest.approx(found.planted.recall(found.best.threshold))
    assert found.recall_interval is not None
    low, high = found.recall_interval
    assert low < found.best.recall < high and low <= right.sum() / OWN <= high


def test_planted_pairs_that_are_nearer_than_the_texts_are_called_unlike(tmp_path: Path, text: Text) -> None:
    nearer = text["ks"][1] + 0.02 * np.random.default_rng(3).standard_normal((KNOWN, DIM))
    source, target, known = stores(tmp_path, text | {"kt": (text["kt"][0], nearer.astype(np.float32))})
    rounds = mine_twice(source, target, MineSettings(), known=known)
    found = estimate(rounds, rounds.model())
    assert found.unlike and found.planted is not None
    assert found.planted.recall(found.best.threshold) == 1  # and not the text's recall
    assert found.best == rounds.model().cut(found.best.threshold)


def test_recalls_interval_grows_with_all_that_is_not_known() -> None:
    planted = Planted(np.linspace(2, 1, 80), 100, 0, 0, (0, 0))
    assert planted.recall(0.5) == 0.8 and planted.recall(2.5) == 0

    def interval(shift: float, error: float, translations: float) -> tuple[float, float]:
        return Comparison(False, shift, error).recall_interval(planted, 0.5, translations)

    low, high = interval(0, 0.1, 1000)
    assert 0.4 < low < 0.5 and 0.92 < high < 0.97
    for wider in (interval(0, 0.1, 50), interval(0, 0.3, 1000)):
        assert wider[0] < low and high < wider[1]
    assert interval(0.2, 0.1, 1000) == (low, pytest.approx(1 / (1 + (1 / high - 1) * np.exp(-0.8))))
    assert interval(-0.2, 0.1, 1000)[0] < low - 0.1 and interval(-0.2, 0.1, 1000)[1] == high


def test_copies_repeats_and_empty_lines_take_no_part(tmp_path: Path, text: Text) -> None:
    source, target, known = stores(tmp_path / "clean", text)
    wanted = mine_twice(source, target, MineSettings(), known=known)

    def with_more(name: str, lines: list[str], vectors: np.ndarray) -> tuple[list[str], np.ndarray]:
        return text[name][0] + lines, np.concatenate([text[name][1], vectors])

    some = np.ones((2, DIM), np.float32)
    dirty = {
        "s": with_more("s", ["ks5", "ks5"], text["ks"][1][[5, 5]]),  # copies, one of them twice
        "t": with_more("t", ["kt7", ""], np.concatenate([text["kt"][1][7:8], some[:1]])),
        "ks": with_more("ks", ["new", "ks3", " ", "zero"], np.concatenate([some, some[:1], 0 * some[:1]])),
        "kt": with_more("kt", ["kt1", "other", "full", "vector"], np.concatenate([some, some])),
    }
    source, target, known = stores(tmp_path / "dirty", dirty)
    found = mine_twice(source, target, MineSettings(), known=known)
    assert found.planted is not None and wanted.planted is not None
    # Of the copies of a line in SOURCE one is a repeated line anyway.
    assert (found.planted.copies, found.planted.repeated, found.planted.empty) == ((2, 1), 2, 2)
    assert found.planted.pairs == KNOWN
    assert found.planted.scores.tolist() == wanted.planted.scores.tolist()
    assert found.pairs.scores.tolist() == wanted.pairs.scores.tolist()


def test_chained_sources_read_as_one(tmp_path: Path) -> None:
    rows = np.arange(10, dtype=np.float32)[:, None] + np.zeros((1, 3), np.float32)
    first = make_store(tmp_path / "a.emb", list("abcdef"), rows[:6])
    second = make_store(tmp_path / "b.emb", list("ghij"), rows[6:])
    chained = Chained(first, second)
    assert (chained.rows, chained.dim) == (10, 3)
    for start in range(11):
        for stop in range(start, 11):
            assert chained.vectors(start, stop).tolist() == rows[start:stop].tolist()


class TestBadInput:
    def fails(self, message: str, folder: Path, text: Text) -> None:
        source, target, known = stores(folder, text)
        with pytest.raises(MexmaError, match=message):
            mine_twice(source, target, MineSettings(), known=known).model()

    def test_lengths(self, tmp_path: Path, text: Text) -> None:
        text["kt"] = (text["kt"][0][:-1], text["kt"][1][:-1])
        self.fails("ks has 60 lines, kt has 59", tmp_path, text)

    def test_encoders(self, tmp_path: Path, text: Text) -> None:
        source, target, known = stores(tmp_path, text)
        other = make_store(tmp_path / "other.emb", *text["kt"], fingerprint="g")
        with pytest.raises(MexmaError, match="different encoders"):
            mine_twice(source, target, MineSettings(), known=(known[0], other))

    def test_nothing_left(self, tmp_path: Path, text: Text) -> None:
        self.fails("^s: nothing is left beside the planted", tmp_path / "a", text | {"s": text["ks"]})
        blank = [""] * KNOWN, text["ks"][1]
        self.fails("ks: no pair to plant", tmp_path / "b", text | {"ks": blank})
        nothing: tuple[list[str], np.ndarray] = [], text["ks"][1][:0]
        self.fails("ks: no pair to plant", tmp_path / "c", text | {"ks": nothing, "kt": nothing})

    def test_few_pairs(self, tmp_path: Path, text: Text) -> None:
        few = {name: (text[name][0][:40], text[name][1][:40]) for name in ("s", "t")}
        self.fails("pairs are too few to estimate a threshold from: 100 are the least", tmp_path, text | few)
