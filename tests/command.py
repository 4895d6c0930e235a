"""`mexma` as users run it, in this process, and what a test expects of how it ends."""

from __future__ import annotations

from pathlib import Path
from typing import IO

from click.testing import CliRunner, Result

from mexma_cli.main import cli


def run(*words: str | Path, stdin: str | bytes | IO[bytes] | None = None) -> Result:
    """What `mexma WORDS` printed, and its exit code."""
    return CliRunner().invoke(cli, [str(word) for word in words], stdin)


def ok(done: Result) -> Result:
    """The same; it has to have succeeded."""
    assert done.exit_code == 0, done.output
    return done


def fails(done: Result, code: int, *said: str) -> Result:
    """The same; it has to have ended with this exit code, and all this has to be on stderr."""
    assert done.exit_code == code, done.output
    for words in said:
        assert words in done.stderr, done.stderr
    return done


def write(path: Path, *lines: str) -> Path:
    """A text file with these lines, in a folder that is made if need be."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path
