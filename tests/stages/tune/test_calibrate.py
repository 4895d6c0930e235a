from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from mexma_cli.errors import MexmaError
from mexma_cli.knn.exact import knn
from mexma_cli.mining.match import match
from mexma_cli.stages.tune.calibrate import _Chained, calibrate
from mexma_cli.store.embeddings import EmbeddingStore, StorePair
from tests.stores import make_store

DIM = 12
Text = dict[str, tuple[list[str], np.ndarray]]
"""Lines and their vectors, by the names of stores."""


@pytest.fixture
def text() -> Text:
    """120 lines a side, 40 of them translations, and 60 known translations, all with noise."""
    rng = np.random.default_rng(0)

    def pairs(count: int) -> tuple[np.ndarray, np.ndarray]:
        vectors = rng.standard_normal((count, DIM)).astype(np.float32)
        return vectors, vectors + 0.5 * rng.standard_normal((count, DIM)).astype(np.float32)

    (own_s, own_t), (known_s, known_t) = pairs(40), pairs(60)
    noise_s, noise_t = pairs(80)[0], pairs(80)[0]
    return {
        "s": ([f"s{i}" for i in range(120)], np.concatenate([own_s, noise_s])),
        "t": ([f"t{i}" for i in range(120)], np.concatenate([own_t, noise_t])),
        "ks": ([f"ks{i}" for i in range(60)], known_s),
        "kt": ([f"kt{i}" for i in range(60)], known_t),
    }


StorePair = tuple[EmbeddingStore, EmbeddingStore, StorePair]


def stores(folder: Path, text: Text) -> StorePair:
    """The arguments of `calibrate`."""
    s, t, ks, kt = (make_store(folder / f"{name}.emb", *text[name]) for name in ("s", "t", "ks", "kt"))
    return s, t, (ks, kt)


@pytest.mark.parametrize("name", ["s", "t", "ks", "kt"])
def test_a_store_that_is_made_anew_meanwhile_is_not_mixed_with_the_one_before(
    name: str, tmp_path: Path, text: Text
) -> None:
    opened = stores(tmp_path, text)

    def overwrite(done: int, total: int) -> None:
        shutil.rmtree(tmp_path / f"{name}.emb")
        make_store(tmp_path / f"{name}.emb", text[name][0], -text[name][1])

    with pytest.raises(MexmaError, match=rf"/{name}\.emb was made anew while it was read"):
        calibrate(*opened, on_progress=overwrite)


def test_is_mining_both_together(tmp_path: Path, text: Text) -> None:
    for retrieval, margin, k in (
        ("max", "ratio", 4),
        ("intersect", "distance", 2),
        ("forward", "absolute", 3),
    ):
        found = calibrate(*stores(tmp_path / retrieval, text), retrieval=retrieval, margin=margin, k=k)
        both = [np.concatenate([text[own][1], text[known][1]]) for own, known in (("s", "ks"), ("t", "kt"))]
        mined = match(knn(*both, k), margin, retrieval)
        kinds: dict[str, list[float]] = {"right": [], "wrong": [], "others": []}
        for score, source, target in zip(mined.scores.tolist(), mined.source, mined.target, strict=True):
            planted = source >= 120 or target >= 120
            kinds["others" if not planted else "right" if source == target else "wrong"].append(score)
        assert all(kinds.values())
        for name, scores in kinds.items():
            assert getattr(found.scores, name).tolist() == scores
        assert (found.empty, found.repeated, found.copies, found.best.planted) == (0, 0, (0, 0), 60)
        for cut in found.steps:
            assert cut.found == sum(score > cut.threshold for score in kinds["right"])
            assert cut.wrong == sum(score > cut.threshold for score in kinds["wrong"])
            assert cut.others == sum(score > cut.threshold for score in kinds["others"])
        assert found.best in found.steps
        assert [cut.threshold for cut in found.steps] == sorted(
            (c.threshold for c in found.steps), reverse=True
        )
        assert found.steps[-1].found == len(kinds["right"])


def test_the_estimate_is_near_what_is_there(tmp_path: Path, text: Text) -> None:
    found = calibrate(*stores(tmp_path, text))
    assert 25 <= found.best.translations <= 60  # 40
    assert found.best.f1 > 0.6 and found.intervals.f1[0] < found.best.f1 < found.intervals.f1[1]
    precise = calibrate(*stores(tmp_path / "again", text), precision=0.9)
    assert precise.best.precision >= 0.9 and precise.best.threshold >= found.best.threshold
    with pytest.raises(MexmaError, match="no threshold has a precision"):
        crossed = text | {"kt": (text["kt"][0], np.concatenate([text["kt"][1][:30], text["kt"][1][:29:-1]]))}
        calibrate(*stores(tmp_path / "crossed", crossed), precision=1.0)


def test_copies_repeats_and_empty_lines_take_no_part(tmp_path: Path, text: Text) -> None:
    wanted = calibrate(*stores(tmp_path / "clean", text)).scores

    def with_more(name: str, lines: list[str], vectors: np.ndarray) -> tuple[list[str], np.ndarray]:
        return text[name][0] + lines, np.concatenate([text[name][1], vectors])

    some = np.ones((2, DIM), np.float32)
    dirty = {
        "s": with_more("s", ["ks5", "ks5"], text["ks"][1][[5, 5]]),  # copies, one of them twice
        "t": with_more("t", ["kt7", ""], np.concatenate([text["kt"][1][7:8], some[:1]])),
        "ks": with_more("ks", ["new", "ks3", " ", "zero"], np.concatenate([some, some[:1], 0 * some[:1]])),
        "kt": with_more("kt", ["kt1", "other", "full", "vector"], np.concatenate([some, some])),
    }
    found = calibrate(*stores(tmp_path / "dirty", dirty))
    assert (found.copies, found.repeated, found.empty, found.best.planted) == ((2, 1), 2, 2, 60)
    for name in ("right", "wrong", "others", "right_of", "wrong_of"):
        assert getattr(found.scores, name).tolist() == getattr(wanted, name).tolist()


def test_chained_sources_read_as_one(tmp_path: Path) -> None:
    rows = np.arange(10, dtype=np.float32)[:, None] + np.zeros((1, 3), np.float32)
    first = make_store(tmp_path / "a.emb", list("abcdef"), rows[:6])
    second = make_store(tmp_path / "b.emb", list("ghij"), rows[6:])
    chained = _Chained(first, second)
    assert (chained.rows, chained.dim) == (10, 3)
    for start in range(11):
        for stop in range(start, 11):
            assert chained.vectors(start, stop).tolist() == rows[start:stop].tolist()


class TestBadInput:
    def test_lengths(self, tmp_path: Path, text: Text) -> None:
        text["kt"] = (text["kt"][0][:-1], text["kt"][1][:-1])
        with pytest.raises(MexmaError, match="ks has 60 lines, kt has 59"):
            calibrate(*stores(tmp_path, text))

    def test_encoders(self, tmp_path: Path, text: Text) -> None:
        opened = stores(tmp_path, text)
        other = make_store(tmp_path / "other.emb", *text["kt"], fingerprint="g")
        with pytest.raises(MexmaError, match="different encoders"):
            calibrate(*opened[:2], (opened[2][0], other))

    def test_nothing_left(self, tmp_path: Path, text: Text) -> None:
        with pytest.raises(MexmaError, match=r"^s: nothing is left beside the planted sentences"):
            calibrate(*stores(tmp_path / "a", text | {"s": text["ks"]}))
        blank = [""] * 60, text["ks"][1]
        with pytest.raises(MexmaError, match="ks: no pair to plant"):
            calibrate(*stores(tmp_path / "b", text | {"ks": blank}))
        nothing: tuple[list[str], np.ndarray] = [], text["ks"][1][:0]
        with pytest.raises(MexmaError, match="ks: no pair to plant"):
            calibrate(*stores(tmp_path / "c", text | {"ks": nothing, "kt": nothing}))

    def test_no_translations(self, tmp_path: Path, text: Text) -> None:
        rng = np.random.default_rng(1)
        far = {"ks": -10 + rng.standard_normal((60, DIM)), "kt": 10 + rng.standard_normal((60, DIM))}
        with pytest.raises(MexmaError, match="planted pairs came back"):
            calibrate(*stores(tmp_path, text | {name: (text[name][0], v) for name, v in far.items()}))
