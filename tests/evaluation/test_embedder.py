"""Vectors that are kept between evaluations."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from mexma_cli.encoder.encoder import SentenceEncoder
from mexma_cli.errors import MexmaError
from mexma_cli.evaluation.embedder import Embedder, default_folder, mark_unknown
from mexma_cli.files import workplace_path
from mexma_cli.reporting.result import Result


@pytest.fixture
def encoder(tiny_encoder: Path) -> SentenceEncoder:
    return SentenceEncoder.load(str(tiny_encoder), "cpu", "float32")


def test_second_time_nothing_is_embedded(
    encoder: SentenceEncoder, sentences: dict[str, list[str]], tmp_path: Path
) -> None:
    text = sentences["eng"]
    calls: list[tuple[int, int]] = []
    first = Embedder(encoder, tmp_path / "new")(text)
    (kept,) = (tmp_path / "new").iterdir()
    workplace_path(kept).mkdir()  # as after a kill at the end of its work
    again = Embedder(encoder, tmp_path / "new", lambda *done: calls.append(done))(text)
    np.testing.assert_array_equal(first, encoder.embed(text))
    np.testing.assert_array_equal(again, first)
    assert calls == [(len(text), 0)]
    assert [path.suffix for path in (tmp_path / "new").iterdir()] == [".npy"]


def test_what_else_makes_other_vectors(
    encoder: SentenceEncoder, sentences: dict[str, list[str]], tmp_path: Path
) -> None:
    text = sentences["eng"]
    plain = Embedder(encoder, tmp_path)(text)
    Embedder(encoder, tmp_path)(text[::-1])
    Embedder(encoder, tmp_path)(text, key_parts=["another layer"])
    encoder.prefix = "query: "
    assert not np.array_equal(Embedder(encoder, tmp_path)(text), plain)
    assert len(list(tmp_path.iterdir())) == 4


def test_a_prefix_that_is_no_utf8_is_refused_as_by_embed(encoder: SentenceEncoder, tmp_path: Path) -> None:
    encoder.prefix = "\udcff"
    with pytest.raises(MexmaError, match="is not UTF-8"):
        Embedder(encoder, tmp_path)(["A cat."])


def test_damaged_file_is_made_again(
    encoder: SentenceEncoder, sentences: dict[str, list[str]], tmp_path: Path
) -> None:
    text = sentences["eng"]
    whole = Embedder(encoder, tmp_path)(text)
    (path,) = tmp_path.iterdir()
    path.write_bytes(path.read_bytes()[:-7])
    np.testing.assert_array_equal(Embedder(encoder, tmp_path)(text), whole)
    np.testing.assert_array_equal(np.load(path), whole)


def test_a_folder_that_cannot_be_is_no_obstacle(
    encoder: SentenceEncoder,
    sentences: dict[str, list[str]],
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    (tmp_path / "file").write_text("in the way")
    found = Embedder(encoder, tmp_path / "file")(sentences["eng"])
    assert len(found) == 8 and "not kept" in caplog.text


def test_default_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_folder() == tmp_path / "mexma" / "eval"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert default_folder() == Path.home() / ".cache" / "mexma" / "eval"

    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", homeless)
    assert default_folder() is None


RESULT = Result(
    task="xsim",
    encoder={"name": "mini"},
    settings={},
    scores={"xsim": 20.0, "numbers": 3.0},
    rows=[
        {"language": "fra_Latn", "errors": 1, "xsim": 5.0},
        {"language": "de", "errors": 2, "xsim": 15.0},
        {"language": "yue_Hant", "errors": 3, "xsim": 40.0},
    ],
)


def test_the_mean_is_given_with_and_without_languages_that_are_not_known() -> None:
    found = mark_unknown(RESULT, ("deu_Latn", "fra_Latn", "spa_Latn"))
    assert found.scores == {"xsim": 20.0, "xsim, known languages": 10.0, "numbers": 3.0}
    assert [row["known"] for row in found.rows] == ["yes", "yes", "no"]


@pytest.mark.parametrize("known", [(), ("deu_Latn", "fra_Latn", "yue_Hant")])
def test_nothing_is_marked_where_all_are_known_or_nobody_has_said(known: tuple[str, ...]) -> None:
    assert mark_unknown(RESULT, known) == RESULT


def test_a_target_that_is_not_known_is_told_of(caplog: pytest.LogCaptureFixture) -> None:
    mark_unknown(replace(RESULT, settings={"target": "pes_Arab"}), ("deu_Latn", "fra_Latn", "yue_Hant"))
    mark_unknown(replace(RESULT, settings={"target": "fra"}), ("deu_Latn", "fra_Latn", "yue_Hant"))
    assert caplog.text.count("does not know the target language") == 1 and "pes_Arab" in caplog.text


def test_of_no_known_language_there_is_no_mean() -> None:
    found = mark_unknown(RESULT, ("spa_Latn",))
    assert found.scores == RESULT.scores
    assert found == replace(RESULT, rows=[row | {"known": "no"} for row in RESULT.rows])
