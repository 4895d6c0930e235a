"""xsim against LASER's numbers and against plain NumPy."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from mexma_cli.encoder.encoder import SentenceEncoder
from mexma_cli.errors import MexmaError
from mexma_cli.evaluation.aligned import read_texts
from mexma_cli.evaluation.augment import HardNegative, augmented_names, augmented_texts, find_augmented
from mexma_cli.evaluation.xsim import dev_scorer, evaluate_xsimpp, xsim
from mexma_cli.settings.stages import ScoreSettings
from mexma_cli.settings.training import DevSet
from tests.evaluation.given import Known, put
from tests.reference import laser, laser_printed


def plain_xsim(x: np.ndarray, y: np.ndarray, margin: str, k: int) -> np.ndarray:
    """What every row finds, by the formula, over the whole matrix."""
    x, y = (side / np.linalg.norm(side, axis=1, keepdims=True) for side in (x.astype(float), y.astype(float)))
    cosines = x @ y.T
    if margin == "absolute":
        return cosines.argmax(axis=1)
    near = np.sort(cosines, axis=1)[:, -k:].mean(axis=1)[:, None]
    other = np.sort(cosines, axis=0)[-k:].mean(axis=0)[None, :]
    background = (near + other) / 2
    scores = cosines / background if margin == "ratio" else cosines - background
    kth = np.sort(cosines, axis=1)[:, -k][:, None]
    return np.where(cosines >= kth, scores, -np.inf).argmax(axis=1)


def noisy(rows: int, more: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Vectors, and their translations followed by vectors near these."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((rows, 16)).astype(np.float32)
    y = x + 1.3 * rng.standard_normal(x.shape)
    hard = y[rng.integers(0, rows, more)] + 0.5 * rng.standard_normal((more, 16))
    return x, np.concatenate([y, hard]).astype(np.float32)


def test_counts_errors_as_laser() -> None:
    x, y = laser()["xsim.src"], laser()["xsim.tgt"]
    before = x.copy()
    for (margin, k), errors in laser_printed("xsim").items():
        found = xsim(x, y, margin, k)
        assert (found.errors, found.total) == (errors, len(x)), (margin, k)
        assert found.index_errors == found.errors
    np.testing.assert_array_equal(x, before)  # LASER normalises its caller's arrays in place


@pytest.mark.parametrize("margin", ["ratio", "distance", "absolute"])
@pytest.mark.parametrize("more", [0, 150])
def test_against_plain_numpy(margin: str, more: int) -> None:
    x, y = noisy(120, more, seed=more)
    found = xsim(x, y, margin, k=4)
    expected = plain_xsim(x, y, margin, k=4)
    np.testing.assert_array_equal(found.found, expected)
    assert found.errors == (expected != np.arange(120)).sum() > 0


def test_finding_the_same_sentence_elsewhere_is_no_error() -> None:
    x = np.eye(4, dtype=np.float32)
    y = x[[1, 0, 2, 2]]
    texts = ["same", "same", "other", "third"]
    found = xsim(x, y, "absolute", texts=texts)
    assert (found.index_errors, found.errors) == (3, 1)
    assert found.wrong.tolist() == [False, False, False, True]


def test_more_neighbours_than_rows() -> None:
    x = np.eye(3, dtype=np.float32)
    found = xsim(x, x[[0, 2, 1]], k=16)
    assert (found.errors, found.error_rate) == (2, pytest.approx(200 / 3))


def test_sides_must_be_aligned() -> None:
    with pytest.raises(ValueError, match="aligned"):
        xsim(np.ones((3, 2), np.float32), np.ones((2, 2), np.float32))


DEV = DevSet(path="{lang}.txt", target_path="eng.txt", languages=("aaa", "bbb"))


class Numbers(SentenceEncoder):
    """Embeds a number as a direction, so that the error is known."""

    def __init__(self) -> None:
        pass

    def embed(
        self, sentences: Sequence[str], on_progress: Callable[[int, int], object] | None = None
    ) -> np.ndarray:
        return np.eye(10, dtype=np.float32)[[int(sentence) for sentence in sentences]]


def write(folder: Path, **files: str) -> None:
    for name, digits in files.items():
        (folder / f"{name}.txt").write_text("".join(f"{digit}\n" for digit in digits))


def test_error_by_language_and_mean(tmp_path: Path) -> None:
    # In bbb, lines 2 and 3 stand for each other's translation.
    write(tmp_path, eng="01234567", aaa="01234567", bbb="01324567")
    score = dev_scorer(DEV, tmp_path.joinpath)(Numbers())
    assert score == {"xsim": 12.5, "aaa": 0.0, "bbb": 25.0}


def test_lines_count_as_in_eval_xsim(tmp_path: Path) -> None:
    """Empty on either side: no part (a verse that a translation has not); one translation twice: no error."""
    (tmp_path / "eng.txt").write_text("0\n\n1\n2\n2\n")
    (tmp_path / "aaa.txt").write_text("0\n3\n\n2\n2\n")
    (tmp_path / "bbb.txt").write_text("1\n \n0\n2\n2\n")
    score = dev_scorer(DEV, tmp_path.joinpath)(Numbers())
    assert score == {"xsim": 25.0, "aaa": 0.0, "bbb": 50.0}


@pytest.mark.parametrize(("scale", "said"), [(0.01, True), (1.0, False)])
def test_vectors_that_fell_together_are_noticed(
    scale: float, said: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Near(Numbers):
        def embed(
            self, sentences: Sequence[str], on_progress: Callable[[int, int], object] | None = None
        ) -> np.ndarray:
            return 1 + scale * super().embed(sentences)

    write(tmp_path, eng="01234567", aaa="01234567", bbb="01234567")
    assert dev_scorer(DEV, tmp_path.joinpath)(Near())["xsim"] == 0
    assert ("nearly the same vector" in caplog.text) == said


def test_a_real_encoder_finds_a_sentence_in_itself(
    tiny_encoder: Path, tmp_path: Path, sentences: dict[str, list[str]]
) -> None:
    for name in ("aaa", "bbb", "eng"):
        (tmp_path / f"{name}.txt").write_text("\n".join(sentences["eng"]) + "\n", encoding="utf-8")
    encoder = SentenceEncoder.load(str(tiny_encoder), "cpu")
    assert dev_scorer(DEV, tmp_path.joinpath)(encoder)["xsim"] == 0


def test_files_are_looked_at_before_the_training(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write(tmp_path, eng="0123", aaa="0123")
    with pytest.raises((MexmaError, FileNotFoundError), match=r"bbb\.txt"):
        dev_scorer(DEV, tmp_path.joinpath)
    assert dev_scorer(DEV.model_copy(update={"optional": True}), tmp_path.joinpath) is None
    assert caplog.messages == [f"{tmp_path}/bbb.txt is not there: no dev scores"]
    write(tmp_path, bbb="012")
    with pytest.raises(MexmaError, match=r"bbb\.txt has 3 lines, .*eng\.txt has 4"):
        dev_scorer(DEV, tmp_path.joinpath)
    write(tmp_path, eng="", aaa="", bbb="")
    with pytest.raises(MexmaError, match="have no line that both fill"):
        dev_scorer(DEV, tmp_path.joinpath)


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

    result = evaluate_xsimpp(data, hard, Known(embed), ScoreSettings(margin="absolute", k=1))
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
        assert evaluate_xsimpp(data, hard, Known(lambda texts: rows[: len(texts)])).benchmark == expected
        types.write_text(types.read_text().replace(',\n"made_by": "mexma augment"', ""))  # as published


def test_lines_without_a_type_are_said(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    with (folder / "devtest_augmented/eng_Latn_augmented.devtest").open("a") as file:
        file.write("A line more.\n")
    find_augmented(read_texts(folder, "devtest", None, "eng_Latn"), None)
    assert "1 line is not in" in caplog.text and "the first is line 4" in caplog.text
