"""The group: lazy, quick, and the one place where errors become messages and exit codes."""

from __future__ import annotations

import errno
import importlib
import os
import signal
import subprocess
import sys
import types
from collections.abc import Callable
from pathlib import Path

import click
import numpy as np
import pytest
from click.testing import CliRunner, Result

from mexma_cli import __version__, main
from mexma_cli.errors import MexmaError
from tests.command import fails, ok, run
from tests.processes import MEXMA, Program

Boom = Callable[[Callable[[], None]], Result]
HEAVY = ["torch", "transformers", "numpy", "faiss", "pydantic", "yaml"]


def run_module(*args: str, **kwargs: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mexma_cli", *args]
    return subprocess.run(command, text=True, capture_output=True, timeout=60, **kwargs)  # type: ignore[call-overload]


@pytest.fixture
def run_boom(monkeypatch: pytest.MonkeyPatch) -> Boom:
    """Runs `mexma boom`, a command whose body is the function given."""

    def boom(body: Callable[[], None]) -> Result:
        module = types.ModuleType("boom")
        module.command = click.command("boom")(body)  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "mexma_cli.commands.boom", module)
        monkeypatch.setitem(main.COMMANDS, "boom", "Fails.")
        return run("boom")

    return boom


def raising(error: BaseException) -> Callable[[], None]:
    def body() -> None:
        raise error

    return body


def test_help_imports_little() -> None:
    """It is quick for that: 130 modules, most of them of Python and Click, in 0.05 s."""
    code = (
        "import sys\n"
        "from mexma_cli.main import cli\n"
        "cli(['--help'], prog_name='mexma', standalone_mode=False)\n"
        f"loaded = [name for name in {HEAVY} if name in sys.modules]\n"
        "loaded += [name for name in sys.modules if name.startswith('mexma_cli.commands')]\n"
        "loaded += ['too much'] * (len(sys.modules) > 250)\n"
        "sys.exit(f'imported: {loaded}' if loaded else 0)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], text=True, capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_help_lists_the_commands_in_order(flag: str) -> None:
    result = ok(run(flag))
    listed = result.stdout.split("Commands:")[1].split("Examples:")[0].split("\n")
    assert [line.split()[0] for line in listed if line.strip()] == list(main.COMMANDS)


@pytest.mark.parametrize("name", list(main.COMMANDS))
def test_every_command_is_there_with_help(name: str) -> None:
    assert importlib.import_module(f"mexma_cli.commands.{name}").command.help
    result = ok(run(name, "--help"))
    assert result.stdout.startswith(f"Usage: cli {name}")


def test_version() -> None:
    assert run_module("--version").stdout == f"mexma {__version__}\n"


def test_unknown_command_names_the_nearest() -> None:
    result = fails(run("mien"), 2, "No such command 'mien'. Did you mean 'mine'?")
    assert result.stdout == ""


def test_unknown_command_without_a_near_one_lists_all() -> None:
    fails(run("zzzzz"), 2, "prepare, train, report, embed, merge, project, mine")


def test_quiet_and_verbose_contradict() -> None:
    fails(run("-q", "-v", "info", "x"), 2, "-q and -v")


def test_mexma_error_is_message_and_hint(run_boom: Boom) -> None:
    result = fails(run_boom(raising(MexmaError("a.txt, line 3: not UTF-8", "convert it"))), 1)
    assert result.stderr == "error: a.txt, line 3: not UTF-8\nhint: convert it\n"
    assert result.stdout == ""


def test_mexma_error_without_hint(run_boom: Boom) -> None:
    assert run_boom(raising(MexmaError("no"))).stderr == "error: no\n"


def test_wrong_usage_is_2(run_boom: Boom) -> None:
    fails(run_boom(raising(click.UsageError("not so"))), 2, "not so")


def test_debug_shows_the_traceback(run_boom: Boom, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEXMA_DEBUG", "1")
    result = run_boom(raising(MexmaError("no")))
    assert isinstance(result.exception, MexmaError)


def test_other_errors_are_ours_and_not_hidden(run_boom: Boom) -> None:
    assert isinstance(run_boom(raising(AssertionError("a bug"))).exception, AssertionError)


def test_interrupt_is_130(run_boom: Boom) -> None:
    result = fails(run_boom(raising(KeyboardInterrupt())), 130)
    assert result.stderr.strip() == "interrupted"


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_job_that_is_ended_takes_its_temporary_files_away(
    number: signal.Signals, code: int, tmp_path: Path
) -> None:
    """As `timeout`, Slurm and a closed terminal do it: the text is still coming through a pipe."""
    os.mkfifo(tmp_path / "fra")
    (tmp_path / "eng.txt").write_text("Where is the station?\n")
    (tmp_path / "tmp").mkdir()
    default = f"import signal; signal.signal({number.value}, signal.SIG_DFL)\n"  # where tests run under nohup
    words = ("-q", "mine", "fra", "eng.txt", "-o", "pairs.tsv")
    process = Program(default + MEXMA, *words, folder=tmp_path, TMPDIR=str(tmp_path / "tmp"))
    with (tmp_path / "fra").open("w"):  # opens when the other end does
        process.until(lambda: any((tmp_path / "tmp").glob("*/input")))
        process.send_signal(number)
        said = process.communicate()[1]
    assert process.returncode == code and said.strip() == f"ended by {number.name}", said
    assert os.listdir(tmp_path / "tmp") == []
    assert sorted(os.listdir(tmp_path)) == ["eng.txt", "fra", "tmp"]


def test_nohup_is_not_overruled() -> None:
    code = (
        "import os, signal\n"
        "from mexma_cli.main import cli\n"
        "signal.signal(signal.SIGHUP, signal.SIG_IGN)\n"
        "signal.signal(signal.SIGTERM, lambda *_: print('mine'))\n"
        "cli.invoke = lambda ctx: [os.kill(os.getpid(), n) for n in (signal.SIGHUP, signal.SIGTERM)]\n"
        "cli(['info', 'x'])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], text=True, capture_output=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "mine\n"), done.stderr


@pytest.mark.parametrize(
    ("code", "message", "hint"),
    [
        (errno.ENOSPC, "out.emb/vectors: No space left on device", "free some space"),
        (errno.EACCES, "out.emb/vectors: Permission denied", "name another path"),
    ],
)
def test_disk_errors_name_the_file(run_boom: Boom, code: int, message: str, hint: str) -> None:
    result = fails(run_boom(raising(OSError(code, os.strerror(code), "out.emb/vectors"))), 1)
    assert result.stderr.startswith(f"error: {message}\nhint: ")
    assert hint in result.stderr


def test_too_little_memory_is_a_message(run_boom: Boom) -> None:
    result = fails(run_boom(lambda: np.zeros(1 << 57)), 1)
    assert result.stderr.startswith("error: not enough memory: Unable to allocate 1.00 EiB for an array")
    assert "\nhint: end other programs" in result.stderr
    assert run_boom(raising(MemoryError())).stderr.startswith("error: not enough memory\nhint: ")


def test_closed_pipe_is_quiet(run_boom: Boom) -> None:
    result = fails(run_boom(raising(BrokenPipeError(errno.EPIPE, "Broken pipe"))), 1)
    assert result.stderr == ""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full on this system")
def test_full_disk_on_stdout() -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "mexma_cli", "--help"], stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert done.returncode == 1
    assert done.stderr.startswith("error: No space left on device\nhint: ")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("command", "closed", "code", "said"),
    [
        ("convert {text}.emb -o {text}.raw", ">&-", 0, ""),
        ("merge {text}.emb -o {text}.all", "2>&-", 0, ""),
        ("convert {text}.emb -o -", ">&-", 1, "error: Bad file descriptor\nhint: is stdin or stdout closed?"),
        ("convert {text}.raw --dim 2 --text - -o {text}.new", "<&-", 1, "error: Bad file descriptor"),
    ],
)
def test_a_closed_stream(command: str, closed: str, code: int, said: str, tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_text("a\n")
    Path(f"{text}.raw").write_bytes(bytes(8))
    made = run_module("convert", f"{text}.raw", "--dim", "2", "--text", str(text), "-o", f"{text}.emb")
    assert made.returncode == 0, made.stderr
    line = f"{sys.executable} -m mexma_cli -q {command.format(text=text)} {closed}"
    done = subprocess.run(line, shell=True, capture_output=True, text=True, timeout=60)
    assert done.returncode == code and said in done.stderr, done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "variable", "value", "message"),
    [
        (["mine", "a", "b"], "MEXMA_MINE_NEIGHBOURHOOD", "0", "'--neighbourhood' (from MEXMA_MINE_N"),
        (["mine", "a", "b"], "MEXMA_MINE_FORMAT", "csv", "'--format' (from MEXMA_MINE_FORMAT)"),
        (["convert", "a", "--dim", "3", "--text", "b", "-o", "c"], "MEXMA_CONVERT_LANG", "qqq", "code 'qqq'"),
        (["eval", "xsim", "."], "MEXMA_EVAL_XSIM_NEIGHBOURHOOD", "0", "(from MEXMA_EVAL_XSIM_N"),
    ],
)
def test_options_have_their_own_names_in_the_environment(
    arguments: list[str], variable: str, value: str, message: str
) -> None:
    result = CliRunner(env={variable: value}).invoke(main.cli, arguments)
    assert result.exit_code and message in result.stderr, result.output
