"""The log after a resume is the log of the run that would have been."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mexma_cli.training.log import TrainingLog


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
