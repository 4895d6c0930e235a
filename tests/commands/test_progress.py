"""Progress in a job's log: lines, not many, and none where the work is short or -q was given."""

from __future__ import annotations

import io
import logging
import sys

import pytest

from mexma_cli.commands import progress as module
from mexma_cli.commands.progress import follow, progress
from mexma_cli.main import _set_up_logging


def walked(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, seconds: float, unit: str = "line"
) -> list[str]:
    """What is logged of 30 units of two seconds each, with a line wanted every so many."""
    clock = [0.0]
    monkeypatch.setattr(module, "LINE_SECONDS", seconds)
    monkeypatch.setattr(module.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr("tqdm.std.time", lambda: clock[0])
    caplog.set_level(logging.INFO, "mexma_cli")
    with progress(desc="working", total=30, unit=unit) as bar:
        for _ in range(30):
            clock[0] += 2
            bar.update()
    return [record.getMessage() for record in caplog.records]


def test_a_line_now_and_then(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    lines = walked(monkeypatch, caplog, 20)
    assert 2 <= len(lines) <= 3
    assert lines[0].startswith("working: 1") and " of 30 [00:2" in lines[0] and lines[0].endswith("s/line]")
    assert all("\r" not in line and "\x1b" not in line for line in lines)


def test_several_bars_move_no_cursor(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "LINE_SECONDS", 0.0)
    caplog.set_level(logging.INFO, "mexma_cli")
    with progress(desc="first", total=1), progress(desc="second", total=1, position=1) as bar:
        bar.update()
    said = [record.getMessage() for record in caplog.records]
    assert any(line.startswith("second: 1 of 1") for line in said) and not any(
        "\x1b" in line for line in said
    )


@pytest.mark.parametrize(
    ("unit", "rate"), [("tile", "2.00s/tile]"), ("row", "2.00s/row]"), ("corpus", "2.00s/corpus]")]
)
def test_the_unit_of_slow_work(
    unit: str, rate: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    assert all(line.endswith(rate) for line in walked(monkeypatch, caplog, 20, unit))


def test_short_work_is_not_talked_about(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    assert walked(monkeypatch, caplog, 61) == []


def test_quiet_is_quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "mexma_cli")
    assert progress(total=3).disable


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_gets_a_bar(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    caplog.set_level(logging.INFO, "mexma_cli")
    with progress(desc="working", total=3, delay=0) as bar:
        bar.update(3)
    assert "working:" in terminal.getvalue() and "\r" in terminal.getvalue()
    assert not caplog.records


def test_a_terminal_gets_no_bar_for_what_is_done_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr("tqdm.std.time", lambda: 0.0)
    with progress(desc="working") as bar:
        for done in range(4):
            follow(bar)(done, 3)
    assert "working" not in terminal.getvalue()


def test_a_note_has_a_line_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal, logger = Terminal(), logging.getLogger("mexma_cli")
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(logger, "handlers", [])
    monkeypatch.setattr(logger, "propagate", True)
    monkeypatch.setattr(logger, "level", logging.NOTSET)
    _set_up_logging(0)
    with progress(desc="working", total=3, delay=0) as bar:
        bar.update()
        logger.info("all is written")
    before, _ = terminal.getvalue().split("all is written\n")
    assert "working:" in before and before.rpartition("\r")[2].strip() == ""


def test_what_is_printed_when_all_is_done_has_a_line_of_its_own(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    caplog.set_level(logging.INFO, "mexma_cli")
    with progress(desc="working", mininterval=0, delay=0) as bar:
        report_progress = follow(bar)
        report_progress(1, 2)
        assert "50%" in terminal.getvalue().rpartition("\r")[2]
        report_progress(2, 2)
        assert terminal.getvalue().rpartition("\r")[2] == ""
