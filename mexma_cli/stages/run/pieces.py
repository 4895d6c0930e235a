"""A text cut into pieces of so many lines: files that are embedded each by itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any

from mexma_cli.errors import MexmaError
from mexma_cli.files import MANIFEST, checksum_file, commit, workplace, write_json_atomic
from mexma_cli.text.lines import read_lines
from mexma_cli.text.writing import write_chunks


def write_pieces(texts: Sequence[Path], output: Path, lines: int) -> dict[str, Any]:
    """Cut texts, one after the other, into a folder of files of so many lines, the last one perhaps shorter.

    Returns:
        `pieces`: for each its `name`, `lines` and `checksum`.

    Raises:
        MexmaError: A text cannot be read, all are empty, or the disk is full.
    """
    every = chain.from_iterable(map(read_lines, texts))
    pieces: list[dict[str, Any]] = []
    with workplace(output) as part:
        part.mkdir()
        for first in every:
            name, counted = f"{len(pieces):05d}.txt.zst", _Counted(chain([first], islice(every, lines - 1)))
            write_chunks([part / name], (((f"{line}\n",), 0) for line in counted))
            pieces.append({"name": name, "lines": counted.count, "checksum": checksum_file(part / name)})
        if not pieces:
            raise MexmaError(f"{', '.join(map(str, texts))}: no lines", "give text with one sentence a line")
        write_json_atomic(part / MANIFEST, {"kind": "pieces", "pieces": pieces})
        commit(output)
    return {"pieces": pieces}


class _Counted:
    """Lines that are counted on the way."""

    def __init__(self, lines: Iterator[str]) -> None:
        self._lines, self.count = lines, 0

    def __iter__(self) -> Iterator[str]:
        for line in self._lines:
            self.count += 1
            yield line
