"""`mexma report`: the table, the JSON, the pictures, and paths that are no runs."""

from __future__ import annotations

import json
import math
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from click.testing import Result

from mexma_cli.reporting import curve_plot, curves
from mexma_cli.reporting.result import Result as Result_
from mexma_cli.training.log import TrainingLog
from tests.command import fails, ok, run


def report(*arguments: str | Path) -> Result:
    return run("report", *arguments)


def make_run(folder: Path, level: float) -> Path:
    """Two phases, the second with more points than are drawn one by one, and a spoiled step."""
    folder.mkdir()
    for phase, steps in (("bag", 12), ("mexma", 90)):
        log = TrainingLog(folder / "log.jsonl", phase, from_step=0)
        for step in range(1, steps + 1):
            value = level + math.exp(-step / 20)
            dev = {"dev": {"xsim": 10 * value}} if step % 30 == 0 else {}
            norm = math.nan if step == 3 else value
            rates = {"learning_rate": 1e-4, "gradient_norm": norm, "tokens_per_second": 900}
            log.write({"step": step, "loss": value, "terms": {"koleo": -value}} | rates | dev)
        log.close()
    return folder


@pytest.fixture
def runs(tmp_path: Path) -> list[Path]:
    return [make_run(tmp_path / name, level) for name, level in (("plain", 1.0), ("with <koleo>", 2.0))]


def test_table(runs: list[Path]) -> None:
    result = ok(report(runs[0]))
    lines = result.stdout.splitlines()
    assert lines[0].split() == ["phase", "curve", "first", "best", "at", "step", "last", "of", "steps"]
    assert ["mexma", "loss", "1.951", "1.011", "90", "1.011", "90"] in [line.split() for line in lines]
    assert report(runs[0] / "log.jsonl").stdout == result.stdout
    side_by_side = report(*runs).stdout
    assert "plain" in side_by_side and "with <koleo>" in side_by_side


def test_one_run_named_twice_is_shown_once(runs: list[Path]) -> None:
    wanted = report(runs[0])
    for again in (runs[0], runs[0] / "log.jsonl", runs[0] / ".." / "plain"):
        result = report(runs[0], again)
        assert result.exit_code == 0 and result.stdout == wanted.stdout
        assert f"warning: {again} was named before" in result.stderr
    assert len(json.loads(report(*runs, runs[0], "--json").stdout)["runs"]) == 2


def test_a_folder_of_results_is_told_what_to_name(tmp_path: Path) -> None:
    result = Result_("xsim", {"name": "mini", "fingerprint": "f"}, {}, {"xsim": 1.0}, [])
    for name in ("a.json", "b.json"):
        (tmp_path / name).write_text(json.dumps(result.to_json()))
    fails(report(tmp_path), 1, f"name {tmp_path}/*.json")
    ok(report(*tmp_path.glob("*.json")))
    (tmp_path / "config.json").write_text("{}")
    assert f"name {tmp_path}/a.json {tmp_path}/b.json" in report(tmp_path).stderr


def test_json(runs: list[Path]) -> None:
    result = report(*runs, "--json")
    found = json.loads(result.stdout)["runs"]
    assert [run["run"] for run in found] == ["plain", "with <koleo>"]
    mexma = found[1]["phases"][1]
    assert mexma["steps"] == 90 and mexma["curves"]["loss"]["best_step"] == 90


def test_pictures(runs: list[Path], tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    for name in ("curves.html", "new/inner/curves.svg"):
        assert "mexma" in ok(report(*runs, "-o", tmp_path / name)).stdout
    texts = [each.text for each in ElementTree.parse(tmp_path / "new/inner/curves.svg").iter() if each.text]
    for wanted in ("loss", "KoLeo", "dev xsim error (%)", "tokens/s", "mexma", "plain", "with <koleo>"):
        assert wanted in texts, wanted
    page = (tmp_path / "curves.html").read_text()
    assert page.count("<svg") == 1 + 6 and "<td>with &lt;koleo&gt;</td>" in page and "<koleo>" not in page


def test_noise_does_not_fill_a_panel() -> None:
    """A term that does not move is a line; a rate's outliers are no reason for a logarithmic axis."""
    figure = pytest.importorskip("matplotlib.figure").Figure()
    noise = [0.0, 1e-4] * 100
    still = curves.TrainingCurve(list(range(200)), [1.2 + one for one in noise])
    wild = curves.TrainingCurve(list(range(200)), [1.0 if step % 50 else 1e-4 for step in range(200)])
    phase = curves.PhaseCurves("mexma", 200, {"alignment": still, "gradient_norm": wild})
    axes = figure.subplots(2)
    for one, name in zip(axes, phase.curves, strict=True):
        curve_plot._draw_panel(one, name, [curves.RunCurves("run", [phase])])
    low, high = axes[0].get_ylim()
    assert high - low == pytest.approx(0.06, rel=0.01) and low < 1.2 < high
    assert axes[1].get_yscale() == "linear"


@pytest.mark.parametrize(
    ("ending", "beginning"),
    [("svg", b"<?xml"), ("png", b"\x89PNG"), pytest.param("pdf", b"%PDF", marks=pytest.mark.slow)],
)
def test_picture_of_one_short_run(ending: str, beginning: bytes, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    (tmp_path / "log.jsonl").write_text('{"phase": "mexma", "step": 10, "loss": 1.5}\n')
    ok(report(tmp_path, "-o", tmp_path / f"one.{ending}"))
    picture = (tmp_path / f"one.{ending}").read_bytes()
    assert picture.startswith(beginning) and len(picture) > 2000


@pytest.mark.slow
def test_any_folders_name_is_in_the_legend(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    named = [make_run(tmp_path / name, 1.0) for name in ("_first", "$\\frac$")]
    ok(report(*named, "-o", tmp_path / "both.svg"))
    texts = [each.text for each in ElementTree.parse(tmp_path / "both.svg").iter() if each.text]
    assert "_first" in texts and "$\\frac$" in texts
    ok(report(named[1], "-o", tmp_path / "one.svg"))


def test_a_log_without_a_number(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    (tmp_path / "log.jsonl").write_text('{"phase": "mexma", "step": 10, "loss": null}\n')
    fails(report(tmp_path, "-o", tmp_path / "one.svg"), 1, "no number in the log to draw")
    ok(report(tmp_path))


def test_what_is_no_run(runs: list[Path], tmp_path: Path) -> None:
    for arguments, message in [
        ((tmp_path / "nothing",), "no such file or folder"),
        ((tmp_path,), "is no training run"),
        ((runs[0], "-o", tmp_path / "curves.doc"), "a picture can be .png, .svg, .pdf or .html"),
        ((runs[0], "-o", runs[0] / "log.jsonl" / "x.svg"), "log.jsonl: the folder cannot be made"),
    ]:
        assert not fails(report(*arguments), 1, message).stdout
    (tmp_path / "corpus/units").mkdir(parents=True)
    (tmp_path / "corpus/report.html").touch()
    fails(report(tmp_path / "corpus"), 1, f"its report is {tmp_path / 'corpus/report.html'}")
    (tmp_path / "log.jsonl").write_text("")
    fails(report(tmp_path, "-o", tmp_path / "curves.png"), 1, "is empty")
    assert not (tmp_path / "curves.png").exists()
