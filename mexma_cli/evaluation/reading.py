"""Reading the files of benchmarks: what evaluations share. Errors name the file and the line."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from mexma_cli.errors import MexmaError
from mexma_cli.text.amounts import counted
from mexma_cli.text.lines import is_blank, read_lines

Parsed = TypeVar("Parsed")


def require_folder(folder: Path, hint: str | None = None) -> None:
    """Refuse a folder that is not there."""
    if not folder.is_dir():
        raise MexmaError(f"{folder}: no such folder", hint)


def read_all_lines(path: Path) -> list[str]:
    """All lines of a file, of which there must be some."""
    found = list(read_lines(path))
    if not found:
        raise MexmaError(f"{path} is empty", "a line for each sentence is needed")
    return found


def read_aligned(path: Path, target: Path, lines: int) -> list[str]:
    """The lines of a file that must have as many as the target's."""
    found = list(read_lines(path))
    if len(found) != lines:
        short, long = (path, target) if len(found) < lines else (target, path)
        least = min(len(found), lines)
        raise MexmaError(
            f"{path} has {counted(len(found), 'line')}, {target} has {lines:,}: "
            f"line {least + 1:,} of {long} has no counterpart in {short}",
            "line n of one must be the translation of line n of the other",
        )
    return found


def both_filled(source: Sequence[str], target: Sequence[str]) -> list[int]:
    """The rows in which neither side is empty. A translation may lack a verse, for example."""
    pairs = enumerate(zip(source, target, strict=True))
    return [row for row, (one, other) in pairs if not is_blank(one) and not is_blank(other)]


def filled_lines(path: Path) -> Iterator[tuple[int, str]]:
    """The lines of a file that are not empty, with their numbers from 1."""
    return ((number, line) for number, line in enumerate(read_lines(path), 1) if not is_blank(line))


def parsed_lines(
    path: Path, lines: Iterable[tuple[int, str]], parse: Callable[[str], Parsed], hint: str
) -> Iterator[Parsed]:
    """Parse lines that are given with their numbers; a ValueError becomes a message with the file and the
    line."""
    for number, line in lines:
        try:
            found = parse(line)
        except ValueError as error:
            raise MexmaError(f"{path}, line {number}: {error}", hint) from None
        yield found


def columns_named(header: Sequence[str], names: Sequence[str]) -> list[int]:
    """The places of columns in a header; a ValueError says which one is not there."""
    for name in names:
        if name not in header:
            raise ValueError(f"no column {name} in the header")
    return [header.index(name) for name in names]
