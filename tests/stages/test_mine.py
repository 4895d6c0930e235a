from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mexma_cli.errors import MexmaError
from mexma_cli.stages.bitext import write_pairs
from mexma_cli.stages.mine import mine
from mexma_cli.store.embeddings import EmbeddingStore, EmbeddingWriter, Source


def make_store(
    path: Path, sentences: list[str], vectors: np.ndarray, encoder: str = "test", fingerprint: str = "f"
) -> EmbeddingStore:
    with EmbeddingWriter(
        path,
        encoder=encoder,
        fingerprint=fingerprint,
        pooling="cls",
        dim=vectors.shape[1],
        dtype="float32",
        normalised=False,
        language="und",
        source=Source(path="text", checksum=path.name, lines=len(sentences)),
        argv=(),
        rows_per_shard=3,
    ) as writer:
        writer.write(vectors, sentences)
        return writer.finish(truncated=0)


def vectors_of(sentences: list[str]) -> np.ndarray:
    """Equal words have equal vectors whatever their case: `a` translates to `A`."""
    return np.stack(
        [np.random.default_rng(list(s.lower().encode())).standard_normal(16) for s in sentences]
    ).astype(np.float32)


def stores(tmp_path: Path, source: list[str], target: list[str]) -> tuple[EmbeddingStore, EmbeddingStore]:
    return (
        make_store(tmp_path / "s.emb", source, vectors_of(source)),
        make_store(tmp_path / "t.emb", target, vectors_of(target)),
    )


def test_finds_the_translations_and_their_text(tmp_path: Path) -> None:
    source = ["one", "two", "three", "four", "five", "six", "seven"]
    found = mine(
        *stores(tmp_path, source, ["SEVEN", "FOUR", "ONE", "nine", "ten"]), margin="absolute", threshold=0.9
    )
    assert sorted((s, t) for _, s, t in found.pairs()) == [
        ("four", "FOUR"),
        ("one", "ONE"),
        ("seven", "SEVEN"),
    ]
    assert [score for score, _, _ in found.pairs()] == sorted(found.candidates.scores.tolist(), reverse=True)
    for s, t, a, b in zip(
        found.candidates.source, found.candidates.target, found.source_texts, found.target_texts, strict=True
    ):
        assert source[s] == a and ["SEVEN", "FOUR", "ONE"][t] == b


def test_duplicates_count_once_and_empty_lines_never(tmp_path: Path) -> None:
    source = ["a", "", "b", "a", " ", "c", "a"]
    target = ["", "A", "A", "B", "C", "\t"]
    found = mine(*stores(tmp_path, source, target))
    assert sorted((s, t) for _, s, t in found.pairs()) == [("a", "A"), ("b", "B"), ("c", "C")]
    assert (found.source.rows, found.source.duplicates, found.source.empty) == (7, 2, 2)
    assert (found.target.rows, found.target.duplicates, found.target.empty) == (6, 1, 2)
    clean = stores(tmp_path / "clean", ["b", "c", "a"], ["A", "B", "C"])
    assert sorted(mine(*clean).pairs()) == sorted(found.pairs())  # they do not count in neighbourhoods either


def test_of_duplicates_the_last_vector_counts_as_in_laser(tmp_path: Path) -> None:
    vectors = vectors_of(["x", "b", "a"])
    source = make_store(tmp_path / "s.emb", ["a", "b", "a"], vectors)
    target = make_store(tmp_path / "t.emb", ["A", "B", "X"], vectors_of(["A", "B", "X"]))
    found = mine(source, target, margin="absolute", threshold=0.9)
    assert sorted((s, t) for _, s, t in found.pairs()) == [("a", "A"), ("b", "B")]


def test_vectors_without_a_direction_are_left_out_and_counted(tmp_path: Path) -> None:
    vectors = vectors_of(["a", "b", "c"])
    vectors[1] = 0
    source = make_store(tmp_path / "s.emb", ["a", "b", "c"], vectors)
    found = mine(source, make_store(tmp_path / "t.emb", ["A", "B", "C"], vectors_of(["A", "B", "C"])))
    assert found.source.unusable == 1 and found.target.unusable == 0
    assert "b" not in found.source_texts and len(found.source_texts) == 2
    assert not np.isnan(found.candidates.scores).any()


def test_a_side_of_empty_lines_gives_no_pairs(tmp_path: Path) -> None:
    found = mine(*stores(tmp_path, ["", " "], ["A", "B"]))
    assert list(found.pairs()) == [] and found.source.empty == 2


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


def test_a_failed_write_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "out.tsv"
    path.write_text("old\n")

    def pairs():  # type: ignore[no-untyped-def]
        yield 1.0, "a", "b"
        raise RuntimeError("stop")

    with pytest.raises(RuntimeError):
        write_pairs(path, pairs())
    assert path.read_text() == "old\n" and list(tmp_path.iterdir()) == [path]
