"""The dev score: xsim by language and its mean, and files that do not fit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from mexma_cli.encoder.encoder import SentenceEncoder
from mexma_cli.errors import MexmaError
from mexma_cli.evaluation.dev import dev_scorer
from mexma_cli.settings.training import DevSet

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


def test_files_are_looked_at_before_the_training(tmp_path: Path) -> None:
    write(tmp_path, eng="0123", aaa="0123")
    with pytest.raises((MexmaError, FileNotFoundError), match=r"bbb\.txt"):
        dev_scorer(DEV, tmp_path.joinpath)
    write(tmp_path, bbb="012")
    with pytest.raises(MexmaError, match=r"bbb\.txt has 3 lines, .*eng\.txt has 4"):
        dev_scorer(DEV, tmp_path.joinpath)
    write(tmp_path, eng="", aaa="", bbb="")
    with pytest.raises(MexmaError, match="have no line that both fill"):
        dev_scorer(DEV, tmp_path.joinpath)
