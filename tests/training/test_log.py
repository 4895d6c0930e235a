"""A resumed run's log is that of a run which nothing stopped; TensorBoard and wandb read the same numbers."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mexma_cli.errors import MexmaError
from mexma_cli.training.log import LOGGERS, Logs, TrainingLog, check_loggers, scalars


def records(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def write(path: Path, phase: str, from_step: int, steps: range) -> None:
    log = TrainingLog(path, phase, from_step)
    for step in steps:
        log.write({"step": step})
    log.close()


def test_records_past_the_resume_point_are_dropped(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    write(path, "bag", 0, range(1, 4))
    write(path, "mexma", 0, range(1, 8))
    write(path, "mexma", 5, range(6, 10))
    assert [(r["phase"], r["step"]) for r in records(path)] == [("bag", step) for step in range(1, 4)] + [
        ("mexma", step) for step in range(1, 10)
    ]


def test_a_half_line_is_dropped(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    write(path, "bag", 0, range(1, 4))
    path.write_bytes(path.read_bytes()[:-5])
    write(path, "bag", 2, range(3, 5))
    assert [r["step"] for r in records(path)] == [1, 2, 3, 4]


def test_a_record_is_on_disk_at_once(tmp_path: Path) -> None:
    log = TrainingLog(tmp_path / "log.jsonl", "bag", 0)
    log.write({"step": 1, "loss": 0.5})
    assert records(tmp_path / "log.jsonl") == [{"phase": "bag", "step": 1, "loss": 0.5}]
    log.close()


def test_every_line_is_json_for_everyone(tmp_path: Path) -> None:
    log = TrainingLog(tmp_path / "log.jsonl", "bag", 0)
    log.write({"step": 1, "gradient_norm": float("inf")})
    log.close()
    assert records(tmp_path / "log.jsonl") == [{"phase": "bag", "step": 1, "gradient_norm": None}]


@pytest.mark.parametrize(
    "bad", [b'{"phase": "b\xffg", "step": 2}', b"[2]", b'{"phase": "bag"}', b"[" * 5000, b""]
)
def test_a_damaged_line_is_left_out_with_a_word(
    bad: bytes, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "log.jsonl"
    write(path, "bag", 0, range(1, 4))
    first, _, *others = path.read_bytes().split(b"\n")
    path.write_bytes(b"\n".join([first, bad, *others]))
    write(path, "bag", 3, range(4, 5))
    assert [r["step"] for r in records(path)] == [1, 3, 4]
    assert "log.jsonl, line 2: damaged, and left out" in caplog.text


RECORD = {
    "step": 3,
    "loss": 2.5,
    "terms": {"koleo": -0.5},
    "dev": {"xsim": 12.5, "spa_Latn": 12.5},
    "phase": "mexma",
}


def test_the_numbers_of_a_record() -> None:
    assert scalars(RECORD) == {"loss": 2.5, "terms/koleo": -0.5, "dev/xsim": 12.5, "dev/spa_Latn": 12.5}


@pytest.mark.parametrize("last", [0, 1])  # the step that was saved
def test_tensorboard_has_every_number_at_its_step_and_hides_what_a_resume_does_again(
    last: int, tmp_path: Path
) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    log = LOGGERS["tensorboard"](tmp_path, "mexma", 0)
    for step in (1, 2, 3):
        log.write(RECORD | {"step": step, "loss": float(step)})
    log.close()
    resumed = LOGGERS["tensorboard"](tmp_path, "mexma", last)
    resumed.write(RECORD | {"step": last + 1, "loss": 20.0})
    resumed.close()
    events = EventAccumulator(str(tmp_path / "tensorboard" / "mexma")).Reload()
    before = [(step, float(step)) for step in range(1, last + 1)]
    assert [(event.step, event.value) for event in events.Scalars("loss")] == [*before, (last + 1, 20.0)]
    assert events.Scalars("dev/xsim")[0].value == 12.5
    assert events.Scalars("terms/koleo")[0].value == -0.5


def test_wandb_offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    log = LOGGERS["wandb"](tmp_path, "mexma", 0)
    log.write(RECORD)
    log.close()
    (file,) = (tmp_path / "wandb").glob("offline-run-*/run-*.wandb")
    content = file.read_bytes()
    assert all(name in content for name in (b"terms/koleo", b"dev/xsim", b"loss"))


def test_a_wandb_run_is_its_folders_wherever_that_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ids: list[str] = []
    wandb = SimpleNamespace(init=lambda **settings: ids.append(settings["id"]))
    monkeypatch.setitem(sys.modules, "wandb", wandb)
    run = tmp_path / "run"
    for phase, step in (("bag", 0), ("bag", 5), ("mexma", 0)):
        LOGGERS["wandb"](run, phase, step)
    run.rename(tmp_path / "moved")
    LOGGERS["wandb"](tmp_path / "moved", "mexma", 5)
    LOGGERS["wandb"](run, "bag", 0)  # another run in the place of the one before
    assert ids[0] == ids[1] and ids[2] == ids[3] and len(set(ids)) == 3


@pytest.mark.parametrize("name", list(LOGGERS))
def test_a_package_that_is_not_there_is_named(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, name, None)  # what `import` takes for absent
    with pytest.raises(MexmaError, match=f"{name} is not installed") as caught:
        check_loggers([name])
    assert caught.value.hint is not None and caught.value.hint.startswith(f"pip install '{name}>=")


def test_several_logs_are_one() -> None:
    class Kept:
        def __init__(self) -> None:
            self.records: list[object] = []

        def write(self, record: dict[str, object]) -> None:
            self.records.append(record)

        def close(self) -> None:
            self.records.append("closed")

    one, two = Kept(), Kept()
    logs = Logs([one, two])
    logs.write(RECORD)
    logs.close()
    assert one.records == two.records == [RECORD, "closed"]
