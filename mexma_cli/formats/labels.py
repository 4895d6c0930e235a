"""Labels: pairs that a person called right or wrong, as `mexma tune --label` and review pages write them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from mexma_cli.errors import MexmaError
from mexma_cli.formats.bitext import one_field
from mexma_cli.text.lines import read_lines

RIGHT, WRONG, SKIPPED = "y", "n", "s"


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


def parsed(line: str) -> Label | None:
    """The label in a line of a file; None if it is none."""
    answer, *fields = line.split("\t")
    if answer not in (RIGHT, WRONG, SKIPPED) or len(fields) != 4:
        return None
    if not all(field.isascii() and field.isdigit() for field in fields[:2]):
        return None
    return Label(answer, (int(fields[0]), int(fields[1])), (fields[2], fields[3]))


def labels_in(lines: Iterable[str], path: Path) -> Iterator[Label]:
    """The labels in the lines of a file; a line that is none is refused."""
    for number, line in enumerate(lines, 1):
        if (label := parsed(line)) is None:
            raise MexmaError(
                f"{path}, line {number}: not a label",
                "each line must be: y, n or s TAB source line TAB target line TAB source TAB target",
            )
        yield label


def is_labels(path: Path) -> bool:
    """Whether a file's first line is a label."""
    return parsed(next(iter(read_lines(path, ours=True)), "")) is not None


def read_labels(path: Path) -> Iterator[Label]:
    """The labels of a file, as `labels_in`."""
    return labels_in(read_lines(path, ours=True), path)
