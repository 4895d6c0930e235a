"""Formats of mined sentence pairs: what they share, and the registry that finds them by name and by ending.

A format is one class in a file of this folder, under `@bitext_format`. Commands, their help and the docs
learn of it from `formats`.
"""

from __future__ import annotations

import logging
import math
import pkgutil
import re
import shlex
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import import_module
from itertools import chain, islice
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, TypeVar

from mexma_cli.errors import MexmaError, choice, in_a_line
from mexma_cli.languages import UNSTATED, known, resolve, tag_with_region
from mexma_cli.text.amounts import counted, such_as
from mexma_cli.text.compression import plain_name
from mexma_cli.text.kinds import sentences_only
from mexma_cli.text.lines import (
    LINE_LIMIT,
    OTHER_FORMATS,
    Member,
    is_blank,
    label_of,
    lines_of,
    read_pieces,
)

if TYPE_CHECKING:
    from mexma_cli.text.writing import Chunk

log = logging.getLogger(__name__)
Row = TypeVar("Row")

LANGUAGES_STATED_BY = "--source-lang and --target-lang"
"""The options of commands that take a file of pairs in any format."""
WRITING = {"languages": tuple[str, str], "format": str}
"""Keywords of Python that say how pairs are written, with their types."""
DEFAULT = "tsv"
"""The format where nothing says another one."""


class MinedPair(NamedTuple):
    """A pair and all that is known of it.

    Lines are counted from 1 and so are ranks: `source_rank` is the target's place among the neighbours of the
    source, 0 where it is not among them. The means are of both neighbourhoods' cosines. None: not known.
    """

    score: float
    source: str
    target: str
    source_line: int | None = None
    target_line: int | None = None
    source_rank: int | None = None
    target_rank: int | None = None
    cosine: float | None = None
    source_mean: float | None = None
    target_mean: float | None = None


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


class ScoredPair(NamedTuple):
    """A pair with its margin, and the probability that it is a translation."""

    score: float
    source: str
    target: str
    probability: float


class ExplainedPair(NamedTuple):
    """A pair with its margin, its probability, and the reasons why it may be no translation."""

    score: float
    source: str
    target: str
    probability: float
    doubts: str


class FoundPair(NamedTuple):
    """A query, the sentence that `mexma search` found for it, its rank from 1, and where it stands: its line,
    from 1, and its document. Without a hit rank and line are 0."""

    score: float
    source: str
    target: str
    rank: int
    line: int
    document: str


class PlainPair(NamedTuple):
    """A pair of which no more is known."""

    source: str
    target: str


class PairOfColumns(NamedTuple):
    """A pair, and what stands in the columns behind it, with tabs between."""

    source: str
    target: str
    further: str


Pair = MinedPair | AlignedPair | ScoredPair | ExplainedPair | PlainPair | PairOfColumns
FIELDS: dict[str, type] = {
    "score": float,
    "source_line": int,
    "target_line": int,
    "source_rank": int,
    "target_rank": int,
    "cosine": float,
    "source_mean": float,
    "target_mean": float,
    "source_document": str,
    "target_document": str,
    "source_lines": tuple,
    "target_lines": tuple,
    "probability": float,
    "doubts": str,
}
"""All that may be known of a pair beside its sentences, and its types; lines are a tuple of integers."""
NO_PAIR = PlainPair("", "")
"""In place of a line that is no pair, where there has to be a pair for each line."""
BLANK = "blank lines"
MALFORMED = "malformed lines"
"""Why lines are no pairs: there is nothing in them, or they cannot be read."""
_NAMES, _MORE = 100, "others"
"""Columns and fields whose values are counted by name."""


def pair_of(known: Mapping[str, Any], source: str, target: str) -> Pair:
    """A pair, with as much as is `known` of it: values by the names of the fields of pairs with a score;
    other names are passed over, and None. A score that is there and None is no number (nan)."""
    kind: type[MinedPair | AlignedPair | ScoredPair | ExplainedPair] = MinedPair
    if known.get("source_document") is not None:
        kind = AlignedPair
    elif known.get("probability") is not None:
        kind = ScoredPair if known.get("doubts") is None else ExplainedPair
    if "score" not in known:
        return PlainPair(source, target)
    fields = {name: value for name in kind._fields if (value := known.get(name)) is not None}
    fields.setdefault("score", math.nan)
    empty: dict[str, Any] = {}
    if kind is AlignedPair:
        empty = {"target_document": "", "source_lines": (), "target_lines": ()}
    found: Pair = kind(**empty | fields | {"source": source, "target": target})
    return found


def typed(values: Mapping[str, Any]) -> dict[str, Any]:
    """Take values of any type by name, for `pair_of`; None for those that a pair cannot have."""
    return {name: _typed(name, value) for name, value in values.items()}


def widest(pairs: Iterable[Pair]) -> type[Pair] | None:
    """The kind of pair with the most fields, which has the columns for all that is known of the others."""
    return max(map(type, pairs), key=lambda kind: len(kind._fields), default=None)


def as_first(pairs: Iterable[Pair]) -> Iterator[Pair]:
    """Pairs with the fields of the `widest` of the first ones, for formats with columns: what others lack is
    no number, or empty, and what later ones have more is left out, which is said."""
    rest, more = iter(pairs), Counter[str]()
    start = list(islice(rest, _FIRST))
    kind = widest(start)
    for pair in chain(start, rest):
        if kind and type(pair) is not kind:
            known: dict[str, Any] = pair._asdict()
            more.update(
                name for name, value in known.items() if name not in kind._fields and value is not None
            )
            pair = kind(**{name: known.get(name, _UNKNOWN[FIELDS.get(name, str)]) for name in kind._fields})
        yield pair
    for name, count in more.items():
        log.warning(
            "%s left out: the first pairs, which say what columns there are, have no %s",
            counted(count, "value"),
            name,
        )


_FIRST = 1000
"""Pairs that say what columns a file has."""
_UNKNOWN: dict[type, Any] = {float: math.nan, int: None, str: "", tuple: ()}


def whole_number(value: Any) -> int:
    """A number of 64 bits, such as that of a line; a larger one is a ValueError."""
    found = int(value)
    if found.bit_length() > 63:
        raise ValueError
    return found


def _typed(name: str, value: Any) -> Any:
    kind = FIELDS.get(name)
    try:
        if kind is str:
            return value if value is None else str(value)
        if kind is tuple:
            return tuple(map(whole_number, value)) if isinstance(value, list | tuple) else None
        if kind is None or isinstance(value, bool) or not isinstance(value, int | float):
            return None
        return whole_number(value) if kind is int else value
    except (ValueError, OverflowError):  # of numbers that are not finite
        return None


@dataclass(frozen=True)
class RawText:
    """The uncompressed bytes of a file that is being read, and its name in messages.

    Attributes:
        options: How the user of the command states the languages of the sides; empty if there is no way.
        left_out: Counts what becomes no pair, by reason.
        each_line: As of `open_pairs`.
        header: The line with the columns' names, when it has been read and if there is one.
        others: Counts values that pairs do not have, by the names of their columns or fields.
        segments: Counts the segments of a translation memory by the tags of their languages.
        tags: Those of the sides, or else codes of regions that the user stated; empty for neither.
    """

    pieces: Iterator[bytes]
    where: str
    options: str = ""
    left_out: Counter[str] = field(default_factory=Counter)
    each_line: bool = False
    header: list[str] = field(default_factory=list)
    others: Counter[str] = field(default_factory=Counter)
    segments: Counter[str] = field(default_factory=Counter)
    tags: list[str] = field(default_factory=lambda: ["", ""])

    def lines(self) -> Iterator[str]:
        """The lines of the file, as by `text.lines.lines_of`."""
        return lines_of(self.pieces, self.where)

    def no_pair(self, reason: str) -> Iterator[Record]:
        """Count a line that is no pair."""
        self.left_out[reason] += 1
        if self.each_line:
            yield None, NO_PAIR

    def count_others(self, values: Iterable[tuple[str, Any]]) -> None:
        """Count values that a pair does not have, behind their names; those of most names together."""
        for name, value in values:
            if not self.each_line and value not in (None, ""):
                self.others[name if name in self.others or len(self.others) < _NAMES else _MORE] += 1

    def records(
        self, rows: Iterable[tuple[int, Row]], parse: Callable[[Row, str], Pair | str]
    ) -> Iterator[Record]:
        """The pairs of numbered lines or rows. `parse` makes a pair of one, with its place in words, or says
        why it is left out; one that it refuses is refused, if `each_line` only where it refuses all."""
        pairs, wrong = 0, None
        for number, row in rows:
            try:
                found = parse(row, f"{self.where}, line {number}")
            except MexmaError as error:
                if not self.each_line:
                    raise
                wrong, found = wrong or error, MALFORMED
            if isinstance(found, str):
                yield from self.no_pair(found)
            else:
                pairs += 1
                yield row if isinstance(row, str) else None, found
        if wrong and not pairs:
            raise wrong
        if wrong:
            log.warning("%s; this is the first malformed line", wrong.message)


Record = tuple[str | None, Pair]
"""A pair with the line that it stands in, where its format has lines."""


class OpenedPairs(NamedTuple):
    """A file of pairs that is being read.

    Attributes:
        format: The format's name.
        languages: FLORES-200 codes of source and target, as far as they are known; tags of the file where
            they are no such codes, or regions of one language.
        records: The pairs, with their lines.
        header: The line with the columns' names, once the first pair has been read and if there is one.
        others: How many values the pairs that were read do not have, by the names of their columns or fields;
            those of lines that are written as they were read are not lost.
        segments, tags: As of `RawText`, of the pairs that were read.
    """

    format: str
    languages: tuple[str, str]
    records: Iterator[Record]
    header: Sequence[str] = ()
    others: Mapping[str, int] = MappingProxyType({})
    segments: Mapping[str, int] = MappingProxyType({})
    tags: Sequence[str] = ("", "")

    @property
    def other_values(self) -> dict[str, int]:
        """Count values of other columns or fields under one reason, with the first of their names."""
        names = [in_a_line(name) for name in self.others]
        return {f"values of other columns{such_as(names)}": sum(self.others.values())} if names else {}

    @property
    def pairs(self) -> Iterator[Pair]:
        """The pairs alone."""
        return (pair for _, pair in self.records)


def begun(format: str, records: Iterator[Record], languages: Callable[[], tuple[str, str]]) -> OpenedPairs:
    """A file whose first pair is read at once, since the languages are known from then on."""
    first = list(islice(records, 1))
    return OpenedPairs(format, languages(), chain(first, records))


class BitextFormat(ABC):
    """A format of sentence pairs with their scores.

    Attributes:
        name: As in `mexma mine --format`.
        endings: Of the files that are of this format without being asked for, before the compression's.
        ids: Whether all is written that is known of a pair (line numbers, and ranks, cosine and means, or
            documents): where it is ``wanted`` (`--with-ids`), ``always`` or ``never``.
        alignments_only: Whether it holds the alignments of documents, and no pairs that `mexma mine` found.
        whole_documents: Whether it is written from pairs of documents (`documents.DocumentPair`).
        by_language: Whether the two sides are told apart by their languages.
        two_files: Whether the sides are written to a file each.
        compressed: Whether it is compressed in itself, so that nobody expects its files compressed once more.
        magic: The first bytes of a file.
        about: What is written, for the help.
        changes: What was done to sentences that the format cannot hold as they are.
    """

    name: ClassVar[str]
    endings: ClassVar[tuple[str, ...]] = ()
    ids: ClassVar[Literal["wanted", "always", "never"]]
    alignments_only: ClassVar[bool] = False
    whole_documents: ClassVar[bool] = False
    by_language: ClassVar[bool] = False
    two_files: ClassVar[bool] = False
    compressed: ClassVar[bool] = False
    magic: ClassVar[tuple[bytes, ...]] = ()
    about: ClassVar[str]
    changes: ClassVar[str] = "tabs or line breaks became spaces"

    def files(self, path: Path, languages: tuple[str, str]) -> list[Path]:
        """The files that are written for an output of that name."""
        if self.compressed and path.name != (plain := plain_name(path.name)):
            raise MexmaError(f"{path}: {self.name} is compressed in itself", f"name it {plain}")
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

    def recognises(self, start: bytes) -> bool:
        """Whether a file that begins so, with its first line or more, is of this format and can be read."""
        return start.startswith(self.magic)

    def lines(self, text: RawText, languages: tuple[str, str]) -> Iterator[str]:
        """Yield the sides of each pair, with a tab between, for `open_lines`."""
        found = self.read(text, languages=languages)
        for pair in found._replace(records=_told(found, text)).pairs:
            yield f"{one_field(pair.source)}\t{one_field(pair.target)}"

    def read(self, *texts: RawText, languages: tuple[str, str]) -> OpenedPairs:
        """Begin to read a file, or two where the sides have one each. Refused: another format or a damaged
        file, now or when the pairs come.

        Args:
            languages: Codes of the sides that are wanted, as far as they are stated: FLORES-200 codes, or as
                the user wrote them for formats that tell the sides apart by them.
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
    """The formats of this folder by name, the default one first; with `alignments`, those of alignments
    alone, too."""
    folder = __package__ or ""
    for module in pkgutil.iter_modules(import_module(folder).__path__):
        import_module(f"{folder}.{module.name}")
    names = sorted(_FOUND, key=lambda name: (name != DEFAULT, name))
    return {name: _FOUND[name] for name in names if alignments or not _FOUND[name].alignments_only}


def format_of(path: Path | None, written: Sequence[str] = ()) -> str:
    """The format that a file's name says; the default one for names that say none, and for stdout (None).
    Refused: one that is not among those `written`, which are all of pairs if none is named."""
    if path is None:
        return DEFAULT
    suffix = Path(plain_name(path.name)).suffix.lower()
    known, chosen = formats(alignments=True), written or list(formats())
    found = next((name for name in known if suffix in known[name].endings), DEFAULT)
    meant = suffix in OTHER_FORMATS or suffix.removeprefix(".") in known
    if found not in chosen or (meant and suffix not in known[found].endings):
        endings = [ending for name in chosen for ending in known[name].endings]
        asked = [f"--format {name}" for name in chosen if not known[name].endings]
        ways = " or ".join([", ".join(endings), *asked])
        raise MexmaError(f"{path}: pairs are not written as {suffix}", f"what is written: {ways}")
    return found


def how_pairs_convert(path: Path) -> str | None:
    """A hint where pairs are given, by the file's name, for something that they are not; None for others."""
    suffix = Path(plain_name(path.name)).suffix.lower()
    if not any(suffix in known.endings for known in formats(alignments=True).values()):
        return None
    return f"`mexma filter --off all {shlex.quote(str(path))} -o NAME.tmx` writes pairs in another format"


def outputs_of(
    path: Path | None, name: str = DEFAULT, languages: tuple[str, str] = (UNSTATED, UNSTATED)
) -> list[Path]:
    """The files that a format makes of an output's name; none for stdout (None or ``-``). Refused: a format
    that tells the sides apart by FLORES-200 `languages` that are not stated, or are the same."""
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


def write_pairs(
    output: Path,
    format_: BitextFormat,
    pairs: Iterable[Any],
    languages: tuple[str, str],
    with_ids: bool = False,
) -> int:
    """Write pairs, or pairs of documents for a format of whole documents, to the files of an output, which
    get their names when they are whole. Returns the number of sentences that had to be changed to fit the
    format."""
    from mexma_cli.text.writing import prepare_output, write_chunks

    files = outputs_of(output, format_.name, languages)
    prepare_output(output)
    return write_chunks(files, format_.write(pairs, languages, with_ids))


def told_of_languages(pairs: Iterable[Any], languages: tuple[str, str]) -> Iterator[Any]:
    """The pairs; warn where the first ones look as if they were in other languages."""
    from mexma_cli.text.identify import LOOKED_AT, identifier, warn_of_languages

    pairs = iter(pairs)
    first = list(islice(pairs, LOOKED_AT))
    stated = any(known(code) != UNSTATED for code in languages)
    if stated:
        sides = [pair.source for pair in first], [pair.target for pair in first]
        warn_of_languages(sides, languages, identifier("py3langid"))
    return chain(first, pairs)


def named_format(output: Path | None, name: str | None, alignments: bool = False) -> BitextFormat:
    """The format of this name; None: the one that the output's name says. One that is not there, not
    written, or another than the name says, is refused; with `alignments`, those of alignments alone are
    there, too."""
    every = formats(alignments)
    if name is None:
        return every[format_of(output, list(every))]
    if name not in every:
        raise MexmaError(f"no format {name!r}", choice(name, every, "formats"))
    found, suffix = every[name], "" if output is None else Path(plain_name(output.name)).suffix.lower()
    called = next((one for one in formats(alignments=True).values() if suffix in one.endings), found)
    as_json = found.whole_documents and called.name == "jsonl"  # whole documents are lines of JSON
    if found.endings and called.name != name and not as_json:
        raise MexmaError(
            f"{output} has the name of {called.name}, and the format {name}, so it would be read wrongly",
            f"name it *{found.endings[0]}, or leave out --format",
        )
    return found


def open_pairs(
    *paths: str | Path | Member,
    languages: tuple[str, str] = (UNSTATED, UNSTATED),
    format: str | None = None,
    options: str = "",
    left_out: Counter[str] | None = None,
    each_line: bool = False,
) -> OpenedPairs:
    """Begin to read a file of pairs, or two line-aligned files; ``-`` is stdin. Refused, now or on the way:
    what cannot be read or is of another format, one of two files that is no text, and an unknown code.

    Args:
        languages: Codes of the sides that are wanted as the user wrote them, as far as they are stated; a
            format that tells the sides apart by languages looks for them among its tags.
        format: The format's name; None: as the first bytes say, and TSV where they say nothing.
        options: How the user of the command states the languages, for hints.
        left_out: Counts what becomes no pair, by reason; None: the log says it when all pairs are read.
        each_line: In formats with a line a pair, a line that is none is `NO_PAIR`, also one that is malformed
            (unless all are); and TSV may have columns behind the pair, which is a `PairOfColumns` then.
    """
    counts: Counter[str] = Counter() if left_out is None else left_out
    tags = list(map(tag_with_region, languages))
    texts = [
        RawText(read_pieces(path, label_of(path)), label_of(path), options, counts, each_line, tags=tags)
        for path in paths
    ]
    if len(texts) == 2:
        texts = [replace(text, pieces=sentences_only(text.pieces, text.where)) for text in texts]
        format = next(name for name, found in formats().items() if found.two_files)
    elif format is None:
        format, text = _recognised(texts[0])
        texts = [text]
    format_ = formats(alignments=True)[format]
    found = format_.read(*texts, languages=_wanted(format_, languages))
    found = found._replace(others=texts[0].others, segments=texts[0].segments, tags=tags)
    return found if left_out is not None else found._replace(records=_told(found, texts[0]))


def open_lines(
    path: str | Path, languages: tuple[str, str] = (UNSTATED, UNSTATED), options: str = ""
) -> Iterator[str]:
    """The lines of a text, or the rows of a table or of pairs in any format, with tabs between the columns or
    the sides; a warning where none has a sentence. Arguments and refusals as of `open_pairs`."""
    where = label_of(path)
    format, text = _recognised(RawText(read_pieces(path, where), where, options))
    format_, sentences = formats(alignments=True)[format], False
    for line in format_.lines(text, _wanted(format_, languages)):
        sentences = sentences or not is_blank(line)
        yield line
    if not sentences:
        log.warning("%s has no sentence", where)


def _recognised(text: RawText) -> tuple[str, RawText]:
    """The name of a file's format, as its first bytes say, and the file from its beginning."""
    start, pieces = b"", text.pieces
    while len(start) < LINE_LIMIT and b"\n" not in start.lstrip() and (piece := next(pieces, b"")):
        start += piece
    known = formats(alignments=True)
    format = next((name for name, found in known.items() if found.recognises(start)), DEFAULT)
    return format, replace(text, pieces=chain([start], pieces))


def _wanted(format_: BitextFormat, languages: tuple[str, str]) -> tuple[str, str]:
    """The languages for `BitextFormat.read`."""
    return languages if format_.by_language else (resolve(languages[0]), resolve(languages[1]))


def _told(found: OpenedPairs, text: RawText) -> Iterator[Record]:
    yield from found.records
    for reason, count in [*text.left_out.items(), *found.other_values.items()]:
        said = "no pairs" if text.each_line else "left out"
        log.warning("%s: %s: %s (%s)", text.where, said, reason, f"{count:,}")
