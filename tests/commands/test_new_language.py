"""`mexma new-language`: from pairs to an encoder, its figures and the line to mine with."""

from __future__ import annotations

import re
import shlex
import signal
from pathlib import Path

import pytest

from mexma_cli.commands.new_language import _lines
from mexma_cli.encoder.encoder import SentenceEncoder
from mexma_cli.mining.threshold import Threshold
from mexma_cli.stages.new_language import Worth, begin
from tests.command import fails, ok, run, write
from tests.examples import demo_pairs

SMALL = {
    "encoder.new": "{layers: 1, width: 32, heads: 2, ffn: 32, dropout: 0}",
    "encoder.tokenizer.vocabulary": 700,
    "encoder.tokenizer.words": 300,
    "objective.own_tokens": 300,
    "objective.width": 40,
    "trainer.steps": 6,
    "trainer.batch_pairs": 64,
}


def command(pairs: Path, folder: Path) -> list[str | Path]:
    changes = [word for key, value in SMALL.items() for word in ("--set", f"{key}={value}")]
    return ["new-language", "es", pairs, "-o", folder, *changes]


_F1 = r"[\d.]+ \([\d.]+ to [\d.]+\)"


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("text") / "pairs.tsv", *demo_pairs(400))


@pytest.fixture(scope="module")
def finished(pairs: Path) -> tuple[Path, str]:
    """The folder of a run, and what was printed."""
    folder = pairs.parent / "run"
    done = ok(run(*command(pairs, folder)))
    assert "380 of 400 pairs; 20 pairs kept for dev\n" in done.stderr
    assert "these figures are rough: the xsim error is lower among only 20 pairs of dev" in done.stderr
    assert "mini knows Spanish already" in done.stderr
    return folder, done.stdout


def test_figures_and_the_line_to_mine_with(finished: tuple[Path, str], tmp_path: Path) -> None:
    folder, said = finished
    error = re.search(r"^dev xsim error  (\d+\.\d\d)%, 20 pairs of the training's", said, re.MULTILINE)
    assert error and float(error[1]) < 90  # by chance 95
    assert re.search(
        rf"^mining F1 +{_F1}, precision [\d.]+, recall [\d.]+, .* 200 and 200 lines$", said, re.MULTILINE
    )
    assert re.search(r"^mini +dev xsim error 0\.00%, mining F1 (9\d\.|100)", said, re.MULTILINE)
    assert "cannot be told" not in said
    encoder = SentenceEncoder.load(str(folder), "cpu")
    assert encoder.trained["spa_Latn"].pairs == 380
    assert encoder.trained["spa_Latn"].dev_error == pytest.approx(float(error[1]), abs=0.005)
    assert not (folder / "train" / "checkpoints").exists()
    mine = shlex.split(said.splitlines()[-1].partition("mexma ")[2])
    for place, name in ((1, "spa"), (2, "eng")):
        mine[place] = str(
            write(tmp_path / name, *(folder / "dev" / f"{name}_Latn.txt").read_text().split("\n"))
        )
    ok(run(*mine[:-1], tmp_path / "mined.tsv"))
    assert (tmp_path / "mined.tsv").exists()


@pytest.mark.parametrize(
    ("mini", "told"), [((0.35, 0.66), False), ((0.58, 0.7), False), ((0.6, 0.8), True), ((0.1, 0.28), True)]
)
def test_encoders_are_ranked_only_where_the_pairs_tell(mini: tuple[float, float], told: bool) -> None:
    best = Threshold(threshold=1.1, precision=0.52, recall=13 / 33, f1=26 / 58, count=25, correct=13)
    own = Worth(33, (165, 165), 6.06, best, (0.29, 0.59))
    other = Worth(33, (165, 165), 33.33, best, mini)
    lines = _lines(own, "smo_Latn", Path("run"), other)
    assert "mining F1       44.8 (29.0 to 59.0), precision 52.0, recall 39.4, the same" in lines[1]
    assert (sum("cannot be told" in line for line in lines) == 0) == told


def test_a_finished_run_is_measured_again_and_other_text_refused(
    pairs: Path, finished: tuple[Path, str], tmp_path: Path
) -> None:
    folder, said = finished
    again = ok(run(*command(pairs, folder)))
    assert again.stdout == said and "is finished already" in again.stderr
    other = write(tmp_path / "pairs.tsv", *demo_pairs(399))
    fails(run(*command(other, folder)), 1, "is of another command or of other text", "-o")
    fails(run(*command(pairs, folder), "--set", "trainer.seed=7"), 1, "phases.train.trainer.seed (42, now 7)")


def test_pairs_of_two_files_count_once_and_mini_is_compared(pairs: Path, tmp_path: Path) -> None:
    words = command(pairs, tmp_path / "run")
    lines = pairs.read_text().splitlines()
    words[1:3] = "gla", write(tmp_path / "a.tsv", *lines[:250]), write(tmp_path / "b.tsv", *lines[100:])
    done = ok(run(*words, "--set", "trainer.steps=1"))
    assert "mini knows" not in done.stderr
    losses = "142 duplicate, 8 that share a sentence with dev or test text"  # of 150 pairs in both files
    assert f"380 of 550 pairs; 20 pairs kept for dev; dropped: {losses}\n" in done.stderr
    assert re.search(rf"^mini +dev xsim error 0\.00%, mining F1 {_F1}, as it is", done.stdout, re.MULTILINE)


def test_columns_in_other_languages_are_noticed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    both = write(tmp_path / "pairs.tsv", *demo_pairs(400))
    begin("swh_Latn", [both], tmp_path / "one")
    assert re.search(r"\d+ % of the sources look Spanish, and Swahili is stated", caplog.text)
    sources = [pair.partition("\t")[0] for pair in demo_pairs(400)]
    spanish = [f"{one} Eso dijo ayer mi hermano.\t{one}" for one in sources]
    begin("spa_Latn", [write(tmp_path / "spanish.tsv", *spanish)], tmp_path / "two")
    assert re.search(r"\d+ % of the targets look Spanish, and English is stated", caplog.text)


def test_stopped_and_run_again_it_goes_on(
    pairs: Path, finished: tuple[Path, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("mexma_cli.commands.train._stop_on_signal", lambda: [signal.SIGTERM])
        fails(run(*command(pairs, tmp_path / "run")), 143, "the same command goes on from there")
    done = ok(run(*command(pairs, tmp_path / "run")))
    assert "6 steps, 1 of them done" in done.stderr
    assert done.stdout.replace(str(tmp_path / "run"), str(finished[0])) == finished[1]
