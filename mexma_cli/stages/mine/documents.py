"""Which lines belong to which document, and which documents are paired."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
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
    flat,
    repeats,
    scattered,
    slices_of,
)
from mexma_cli.text.amounts import such_as
from mexma_cli.text.compression import split_ending
from mexma_cli.text.lines import document_id, is_blank, read_lines, scan

log = logging.getLogger(__name__)

_LINES = 1 << 16  # read at a time
_FIRST, _SPACES = 1000, 3
"""First lines of a file of ids that may be sentences: those with more spaces than ids have, in the mean."""
_RUN_KEYS = ("high", "low", "side", "run")
_RUN = np.dtype([("high", "<u8"), ("low", "<u8"), ("side", "?"), ("run", "<i8")])
_SAME = np.dtype([("run", "<i8"), ("first", "<i8")])
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
            f"{path} has {lines:,} lines, {name} has {wanted:,}",
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
    without an id, a pair with an unknown one, no pair at all. Equal ids are found on disk; a list of pairs
    and the ids that it can name are held in memory.
    """
    sides = source, target
    if pairs is None:
        lines, table, keys, alone = _equal_ids(sides)
    else:
        (source_lines, source_ids), (target_lines, target_ids) = map(read_ids, sides)
        lines = source_lines, target_lines
        table, alone = pair_documents((source_ids, target_ids), sides, pairs)
        keys = _keys(table, len(source_ids), 0), _keys(table, len(target_ids), 1)
    documents = len(keys[0].ends) - 1, len(keys[1].ends) - 1
    tell_documents(len(table), alone, documents)
    return DocumentPairs(
        source=lines[0],
        target=lines[1],
        pairs=table,
        keys=keys,
        documents=documents,
        alone=(len(alone[0]), len(alone[1])),
        paths=sides,
        lost=in_no_pair(alone, documents) if any(alone) else "",
    )


def _keys(pairs: np.ndarray, documents: int, side: int) -> Ragged:
    """`DocumentPairs.keys` of a side of so many documents."""
    alone = np.setdiff1d(np.arange(documents), pairs[:, side])
    owners = np.concatenate([pairs[:, side], alone])
    order = np.argsort(owners, kind="stable")
    keys = np.concatenate([np.arange(len(pairs)), -1 - 2 * alone - side])[order]
    return Ragged(keys, np.searchsorted(owners[order], np.arange(documents + 1)))


class _Names(Sequence[str]):
    """Some of the ids in a file, which are on disk."""

    def __init__(self, names: Ragged, chosen: np.ndarray) -> None:
        self._names, self._chosen = names, chosen

    def __len__(self) -> int:
        return len(self._chosen)

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, slice):
            return [self[one] for one in range(len(self))[place]]
        return self._names.at(self._chosen[[place]])[0].tobytes().decode("utf-8")


def _equal_ids(
    sides: tuple[Path, Path],
) -> tuple[list[np.ndarray], np.ndarray, tuple[Ragged, Ragged], tuple[_Names, _Names]]:
    """The document of every line, the pairs, their `keys` and the documents in none, as `read_documents` has
    them, of equal ids; all of them memory-mapped."""
    table, pairs = Table(_RUN, *_RUN_KEYS, together=2), Table(_PAIR, "source")
    texts = [_runs(path, side, table) for side, path in enumerate(sides)]
    same = Spool(_SAME), Spool(_SAME)
    for runs in table.sorted():
        places = np.arange(len(runs))
        new, own = (~repeats(runs, *_RUN_KEYS[:count]) for count in (2, 3))
        starts, firsts = (np.maximum.accumulate(np.where(which, places, 0)) for which in (new, own))
        for side, found in enumerate(same):
            here = runs["side"] == side
            found.write(np.rec.fromarrays([runs["run"][here], runs["run"][firsts[here]]], dtype=_SAME))
        targets = np.flatnonzero(own & ~new)
        pairs.append(source=runs["run"][starts[targets]], target=runs["run"][targets])
    numbers, first, counts = [], [], []
    for (_, names), found in zip(texts, same, strict=True):
        count, known, documents = len(names.ends) - 1, Spool(np.int32), 0
        parts = (found.read(part.start, part.stop) for part in slices_of(count, _LINES))
        first.append(scattered(count, np.int64, -1, ((part["run"], part["first"]) for part in parts)))
        for part in slices_of(count, _LINES):
            ends = documents + np.cumsum(first[-1][part] == np.arange(part.start, part.stop))
            known.write(ends - 1)
            documents = int(ends[-1])
        numbers.append(_each(known.array(), first[-1]))
        counts.append(documents)
    paired = Spool(np.int32)
    for part in pairs.sorted():  # a document's number rises with its first run
        own, other = numbers[0][part["source"]], numbers[1][part["target"]]
        paired.write(np.column_stack([own, other]).ravel())
    if not paired.rows:
        raise _none_in_common(sides)
    of, keys, alone = paired.array().reshape(-1, 2), list[Ragged](), list[_Names]()
    for side, (_, names) in enumerate(texts):
        spans = slices_of(len(of), _LINES)
        pair = ((of[span, side], np.arange(span.start, span.stop)) for span in spans)
        key = scattered(counts[side], np.int64, -1, pair)
        every, lonely = RaggedSpool(np.int64), Spool(np.int64)
        for part in slices_of(len(key), _LINES):
            own = -1 - 2 * np.arange(part.start, part.stop) - side
            every.write(np.where(key[part] < 0, own, key[part]), np.ones(len(own), np.int64))
        for part in slices_of(len(first[side]), _LINES):
            runs = np.arange(part.start, part.stop)
            lonely.write(runs[(first[side][part] == runs) & (key[numbers[side][part]] < 0)])
        keys.append(every.ragged())
        alone.append(_Names(names, lonely.array()))
    lines = [_each(number, of_line) for number, (of_line, _) in zip(numbers, texts, strict=True)]
    return lines, of, (keys[0], keys[1]), (alone[0], alone[1])


def _runs(path: Path, side: int, table: Table) -> tuple[np.ndarray, Ragged]:
    """The run of every line, int64 [lines], lines after one another of the same id, and the bytes of each
    run's id; the runs go into a table of `_RUN`."""
    of_line, names, before = Spool(np.int64), RaggedSpool(np.uint8), ""
    ids = ids_of_lines(path)
    while part := list(islice(ids, _LINES)):
        new = list(map(ne, part, [before, *part]))
        heads = list(compress(part, new))
        of_line.write(names.rows - 1 + np.cumsum(new))
        high, low = digests_of(heads).T
        table.append(high=high, low=low, side=side, run=names.rows + np.arange(len(heads)))
        names.write(*flat(name.encode("utf-8") for name in heads))
        before = part[-1]
    return of_line.array(), names.ragged()


def _each(values: np.ndarray, places: np.ndarray) -> np.ndarray:
    """The values at many places, int32 [n], memory-mapped."""
    found = Spool(np.int32)
    for part in slices_of(len(places), _LINES):
        found.write(values[places[part]])
    return found.array()


def pair_documents(
    ids: tuple[Mapping[str, int], Mapping[str, int]], sides: tuple[Path, Path], pairs: Path | None = None
) -> tuple[np.ndarray, tuple[list[str], list[str]]]:
    """The pairs of documents, int32 [n, 2], each once, sorted, and the documents of both sides that are in
    none; from the documents' numbers by their ids, and `pairs` as for `read_documents`. `sides` is where they
    are, for messages."""
    if pairs is None:
        found = [(place, ids[1][name]) for name, place in ids[0].items() if name in ids[1]]
        if not found:
            raise _none_in_common(sides)
    else:
        found = [(ids[0][a], ids[1][b]) for a, b in read_id_pairs(pairs, ids, sides, documents=True)]
    pairs_of = np.array(sorted(set(found)), np.int32)
    return pairs_of, unpaired((list(ids[0]), list(ids[1])), pairs_of)


def _none_in_common(sides: tuple[Path, Path]) -> MexmaError:
    return MexmaError(
        f"{sides[0]} and {sides[1]} have no document id in common",
        "`mexma align --find-documents` finds those that belong together; --document-pairs names them",
    )


def unpaired(names: tuple[Sequence[str], Sequence[str]], pairs: np.ndarray) -> tuple[list[str], list[str]]:
    """The documents of both sides that are in none of the pairs, int32 [n, 2]."""
    taken = [set(pairs[:, side].tolist()) for side in (0, 1)]
    source, target = (
        [name for place, name in enumerate(own) if place not in taken[side]] for side, own in enumerate(names)
    )
    return source, target


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


def read_ids(path: Path) -> tuple[np.ndarray, dict[str, int]]:
    """The document of every line, numbered as they come, int32 [lines], memory-mapped, and the numbers."""
    numbers, lines = dict[str, int](), Spool(np.int32)
    named = (numbers.setdefault(name, len(numbers)) for name in ids_of_lines(path))
    while len(part := np.fromiter(islice(named, _LINES), np.int32)):
        lines.write(part)
    return lines.array(), numbers
