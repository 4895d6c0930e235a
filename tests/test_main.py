"""The group: lazy, quick, and the one place where errors become messages and exit codes."""

from __future__ import annotations

import errno
import importlib
import io
import json
import logging
import os
import re
import signal
import subprocess
import sys
import types
from collections.abc import Callable
from pathlib import Path

import click
import numpy as np
import pytest
import yaml
from click.testing import CliRunner, Result

from mexma_cli import __version__, main
from mexma_cli.errors import MexmaError
from mexma_cli.main import cli
from tests.command import fails, ok, run, write
from tests.processes import MEXMA, Program

Boom = Callable[[Callable[[], None]], Result]
HEAVY = ["torch", "transformers", "numpy", "faiss", "pydantic", "yaml"]


@pytest.fixture
def run_boom(monkeypatch: pytest.MonkeyPatch) -> Boom:
    """Runs `mexma boom`, a command whose body is the function given."""

    def boom(body: Callable[[], None]) -> Result:
        module = types.ModuleType("boom")
        module.command = click.command("boom")(body)  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "mexma_cli.commands.boom", module)
        monkeypatch.setitem(main.cli.table, "boom", "Fails.")
        return run("boom")

    return boom


def raising(error: BaseException) -> Callable[[], None]:
    def body() -> None:
        raise error

    return body


def test_a_link_to_itself_is_named(tmp_path: Path) -> None:
    text, link = write(tmp_path / "a.txt", "a"), tmp_path / "b.emb"
    link.symlink_to(link)
    for command in (
        ("langid", text, "-o", link),
        ("embed", text, "-o", link),
        ("convert", link, "-o", tmp_path / "c.npy"),
        ("mine", link, text),
        ("mine", text, text, "--report", link),
        ("export", "mini", "-o", link),
    ):
        fails(run(*command), 1, "error: ", "b.emb")
    assert link.is_symlink()


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


def test_numpys_products_start_no_threads() -> None:
    """They would spin, beside those that commands cut their work into parts for."""
    code = (
        "import os\n"
        "from mexma_cli.main import cli\n"
        "cli(['languages'], prog_name='mexma', standalone_mode=False)\n"
        "import numpy\n"
        "numpy.ones((512, 512)) @ numpy.ones((512, 512))\n"
        "print('threads', len(os.listdir('/proc/self/task')))\n"
    )
    env = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
    done = subprocess.run([sys.executable, "-c", code], text=True, capture_output=True, timeout=60, env=env)
    assert done.stdout.splitlines()[-1:] == ["threads 1"], done.stderr


@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_help_lists_the_commands_by_what_they_are_for(flag: str) -> None:
    lines = ok(run(flag)).stdout.splitlines()
    for purpose, table in main.PURPOSES.items():
        start = lines.index(f"{purpose}:") + 1
        listed = lines[start : start + len(table) + 1]
        assert [line.split()[0] for line in listed[:-1]] == list(table) and not listed[-1]


@pytest.mark.parametrize("name", list(main.cli.table))
def test_every_command_is_there_with_help(name: str) -> None:
    assert importlib.import_module(f"mexma_cli.commands.{name.replace('-', '_')}").command.help
    result = ok(run(name, "--help"))
    assert result.stdout.startswith(f"Usage: cli {name}")


def test_version() -> None:
    said = run("--version").stdout
    assert re.fullmatch(rf"mexma {re.escape(__version__)} \(Python 3\.\d+\.\d+, torch \S+\)\n", said)


@pytest.mark.parametrize(("option", "level"), [("-q", logging.WARNING), ("-v", logging.DEBUG)])
def test_quiet_and_verbose_stand_after_the_command_too(option: str, level: int) -> None:
    for words in ((option, "recipes"), ("recipes", option), ("eval", "xsim", option, "--help")):
        ok(run(*words))
        if "--help" not in words:
            assert logging.getLogger("mexma_cli").level == level
    ok(run("recipes"))
    assert logging.getLogger("mexma_cli").level == logging.INFO


def test_a_log_file_is_known_again_after_a_power_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log, synced = tmp_path / "log", list[bytes]()
    monkeypatch.setattr(os, "fsync", lambda _: synced.append(log.read_bytes()))
    run("--log-file", log, "embed", tmp_path / "none")
    assert re.match(rb"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d mexma.*\n", synced[0])


def test_a_log_file_gets_the_notes_with_their_time_and_why_it_failed(tmp_path: Path) -> None:
    log, text = tmp_path / "log.txt", write(tmp_path / "a.txt", "a")
    run("--log-file", log, "embed", text, "--lang", "xxx")
    run("merge", text, "-o", tmp_path / "b.emb", "--log-file", log)
    run("embed", "--append", "--overwrite", text, "--log-file", log)
    ok(run("recipes"))
    lines = log.read_text().splitlines()
    assert all(re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d ", line) for line in lines)
    said = [line[20:] for line in lines]
    assert sum(line.split()[0] == "mexma" for line in said) == 3
    assert [line for line in said if line.startswith("error: ")] == [
        "error: unknown language code 'xxx'",
        f"error: {text} is a file and no embedding store",
        "error: --append and --overwrite contradict each other: give one of them.",
    ]


@pytest.mark.parametrize(
    ("log", "words"),
    [
        ("text", ("langid", "text", "-o", "new")),  # not a log of ours: what --log-file is given by mistake
        ("empty", ("langid", "empty", "-o", "new")),
        ("log", ("langid", "log", "-o", "new")),
        ("new", ("langid", "text", "-o", "new")),
        ("link", ("langid", "text", "-o", "new")),
        ("a.emb/log", ("langid", "text", "-o", "new")),
        ("./text", ("mine", "other", "text")),
    ],
)
def test_a_log_is_appended_to_nothing_else(
    log: str, words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("text", "other", "empty"):
        write(Path(name), *["2024-01-01 00:00:00 mexmas"] * (name != "empty"))
    ok(run("--log-file", "log", "languages"))
    Path("link").symlink_to("text")
    Path("a.emb").mkdir()
    before = {path: path.read_bytes() for path in Path().iterdir() if path.is_file()}
    for line in (("--log-file", log, *words), (*words, "--log-file", log)):
        fails(run(*line), 2, "Invalid value for --log-file: ", Path(log).name)
    assert before == {path: path.read_bytes() for path in Path().iterdir() if path.is_file()}


def test_a_log_may_be_empty_at_first_or_a_pipe(tmp_path: Path) -> None:
    log = write(tmp_path / "log")
    ok(run("--log-file", log, "languages"))
    run("--log-file", log, "info", tmp_path / "b\udcff")
    assert log.read_text().count(" mexma") == 2 and "b\\udcff" in log.read_text()
    ok(run("--log-file", os.devnull, "languages"))


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full on this system")
def test_a_log_on_a_full_disk_gets_no_more_notes(tmp_path: Path) -> None:
    text, log = write(tmp_path / "a.txt"), tmp_path / "log"
    log.symlink_to("/dev/full")
    said = ok(run("langid", text, "-o", tmp_path / "b", "--log-file", log)).stderr
    assert said.count("No space left on device; it gets no more notes\n") == 1 and "Traceback" not in said


def test_stdout_is_not_a_log(tmp_path: Path) -> None:
    with open(tmp_path / "out", "w") as out:
        words = ("-m", "mexma_cli", "--log-file", tmp_path / "out", "languages", "--json")
        done = subprocess.run([sys.executable, *words], stdout=out, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 2 and "out is stdin or stdout of the same command" in done.stderr
    assert (tmp_path / "out").read_text() == ""


HOSTILE = "\x1b[2J\x9b31m\u202e\nerror: x"
SHOWN = "\\u001b[2J\\u009b31m\\u202e\\nerror: x"


def test_what_files_say_is_shown_and_not_obeyed(run_boom: Boom, tmp_path: Path) -> None:
    """In errors, notes, wrong usage and tables, and in the log, and in JSON as JSON does it."""
    assert run_boom(raising(MexmaError(HOSTILE))).stderr == f"error: {SHOWN}\n"
    log = logging.getLogger("mexma_cli.boom")
    noted = run_boom(lambda: log.warning("%s", HOSTILE)).stderr
    assert noted == f"warning: {SHOWN}\n".replace("\\n", "\n")
    assert SHOWN.replace("\\n", "\n") in run_boom(raising(click.UsageError(HOSTILE))).stderr
    assert run_boom(lambda: click.echo(HOSTILE)).stdout == SHOWN.replace("\\n", "\n") + "\n"
    said = run_boom(lambda: click.echo(json.dumps([HOSTILE], ensure_ascii=False))).stdout
    assert said.isascii() and json.loads(said) == [HOSTILE]
    ok(run("--log-file", tmp_path / "log", "boom"))
    assert "\x9b" not in (tmp_path / "log").read_text()


def test_a_warning_says_that_it_is_one_and_its_message_does_not(run_boom: Boom, tmp_path: Path) -> None:
    log = logging.getLogger("mexma_cli.boom")

    def body() -> None:
        log.info("a note")
        log.warning("few %s", "lines")

    assert run_boom(body).stderr == "a note\nwarning: few lines\n"
    ok(run("--log-file", tmp_path / "log", "boom"))
    assert (tmp_path / "log").read_text().splitlines()[-1].endswith(" warning: few lines")
    package = Path(main.__file__).parent
    having = [path.name for path in package.rglob("*.py") if '"warning: ' in path.read_text("utf-8")]
    assert having == ["errors.py"]  # the formatter


@pytest.mark.parametrize("terminal", [True, False])
def test_data_stay_as_they_are_but_on_a_terminal(terminal: bool) -> None:
    class Stream(io.TextIOWrapper):
        def isatty(self) -> bool:
            return terminal

    held = io.BytesIO()
    stdout = main._Stdout(Stream(held, encoding="utf-8"))
    screen = stdout.buffer
    for piece in (b"\x1b[2J\xc3", b"\xa9\tb\n\xff\n"):
        screen.write(piece)
    screen.flush()
    stdout.flush()
    assert held.getvalue() == (
        b"\\u001b[2J\xc3\xa9\tb\n\\xff\n" if terminal else b"\x1b[2J\xc3\xa9\tb\n\xff\n"
    )


@pytest.mark.usefixtures("short_messages")
@pytest.mark.parametrize("raises", [MexmaError, click.UsageError, RuntimeError])
def test_no_line_of_a_message_is_long(raises: type[Exception], run_boom: Boom) -> None:
    log = logging.getLogger("mexma_cli.boom")

    def body() -> None:
        log.warning("%s", "x" * 5000)
        raise raises("y" * 5000)

    lines = run_boom(body).stderr.splitlines()
    assert max(map(len, lines)) < 310 and "…" in lines[0]


def test_help_is_as_wide_as_the_terminal_and_its_encoder_options_come_last(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    knn = cli.get_command(click.Context(cli), "knn")
    assert knn is not None
    for columns, least, most in ((60, 50, 58), (100, 85, 98), (300, 95, main.WIDEST - 2)):
        monkeypatch.setenv("COLUMNS", str(columns))
        parent = click.Context(cli, **cli.context_settings)
        text = knn.get_help(click.Context(knn, parent)).split("Example")[0]
        assert least <= max(map(len, text.splitlines())) <= most
    sections = re.split(r"\n(\S.*):\n", run("mine", "--help").stdout)[1::2]
    assert sections == [
        "Options",
        *(f"{what} options" for what in ("Scoring", "Search", "Selection", "Document", "Encoder")),
    ]


def test_recipes_are_listed_and_printed() -> None:
    listed = run("recipes").stdout.splitlines()
    place = listed.index("one-language")
    assert "minutes" in "".join(listed[place + 1 : place + 3]) and max(map(len, listed)) <= 100
    names = [line for line in listed if not line.startswith(" ")]
    assert len(names) > 20 and all(listed[listed.index(name) + 1].startswith("  ") for name in names)
    last = [line for line, after in zip(listed, [*listed[1:], ""], strict=True) if not after.startswith(" ")]
    assert not any(line.endswith("et al.") for line in last)
    assert yaml.safe_load(run("recipes", "one-language").stdout)["name"]
    assert "no recipe 'nothing'" in run("recipes", "nothing").stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("mien", "No such command 'mien'. Did you mean mine? Commands: run, demo, "),
        ("mine --margn x", "No such option '--margn'. Did you mean '--margin'?"),
        (
            "run a.yaml --resume",
            "'--resume'. The same command goes on with what was stopped, where it can.\n",
        ),
        ("mine --lang fra", "Did you mean one of: '--source-lang', '--target-lang'?"),
        ("run a.yaml --threshold 2", "Keys of the recipe are changed with --set KEY=VALUE."),
        ("embed a.txt a.emb", "Got unexpected extra argument (a.emb). An output is named with -o"),
        ("align a.txt b.txt c.txt", "(c.txt). An output is named with -o, and a pattern is quoted: 'docs/*"),
        ("zzzzz", "run, demo, split, langid, embed, merge, project"),
        ("-q -v info x", "-q and -v"),
    ],
)
def test_wrong_usage(words: str, said: str) -> None:
    assert fails(run(*words.split()), 2, said).stdout == ""


FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "out.emb/vectors")
CLOSED = OSError(errno.EACCES, os.strerror(errno.EACCES), "out.emb/vectors")


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (MexmaError("a.txt: no", "convert it"), 1, r"error: a\.txt: no\nhint: convert it\n"),
        (MexmaError("no"), 1, r"error: no\n"),
        (click.UsageError("not so"), 2, r"(.*\n)*Error: not so\n"),
        (KeyboardInterrupt(), 130, r"\s*interrupted\s*"),
        (BrokenPipeError(errno.EPIPE, "Broken pipe"), 1, ""),
        (FULL, 1, r"error: out\.emb/vectors: No space left on device\nhint: .*free some space.*\n"),
        (CLOSED, 1, r"error: out\.emb/vectors: Permission denied\nhint: .*name another path.*\n"),
        (MemoryError(), 1, r"error: not enough memory\nhint: .*\n"),
    ],
)
def test_errors_are_a_message_and_an_exit_code(
    error: BaseException, code: int, said: str, run_boom: Boom
) -> None:
    result = run_boom(raising(error))
    assert (result.exit_code, result.stdout) == (code, "")
    assert re.fullmatch(said, result.stderr)


def test_debug_shows_the_traceback(run_boom: Boom, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEXMA_DEBUG", "1")
    result = run_boom(raising(MexmaError("no")))
    assert isinstance(result.exception, MexmaError)


def test_other_errors_are_ours_and_not_hidden(
    run_boom: Boom, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A line says so, and has the place; the traceback is in the log."""
    bug, log = raising(AssertionError("a bug")), tmp_path / "log"
    fails(run_boom(bug), 1, "error: AssertionError in mexma_cli.", ": a bug\nhint: that is a defect")
    fails(run("boom", "--log-file", log), 1)
    assert "Traceback (most recent call last):" in log.read_text() and "in body" in log.read_text()
    monkeypatch.setenv("MEXMA_DEBUG", "1")
    assert isinstance(run_boom(bug).exception, AssertionError)


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
    ("name", "code", "said"),
    [
        ("SIGINT", 130, "interrupted"),
        ("SIGTERM", 143, "ended by SIGTERM"),
        ("SIGHUP", 129, "ended by SIGHUP"),
    ],
)
def test_a_signal_that_comes_where_python_forgets_errors_ends_it(name: str, code: int, said: str) -> None:
    """As Ctrl-C in the callback of an import's lock: the command went on, and ended with 0."""
    handler = "default_int_handler" if name == "SIGINT" else "SIG_DFL"
    script = (
        "import click, signal, time, weakref\n"
        "from mexma_cli.main import cli\n"
        f"signal.signal(signal.{name}, signal.{handler})\n"
        "def work(group, ctx):\n"
        f"    lock = weakref.ref(set(), lambda _: signal.raise_signal(signal.{name}))\n"
        "    time.sleep(30)\n"
        "click.Group.invoke = work\n"
        "cli(['info', 'x'])\n"
    )
    done = subprocess.run([sys.executable, "-c", script], text=True, capture_output=True, timeout=60)
    assert (done.returncode, done.stderr.strip()) == (code, said)


@pytest.mark.parametrize("heard", ["default_int_handler", "SIG_IGN"])
def test_ctrl_c_while_python_imports_gives_no_traceback(heard: str, tmp_path: Path) -> None:
    """As long as nothing is imported that could tell of it; one that is ignored stays so."""
    write(tmp_path / "click.py", "import signal", "signal.raise_signal(signal.SIGINT)", "raise SystemExit(3)")
    script = (
        "import runpy, signal\n"
        f"signal.signal(signal.SIGINT, signal.{heard})\n"
        "runpy.run_module('mexma_cli', run_name='__main__')\n"
    )
    where = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    done = subprocess.run([sys.executable, "-c", script], env=where, text=True, capture_output=True)
    assert (done.returncode, done.stderr) == (3 if heard == "SIG_IGN" else -signal.SIGINT, "")


def test_too_little_memory_is_a_message(run_boom: Boom) -> None:
    said = "error: not enough memory: Unable to allocate 1.00 EiB for an array"
    fails(run_boom(lambda: np.zeros(1 << 57)), 1, said, "\nhint: end other programs")


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
    ok(run("convert", f"{text}.raw", "--dim", "2", "--text", text, "-o", f"{text}.emb"))
    line = f"{sys.executable} -m mexma_cli -q {command.format(text=text)} {closed}"
    done = subprocess.run(line, shell=True, capture_output=True, text=True, timeout=60)
    assert done.returncode == code and said in done.stderr, done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "variable", "value", "message"),
    [
        (["mine", "a", "b"], "MEXMA_MINE_NEIGHBOURHOOD", "0", "'--neighbourhood' (from MEXMA_MINE_N"),
        (["mine", "a", "b"], "MEXMA_MINE_FORMAT", "xls", "'--format' (from MEXMA_MINE_FORMAT)"),
        (["convert", "a", "--dim", "3", "--text", "b", "-o", "c"], "MEXMA_CONVERT_LANG", "qqq", "code 'qqq'"),
        (["eval", "xsim", "."], "MEXMA_EVAL_XSIM_NEIGHBOURHOOD", "0", "(from MEXMA_EVAL_XSIM_N"),
    ],
)
def test_options_have_their_own_names_in_the_environment(
    arguments: list[str], variable: str, value: str, message: str
) -> None:
    result = CliRunner(env={variable: value}).invoke(main.cli, arguments)
    assert result.exit_code and message in result.stderr, result.output
