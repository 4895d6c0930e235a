"""The sizes in a model of fastText, compared with its file: the library believes all that the file states.

It makes room for what the counts say, and looks up rows that a damaged file lacks. The layout is that of
fastText 0.9.2 (`FastText::saveModel`), little-endian.
"""

from __future__ import annotations

import mmap
import struct
from pathlib import Path

import numpy as np

from mexma_cli.errors import MexmaError

_MAGIC, _VERSIONS, _SUPERVISED, _LOSSES = 793712314, (11, 12), 3, range(1, 5)
_LONGEST = 1000  # letters of an n-gram
_CENTROIDS = 256
_ALL = -1  # in place of how many n-grams were kept, where none was dropped


class _File:
    """A file that is read piece by piece."""

    def __init__(self, content: mmap.mmap) -> None:
        self.content, self.at = content, 0

    @property
    def left(self) -> int:
        """Bytes that were not read yet."""
        return len(self.content) - self.at

    def skip(self, size: int) -> int:
        """Go on behind the next `size` bytes; where they begin."""
        if not 0 <= size <= self.left:
            raise ValueError(f"it states sizes of {size:,} bytes where {self.left:,} are left")
        self.at += size
        return self.at - size

    def read(self, form: str) -> tuple[int, ...]:
        """The next numbers, in a form of `struct`."""
        return struct.unpack_from(f"<{form}", self.content, self.skip(struct.calcsize(f"<{form}")))

    def entry(self) -> int:
        """The kind of the dictionary's next entry: 0 a word, 1 a label."""
        end = self.content.find(b"\0", self.at)
        self.skip(end + 1 - self.at if end >= 0 else -1)
        return self.read("qb")[1]


def check_sizes(path: Path) -> None:
    """Refuse a model whose counts are not those of its file.

    Raises:
        MexmaError: It is one, or no model that tells languages.
    """
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            _walk(_File(content))
    except ValueError as error:  # also of an empty file, which cannot be mapped
        raise MexmaError(
            f"{path} is no fastText model: {error}", "is it whole? --lid-model names one, such as lid.176.bin"
        ) from None


def _walk(file: _File) -> None:
    magic, version = file.read("ii")
    if magic != _MAGIC or version not in _VERSIONS:
        raise ValueError("it has wrong file format")
    dim, *_, loss, kind, bucket, shortest, longest, _ = file.read("12i")
    file.skip(8)
    if kind != _SUPERVISED or loss not in _LOSSES:
        raise ValueError("it is of a kind that labels no text")
    if dim < 1 or bucket < 0 or not (0 <= shortest <= _LONGEST and 0 <= longest <= _LONGEST):
        raise ValueError("a size of its n-grams is out of range")
    entries, words, labels, _, kept = file.read("iiiqq")
    if min(words, labels - 1) < 0 or words + labels != entries or entries > file.left:
        raise ValueError(f"its dictionary states {words:,} words and {labels:,} labels")
    if [file.entry() for _ in range(entries)] != [0] * words + [1] * labels:
        raise ValueError("words and labels of its dictionary are mixed up")
    rows = words + bucket
    if kept != _ALL:
        place = file.skip(8 * kept)
        own = np.frombuffer(file.content[place : file.at], "<i4")[1::2]
        if own.min(initial=0) < 0 or own.max(initial=-1) >= kept:
            raise ValueError("an n-gram has no row")
        rows = words + kept
    packed = _matrix(file, rows, dim, bool(file.read("?")[0]))
    _matrix(file, labels, dim, bool(file.read("?")[0]) and packed)
    if file.left:
        raise ValueError(f"{file.left:,} bytes too many")


def _matrix(file: _File, rows: int, dim: int, packed: bool) -> bool:
    """Go on behind a matrix of so many rows; whether it is product quantised (`packed`)."""
    with_norms = packed and bool(file.read("?")[0])
    found, width = file.read("qq")
    if (found, width) != (rows, dim):
        raise ValueError(f"a matrix of {found:,} rows of {width:,} in place of {rows:,} of {dim:,}")
    if not packed:
        file.skip(4 * found * width)
        return False
    (codes,) = file.read("i")
    file.skip(codes)
    if codes != found * _quantiser(file, dim):
        raise ValueError(f"{codes:,} codes of {found:,} rows")
    if with_norms:
        file.skip(found)
        _quantiser(file, 1)
    return True


def _quantiser(file: _File, dim: int) -> int:
    """Go on behind a product quantiser; how many parts a row has."""
    width, parts, part, last = file.read("4i")
    if width != dim or part < 1 or (parts, last) != (-(-dim // part), dim % part or part):
        raise ValueError(f"a quantiser of {parts:,} parts of {part:,} for rows of {dim:,}")
    file.skip(4 * width * _CENTROIDS)
    return parts
