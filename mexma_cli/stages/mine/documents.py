"""Which lines belong to which document, and which documents are paired."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from itertools import compress, islice, repeat
from operator import ne
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from mexma_cli.errors import MexmaError
from mexma_cli.files import MANIFEST
from mexma_cli.formats.ids import read_id_pairs
from mexma_cli.stages.knn.row_filter import digests_of
from mexma_cli.store.embeddings import EmbeddingStore
from mexma_cli.store.spool import (
    Ragged,
    RaggedSpool,
    Spool,
    Table,
    TextSpool,
    repeats,
    scattered,
    slices_of,
)
from mexma_cli.text.amounts import counted, such_as
from mexma_cli.text.compression import split_ending
from mexma_cli.text.lines import document_id, is_blank, read_lines, scan

log = logging.getLogger(__name__)

_LINES = 1 << 16  # read at a time
_FIRST, _SPACES = 1000, 3
"""First lines of a file of ids that may be sentences: those with more spaces than ids have, in the mean."""
_ID_KEYS = ("high", "low", "target", "place")
_ID = np.dtype([("high", "<u8"), ("low", "<u8"), ("target", "?"), ("place", "<i8")])
_KEY = np.dtype([("document", "<i8"), ("key", "<i8")])
_PAIR = np.dtype([("source", "<i8"), ("target", "<i8")])


class DocumentFiles(NamedTuple):
    """The document id of every line of both texts, and perhaps a list of those that belong together."""

    source: Path
    target: Path
    pairs: Path | None = None


@dataclass(frozen=True)
class DocumentPairs:
    """The documents of two texts.

    `source` and `target` int32 [rows], memory-mapped, are the document of every line, `pairs` int32 [n, 2]
    those that are paired, each once, sorted, and `keys`, of either side, the numbers of the pairs that each
    document is in; for one in no pair, a number below 0 that no other document has. `documents` is how many
    there are on either side, and `alone` how many of these are in no pair, which `lost` says in words: empty
    if all are in one.
    """

    source: np.ndarray
    target: np.ndarray
    pairs: np.ndarray
    keys: tuple[Ragged, Ragged]
    documents: tuple[int, int]
    alone: tuple[int, int]
    paths: tuple[Path, Path]
    lost: str

    def check_lines(self, rows: tuple[int, int], names: tuple[str, str]) -> None:
        """Refuse document ids that are not one a line of the texts."""
        check_lines(self.paths[0], len(self.source), rows[0], names[0])
        check_lines(self.paths[1], len(self.target), rows[1], names[1])


def check_lines(path: Path, lines: int, wanted: int, name: str) -> None:
    """Refuse a file of document ids, of so many lines, that are not one a line of the text `name`."""
    if lines != wanted:
        raise MexmaError(
            f"{path} has {counted(lines, 'line')}, {name} has {wanted:,}",
            "line n of the one must be the document id of line n of the other",
        )


class RowsByDocument:
    """Kept rows by document, from the document of every row, int [rows], of so many, and bool [rows]."""

    def __init__(self, documents: np.ndarray, keep: np.ndarray, count: int) -> None:
        kept = np.flatnonzero(keep)
        self._rows = kept[np.argsort(documents[kept], kind="stable")]
        self._starts = np.searchsorted(documents[self._rows], np.arange(count + 1))

    def rows(self, document: int) -> np.ndarray:
        """The rows of a document, int64, ascending."""
        return self._rows[self._starts[document] : self._starts[document + 1]]


def read_documents(source: Path, target: Path, pairs: Path | None = None) -> DocumentPairs:
    """Read document ids, one a line, and which of them are paired: equal ones, or those that `pairs` names, a
    file of lines `source id TAB target id`, in which an id can be in several; the log says which are not.

    A line may have more than the id behind a tab, such as a sentence's place in its document. Refused: a line
    without an id, a pair with an unknown one, no pair at all. Ids are on disk; a list of pairs and the ids
    that it can name are held in memory.
    """
    sides = source, target
    (source_lines, source_ids), (target_lines, target_ids) = map(read_document_ids, sides)
    ids, documents = (source_ids, target_ids), (len(source_ids), len(target_ids))
    table = pair_documents(ids, sides, pairs)
    places = _alone(table, documents[0], 0), _alone(table, documents[1], 1)
    alone = source_ids.at(places[0]), target_ids.at(places[1])
    tell_documents(len(table), alone, documents)
    return DocumentPairs(
        source=source_lines,
        target=target_lines,
        pairs=table,
        keys=(_keys(table, places[0], 0), _keys(table, places[1], 1)),
        documents=documents,
        alone=(len(alone[0]), len(alone[1])),
        paths=sides,
        lost=in_no_pair(alone, documents) if any(alone) else "",
    )


def _keys(pairs: np.ndarray, alone: np.ndarray, side: int) -> Ragged:
    """`DocumentPairs.keys` of a side, from its documents in no pair, int64 [n]."""
    table, found = Table(_KEY, "document", together=1), RaggedSpool(np.int64)
    for part in slices_of(len(pairs), _LINES):
        table.append(document=pairs[part, side], key=np.arange(part.start, part.stop))
    for part in slices_of(len(alone), _LINES):
        table.append(document=alone[part], key=-1 - 2 * alone[part] - side)
    for keys in table.sorted():
        starts = np.flatnonzero(~repeats(keys, "document"))
        found.write(keys["key"], np.diff(starts, append=len(keys)))
    return found.ragged()


class Ids(Sequence[str]):
    """Ids on disk, as they come in blocks; or those of them at some places, int64 [n]."""

    def __init__(self, blocks: Iterable[Sequence[str]]) -> None:
        self._texts, last = TextSpool(), 0
        ends, digests, places = Spool(np.int64), Spool(np.uint64), Spool(np.int64)
        ends.write(np.zeros(1, np.int64))
        for block in blocks:
            found = last + np.cumsum(self._texts.write(block))
            digests.write(digests_of(block).ravel())
            places.write(np.arange(places.rows, places.rows + len(block)))
            ends.write(found)
            last = int(found[-1]) if len(found) else last
        self._ends, self._digests = np.asarray(ends.array()), digests.array().reshape(-1, 2)
        self._places = np.asarray(places.array())  # plain arrays, for memory-mapped ones are slow to index

    def at(self, places: np.ndarray) -> Ids:
        """Those at some places; all that is found of these is as it is here."""
        found = copy(self)
        found._places = np.asarray(_each(self._places, places, np.int64))
        return found

    def __len__(self) -> int:
        return len(self._places)

    def __getitem__(self, place: Any) -> Any:
        places = np.atleast_1d(self._places[place])
        ends = self._ends[places + 1]
        found = self._texts.read(ends, ends - self._ends[places])
        return found if isinstance(place, slice) else found[0]

    def __iter__(self) -> Iterator[str]:
        for part in slices_of(len(self), _LINES):
            yield from self[part]

    def digests(self) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Places of some ids after others, int64 [n], and both halves of their checksums, uint64 [n]."""
        for part in slices_of(len(self), _LINES):
            high, low = self._digests[self._places[part]].T
            yield np.arange(part.start, part.stop), high, low


def read_document_ids(path: Path) -> tuple[np.ndarray, Ids]:
    """The document of every line, numbered as they come, int32 [lines], memory-mapped, and the ids of the
    documents."""
    of_line = Spool(np.int64)  # first the run of lines that it is in, after one another and of the same id

    def runs() -> Iterator[list[str]]:
        before, count, ids = "", 0, ids_of_lines(path)
        while part := list(islice(ids, _LINES)):
            new = list(map(ne, part, [before, *part]))
            of_line.write(count - 1 + np.cumsum(new))
            yield (heads := list(compress(part, new)))
            before, count = part[-1], count + len(heads)

    ids = Ids(runs())
    table, heads, numbers = Table(_ID, *_ID_KEYS, together=2), Spool(np.int64), Spool(np.int32)
    for places, high, low in ids.digests():
        table.append(high=high, low=low, place=places, target=False)
    first = scattered(len(ids), np.int64, -1, _firsts(table))
    for part in slices_of(len(first), _LINES):
        places = np.arange(part.start, part.stop)
        heads.write(places[first[part] == places])
    chosen = heads.array()
    for part in slices_of(len(first), _LINES):
        numbers.write(np.searchsorted(chosen, first[part]))
    return _each(numbers.array(), of_line.array(), np.int32), ids.at(chosen)


def _firsts(table: Table) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Places, int64 [n], and the first place of an equal id for each."""
    for ids in table.sorted():
        first = np.where(repeats(ids, "high", "low"), 0, np.arange(len(ids)))
        yield ids["place"], ids["place"][np.maximum.accumulate(first)]


def _each(values: np.ndarray, places: np.ndarray, dtype: Any) -> np.ndarray:
    """The values at many places, [n], memory-mapped."""
    found = Spool(dtype)
    for part in slices_of(len(places), _LINES):
        found.write(values[places[part]])
    return found.array()


def pair_documents(ids: tuple[Ids, Ids], sides: tuple[Path, Path], listed: Path | None = None) -> np.ndarray:
    """The pairs of documents, int32 [n, 2], each once, sorted, from their ids and `listed`, which are the
    `pairs` of `read_documents`. `sides` is where they are, for messages."""
    if listed is not None:
        source, target = ({name: place for place, name in enumerate(own)} for own in ids)
        named = read_id_pairs(listed, (source, target), sides, documents=True)
        return np.array(sorted({(source[a], target[b]) for a, b in named}), np.int32)
    if len(pairs := _equal(ids)):
        return pairs
    raise MexmaError(
        f"{sides[0]} and {sides[1]} have no document id in common",
        "`mexma align --find-documents` finds those that belong together; --document-pairs names them",
    )


def _equal(ids: tuple[Ids, Ids]) -> np.ndarray:
    """The places of equal ids of both sides, int32 [n, 2], by the first side's, memory-mapped."""
    table, pairs, found = Table(_ID, *_ID_KEYS, together=2), Table(_PAIR, "source"), Spool(np.int32)
    for side, own in enumerate(ids):
        for places, high, low in own.digests():
            table.append(high=high, low=low, place=places, target=side == 1)
    for both in table.sorted():
        second = np.flatnonzero(repeats(both, "high", "low"))  # an id is on each side once
        pairs.append(source=both["place"][second - 1], target=both["place"][second])
    for part in pairs.sorted():
        found.write(np.column_stack([part["source"], part["target"]]).ravel())
    return found.array().reshape(-1, 2)


def unpaired(ids: tuple[Ids, Ids], pairs: np.ndarray) -> tuple[Ids, Ids]:
    """The documents of both sides that are in none of the pairs, int32 [n, 2]."""
    source, target = (own.at(_alone(pairs, len(own), side)) for side, own in enumerate(ids))
    return source, target


def _alone(pairs: np.ndarray, documents: int, side: int) -> np.ndarray:
    """Which of a side's documents are in no pair, int64 [n], memory-mapped."""
    parts = (pairs[part, side] for part in slices_of(len(pairs), _LINES))
    paired = scattered(documents, bool, False, ((part, np.ones(len(part), bool)) for part in parts))
    found = Spool(np.int64)
    for part in slices_of(documents, _LINES):
        found.write(part.start + np.flatnonzero(~paired[part]))
    return found.array()


def tell_documents(
    pairs: int, alone: tuple[Sequence[str], Sequence[str]], documents: tuple[int, int]
) -> None:
    """Say how many pairs there are, and which documents of both sides are in none, of how many."""
    log.info("documents: %s paired; %s", f"{pairs:,}", in_no_pair(alone, documents))
    for side, names in zip(("source", "target"), alone, strict=True):
        if names and log.isEnabledFor(logging.DEBUG):  # perhaps millions, on disk
            log.debug("in no pair, of the %s: %s", side, ", ".join(names))


def in_no_pair(alone: tuple[Sequence[str], Sequence[str]], documents: tuple[int, int]) -> str:
    """How many documents of both sides are in no pair, of how many, and some of their names."""
    source, target = (
        f"{len(own):,} of {count:,} of the {side}{such_as(own)}"
        for side, own, count in zip(("source", "target"), alone, documents, strict=True)
    )
    return f"in no pair: {source}{';' if alone[0] else ''} and {target}"


def tell_if_older(store: EmbeddingStore, documents: Path) -> None:
    """Warn where `mexma split` has made a file of document ids and its text anew since the text's store."""
    stem, ending = split_ending(documents.name)
    text = documents.with_name(f"{stem.removesuffix('.docs')}.txt{ending}")
    made = (store.path / MANIFEST).stat().st_mtime_ns
    sources = store.manifest.sources
    if len(sources) > 1 or not text.is_file() or text.stat().st_mtime_ns <= made:
        return  # a store that was merged of pieces does not know the whole text
    if scan(text).checksum != sources[0].checksum:
        log.warning("%s and %s have changed since %s was made: embed again", text, documents, store.path)


def ids_of_lines(path: Path) -> Iterator[str]:
    """The document id of every line; a line without one, or no line, is refused. A warning tells where the
    first lines look like sentences: they differ, and have many words."""
    line, first = 0, set[str]()
    for line, row in enumerate(read_lines(path, ours=True), 1):
        name = document_id(row.partition("\t")[0])
        if is_blank(name):
            raise MexmaError(f"{path}, line {line}: no document id", "every line needs one")
        if line <= _FIRST and "\t" not in row:
            first.add(name)
        yield name
    if not line:
        raise MexmaError(f"{path} is empty", "one document id a line is expected")
    spaces = sum(map(str.count, first, repeat(" ")))
    if len(first) > 0.9 * min(line, _FIRST) and spaces > _SPACES * len(first):
        log.warning("nearly every line of %s is a document of its own: name the .docs file of a text", path)
