"""Which lines belong to which document, and which documents are paired."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np

from mexma_cli.errors import MexmaError
from mexma_cli.files import MANIFEST
from mexma_cli.formats.ids import read_id_pairs
from mexma_cli.store.embeddings import EmbeddingStore
from mexma_cli.store.spool import Ragged, Spool
from mexma_cli.text.amounts import such_as
from mexma_cli.text.compression import split_ending
from mexma_cli.text.lines import document_id, is_blank, read_lines, scan

log = logging.getLogger(__name__)

_LINES = 1 << 16  # read at a time


class DocumentFiles(NamedTuple):
    """The document id of every line of both texts, and perhaps a list of those that belong together."""

    source: Path
    target: Path
    pairs: Path | None = None


@dataclass(frozen=True)
class DocumentPairs:
    """The documents of two texts.

    `source` and `target` int32 [rows], memory-mapped, are the document of every line, `pairs` int32 [n, 2]
    those that are paired, each once, sorted; `documents` is how many there are on either side, and `alone`
    how many of these are in no pair, which `lost` says in words: empty if all are in one.
    """

    source: np.ndarray
    target: np.ndarray
    pairs: np.ndarray
    documents: tuple[int, int]
    alone: tuple[int, int]
    paths: tuple[Path, Path]
    lost: str

    def keys(self, side: int) -> Ragged:
        """The numbers of the pairs that each document of a side is in; for one in no pair, a number below 0
        that no other document has."""
        alone = np.setdiff1d(np.arange(self.documents[side]), self.pairs[:, side])
        owners = np.concatenate([self.pairs[:, side], alone])
        order = np.argsort(owners, kind="stable")
        keys = np.concatenate([np.arange(len(self.pairs)), -1 - 2 * alone - side])[order]
        return Ragged(keys, np.searchsorted(owners[order], np.arange(self.documents[side] + 1)))

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
    without an id, a pair with an unknown one, no pair at all.
    """
    (source_lines, source_ids), (target_lines, target_ids) = map(read_ids, (source, target))
    table, alone = pair_documents((source_ids, target_ids), (source, target), pairs)
    documents = len(source_ids), len(target_ids)
    tell_documents(len(table), alone, documents)
    lost = in_no_pair(alone, documents) if any(alone) else ""
    return DocumentPairs(
        source=source_lines,
        target=target_lines,
        pairs=table,
        documents=documents,
        alone=(len(alone[0]), len(alone[1])),
        paths=(source, target),
        lost=lost,
    )


def pair_documents(
    ids: tuple[Mapping[str, int], Mapping[str, int]], sides: tuple[Path, Path], pairs: Path | None = None
) -> tuple[np.ndarray, tuple[list[str], list[str]]]:
    """The pairs of documents, int32 [n, 2], each once, sorted, and the documents of both sides that are in
    none; from the documents' numbers by their ids, and `pairs` as for `read_documents`. `sides` is where they
    are, for messages."""
    if pairs is None:
        found = [(place, ids[1][name]) for name, place in ids[0].items() if name in ids[1]]
        if not found:
            raise MexmaError(
                f"{sides[0]} and {sides[1]} have no document id in common",
                "--document-pairs names those that belong together; "
                "`mexma align --find-documents` finds them",
            )
    else:
        found = [(ids[0][a], ids[1][b]) for a, b in read_id_pairs(pairs, ids, sides, documents=True)]
    pairs_of = np.array(sorted(set(found)), np.int32)
    return pairs_of, unpaired((list(ids[0]), list(ids[1])), pairs_of)


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
        if names:
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
    if not text.is_file() or text.stat().st_mtime_ns <= made:
        return
    if scan(text).checksum not in {source.checksum for source in store.manifest.sources}:
        log.warning("%s and %s have changed since %s was made: embed again", text, documents, store.path)


def ids_of_lines(path: Path) -> Iterator[str]:
    """The document id of every line; a line without one, or no line, is refused."""
    line = 0
    for line, row in enumerate(read_lines(path, ours=True), 1):
        name = document_id(row.partition("\t")[0])
        if is_blank(name):
            raise MexmaError(f"{path}, line {line}: no document id", "every line needs one")
        yield name
    if not line:
        raise MexmaError(f"{path} is empty", "one document id a line is expected")


def read_ids(path: Path) -> tuple[np.ndarray, dict[str, int]]:
    """The document of every line, numbered as they come, int32 [lines], memory-mapped, and the numbers."""
    numbers, lines = dict[str, int](), Spool(np.int32)
    named = (numbers.setdefault(name, len(numbers)) for name in ids_of_lines(path))
    while len(part := np.fromiter(islice(named, _LINES), np.int32)):
        lines.write(part)
    return lines.array(), numbers
