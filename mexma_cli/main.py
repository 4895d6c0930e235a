"""The command line: a group of lazily imported commands, and the one place where errors become messages.

`mexma --help` imports neither numpy nor torch nor any command: the table below has all it prints.
"""

from __future__ import annotations

import errno
import importlib
import io
import logging
import os
import shlex
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Never, TextIO

import click
from click.core import ParameterSource

from mexma_cli import __version__
from mexma_cli.errors import MexmaError
from mexma_cli.lazy import LazyGroup

COMMANDS = {
    "split": "Turn documents into sentences, clean and in one language.",
    "langid": "Identify the language of each line.",
    "prepare": "Clean and tokenise parallel text for training.",
    "recipes": "List the recipes that come with mexma, or print one.",
    "train": "Train an encoder from a recipe.",
    "new-language": "Train and measure an encoder for one language.",
    "report": "Compare training runs, or make a page of evaluations.",
    "embed": "Turn a text file, one sentence a line, into vectors.",
    "merge": "Join embedding stores into one.",
    "project": "Write the meaning or the language part of vectors.",
    "mine": "Find the translations in two texts, best first.",
    "align": "Align the sentences of documents that are translations.",
    "score": "Score each line of an existing bitext.",
    "filter": "Drop the pairs of a bitext that break a rule.",
    "search": "Find the best sentence for every query.",
    "knn": "Keep the nearest neighbours of two texts.",
    "tune": "Find the best score threshold, with or without a gold list.",
    "run": "Mine many language pairs, from one recipe.",
    "eval": "Measure an encoder on the papers' benchmarks.",
    "augment": "Make hard negatives of English text, for xsim++.",
    "convert": "Exchange vectors with other tools (LASER, NumPy).",
    "export": "Write an encoder for sentence-transformers.",
    "languages": "List languages, their codes and what knows them.",
    "info": "Describe and check a file or folder.",
    "demo": "Mine two small texts that come with mexma.",
    "doctor": "Print what is installed, and what would help.",
}
"""The files of `commands/`, each with a line of help, in the order of the road."""

EPILOG = """\b
Examples:
  mexma embed --lang spa spa.txt -o spa.emb
  mexma embed --lang eng eng.txt -o eng.emb
  mexma mine spa.emb eng.emb --margin ratio -o pairs.tsv
  mexma tune pairs.tsv --gold gold.tsv

An option can also come from the environment: MEXMA_MINE_THRESHOLD=1.06 is
`mexma mine --threshold 1.06`. `mexma COMMAND --help` explains a command."""

_DISK_HINTS = {
    errno.ENOSPC: "free some space, or write to another disk; the same command goes on where it can",
    errno.EDQUOT: "the disk quota is used up; free some space, or write to another disk",
    errno.EACCES: "check who may read and write there, or name another path",
    errno.EPERM: "check who may read and write there, or name another path",
    errno.EROFS: "that disk is mounted read-only; name another path",
    errno.EBADF: "is stdin or stdout closed?",
    errno.EMFILE: "too many open files; raise the limit with `ulimit -n`",
}

COMPLETION = "_MEXMA_COMPLETE"
"""The variable by which a shell asks what it may offer."""

WIDEST = 110
"""Columns of the help, on a terminal that has more."""

_LOGGER = logging.getLogger("mexma_cli")

_MEMORY_HINT = "end other programs, or raise the limit of this one (`ulimit -v`); mine and knn have --memory"


def _explain(error: MexmaError | OSError | MemoryError) -> list[str]:
    """What is said of an error: a line, and one with a hint if there is any."""
    if isinstance(error, MexmaError):
        message, hint = error.message, error.hint
    elif isinstance(error, MemoryError):
        message, hint = ": ".join(filter(None, ("not enough memory", str(error)))), _MEMORY_HINT
    else:
        names = " -> ".join(str(name) for name in (error.filename, error.filename2) if name is not None)
        what = error.strerror or str(error) or type(error).__name__
        message, hint = (f"{names}: {what}" if names else what), _DISK_HINTS.get(error.errno or 0)
    return [f"error: {message}", *([f"hint: {hint}"] if hint else [])]


def _drop_unwritable_stdout() -> None:
    """Let Python shut down without a second complaint about output that cannot be written."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _replace_closed_streams() -> None:
    """Replace the streams that the caller has closed (`>&-`); else the next file would get their numbers.

    The new stdin and stdout fail when they are used, and the new stderr drops what is written to it.
    """
    for name, flags, mode in (
        ("stdin", os.O_WRONLY, "r"),
        ("stdout", os.O_RDONLY, "w"),
        ("stderr", os.O_WRONLY, "w"),
    ):
        if getattr(sys, name) is None:
            stream = open(os.open(os.devnull, flags), mode, encoding="utf-8")  # noqa: SIM115 - stays open
            setattr(sys, name, stream)


def _print_any_name() -> None:
    """File names need not be UTF-8: other bytes become \\udcXX on stdout, as on stderr and in JSON."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


class _Ended(SystemExit):
    """The program is to end because of a signal."""

    def __init__(self, number: int) -> None:
        super().__init__(128 + number)
        self.name = signal.Signals(number).name


@contextmanager
def _tidy_when_ended() -> Iterator[None]:
    """Let SIGTERM and SIGHUP unwind the program as Ctrl-C does, so that temporary files go.

    A second signal ends it at once. A signal that is ignored, as under nohup, stays ignored.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may set handlers
        return

    def end(number: int, frame: object) -> Never:
        signal.signal(number, signal.SIG_DFL)
        raise _Ended(number)

    ours = [
        number for number in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(number) == signal.SIG_DFL
    ]
    for number in ours:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, signal.SIG_DFL)


def _name_variable(error: click.BadParameter) -> None:
    """Let the message name the environment's variable beside the option, if the bad value came from there."""
    option, ctx = error.param, error.ctx
    if option is None or option.name is None or ctx is None:
        return
    if ctx.get_parameter_source(option.name) is ParameterSource.ENVIRONMENT:
        error.param_hint = f"{option.get_error_hint(ctx)} (from {option.envvar})"


class RoadGroup(LazyGroup):
    """The whole program: what goes wrong in a command becomes a message here."""

    @property
    def everywhere(self) -> list[click.Parameter]:
        """Options that every command takes, too, and that only the help of the program tells of."""
        return _EVERYWHERE

    def invoke(self, ctx: click.Context) -> Any:
        try:
            with _failure_logged():
                result = super().invoke(ctx)
            sys.stdout.flush()  # a full disk or a closed pipe shows here, not while Python shuts down
            return result
        except click.BadParameter as error:
            _name_variable(error)
            raise
        except KeyboardInterrupt:
            click.echo("\ninterrupted", err=True)
            ctx.exit(130)

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """The one place where an error becomes a message and an exit code (MEXMA_DEBUG=1: a traceback).

        Click itself does wrong usage (2) and the closed pipe (1, quietly).
        """
        _replace_closed_streams()
        _print_any_name()
        # Threads of NumPy's own would spin while they wait: what takes long is cut into parts for ours.
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
        if COMPLETION in os.environ:
            importlib.import_module("mexma_cli.commands.completion")  # the shells' scripts
        try:
            with _tidy_when_ended():
                return super().main(*args, **kwargs)
        except _Ended as ended:
            click.echo(f"\nended by {ended.name}", err=True)
            _drop_unwritable_stdout()
            raise
        except (MexmaError, OSError, MemoryError) as error:
            traceback_wanted = os.environ.get("MEXMA_DEBUG", "") not in ("", "0")
            if traceback_wanted or not kwargs.get("standalone_mode", True):
                raise
            for line in _explain(error):
                click.echo(line, err=True)
            _drop_unwritable_stdout()
            sys.exit(1)


class _Notes(logging.StreamHandler[TextIO]):
    """Our notes on stderr, above a progress bar and not at the end of its line."""

    def emit(self, record: logging.LogRecord) -> None:
        bars = getattr(sys.modules.get("tqdm"), "tqdm", None)  # a bar is there only if this was imported
        if bars is None or not getattr(bars, "_instances", None):
            super().emit(record)
            return
        with bars.external_write_mode(file=self.stream):
            super().emit(record)


_TRANSFORMERS = "error", "info"


def _set_up_logging(verbosity: int) -> None:
    """Our own notes go to stderr as plain lines: with -q warnings only, with -v details too."""
    level = {-1: logging.WARNING, 0: logging.INFO}.get(verbosity, logging.DEBUG)
    _LOGGER.setLevel(level)
    _LOGGER.handlers = [_Notes(sys.stderr), *_log_files()]
    _LOGGER.propagate = False
    # Read by the libraries when they are imported, later, by the commands that need them.
    if os.environ.get("TRANSFORMERS_VERBOSITY", _TRANSFORMERS[0]) in _TRANSFORMERS:
        os.environ["TRANSFORMERS_VERBOSITY"] = _TRANSFORMERS[verbosity > 0]
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")


def _log_files() -> list[logging.FileHandler]:
    """Of --log-file."""
    return [handler for handler in _LOGGER.handlers if isinstance(handler, logging.FileHandler)]


def _log_to(ctx: click.Context, _: click.Parameter, path: str | None) -> None:
    if path is None or ctx.resilient_parsing:
        return
    handler = logging.FileHandler(path, encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s", "%Y-%m-%d %H:%M:%S"))
    _LOGGER.addHandler(handler)
    ctx.find_root().call_on_close(lambda: _close(handler))
    _write_down(shlex.join(["mexma", *sys.argv[1:]]))


def _close(handler: logging.Handler) -> None:
    _LOGGER.removeHandler(handler)
    handler.close()


def _write_down(line: str) -> None:
    """Put a line into the files of --log-file alone; on stderr it stands otherwise, or is not needed."""
    for handler in _log_files():
        handler.handle(logging.makeLogRecord({"msg": line}))


@contextmanager
def _failure_logged() -> Iterator[None]:
    """Let the files of --log-file say why a command fails, as stderr does."""
    try:
        yield
    except click.exceptions.Exit:
        raise
    except BaseException as error:
        lines = [type(error).__name__]
        if isinstance(error, MexmaError | OSError | MemoryError):
            lines = _explain(error)
        elif isinstance(error, click.ClickException):
            lines = [f"error: {error.format_message()}"]
        elif isinstance(error, _Ended):
            lines = [f"ended by {error.name}"]
        for line in lines:
            _write_down(line)
        raise


def _say_less_or_more(ctx: click.Context, option: click.Parameter, given: bool) -> None:
    if given:
        _set_up_logging(-1 if option.name == "quiet" else 1)


_LOG_FILE: dict[str, Any] = {
    "type": click.Path(dir_okay=False),
    "metavar": "FILE",
    "expose_value": False,
    "callback": _log_to,
    "help": "Also append the notes to FILE, with their times.",
}
_EVERYWHERE: list[click.Parameter] = [
    *(
        click.Option(names, is_flag=True, hidden=True, expose_value=False, callback=_say_less_or_more)
        for names in (["-q", "--quiet"], ["-v", "--verbose"])
    ),
    click.Option(["--log-file"], hidden=True, **_LOG_FILE),
]


def _print_versions(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        python = ".".join(map(str, sys.version_info[:3]))
        click.echo(f"mexma {__version__} (Python {python}, torch {version('torch')})")
        ctx.exit()


@click.group(
    cls=RoadGroup,
    table=COMMANDS,
    package="mexma_cli.commands",
    epilog=EPILOG,
    context_settings={
        "help_option_names": ["-h", "--help"],
        "auto_envvar_prefix": "MEXMA",
        "max_content_width": WIDEST,
    },
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_versions,
    help="Print the versions of mexma, Python and torch.",
)
@click.option("-q", "--quiet", is_flag=True, help="Print only errors and warnings on stderr.")
@click.option("-v", "--verbose", is_flag=True, help="Print more on stderr.")
@click.option("--log-file", **_LOG_FILE)
def cli(quiet: bool, verbose: bool) -> None:
    """Find translations in monolingual text, and train the encoders that find them.

    Data goes to stdout or to the named files, everything else to stderr; `-` is stdin. -q, -v and --log-file
    may also stand after the command.
    """
    if quiet and verbose:
        raise click.UsageError("-q and -v contradict each other: give one of them.")
    _set_up_logging(-1 if quiet else int(verbose))
