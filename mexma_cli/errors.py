"""The one exception that means: the user can mend this; what any other becomes, and how both are printed."""

from __future__ import annotations

import difflib
import errno
import importlib.util
import io
import logging
import os
import re
import traceback
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

_LONGEST = 299
"""Characters of a line of a message."""
_WORD = 60
"""Characters that a word of a long message keeps, at least: names stay recognisable."""

_CONTROL = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")
"""Characters that a terminal obeys or that reorder others, but tabs and line breaks; and what is none."""

_NO_MEMORY = re.compile(
    r"out of memory|bad_?alloc|(?:n[o']t|unable to|fail\w*(?: to)?) (?:alloc|map segment)|os error 12\b"
    r"|can't start new thread|could not create a (?:primitive|memory)",
    re.IGNORECASE,
)
"""How libraries say that they got no memory, in exceptions of any type."""

_MEMORY_HINT = "end other programs, or raise the limit of this one (`ulimit -v`); mine and knn have --memory"
_DEFECT_HINT = "that is a defect of mexma: MEXMA_DEBUG=1 shows all of it, and a report of that would help"

_OF_FILES = {errno.EIO, errno.ENOMEM, errno.ESTALE, errno.EINVAL, errno.EFBIG, errno.EOVERFLOW}
"""Errors that stdin and stdout do not have, so that the file at work is to blame."""
_DISK_HINTS = {
    errno.ENOSPC: "free some space, or write to another disk; the same command goes on where it can",
    errno.EDQUOT: "the disk quota is used up; free some space, or write to another disk",
    errno.EACCES: "check who may read and write there, or name another path",
    errno.EPERM: "check who may read and write there, or name another path",
    errno.EROFS: "that disk is mounted read-only; name another path",
    errno.EIO: "the disk or the network to it fails; what was finished is kept",
    errno.EBADF: "is stdin or stdout closed?",
    errno.EMFILE: "too many open files; raise the limit with `ulimit -n`",
}


class MexmaError(Exception):
    """A mistake in what was given to the tool: a file, a line, a key, a device. Its text has the hint, too.

    Args:
        message: What is wrong and where (file, line, byte, key).
        hint: What to do about it, if there is something to do.
    """

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message, hint)
        self.message = message
        self.hint = hint

    def reword(self, message: str, hint: str | None) -> None:
        """Say it otherwise."""
        self.args = self.message, self.hint = message, hint

    def __str__(self) -> str:
        return f"{self.message}\nhint: {self.hint}" if self.hint else self.message


def as_ours(error: BaseException) -> MexmaError:
    """Turn any exception into a `MexmaError`: those of the system and of libraries with the file, if known.

    An exception that nobody foresaw is a defect of this program, and says where it is.
    """
    said = error.message if isinstance(error, MexmaError) else " ".join(str(error).split())
    file = ""
    if isinstance(error, OSError):
        names = [str(name) for name in (error.filename, error.filename2) if name is not None]
        file = " -> ".join(names) or (_at_work(error)[1] if error.errno in _OF_FILES else "")
        said = error.strerror or said or type(error).__name__
    if is_out_of_memory(error):
        return MexmaError(": ".join(filter(None, ("not enough memory", file, said))), _MEMORY_HINT)
    if isinstance(error, MexmaError):
        return error
    if isinstance(error, OSError):
        return MexmaError(f"{file}: {said}" if file else said, _DISK_HINTS.get(error.errno or 0))
    place, file = _at_work(error)
    if isinstance(error, UnicodeEncodeError):
        around = ascii(error.object[max(0, error.start - 20) : error.end + 20])
        what = f"{around} is no Unicode, and cannot be written in UTF-8"
        return MexmaError(": ".join(filter(None, (file, what))), "rename the file, or clean the text")
    if line := _line_of_users(error):
        return MexmaError(f"{line}: {type(error).__name__}: {said}", "MEXMA_DEBUG=1 shows the calls")
    kind = f"{type(error).__name__}{place and f' in {place}'}"
    return MexmaError(": ".join(filter(None, (file, kind, said))), _DEFECT_HINT)


def is_out_of_memory(error: BaseException | None) -> bool:
    """Whether an exception, or one that led to it, says that there was not enough memory."""
    while error is not None:
        if isinstance(error, MexmaError):
            if "memory" in error.message:
                return False  # that has been said, and what to do
        elif (
            isinstance(error, MemoryError)
            or (isinstance(error, OSError) and error.errno == errno.ENOMEM)
            or _NO_MEMORY.search(str(error))
        ):
            return True
        error = error.__cause__ or error.__context__
    return False


def is_defect(error: BaseException) -> bool:
    """Whether nobody foresaw an exception, so that its traceback helps to mend this program."""
    return not (isinstance(error, MexmaError | OSError | UnicodeEncodeError) or is_out_of_memory(error))


def _line_of_users(error: BaseException) -> str:
    """The last line of a user's own file (`--plugin`) that led to an exception; empty if none did."""
    calls = traceback.walk_tb(error.__traceback__)
    lines = [(frame.f_globals.get("__name__", ""), line) for frame, line in calls]
    return next((f"{file}, line {line}" for file, line in reversed(lines) if os.path.isabs(file)), "")


def _at_work(error: BaseException) -> tuple[str, str]:
    """Where in our code an exception was raised, and the file that was worked on there, if it is one.

    Systems and libraries do not say which. It is the one that the innermost function with open files has open
    or, without any, the path that our innermost function has.
    """
    place, opened, named = "", set[str](), set[str]()
    for frame, line in traceback.walk_tb(error.__traceback__):
        module = frame.f_globals.get("__name__", "")
        if module.partition(".")[0] == __name__.partition(".")[0]:
            place = f"{module}, line {line}"
            own = getattr(frame.f_locals.get("self"), "__dict__", {})
            values = [*frame.f_locals.values(), *own.values()]
            opened = set(filter(None, map(_name_of_file, values))) or opened
            named = {str(value) for value in values if isinstance(value, Path)}
    found = opened or named
    return place, found.pop() if len(found) == 1 else ""


def _name_of_file(value: object) -> str:
    """The name of a file; empty of anything else, or where the file has none."""
    try:
        name = getattr(value, "name", None) if isinstance(value, io.IOBase) else None
    except ValueError:  # a library's file that is closed
        return ""
    return name if isinstance(name, str) else ""


class NoteFormatter(logging.Formatter):
    """Lines of a log, in which a warning says that it is one: nobody writes that into the message itself."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        if record.levelno == logging.WARNING:
            record.message = f"warning: {record.message}"
        return super().formatMessage(record)


@contextmanager
def quieted() -> Iterator[None]:
    """Keep mexma's own notes and warnings to itself: they would be of work that nobody asked for."""
    logger = logging.getLogger("mexma_cli")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


def message_lines(error: BaseException) -> list[str]:
    """The lines that are printed of an exception: its message, and a hint if there is any."""
    ours = as_ours(error)
    lines = [f"error: {in_a_line(ours.message)}", *([f"hint: {ours.hint}"] if ours.hint else [])]
    return [short for line in lines for short in printable(line).split("\n")]


def visible(text: str) -> str:
    """Text with control characters as in JSON, ``\\u001b``: a terminal does not obey them then. So is what is
    no Unicode: bytes of a file's name that are not UTF-8.

    Tabs and line breaks stay. So do texts that are right to left, but not what turns others round.
    """
    return _CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def in_a_line(text: object) -> str:
    """`visible` text without line breaks, to stand in a message or in a cell of a table."""
    return visible(str(text)).replace("\n", "\\n")


def printable(message: str) -> str:
    """A message for a terminal: `visible`, and each line under 300 characters.

    The longest words lose their middles first, so that names keep their beginnings and ends.
    """
    return "\n".join(map(_shortened, visible(message).split("\n")))


def _shortened(line: str) -> str:
    while (over := len(line) - _LONGEST) > 0 and len(word := max(line.split(" "), key=len)) > _WORD:
        line = line.replace(word, _without_middle(word, max(_WORD, len(word) - over)), 1)
    return _without_middle(line, _LONGEST)


def _without_middle(text: str, most: int) -> str:
    half = most // 2
    return text if len(text) <= most else f"{text[: most - half - 1]}…{text[-half:]}"


def nearest_names(typed: str, known: Iterable[str], most: int = 1) -> list[str]:
    """The names that a misspelt one may stand for, the likest first: those that are about as like as this."""
    likeness = {name: _likeness(typed.lower(), name.lower()) for name in known}
    found = sorted(likeness, key=lambda name: -likeness[name])[:most]
    return [name for name in found if likeness[name] > max(0.6, likeness[found[0]] - 0.1)]


def _likeness(typed: str, name: str) -> float:
    """From 0 to 1; 0.9 and more where one of them contains the other. Dashes of options do not count."""
    typed, name = typed.removeprefix("--"), name.removeprefix("--")
    like = difflib.SequenceMatcher(None, typed, name).ratio()
    within = min(len(typed), len(name)) > 2 and (typed in name or name in typed)
    return 0.9 + like / 10 if within else like


def did_you_mean(names: Sequence[str]) -> str:
    """A question about one of these names, with a space behind it; empty if there is none."""
    *others, last = names or [""]
    return f"did you mean {' or '.join(filter(None, (', '.join(others), last)))}? " if names else ""


def choice(typed: str, known: Iterable[str], what: str, listed: str = "") -> str:
    """The hint about a name that there is not: the likest ones of those that are known, and all, `what` they
    are in the plural, where a line has room for them; else what lists them (`listed`)."""
    names = list(known)
    near = did_you_mean(nearest_names(typed, names, 3))
    every = f"{what}: {', '.join(names)}"
    rest = every if len(f"hint: {near}{every}") <= _LONGEST else listed
    return f"{near}{rest[:1].upper()}{rest[1:]}".strip() if near else rest


def require(package: str, extra: str, what: str) -> None:
    """Refuse to begin, before the work, without a package (as it is imported) that `what` needs, and that an
    `extra` of ours brings."""
    if importlib.util.find_spec(package) is None:
        name = {"sklearn": "scikit-learn"}.get(package, package)
        raise MexmaError(f"{what} needs {name}, which is not installed", installed_by(extra))


def installed_by(extra: str) -> str:
    """The pip command that installs what an extra of ours brings: by name, since ours may be on no index."""
    import shlex
    from importlib import metadata

    try:
        lines = metadata.requires("mexma-cli") or []
    except metadata.PackageNotFoundError:  # run from a checkout, without being installed
        lines = []
    wanted = [line.partition(";")[0].strip() for line in lines if line.endswith(f"extra == '{extra}'")]
    return "pip install " + " ".join(map(shlex.quote, wanted or [f".[{extra}]"]))
