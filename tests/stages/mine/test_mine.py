from __future__ import annotations

from pathlib import Path
from shutil import copytree

import numpy as np
import pytest

import mexma_cli
from mexma_cli.errors import MexmaError
from mexma_cli.knn.exact import knn
from mexma_cli.settings.stages import MineSettings
from mexma_cli.stages.knn.row_filter import KeptRows
from mexma_cli.stages.knn.search import SearchResult
from mexma_cli.stages.mine.documents import DocumentFiles
from mexma_cli.stages.mine.mine import Mined
from mexma_cli.store.embeddings import EmbeddingStore, StorePair
from tests.command import write
from tests.stores import make_store, mine


def vectors_of(sentences: list[str]) -> np.ndarray:
    """Equal words have equal vectors whatever their case: `a` translates to `A`."""
    return np.stack(
        [np.random.default_rng(list(s.lower().encode())).standard_normal(16) for s in sentences]
    ).astype(np.float32)


def stores(tmp_path: Path, source: list[str], target: list[str]) -> StorePair:
    return (
        make_store(tmp_path / "s.emb", source, vectors_of(source)),
        make_store(tmp_path / "t.emb", target, vectors_of(target)),
    )


def sentences(found: Mined) -> list[tuple[str, str]]:
    return sorted((pair.source, pair.target) for pair in found)


def test_finds_the_translations_and_their_text(tmp_path: Path) -> None:
    source = ["one", "two", "three", "four", "five", "six", "seven"]
    found = mine(
        *stores(tmp_path, source, ["SEVEN", "FOUR", "ONE", "nine", "ten"]),
        MineSettings(margin="absolute", threshold=0.9),
    )
    assert sentences(found) == [("four", "FOUR"), ("one", "ONE"), ("seven", "SEVEN")]
    scores = [pair.score for pair in found]
    assert scores == sorted(found.candidates.scores.tolist(), reverse=True)
    for pair in found:
        assert source[pair.source_line - 1] == pair.source
        assert ["SEVEN", "FOUR", "ONE"][pair.target_line - 1] == pair.target


def test_duplicates_count_once_and_empty_lines_never(tmp_path: Path) -> None:
    source = ["a", "", "b", "a", " ", "c", "a"]
    target = ["", "A", "A", "B", "C", "\t"]
    found = mine(*stores(tmp_path, source, target))
    assert sentences(found) == [("a", "A"), ("b", "B"), ("c", "C")]
    assert (found.source.rows, found.source.duplicates, found.source.empty) == (7, 2, 2)
    assert (found.target.rows, found.target.duplicates, found.target.empty) == (6, 1, 2)
    clean = stores(tmp_path / "clean", ["b", "c", "a"], ["A", "B", "C"])
    assert sorted(p[:3] for p in mine(*clean)) == sorted(p[:3] for p in found)  # nor in neighbourhoods


def test_one_text_cleaned_and_the_other_not(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    plain, cleaned = (
        make_store(tmp_path / f"{name}.emb", ["a"], vectors_of(["a"]), clean=name == "cleaned")
        for name in ("plain", "cleaned")
    )
    for stores_ in ((plain, cleaned), (cleaned, plain)):
        mine(*stores_)
        said = f"{cleaned.path} was embedded with --clean and {plain.path} was not"
        assert caplog.text.count(said) == 1
        caplog.clear()
    mine(cleaned, cleaned)
    assert "--clean" not in caplog.text


def test_of_duplicates_the_last_vector_counts_as_in_laser(tmp_path: Path) -> None:
    vectors = vectors_of(["x", "b", "a"])
    source = make_store(tmp_path / "s.emb", ["a", "b", "a"], vectors)
    target = make_store(tmp_path / "t.emb", ["A", "B", "X"], vectors_of(["A", "B", "X"]))
    found = mine(source, target, MineSettings(margin="absolute", threshold=0.9))
    assert sentences(found) == [("a", "A"), ("b", "B")]


def test_vectors_without_a_direction_are_left_out_and_counted(tmp_path: Path) -> None:
    vectors = vectors_of(["a", "b", "c"])
    vectors[1] = 0
    source = make_store(tmp_path / "s.emb", ["a", "b", "c"], vectors)
    found = mine(source, make_store(tmp_path / "t.emb", ["A", "B", "C"], vectors_of(["A", "B", "C"])))
    assert found.source.unusable == 1 and found.target.unusable == 0
    assert {source for source, _ in sentences(found)} == {"a", "c"}
    assert not np.isnan(found.candidates.scores).any()


def test_a_side_of_empty_lines_gives_no_pairs(tmp_path: Path) -> None:
    found = mine(*stores(tmp_path, ["", " "], ["A", "B"]))
    assert list(found) == [] and found.source.empty == 2


def test_refuses_different_encoders_and_dimensions(tmp_path: Path) -> None:
    words = ["a", "b"]
    plain = make_store(tmp_path / "a.emb", words, vectors_of(words))
    other = make_store(tmp_path / "b.emb", words, vectors_of(words), encoder="LaBSE", fingerprint="g")
    narrow = make_store(tmp_path / "c.emb", words, vectors_of(words)[:, :8])
    with pytest.raises(
        MexmaError, match=r"different encoders: test for .*a\.emb, LaBSE for .*b\.emb"
    ) as error:
        mine(plain, other)
    assert error.value.hint is not None and "--model" in error.value.hint
    with pytest.raises(MexmaError, match=r"a\.emb has 16, .*c\.emb has 8"):
        mine(plain, narrow)


def test_thresholds_top_and_copies_are_counted_by_reason(tmp_path: Path) -> None:
    source = ["one", "two", "Three!", "four", "five"]
    both = stores(tmp_path, source, ["ONE", "two", "Three?", "FOUR", "other"])
    everything = mine(*both, MineSettings(margin="absolute", retrieval="forward"))
    assert everything.found == 5 and everything.dropped == {}
    scores = [pair.score for pair in everything]

    found = mine(*both, MineSettings(margin="absolute", retrieval="forward", threshold=scores[-1]))
    assert found.dropped == {"threshold": 1} and found.found == 5
    found = mine(*both, MineSettings(margin="absolute", retrieval="forward", max_score=scores[-1]))
    assert found.dropped == {"max-score": 4} and [p.score for p in found] == scores[-1:]
    found = mine(*both, MineSettings(margin="absolute", retrieval="forward", top=2))
    assert found.dropped == {"top": 3} and [p.score for p in found] == scores[:2]


def test_copies_are_dropped_before_the_best_are_counted(tmp_path: Path) -> None:
    vectors = np.eye(5, dtype=np.float32)
    source = ["On y va.", "IBM", "Version 1.2", "Le chat dort.", "Oui"]
    target = ["Let us go.", "IBM", "version 2.0!", "The cat is asleep.", "Yes"]
    both = [make_store(tmp_path / f"{i}.emb", side, vectors) for i, side in enumerate((source, target))]
    found = mine(*both, MineSettings(margin="absolute", drop_copies=True, top=2))
    assert found.dropped == {"identical": 1, "near-identical": 1, "top": 1} and found.found == 5
    assert [pair[1:3] for pair in found] == [(source[i], target[i]) for i in (0, 3)]
    assert len(mine(*both, MineSettings(margin="absolute")).candidates) == 5


def test_ids_are_lines_ranks_and_means(tmp_path: Path) -> None:
    both = stores(tmp_path, ["x", "one", "", "two"], ["TWO", "ONE", "Y", "one more"])
    found = mine(*both, MineSettings(k=3), with_ids=True)
    assert {"one", "two"} <= {pair.source for pair in found}
    for pair in found:
        assert pair.score == pytest.approx(
            pair.cosine / ((pair.source_mean + pair.target_mean) / 2), rel=1e-6
        )
        if pair.source in ("one", "two"):
            assert pair.target == pair.source.upper() and pair.cosine == pytest.approx(1)
            assert (pair.source_rank, pair.target_rank) == (1, 1)
            assert (pair.source_line, pair.target_line) == ((2, 2) if pair.source == "one" else (4, 1))


def test_known_neighbours_give_the_same_pairs(tmp_path: Path) -> None:
    both = stores(tmp_path, ["a", "b", "", "c", "a"], ["C", "A", "B", "d"])
    rows = KeptRows.of(both)
    known = knn(*both, 4, keep_x=rows.keep[0], keep_y=rows.keep[1])
    found = mine(*both, neighbours=SearchResult(known, rows.counts, "IVF1", 0.5))
    assert found.how == {"index": "IVF1", "recall": 0.5}
    assert list(found) == list(mine(*both))


def test_a_store_that_is_made_anew_with_the_same_content_is_the_same(tmp_path: Path) -> None:
    both = stores(tmp_path, ["a", "b"], ["A", "B"])

    def overwrite(done: int, total: int) -> None:
        make_store(tmp_path / "t.emb", ["A", "B"], vectors_of(["A", "B"]), overwrite=True)

    assert ("a", "A") in sentences(mine(*both, on_progress=overwrite))


def test_two_stores_of_one_text_are_warned_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    source, target = stores(tmp_path, ["a", "b"], ["A", "B"])
    mine(source, target)
    mine(source, source)  # pairs within a text are what is asked for
    assert "of the same text" not in caplog.text
    copytree(source.path, tmp_path / "copy.emb")
    mine(source, EmbeddingStore.open(tmp_path / "copy.emb"))
    assert "copy.emb are of the same text" in caplog.text
    caplog.clear()
    texts = [write(tmp_path / name, "Good morning.", "Good night.") for name in ("a.txt", "b.txt")]
    mexma_cli.mine(*texts, encoder="mini", score="margin")
    assert f"{texts[0]} and {texts[1]} are of the same text" in caplog.text


def test_duplicates_count_once_in_each_document(tmp_path: Path) -> None:
    """50 lines of a document with 200 translations recur in another, whose translations are elsewhere."""
    source = [f"line {n}" for n in range(200)] + [f"line {n}" for n in range(50)] + ["alone"]
    target = [f"LINE {n}" for n in range(200)] + ["other"]
    lines = {"s": ["a"] * 200 + ["b"] * 51, "t": ["a"] * 200 + ["b"]}
    for name, ids in lines.items():
        (tmp_path / f"{name}.docs").write_text("\n".join(ids) + "\n")
    documents = DocumentFiles(tmp_path / "s.docs", tmp_path / "t.docs")
    both = stores(tmp_path, source, target)
    settings = MineSettings(threshold=1.2)
    within, anywhere = (mine(*both, settings, with_ids=True, documents=one) for one in (documents, None))
    true = sorted((f"line {n}", f"LINE {n}") for n in range(200))
    assert sentences(within) == true == sentences(anywhere)
    assert max(pair.source_line for pair in within) == 200  # those of the paired document
    assert (within.source.duplicates, anywhere.source.duplicates) == (0, 50)

    def scored(found: Mined) -> list[tuple[float, str, int, float]]:
        return sorted((p.score, p.source, p.source_rank, p.source_mean) for p in found)

    assert scored(within) == scored(anywhere)


def test_a_line_of_two_documents_pairs_in_both(tmp_path: Path) -> None:
    (tmp_path / "s.docs").write_text("a\nb\nb\nc\n")
    (tmp_path / "t.docs").write_text("a\nb\nc\n")
    documents = DocumentFiles(tmp_path / "s.docs", tmp_path / "t.docs")
    found = mine(*stores(tmp_path, ["x", "x", "x", "y"], ["X", "X", "Y"]), documents=documents)
    assert sorted((pair.source_line, pair.target_line) for pair in found) == [(1, 1), (3, 2), (4, 3)]
    assert (found.source.duplicates, found.target.duplicates) == (1, 0)
