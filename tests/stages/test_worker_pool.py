"""Work in several processes: what comes back, how far ahead they are, and how they end."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from mexma_cli.errors import MexmaError
from mexma_cli.stages.worker_pool import end_if_stopped, in_processes
from tests.processes import MEXMA, Program, forks_of_pools, wait_until


@pytest.fixture(autouse=True)
def forks(monkeypatch: pytest.MonkeyPatch) -> None:
    forks_of_pools(monkeypatch)


@pytest.mark.parametrize("count", [1, 2])
def test_results_in_order_and_only_so_many_items_ahead(count: int) -> None:
    taken: list[int] = []

    def items() -> Iterator[tuple[str, tuple[int, int]]]:
        for number in range(11):
            taken.append(number)
            yield f"item {number}", (number, 2)

    found = []
    with closing(in_processes(count, pow, items(), in_order=True)) as results:
        for key, result in results:
            found.append((key, result))
            assert len(taken) < len(found) + 2 * count
    assert found == [(f"item {number}", number**2) for number in range(11)]


def test_no_process_starts_for_a_single_item() -> None:
    ((_, one),) = in_processes(2, os.getpid, [(None, ())])
    several = {number for _, number in in_processes(2, os.getpid, [(None, ())] * 3)}
    assert one == os.getpid() and os.getpid() not in several


def wait_for(path: Path | None) -> None:
    if path:
        wait_until(path.exists)


def test_what_takes_long_holds_nothing_up(tmp_path: Path) -> None:
    """The first item ends after the fifth, which is further ahead than results in order would let it be."""
    items = ((number, (None if number else tmp_path / "4",)) for number in range(6))
    ended = []
    with closing(in_processes(2, wait_for, items)) as results:
        for number, _ in results:
            (tmp_path / str(number)).touch()
            ended.append(number)
    assert sorted(ended) == list(range(6)) and ended.index(0) > ended.index(4)


def send_itself(number: int) -> None:
    os.kill(os.getpid(), number)


@pytest.mark.parametrize("when", ["it works", "items are read"])
def test_a_process_that_is_killed(when: str) -> None:
    def items() -> Iterator[tuple[None, tuple[int]]]:
        yield None, (signal.SIGKILL,)
        if when == "items are read":
            wait_until(lambda: not multiprocessing.active_children())
        yield None, (0,)

    with pytest.raises(MexmaError, match="one of the processes was killed from outside"):
        list(in_processes(2, send_itself, items()))


def until_stopped(path: Path) -> None:
    path.touch()
    try:
        while path.name != "0":
            end_if_stopped()
            time.sleep(0.01)
    finally:
        path.rename(path.with_name("ended"))


def test_left_early_all_take_away_what_they_made(tmp_path: Path) -> None:
    items = ((None, (tmp_path / str(number),)) for number in range(9))
    with closing(in_processes(2, until_stopped, items)) as results:
        next(results)
        wait_until((tmp_path / "1").exists)
    assert [path.name for path in tmp_path.iterdir()] == ["ended"]


def is_starting(pid: int) -> bool:
    """Whether a process of a pool is there."""
    with suppress(OSError):
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return any(b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes() for child in children)
    return False


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="needs /proc")
@pytest.mark.parametrize("seconds", [0.1, *(pytest.param(at, marks=pytest.mark.slow) for at in (0, 0.3, 1))])
@pytest.mark.parametrize(
    "command",
    ["split a.txt --lang eng -o s.txt", pytest.param("filter a.tsv -o f.tsv", marks=pytest.mark.slow)],
)
def test_ctrl_c_while_processes_start_is_said_in_a_line(tmp_path: Path, command: str, seconds: float) -> None:
    lines = [f"This is sentence number {number} of a text.\n" for number in range(100_000)]
    (tmp_path / "a.txt").write_text("".join(lines))
    (tmp_path / "a.tsv").write_text("".join(f"{line[:-1]}\t{line}" for line in lines))
    program = Program(MEXMA, *command.split(), "--workers", "2", folder=tmp_path)
    program.until(lambda: is_starting(program.pid))
    time.sleep(seconds)
    os.killpg(program.pid, signal.SIGINT)
    stderr = program.communicate()[1]
    assert program.returncode == 130 and stderr.endswith("\ninterrupted\n"), stderr
    assert "Traceback" not in stderr
    assert sorted(path.name for path in tmp_path.glob("*.t*")) == ["a.tsv", "a.txt"]
