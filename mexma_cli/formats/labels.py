"""Labels: pairs that a person called right or wrong, as `mexma tune --label` and review pages write them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from mexma_cli.errors import MexmaError
from mexma_cli.formats.bitext import one_field, open_lines
from mexma_cli.text.pages import by_codec

RIGHT, WRONG, SKIPPED = "y", "n", "s"
LABELS_READ_BY = "this is a file of labels, which `mexma tune SOURCE TARGET --labels FILE` reads"
"""A hint where pairs are expected."""
_DIGITS = 18  # of the number of a line, which is 64 bits


class Label(NamedTuple):
    """An answer about a pair, `RIGHT`, `WRONG` or `SKIPPED`, with the lines of its sentences in the texts,
    from 1 (both 0: not known), and the sentences."""

    answer: str
    lines: tuple[int, int]
    sentences: tuple[str, str]

    @property
    def line(self) -> str:
        """The label as a line of a file."""
        fields = self.answer, *map(str, self.lines), *map(one_field, self.sentences)
        return "\t".join(fields) + "\n"


def _parsed(line: str) -> Label | None:
    """The label in a line of a file; None if it is none."""
    answer, *fields = line.split("\t")
    if answer not in (RIGHT, WRONG, SKIPPED) or len(fields) != 4:
        return None
    if not _are_numbers(fields[:2]):
        return None
    return Label(answer, (int(fields[0]), int(fields[1])), (fields[2], fields[3]))


def _are_numbers(fields: Sequence[str]) -> bool:
    return all(field.isascii() and field.isdigit() and len(field) <= _DIGITS for field in fields)


def labels_in(lines: Iterable[str], path: Path) -> Iterator[Label]:
    """The labels in the lines of a file; a line that is none is refused."""
    for number, line in enumerate(lines, 1):
        if (label := _parsed(line)) is None:
            raise MexmaError(
                f"{path}, line {number}: not a label",
                "each line must be: y, n or s TAB source line TAB target line TAB source TAB target",
            )
        yield label


def begin_labels(first: Sequence[str]) -> bool:
    """Whether a file is one of labels, by its first two lines: either is a word, two numbers and two more
    columns. So is a file whose answers a spreadsheet has changed, which `labels_in` refuses."""
    rows = [[field.strip('" ') for field in line.split("\t")] for line in first]
    return any(len(row) >= 5 and row[0].isalpha() and _are_numbers(row[1:3]) for row in rows)


def is_labels(path: Path) -> bool:
    """As `begin_labels` of a file; not so is one that cannot be read without its languages."""
    try:
        return begin_labels(list(islice(open_lines(path), 2)))
    except MexmaError:
        return False


def read_labels(path: Path) -> Iterator[Label]:
    """The labels of a file, as `labels_in`."""
    return labels_in(open_lines(path), path)


def add_label(path: Path, label: Label) -> None:
    """Append a label, in the encoding of the file; it is on the disk when this returns."""
    before = path.read_bytes() if path.exists() else b""
    codec = next((codec for codec, _ in by_codec([before]) if codec), "utf-8")
    ended = not before or before.decode(codec, "replace").endswith("\n")
    try:
        added = f"{'' if ended else chr(10)}{label.line}".encode(codec)
    except UnicodeEncodeError as error:
        raise MexmaError(
            f"{path} is in {codec}, which does not have all letters", "save it as UTF-8"
        ) from error
    with path.open("ab") as file:
        file.write(added)
        file.flush()
        os.fsync(file.fileno())
