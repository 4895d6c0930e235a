"""Whole documents: a JSON object a pair of documents, with the alignments of their sentences."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple

from mexma_cli.errors import MexmaError
from mexma_cli.formats.bitext import (
    AlignedPair,
    BitextFormat,
    OpenedPairs,
    RawText,
    Record,
    begun,
    bitext_format,
)
from mexma_cli.formats.sides import sides_among
from mexma_cli.languages import UNSTATED

if TYPE_CHECKING:
    from mexma_cli.text.writing import Chunk

_LONGEST = 1 << 28  # bytes of a pair of documents
_SPACELESS = "\u0e00-\u0eff\u0f00-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_WORDS = f"[{_SPACELESS}]{{1,2}}|[^\\s{_SPACELESS}]+"  # slow to compile
Span = tuple[range, range]
_TAGS = ("source_language", "target_language")


class DocumentPair(NamedTuple):
    """Two documents, or pieces of them, and which sentences are translations of which.

    Attributes:
        names: Of the documents; "" where there is one on each side.
        piece: The number of the piece, from 0; None for whole documents.
        score: Of the whole documents: how well the sentences of each cover the other's.
        sentences: Of both sides, in order.
        lines: Where they stand in the documents' files, from 1.
        beads: All sentences of both sides in order: those of each alignment, or one that is alone.
        scores: Of the beads; 0 for a sentence that is alone, but where a filter drops its alignment.
    """

    names: tuple[str, str]
    piece: int | None
    score: float
    sentences: tuple[list[str], list[str]]
    lines: tuple[list[int], list[int]]
    beads: list[Span]
    scores: list[float]

    def pieces(self, words: int) -> Iterator[DocumentPair]:
        """The documents cut between beads, with at most so many words on each side, or one bead with more.

        Two characters of a script without spaces count as a word.
        """
        ends = [[0, *accumulate(len(re.findall(_WORDS, text)) for text in side)] for side in self.sentences]
        first, piece = 0, 0
        for last in range(1, len(self.beads) + 1):
            full = last < len(self.beads) and any(
                upto[self.beads[last][side].stop] - upto[self.beads[first][side].start] > words
                for side, upto in enumerate(ends)
            )
            if full or last == len(self.beads):
                yield self._between(first, last, piece)
                first, piece = last, piece + 1

    def _between(self, first: int, last: int, piece: int) -> DocumentPair:
        beads = self.beads[first:last]
        starts, ends = ([one.start for one in beads[0]], [one.stop for one in beads[-1]])

        def moved(own: range, side: int) -> range:
            return range(own.start - starts[side], own.stop - starts[side])

        own, other = (slice(start, end) for start, end in zip(starts, ends, strict=True))
        return self._replace(
            piece=piece,
            sentences=(self.sentences[0][own], self.sentences[1][other]),
            lines=(self.lines[0][own], self.lines[1][other]),
            beads=[(moved(x, 0), moved(y, 1)) for x, y in beads],
            scores=self.scores[first:last],
        )

    def as_object(self, languages: tuple[str, str]) -> dict[str, Any]:
        """The pair as a JSON object, with the languages of both sides; sentences are counted from 0."""
        both = [(x, y, score) for (x, y), score in zip(self.beads, self.scores, strict=True) if x and y]
        alone = [[i for bead in self.beads if not bead[1 - side] for i in bead[side]] for side in (0, 1)]
        total = sum(map(len, self.sentences))
        return {
            "source_document": self.names[0],
            "target_document": self.names[1],
            **{name: code for name, code in zip(_TAGS, languages, strict=True) if code != UNSTATED},
            **({} if self.piece is None else {"piece": self.piece}),
            "score": self.score,
            "aligned": round(1 - sum(map(len, alone)) / max(total, 1), 4),
            "source": self.sentences[0],
            "target": self.sentences[1],
            "alignments": [
                {"source": [*x], "target": [*y], "score": round(score, 6)} for x, y, score in both
            ],
            "source_alone": alone[0],
            "target_alone": alone[1],
            "source_lines": self.lines[0],
            "target_lines": self.lines[1],
        }


@bitext_format
class Documents(BitextFormat):
    """One JSON object a line. As pairs, its alignments are read."""

    name = "documents"
    endings = (".documents",)
    ids = "always"
    alignments_only = True
    whole_documents = True
    magic = (b'{"source_document": ',)
    about = "one object a pair of documents: all sentences, alignments, what is alone"

    def write(
        self, pairs: Iterable[Any], languages: tuple[str, str], with_ids: bool = False
    ) -> Iterator[Chunk]:
        """The lines of pairs of documents, each a `DocumentPair`."""
        for pair in pairs:
            yield (json.dumps(pair.as_object(languages), ensure_ascii=False) + "\n",), 0

    def read(self, *texts: RawText, languages: tuple[str, str]) -> OpenedPairs:
        (text,), sides = texts, [languages]
        return begun(self.name, _records(text, sides), lambda: sides[-1])


def _records(text: RawText, sides: list[tuple[str, str]]) -> Iterator[Record]:
    """The alignments; `sides` get the languages that the objects state."""
    for number, line in enumerate(_lines(text), 1):
        try:
            found = json.loads(line)
            pairs = _pairs(found)
            tags = [found[name] for name in _TAGS if isinstance(found.get(name), str)]
        except (ValueError, KeyError, TypeError, IndexError, RecursionError):
            raise MexmaError(
                f"{text.where}, line {number}: not a pair of documents",
                "each line is one as `mexma align --format documents` writes them",
            ) from None
        names, sides[-1] = sides_among(sides[-1], tags, text.where, text.options) if tags else ([], sides[-1])
        swapped = names == tags[::-1] != tags
        yield from ((None, _swapped(pair) if swapped else pair) for pair in pairs)


def _pairs(found: dict[str, Any]) -> list[AlignedPair]:
    names = str(found["source_document"]), str(found["target_document"])
    pairs = []
    for one in found["alignments"]:
        (source, lines), (target, others) = (_part(found, side, one[side]) for side in ("source", "target"))
        (source + target).encode()  # no halves of characters
        pairs.append(AlignedPair(float(one["score"]), source, target, *names, lines, others))
    return pairs


def _swapped(pair: AlignedPair) -> AlignedPair:
    score, source, target, one, other, lines, others = pair
    return AlignedPair(score, target, source, other, one, others, lines)


def _part(found: dict[str, Any], side: str, places: Sequence[int]) -> tuple[str, tuple[int, ...]]:
    sentences, lines = found[side], found[f"{side}_lines"]
    return " ".join(sentences[place] for place in places), tuple(int(lines[place]) for place in places)


def _lines(text: RawText) -> Iterator[bytes]:
    """Lines of any length up to `_LONGEST`."""
    rest: list[bytes] = []
    for piece in text.pieces:
        *whole, last = piece.split(b"\n")
        for line in whole:
            yield b"".join([*rest, line])
            rest = []
        rest.append(last)
        if sum(map(len, rest)) > _LONGEST:
            raise MexmaError(
                f"{text.where}: a pair of documents of more than {_LONGEST >> 20} MiB",
                "--chunks cuts long documents into pieces",
            )
    if any(rest):
        yield b"".join(rest)
