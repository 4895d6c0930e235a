"""Labels are found among the pairs that were mined."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from unicodedata import normalize

import numpy as np
import pytest

from mexma_cli.classifier.precision import PairPrecision
from mexma_cli.errors import MexmaError
from mexma_cli.formats.labels import Label, add_label, read_labels
from mexma_cli.mining.candidates import Candidates
from mexma_cli.stages.tune.labels import Labels
from tests.command import write
from tests.stores import make_store


@pytest.mark.parametrize("lines", ["0\t0", "1\t1", "1\t3", "3\t1"])
def test_a_label_is_of_the_copies_that_were_mined(lines: str, tmp_path: Path) -> None:
    vectors = np.eye(3, dtype=np.float32)
    stores = [make_store(tmp_path / name, ["a", "b", "a"], vectors) for name in ("spa.emb", "eng.emb")]
    ones = np.ones(2, np.float32)
    pairs = Candidates(ones, np.array([2, 1]), np.array([0, 1]), ones)
    found = Labels(write(tmp_path / "labels.tsv", f"y\t{lines}\ta\ta"), pairs, *stores)
    assert found.counts == {"y": 1, "n": 0, "s": 0}
    assert found.drawn(PairPrecision(ones, ones / 2), 2) == [1]


@pytest.mark.parametrize("lines", ["0\t0", "1\t1", "2\t9"])
@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_labels_of_pairs_that_were_filtered_or_composed(form: str, lines: str, tmp_path: Path) -> None:
    """Their lines are those of another file, and their letters may be other characters."""
    texts = [["non", "Où est-il ?"], ["no", "Où est-il ?"]]
    stores = [
        make_store(tmp_path / name, [normalize("NFD", line) for line in text], np.eye(2, dtype=np.float32))
        for name, text in zip(("fra.emb", "eng.emb"), texts, strict=True)
    ]
    ones = np.ones(2, np.float32)
    label = normalize(form, f"n\t{lines}\t{texts[0][1]}\t{texts[1][1]}")
    found = Labels(
        write(tmp_path / "labels.tsv", label), Candidates(ones, np.arange(2), np.arange(2), ones), *stores
    )
    assert found.counts == {"y": 0, "n": 1, "s": 0} and found.said[0].tolist() == [1]


@pytest.mark.parametrize("strays", [2, 3])
def test_labels_of_pairs_that_were_chosen_in_another_way(
    strays: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Up to a quarter may be of pairs that were not mined, which do not count; equal sides are none that were
    swapped."""
    names = list("abcdefgh")
    store = make_store(tmp_path / "a.emb", names, np.eye(8, dtype=np.float32))
    ones = np.ones(8, np.float32)
    pairs = Candidates(ones, np.arange(8), np.arange(8), ones)
    rows = [f"y\t0\t0\t{one}\t{one}" for one in names[strays:]]
    path = write(tmp_path / "labels.tsv", *rows, *(f"n\t0\t0\t{one}\th" for one in names[:strays]))
    if strays == 2:
        assert Labels(path, pairs, store, store).counts == {"y": 6, "n": 0, "s": 0}
        assert "2 of 8 labels do not count" in caplog.text
    else:
        with pytest.raises(MexmaError, match="not of mined pairs: 3 of 8 labels") as told:
            Labels(path, pairs, store, store)
        assert "not those of `mexma align`" in str(told.value.hint)


def test_copies_of_labelled_sentences_take_little_memory(tmp_path: Path) -> None:
    lines = ["Hello, my friends."] * 50_000
    store = make_store(tmp_path / "a.emb", lines, np.ones((len(lines), 2), np.float32))
    ones = np.ones(1, np.float32)
    pairs = Candidates(ones, np.array([49_999]), np.array([7]), ones)
    labels = write(tmp_path / "labels.tsv", f"y\t0\t0\t{lines[0]}\t{lines[0]}")
    Labels(labels, pairs, store, store)
    tracemalloc.start()
    found = Labels(labels, pairs, store, store)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found.counts["y"] == 1 and most < 100 * len(lines)


@pytest.mark.parametrize(
    ("answers", "told"), [("nnnnnnnnnn", False), ("nnnnnyyyyy", True), ("yyyyynnnnn", False)]
)
def test_answers_that_contradict_the_probabilities_are_told_of(
    answers: str, told: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Only where some pairs are called right, and others wrong."""
    names = list("abcdefghij")
    store = make_store(tmp_path / "a.emb", names, np.eye(10, dtype=np.float32))
    scores = np.repeat(np.float32([0.999, 0.001]), 5)
    pairs = Candidates(scores, np.arange(10), np.arange(10), scores)
    rows = [f"{answer}\t0\t0\t{name}\t{name}" for answer, name in zip(answers, names, strict=True)]
    Labels(write(tmp_path / "labels.tsv", *rows), pairs, store, store).corrected(
        PairPrecision(scores, scores)
    )
    assert ("is y yes?" in caplog.text) == told


@pytest.mark.parametrize(
    ("answers", "probability", "told"),
    [
        (
            "yyyyyyyyyy",
            0.6,
            "all are called right, where 4 would be expected to be wrong: the estimate is too high",
        ),
        (
            "nnnnnnnnnn",
            0.4,
            "all are called wrong, where 4 would be expected to be right: the estimate is too low",
        ),
        ("yyyyyyyyyy", 0.9, ""),
        ("yyyyyyyyyn", 0.6, ""),
    ],
)
def test_answers_of_one_kind_where_others_are_expected(
    answers: str, probability: float, told: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    names = list("abcdefghij")
    store = make_store(tmp_path / "a.emb", names, np.eye(10, dtype=np.float32))
    scores = np.full(10, probability, np.float32)
    pairs = Candidates(scores, np.arange(10), np.arange(10), scores)
    rows = [f"{answer}\t0\t0\t{name}\t{name}" for answer, name in zip(answers, names, strict=True)]
    Labels(write(tmp_path / "labels.tsv", *rows), pairs, store, store).corrected(
        PairPrecision(scores, scores)
    )
    assert told in caplog.text and ("expected" in caplog.text) == bool(told)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("end", ["", "\n", "\r\n"])
def test_answers_are_added_as_an_editor_has_saved_the_file(encoding: str, end: str, tmp_path: Path) -> None:
    path = tmp_path / "labels.tsv"
    path.write_bytes(f"y\t0\t0\tčia\there{end}".encode(encoding))
    add_label(path, Label("n", (1, 2), ("ten", "žé")))
    assert list(read_labels(path)) == [
        Label("y", (0, 0), ("čia", "here")),
        Label("n", (1, 2), ("ten", "žé")),
    ]
