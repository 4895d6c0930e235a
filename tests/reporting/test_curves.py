"""A run's log as curves: phases, terms, what is left out, first, best and last."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mexma_cli.errors import MexmaError
from mexma_cli.reporting import curves
from mexma_cli.training.log import TrainingLog


def record(step: int, loss: float, **more: Any) -> dict[str, Any]:
    usual = {
        "terms": {"alignment": loss / 2},
        "learning_rate": 1e-4 * step,
        "gradient_norm": 1.0,
        "tokens_per_second": 1000 * step,
    }
    return {"step": step, "loss": loss, "seconds": 1.0} | usual | more


def write(run: Path, **phases: list[dict[str, Any]]) -> Path:
    run.mkdir()
    for name, records in phases.items():
        log = TrainingLog(run / "log.jsonl", name, from_step=0)
        for each in records:
            log.write(each)
        log.close()
    return run


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return write(
        tmp_path / "one",
        bag=[record(10, 3.0, terms={"contrastive": 3.0}), record(20, 2.0, terms={"contrastive": 2.0})],
        mexma=[
            record(5, 9.0),
            record(10, 7.0, gradient_norm=float("inf"), dev={"xsim": 12.5, "fra_Latn": 12.5}),
            record(15, 8.0),
        ],
    )


def test_phases_and_terms(run: Path) -> None:
    (read,) = curves.read_runs([run])
    assert read.name == "one" and [(phase.name, phase.steps) for phase in read.phases] == [
        ("bag", 20),
        ("mexma", 15),
    ]
    words, mexma = (phase.curves for phase in read.phases)
    assert words["contrastive"] == curves.TrainingCurve([10, 20], [3.0, 2.0]) and "alignment" not in words
    assert mexma["alignment"] == curves.TrainingCurve([5, 10, 15], [4.5, 3.5, 4.0])
    assert mexma["dev"] == curves.TrainingCurve([10], [12.5])
    assert mexma["gradient_norm"] == curves.TrainingCurve([5, 15], [1.0, 1.0])  # null: it overflowed
    assert curves.names([read]) == [
        *("loss", "contrastive", "alignment"),
        *("dev", "learning_rate", "gradient_norm", "tokens_per_second"),
    ]


def test_the_table_says_first_best_and_last(run: Path) -> None:
    (read,) = curves.read_runs([run])
    header, *rows = curves.table([read])
    assert header == ["phase", "curve", "first", "best", "at step", "last", "of steps"]
    assert rows[0] == ["bag", "loss", "3", "2", "20", "2", "20"]
    assert ["mexma", "loss", "9", "7", "10", "8", "15"] in rows
    assert ["mexma", "tokens/s", "5,000", "15,000", "15", "15,000", "15"] in rows
    assert ["mexma", "learning rate", "5.00e-04", "", "", "1.50e-03", "15"] in rows
    found = curves.summary(read)["phases"][1]["curves"]["dev"]
    assert found == {"first": 12.5, "best": 12.5, "best_step": 10, "last": 12.5}
    assert json.loads(json.dumps(curves.summary(read)))["run"] == "one"


def test_runs_stand_side_by_side_and_phases_of_one_name_in_one_place(run: Path, tmp_path: Path) -> None:
    other = write(tmp_path / "two", mexma=[record(30, 6.0)])
    runs = curves.read_runs([run, other])
    assert curves.spans(runs) == {"bag": (0, 20), "mexma": (20, 50)}
    rows = [row[:4] for row in curves.table(runs)]
    assert rows[0] == ["phase", "curve", "run", "first"]
    at = rows.index(["mexma", "loss", "one", "9"])
    assert rows[at + 1] == ["mexma", "loss", "two", "6"]


def test_each_run_has_its_phases_in_its_own_order_whichever_run_is_named_first(
    run: Path, tmp_path: Path
) -> None:
    later = write(tmp_path / "later", mexma=[record(30, 6.0)], end=[record(5, 1.0)])
    for paths in ([run, later], [later, run]):
        both = curves.read_runs(paths)
        assert curves.spans(both) == {"bag": (0, 20), "mexma": (20, 50), "end": (50, 55)}
        assert list(dict.fromkeys(row[0] for row in curves.table(both)[1:])) == ["bag", "mexma", "end"]


def test_runs_with_phases_in_opposite_orders_have_no_common_axis(run: Path, tmp_path: Path) -> None:
    other = write(tmp_path / "other", mexma=[record(30, 6.0)], bag=[record(5, 1.0)])
    for draw in (curves.spans, curves.table):
        with pytest.raises(MexmaError, match="the phases bag, mexma in one order"):
            draw(curves.read_runs([run, other]))


def test_runs_of_one_name_are_told_apart(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    paths = [write(tmp_path / side / "run", mexma=[record(1, 1.0)]) for side in "ab"]
    assert [run.name for run in curves.read_runs(paths)] == [str(path) for path in paths]
    assert [run.name for run in curves.read_runs([paths[0] / "log.jsonl"])] == ["run"]


def test_smoothing_keeps_length_and_level() -> None:
    rng = np.random.default_rng(0)
    noisy = curves.TrainingCurve(list(range(400)), (5 + rng.normal(size=400)).tolist())
    smooth = noisy.smoothed()
    assert len(smooth) == 400 and smooth.std() < 0.5 and abs(smooth.mean() - 5) < 0.1
    assert smooth[200] == pytest.approx(np.mean(noisy.values[195:205]))
    assert curves.TrainingCurve([1], [3.0]).smoothed().tolist() == [3.0]


def test_a_record_that_is_being_written_is_left_out(run: Path) -> None:
    with (run / "log.jsonl").open("a") as file:
        file.write('{"phase": "mexma", "step": 20, "lo')
    assert curves.read_runs([run])[0].phases[1].steps == 15


@pytest.mark.parametrize(
    "line", ["not json", "[1]", '{"score": 1}', '{"phase": "a", "step": 1, "loss": 1, "terms": 3}']
)
def test_a_broken_line_is_named(run: Path, line: str) -> None:
    log = run / "log.jsonl"
    lines = log.read_text().splitlines()
    log.write_text("\n".join([*lines[:2], line, *lines[2:]]) + "\n")
    with pytest.raises(MexmaError, match=r"log\.jsonl, line 3: this is no record") as error:
        curves.read_runs([run])
    assert error.value.hint


@pytest.mark.parametrize("content", ["", '{"phase": '])
def test_an_empty_log_is_said_to_be_empty(tmp_path: Path, content: str) -> None:
    (tmp_path / "log.jsonl").write_text(content)
    with pytest.raises(MexmaError, match="is empty") as error:
        curves.read_runs([tmp_path])
    assert "log_every" in (error.value.hint or "")


def test_a_run_that_never_had_a_number(tmp_path: Path) -> None:
    run = write(tmp_path / "nan", mexma=[record(1, float("nan"), terms={}, gradient_norm=float("nan"))])
    (read,) = curves.read_runs([run])
    assert "loss" not in read.phases[0].curves and "learning_rate" in read.phases[0].curves
