"""Formats of mined sentence pairs: what they share, and the registry that finds them by name and by ending.

A format is one class in a file of this folder, under `@bitext_format`. Commands, their help and the docs
learn of it from `formats`.
"""

from __future__ import annotations

import math
import pkgutil
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

from mexma_cli.errors import MexmaError
from mexma_cli.languages import UNSTATED
from mexma_cli.text.compression import plain_name
from mexma_cli.text.lines import lines_of, read_pieces
from mexma_cli.text.names import OTHER_FORMATS

if TYPE_CHECKING:
    from mexma_cli.text.writing import Chunk

DEFAULT = "tsv"
"""The format where nothing says another one."""


class ScoredPair(NamedTuple):
    """A line of mined bitext. `line` counts from 1; 0 where it comes from no file."""

    score: float
    source: str
    target: str
    line: int = 0


class MinedPair(NamedTuple):
    """A pair and all that is known of it.

    Lines are counted from 1 and so are ranks: `source_rank` is the target's place among the neighbours of the
    source, 0 where it is not among them. The means are those of both neighbourhoods' cosines.
    """

    score: float
    source: str
    target: str
    source_line: int = 0
    target_line: int = 0
    source_rank: int = 0
    target_rank: int = 0
    cosine: float = 0.0
    source_mean: float = 0.0
    target_mean: float = 0.0


class AlignedPair(NamedTuple):
    """Sentences of two documents that are translations of each other, joined by spaces, and where they stand.

    Lines are counted from 1, in the document's file. Those of one side are empty where nothing of the other
    document is the translation of this side. Documents have no name where there is one on each side.
    """

    score: float
    source: str
    target: str
    source_document: str
    target_document: str
    source_lines: tuple[int, ...]
    target_lines: tuple[int, ...]


class PlainPair(NamedTuple):
    """A pair of which no more is known."""

    source: str
    target: str


Pair = MinedPair | AlignedPair | PlainPair


def pair_of(known: Mapping[str, Any], source: str, target: str) -> Pair:
    """A pair, with as much as is known of it.

    Args:
        known: The names of the fields of `MinedPair` or `AlignedPair`, and their values; others are passed
            over.
    """
    kind = AlignedPair if "source_document" in known else MinedPair
    if "score" not in known:
        return PlainPair(source, target)
    fields = {name: known[name] for name in kind._fields if name in known}
    empty = {"target_document": "", "source_lines": (), "target_lines": ()} if kind is AlignedPair else {}
    found: Pair = kind(**empty | fields | {"source": source, "target": target})
    return found


class BitextFormat(ABC):
    """A format of sentence pairs with their scores.

    Attributes:
        name: As in `mexma mine --format`.
        endings: Of the files that are of this format without being asked for, before the compression's.
        ids: Whether all is written that is known of a pair (line numbers, and ranks, cosine and means, or
            documents): where it is ``wanted`` (`--with-ids`), ``always`` or ``never``.
        alignments_only: Whether it holds the alignments of documents, and no pairs that `mexma mine` found.
        by_language: Whether the two sides are told apart by their languages.
        two_files: Whether the sides are written to a file each.
        magic: The first bytes of a file that is read as bytes and not as lines of UTF-8.
        about: What is written, for the help.
        changes: What was done to sentences that the format cannot hold as they are.
    """

    name: ClassVar[str]
    endings: ClassVar[tuple[str, ...]] = ()
    ids: ClassVar[Literal["wanted", "always", "never"]]
    alignments_only: ClassVar[bool] = False
    by_language: ClassVar[bool] = False
    two_files: ClassVar[bool] = False
    magic: ClassVar[tuple[bytes, ...]] = ()
    about: ClassVar[str]
    changes: ClassVar[str] = "tabs or line breaks became spaces"

    def files(self, path: Path, languages: tuple[str, str]) -> list[Path]:
        """The files that are written for an output of that name."""
        return [path]

    @abstractmethod
    def write(
        self, pairs: Iterable[Pair], languages: tuple[str, str], with_ids: bool = False
    ) -> Iterator[Chunk]:
        """The text of the files, with the number of sentences that had to be changed.

        Args:
            languages: FLORES-200 codes of source and target.
            with_ids: All that is known of a pair, where `ids` is ``wanted``.
        """

    def recognises(self, line: str) -> bool:
        """Whether a text with that first line is of this format, and can be read."""
        return False

    def read(self, lines: Iterator[str], where: str) -> Iterator[ScoredPair]:
        """Pairs with their scores.

        Args:
            lines: At least one, without their line ends.
            where: The file's name, for messages.

        Raises:
            MexmaError: A line is of another format, or has a score that is no finite number.
        """
        raise NotImplementedError

    def read_pairs(self, lines: Iterator[str], where: str) -> Iterator[Pair]:
        """As `read`, a pair a line, but lines need not have a score, and all comes that is known."""
        raise NotImplementedError

    def read_bytes(
        self, pieces: Iterator[bytes], where: str, languages: tuple[str, str]
    ) -> tuple[tuple[str, str], Iterator[Pair]]:
        """The languages and the pairs of a file that begins with `magic`.

        Args:
            languages: FLORES-200 codes of the sides that are wanted, as far as they are stated.
        """
        raise NotImplementedError


_BREAKS = re.compile(r"[\t\n\r]")


def one_field(sentence: str) -> str:
    """The sentence as it stands in a TSV field: tabs and line breaks are spaces."""
    return _BREAKS.sub(" ", sentence)


_FOUND: dict[str, BitextFormat] = {}


def bitext_format(format_: type[BitextFormat]) -> type[BitextFormat]:
    """Register a format (a decorator of its class)."""
    assert format_.name not in _FOUND, format_.name
    _FOUND[format_.name] = format_()
    return format_


@cache
def formats(alignments: bool = False) -> Mapping[str, BitextFormat]:
    """The formats of this folder by name, the default one first.

    Args:
        alignments: Those of alignments alone, too.
    """
    folder = __package__ or ""
    for module in pkgutil.iter_modules(import_module(folder).__path__):
        import_module(f"{folder}.{module.name}")
    names = sorted(_FOUND, key=lambda name: (name != DEFAULT, name))
    return {name: _FOUND[name] for name in names if alignments or not _FOUND[name].alignments_only}


def format_of(path: Path | None, written: Sequence[str] = ()) -> str:
    """The format that a file's name says; the default one for names that say none, and for stdout (None).

    Args:
        written: The formats that are written; all of pairs, if there are none.

    Raises:
        MexmaError: The name says a format that is not written.
    """
    if path is None:
        return DEFAULT
    suffix = Path(plain_name(path.name)).suffix.lower()
    known, chosen = formats(alignments=True), written or list(formats())
    found = next((name for name in known if suffix in known[name].endings), DEFAULT)
    if found not in chosen or (suffix in OTHER_FORMATS and suffix not in known[found].endings):
        endings = [ending for name in chosen for ending in known[name].endings]
        asked = [f"--format {name}" for name in chosen if not known[name].endings]
        ways = " or ".join([", ".join(endings), *asked])
        raise MexmaError(f"{path}: pairs are not written as {suffix}", f"what is written: {ways}")
    return found


def outputs_of(
    path: Path | None, name: str = DEFAULT, languages: tuple[str, str] = (UNSTATED, UNSTATED)
) -> list[Path]:
    """The files that a format makes of an output's name; none for stdout (None or ``-``).

    Args:
        languages: FLORES-200 codes.

    Raises:
        MexmaError: The format needs two languages, and they are not stated, or not different.
    """
    found = formats(alignments=True)[name]
    if found.by_language and (UNSTATED in languages or languages[0] == languages[1]):
        said = "are not stated" if UNSTATED in languages else f"are both {languages[0]}"
        raise MexmaError(
            f"{name} tells the sides apart by their languages, and these {said}",
            "--source-lang and --target-lang state them, here or in `mexma embed --lang`",
        )
    if path is None or str(path) == "-":
        return []
    return found.files(path, languages)


class Bitext(NamedTuple):
    """A file of pairs that is being read.

    Attributes:
        kind: The format's name.
        languages: FLORES-200 codes of source and target, as far as they are known.
        pairs: With the line that each stands in, where the format has lines.
    """

    kind: str
    languages: tuple[str, str]
    pairs: Iterator[tuple[str | None, Pair]]


def read_bitext(path: str | Path, where: str, languages: tuple[str, str] = (UNSTATED, UNSTATED)) -> Bitext:
    """Begin to read a file of pairs of any format that can be read, by its first bytes; ``-`` is stdin.

    Raises:
        MexmaError: It cannot be read, now or on the way, or is of another format.
    """
    found, pieces = _begun(path, where)
    if found:
        known, pairs = found.read_bytes(pieces, where, languages)
        return Bitext(found.name, known, ((None, pair) for pair in pairs))
    format_, lines = _recognised(lines_of(pieces, where))
    remembered = _Remembering(lines)
    pairs = format_.read_pairs(remembered, where) if format_ else iter(())
    name = format_.name if format_ else DEFAULT
    return Bitext(name, languages, ((remembered.line, pair) for pair in pairs))


def read_scored_file(path: str | Path, where: str) -> Iterator[ScoredPair]:
    """Read a file of mined bitext of any format that can be read; sentences are as in TSV.

    Raises:
        MexmaError: As `read_bitext`, or a score that is not there or no finite number.
    """
    found, pieces = _begun(path, where)
    if not found:
        yield from read_scored(lines_of(pieces, where), where)
        return
    for number, pair in enumerate(found.read_bytes(pieces, where, (UNSTATED, UNSTATED))[1], 1):
        score = getattr(pair, "score", math.nan)
        if not math.isfinite(score):
            raise MexmaError(f"{where}: pair {number} has no score", "`mexma mine` writes pairs with scores")
        yield ScoredPair(score, one_field(pair.source), one_field(pair.target), number)


def _begun(path: str | Path, where: str) -> tuple[BitextFormat | None, Iterator[bytes]]:
    """The format of a file that is not read as lines, None for all others; and all bytes of the file."""
    pieces = read_pieces(path, where)
    first = next(pieces, b"")
    found = next((found for found in formats().values() if first.startswith(found.magic)), None)
    return found, chain([first], pieces)


class _Remembering:
    """Lines of which the last one that was taken is known."""

    def __init__(self, lines: Iterator[str]) -> None:
        self._lines = lines
        self.line = ""

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        self.line = next(self._lines)
        return self.line


def read_scored(lines: Iterable[str], where: str) -> Iterator[ScoredPair]:
    """Read mined bitext of any format that can be read, by its first line, as `BitextFormat.read` does."""
    found, lines = _recognised(lines)
    return found.read(lines, where) if found else iter(())


def _recognised(lines: Iterable[str]) -> tuple[BitextFormat | None, Iterator[str]]:
    """The format of lines, None if there are none, and all the lines."""
    lines = iter(lines)
    first = next(lines, None)
    if first is None:
        return None, lines
    found = next((found for found in formats().values() if found.recognises(first)), formats()[DEFAULT])
    return found, chain([first], lines)
