"""The command line: a group of lazily imported commands, and the one place where errors become messages.

`mexma --help` imports neither numpy nor torch nor any command: the table below has all it prints.
"""

from __future__ import annotations

import codecs
import importlib
import io
import logging
import os
import re
import shlex
import signal
import sys
import threading
import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, Never, TextIO, cast

import click
from click.core import ParameterSource

from mexma_cli import __version__
from mexma_cli.errors import (
    MexmaError,
    NoteFormatter,
    in_a_line,
    is_defect,
    message_lines,
    nearest_names,
    printable,
    visible,
)
from mexma_cli.lazy import LazyGroup, OutputPath

PURPOSES = {
    "Everything at once": {
        "run": "Mine many language pairs, from one recipe.",
        "demo": "Mine two small texts that come with mexma.",
    },
    "Documents to sentences": {
        "split": "Turn documents into sentences, clean and in one language.",
        "langid": "Identify the language of each line.",
    },
    "Sentences to vectors": {
        "embed": "Turn a text file, one sentence a line, into vectors.",
        "merge": "Join embedding stores into one.",
        "project": "Write the meaning or the language part of vectors.",
        "convert": "Exchange vectors with other tools (LASER, NumPy).",
    },
    "Vectors to pairs": {
        "mine": "Find the translations in two texts, best first.",
        "align": "Align the sentences of documents that are translations.",
        "search": "Find the best sentence for every query.",
        "knn": "Keep the nearest neighbours of two texts.",
    },
    "Judge and clean pairs": {
        "score": "Score each line of an existing bitext.",
        "tune": "Find the best score threshold, with or without a gold list.",
        "filter": "Drop the pairs of a bitext that break a rule.",
        "review": "Put pairs on a web page, to look at and to label.",
        "classifier": "Train the classifier that gives pairs their probabilities.",
    },
    "Train an encoder": {
        "prepare": "Clean and tokenise parallel text for training.",
        "train": "Train an encoder from a recipe.",
        "new-language": "Train and measure an encoder for one language.",
        "recipes": "List the recipes that come with mexma, or print one.",
        "report": "Compare training runs, or make a page of evaluations.",
        "augment": "Make hard negatives of English text, for xsim++.",
        "export": "Write an encoder for sentence-transformers.",
    },
    "Measure an encoder": {"eval": "Measure an encoder on the papers' benchmarks."},
    "Look things up": {
        "languages": "List languages, their codes and what knows them.",
        "info": "Describe and check a file or folder.",
        "doctor": "Print what is installed, and what would help.",
    },
}
"""The files of `commands/` by what they are for, each with a line of help."""

EPILOG = """\b
Examples:
  mexma embed --lang spa spa.txt -o spa.emb
  mexma embed --lang eng eng.txt -o eng.emb
  mexma mine spa.emb eng.emb --margin ratio -o pairs.tsv
  mexma tune pairs.tsv --gold gold.tsv

An option can also come from the environment: MEXMA_MINE_THRESHOLD=1.06 is
`mexma mine --threshold 1.06`. `mexma COMMAND --help` explains a command."""

COMPLETION = "_MEXMA_COMPLETE"
"""The variable by which a shell asks what it may offer."""

WIDEST = 110
"""Columns of the help, on a terminal that has more."""

_LOGGER = logging.getLogger("mexma_cli")


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


class _Stdout:
    """stdout for people and for JSON, whose strings may come from any file: a terminal obeys none of them.

    Other bytes than UTF-8, which names of files may have, become \\udcXX, as on stderr and in JSON. Data are
    written to its `buffer`, and stay as they are, but on a terminal.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        return self._stream.write(visible(text))

    @property
    def buffer(self) -> BinaryIO:
        if not self._stream.isatty():
            return self._stream.buffer
        return cast(BinaryIO, _Screen(self))


class _Screen:
    """Where data are written to that come to a terminal."""

    def __init__(self, stdout: _Stdout) -> None:
        self._stdout, self._decoder = stdout, codecs.getincrementaldecoder("utf-8")("backslashreplace")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stdout, name)

    def write(self, data: bytes) -> int:
        self._stdout.write(self._decoder.decode(data))
        return len(data)


class _Ended(SystemExit):
    """The program is to end because of a signal."""

    def __init__(self, number: int) -> None:
        super().__init__(128 + number)
        self.number, self.name = number, signal.Signals(number).name


@contextmanager
def _tidy_when_ended() -> Iterator[None]:
    """Let SIGTERM and SIGHUP unwind the program as Ctrl-C does, so that temporary files go.

    A second signal ends it at once. A signal that is ignored, as under nohup, stays ignored. Python forgets
    an error in a destructor or in a weak reference's callback, such as imports have: a signal that comes
    there comes again.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may set handlers
        return

    def end(number: int, frame: object) -> Never:
        signal.signal(number, signal.SIG_DFL)
        raise _Ended(number)

    before = sys.unraisablehook

    def again(lost: sys.UnraisableHookArgs) -> None:
        if isinstance(lost.exc_value, _Ended):
            signal.signal(number := lost.exc_value.number, end)
        elif isinstance(lost.exc_value, KeyboardInterrupt):
            number = signal.SIGINT
        else:
            return before(lost)
        main = threading.main_thread().ident
        threading.Timer(0.01, signal.pthread_kill, [main, number]).start()  # when the callback has ended

    ours = [
        number for number in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(number) == signal.SIG_DFL
    ]
    for number in ours:
        signal.signal(number, end)
    sys.unraisablehook = again
    try:
        yield
    finally:
        sys.unraisablehook = before
        for number in ours:
            signal.signal(number, signal.SIG_DFL)


def _name_variable(error: click.BadParameter) -> None:
    """Let the message name the environment's variable beside the option, if the bad value came from there."""
    option, ctx = error.param, error.ctx
    if option is None or option.name is None or ctx is None:
        return
    if ctx.get_parameter_source(option.name) is ParameterSource.ENVIRONMENT:
        error.param_hint = f"{option.get_error_hint(ctx)} (from {option.envvar})"


def _say_what_to_do(error: click.UsageError) -> None:
    """Let Click's own messages name what was meant: the likest options, recipe keys, and how an output is
    named."""
    options = [name for option in error.ctx.command.params for name in option.opts] if error.ctx else []
    if isinstance(error, click.NoSuchOption):
        resumed = error.option_name == "--resume"
        likest = nearest_names(error.option_name, () if resumed else options, 3)
        error.possibilities = likest  # pyrefly: ignore[read-only]
        if resumed:
            error.message += " The same command goes on with what was stopped, where it can."  # pyrefly: ignore[read-only]
        elif "--set" in options:
            error.message += " Keys of the recipe are changed with --set KEY=VALUE."  # pyrefly: ignore[read-only]
    elif error.message.startswith("Got unexpected extra argument") and "--output" in options:
        error.message += ". An output is named with -o, and a pattern is quoted: 'docs/*.fra.txt'."  # pyrefly: ignore[read-only]


class RoadGroup(LazyGroup):
    """The whole program: what goes wrong in a command becomes a message here."""

    @property
    def everywhere(self) -> list[click.Parameter]:
        """Options that every command takes, too, and that only the help of the program tells of."""
        return _EVERYWHERE

    def begin(self, ctx: click.Context) -> None:
        """A command is about to run, with these parameters: only now is anything written into its log."""
        for log in _log_files():
            with _wrong_usage(log, ctx):
                log.check_apart_from(ctx.params.values())
            log.begin()

    def invoke(self, ctx: click.Context) -> Any:
        try:
            with _failure_logged():
                result = super().invoke(ctx)
            sys.stdout.flush()  # a full disk or a closed pipe shows here, not while Python shuts down
            return result
        except click.ClickException as error:
            if isinstance(error, click.BadParameter):
                _name_variable(error)
            if isinstance(error, click.UsageError):
                _say_what_to_do(error)
            error.message = printable(error.message)  # pyrefly: ignore[read-only]  # Click says that it is final
            raise
        except KeyboardInterrupt:
            if os.environ.get("RANK", "0") == "0":  # of torchrun's processes, the first one says it for all
                click.echo("\ninterrupted", err=True)
            exec("")  # after a Ctrl-C inside of an `exec` Python would end by the signal, without the code
            ctx.exit(130)

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """The one place where an error becomes a message and an exit code (MEXMA_DEBUG=1: a traceback).

        Click itself does wrong usage (2) and the closed pipe (1, quietly).
        """
        _replace_closed_streams()
        if not isinstance(sys.stdout, _Stdout):
            sys.stdout = _Stdout(sys.stdout)
        # Threads of NumPy's own would spin while they wait: what takes long is cut into parts for ours.
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
        # Pydantic would look for plugins in all packages that are installed.
        os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
        if COMPLETION in os.environ:
            importlib.import_module("mexma_cli.commands.completion")  # the shells' scripts
        try:
            with _tidy_when_ended():
                return super().main(*args, **kwargs)
        except _Ended as ended:
            click.echo(f"\nended by {ended.name}", err=True)
            _drop_unwritable_stdout()
            raise
        except Exception as error:
            traceback_wanted = os.environ.get("MEXMA_DEBUG", "") not in ("", "0")
            if traceback_wanted or not kwargs.get("standalone_mode", True):
                raise
            lines = message_lines(error)
            error.__traceback__ = None  # with all that its functions hold, where memory is short
            for line in lines:
                click.echo(line, err=True)
            _drop_unwritable_stdout()
            sys.exit(1)


class _Notes(logging.StreamHandler[TextIO]):
    """Our notes on stderr, above a progress bar and not at the end of its line."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        self.setFormatter(NoteFormatter())

    def format(self, record: logging.LogRecord) -> str:
        return printable(super().format(record))

    def emit(self, record: logging.LogRecord) -> None:
        bars = getattr(sys.modules.get("tqdm"), "tqdm", None)  # a bar is there only if this was imported
        if bars is None or not getattr(bars, "_instances", None):
            super().emit(record)
            return
        with bars.external_write_mode(file=self.stream):
            super().emit(record)

    def handleError(self, record: logging.LogRecord) -> None:
        """A full disk, or a reader that has ended, takes no notes; else Python would print a traceback."""


class _LogFile(logging.FileHandler):
    """A file of --log-file: the command first, then the notes, with their times.

    Its first line is by what a log of ours is known again. It is opened when there is something to write.
    """

    FIRST = re.compile(rb"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d mexma[ \n]")

    def __init__(self, path: str) -> None:
        super().__init__(path, encoding="utf-8", errors="backslashreplace", delay=True)
        self.setFormatter(NoteFormatter("%(asctime)s %(message)s", "%Y-%m-%d %H:%M:%S"))
        self.given, self._begun = path, False

    def format(self, record: logging.LogRecord) -> str:
        return visible(super().format(record))

    def emit(self, record: logging.LogRecord) -> None:
        self.begin()
        super().emit(record)

    def begin(self) -> None:
        """Write the command, once, and bring it to the disk: after a power cut, the file is still a log."""
        if not self._begun:
            self._begun = True
            super().emit(logging.makeLogRecord({"msg": shlex.join(["mexma", *sys.argv[1:]])}))
            if self.stream is not None:  # it is closed when the disk is full
                with suppress(OSError):  # a pipe or a device
                    os.fsync(self.stream.fileno())

    def handleError(self, record: logging.LogRecord) -> None:
        """The disk is full: say so once, and go on without."""
        _close(self)
        _LOGGER.warning("%s: %s; it gets no more notes", self.given, sys.exc_info()[1])

    def check(self) -> None:
        """Refuse a file that is something else than a log of ours, or that could become part of a store."""
        from mexma_cli.files import check_outside_stores

        path, hint = Path(self.given), "name another file"
        check_outside_stores(path)
        if not path.is_file():
            return  # it is new, or a pipe or a device
        with path.open("rb") as file:
            first = file.read(32)
        if first and not self.FIRST.match(first):
            raise MexmaError(f"{path} is there, and is no log of mexma", hint)
        if any(os.path.samestat(path.stat(), stat) for stat in _standard_files()):
            raise MexmaError(f"{path} is stdin or stdout of the same command", hint)

    def check_apart_from(self, values: Iterable[object]) -> None:
        """Refuse a file that the same command names elsewhere, in the values of its parameters."""
        for value in values:
            if isinstance(value, tuple | list):
                self.check_apart_from(value)
            elif isinstance(value, str | Path) and _is_same(str(value), self.given):
                raise MexmaError(
                    f"{self.given} is an input or output of the same command", "name another file"
                )


def _standard_files() -> Iterator[os.stat_result]:
    """The files that stdin and stdout are, where they are open."""
    for number in (0, 1):
        with suppress(OSError):
            yield os.fstat(number)


def _is_same(one: str, other: str) -> bool:
    with suppress(OSError, ValueError):  # one of them is not there, or is no name of a file
        return os.path.samefile(one, other)
    return os.path.realpath(one) == os.path.realpath(other)


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


def _log_files() -> list[_LogFile]:
    return [handler for handler in _LOGGER.handlers if isinstance(handler, _LogFile)]


def _log_to(ctx: click.Context, _: click.Parameter, path: str | None) -> None:
    if path is None or ctx.resilient_parsing:
        return
    log = _LogFile(path)
    with _wrong_usage(log, ctx):
        log.check()
    _LOGGER.addHandler(log)
    ctx.find_root().call_on_close(lambda: _close(log))


@contextmanager
def _wrong_usage(log: _LogFile, ctx: click.Context) -> Iterator[None]:
    """Where a log is refused, nothing is written there, and the exit code is 2."""
    try:
        yield
    except MexmaError as error:
        _close(log)
        said = printable(in_a_line(f"{error.message}: {error.hint}."))
        raise click.BadParameter(said, ctx, param_hint="--log-file") from None


def _close(handler: logging.Handler) -> None:
    _LOGGER.removeHandler(handler)
    with suppress(OSError):  # a full disk: that has been said
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
        if isinstance(error, click.ClickException):
            lines = [f"error: {error.format_message()}"]
        elif isinstance(error, _Ended):
            lines = [f"ended by {error.name}"]
        elif isinstance(error, Exception):
            details = "".join(traceback.format_exception(error)) if is_defect(error) else ""
            lines = [*details.splitlines(), *message_lines(error)]
        for line in lines:
            _write_down(line)
        raise


def _say_less_or_more(ctx: click.Context, option: click.Parameter, given: bool) -> None:
    if given:
        _set_up_logging(-1 if option.name == "quiet" else 1)


_LOG_FILE: dict[str, Any] = {
    "type": OutputPath(dir_okay=False),
    "metavar": "FILE",
    "expose_value": False,
    "callback": _log_to,
    "help": "Also append the notes to FILE, a new file or a log of mexma, with their times.",
}


def _read_as(ctx: click.Context, _: click.Parameter, encoding: str | None) -> None:
    """State the encoding of texts, to this process and to those that it starts."""
    if encoding is not None and not ctx.resilient_parsing:
        from mexma_cli.text.pages import stating

        ctx.find_root().with_resource(stating(encoding))


_ENCODING: dict[str, Any] = {
    "metavar": "NAME",
    "expose_value": False,
    "callback": _read_as,
    "help": "Encoding of texts that are neither UTF-8 nor UTF-16.",
}
_EVERYWHERE: list[click.Parameter] = [
    *(
        click.Option(names, is_flag=True, hidden=True, expose_value=False, callback=_say_less_or_more)
        for names in (["-q", "--quiet"], ["-v", "--verbose"])
    ),
    click.Option(["--log-file"], hidden=True, **_LOG_FILE),
    click.Option(["--encoding"], hidden=True, **_ENCODING),
]


def _print_versions(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        python = ".".join(map(str, sys.version_info[:3]))
        click.echo(f"mexma {__version__} (Python {python}, torch {version('torch')})")
        ctx.exit()


@click.group(
    cls=RoadGroup,
    tables=PURPOSES,
    package="mexma_cli.commands",
    epilog=EPILOG,
    context_settings={
        "help_option_names": ["-h", "--help"],
        "auto_envvar_prefix": "MEXMA",
        "max_content_width": WIDEST,
        "color": True,  # nothing is coloured; else Click would drop what looks like it from names
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
@click.option("--encoding", **_ENCODING)
def cli(quiet: bool, verbose: bool) -> None:
    """Find translations in monolingual text, and train the encoders that find them.

    Data goes to stdout or to the named files, everything else to stderr; `-` is stdin. -q, -v and --log-file
    may also stand after the command.
    """
    if quiet and verbose:
        raise click.UsageError("-q and -v contradict each other: give one of them.")
    _set_up_logging(-1 if quiet else int(verbose))
