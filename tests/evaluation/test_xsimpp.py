"""xsim++: errors by type, and files that are not in the published form."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from mexma_cli.evaluation.aligned import read_texts
from mexma_cli.evaluation.augment import HardNegative, augmented_names, augmented_texts, find_augmented
from mexma_cli.evaluation.xsimpp import evaluate
from mexma_cli.settings.stages import ScoreSettings
from tests.evaluation.given import Known, put

ENGLISH = ["The cat sleeps.", "It is 5 o'clock.", "Rome is old."]
HARD = [
    HardNegative("The cat does not sleep.", ENGLISH[0], "causality"),
    HardNegative("It is 7 o'clock.", ENGLISH[1], "number"),
    HardNegative("Oslo is old.", ENGLISH[2], "entity"),
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    put(
        tmp_path,
        {"devtest/eng_Latn.devtest": "\n".join(ENGLISH), "devtest/fra_Latn.devtest": "un\ndeux\ntrois"},
    )
    names = augmented_names(tmp_path / "devtest/eng_Latn.devtest")
    put(tmp_path / "devtest_augmented", dict(zip(names, augmented_texts(HARD), strict=True)))
    return tmp_path


def test_written_in_the_published_form(folder: Path) -> None:
    hard = folder / "devtest_augmented"
    assert (hard / "eng_Latn_augmented.devtest").read_text().splitlines() == [one.sentence for one in HARD]
    content = json.loads((hard / "eng_Latn_errtype.devtest.json").read_text())
    assert content["Oslo is old."] == {
        "src": "Rome is old.",
        "errtype": "entity",
        "made_by": "mexma augment",
    }
    assert augmented_names(Path("x/eng.txt.gz")) == ("eng_augmented.txt", "eng_errtype.txt.json")


def test_types_of_errors(folder: Path) -> None:
    """One finds its own hard negative, one another's, one what is right."""
    vectors = dict(zip([*ENGLISH, *(one.sentence for one in HARD)], np.eye(6), strict=True))
    vectors |= {"un": np.eye(6)[3], "deux": np.eye(6)[5], "trois": np.eye(6)[2]}
    data = read_texts(folder, "devtest", None, "eng_Latn")
    hard = find_augmented(data, None)

    def embed(texts: Sequence[str]) -> np.ndarray:
        return np.array([vectors[text] for text in texts], dtype=np.float32)

    result = evaluate(data, hard, Known(embed), ScoreSettings(margin="absolute", k=1))
    expected = {"errors": 2, "causality": 1, "entity": 0, "misaligned": 1}
    assert result.rows[0].items() >= expected.items()
    assert result.scores == pytest.approx(
        {"xsim++": 200 / 3, "causality": 100 / 3, "entity": 0, "number": 0, "misaligned": 100 / 3}
    )
    assert result.settings["hard negatives"] == 3


def test_own_hard_negatives_are_not_compared(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mexma_cli.evaluation.aligned.AlignedTexts.published", "81")
    data, rows = read_texts(folder, "devtest", None, "eng_Latn"), np.eye(6, dtype=np.float32)
    types = folder / "devtest_augmented/eng_Latn_errtype.devtest.json"
    for expected in (None, "xsimpp-81"):
        hard = find_augmented(data, None)
        assert evaluate(data, hard, Known(lambda texts: rows[: len(texts)])).benchmark == expected
        types.write_text(types.read_text().replace(',\n"made_by": "mexma augment"', ""))  # as published


def test_lines_without_a_type_are_said(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    with (folder / "devtest_augmented/eng_Latn_augmented.devtest").open("a") as file:
        file.write("A line more.\n")
    find_augmented(read_texts(folder, "devtest", None, "eng_Latn"), None)
    assert "1 line is not in" in caplog.text and "the first is line 4" in caplog.text
