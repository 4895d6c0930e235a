"""Which lines belong to which document, and which documents are paired."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from mexma_cli.errors import MexmaError
from mexma_cli.formats.tsv import read_pairs
from mexma_cli.stages.knn.row_filter import RowsInDocuments, filter_in_documents
from mexma_cli.store.embeddings import StorePair
from mexma_cli.text.lines import is_blank, read_lines


class DocumentFiles(NamedTuple):
    """The document id of every line of both texts, and perhaps a list of those that belong together."""

    source: Path
    target: Path
    pairs: Path | None = None


@dataclass(frozen=True)
class DocumentPairs:
    """The documents of two texts.

    `source` and `target` int32 [rows] are the document of every line, `pairs` int32 [n, 2] those that are
    paired, each once, sorted; `documents` is how many there are on either side, and `alone` how many of these
    are in no pair.
    """

    source: np.ndarray
    target: np.ndarray
    pairs: np.ndarray
    documents: tuple[int, int]
    alone: tuple[int, int]
    paths: tuple[Path, Path]

    def rows(
        self, keep_source: np.ndarray, keep_target: np.ndarray
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """The kept rows, int64 ascending, of both documents of each pair."""
        source = _Grouped(self.source, keep_source, self.documents[0])
        target = _Grouped(self.target, keep_target, self.documents[1])
        for own, other in self.pairs.tolist():
            rows, columns = source.rows(own), target.rows(other)
            if len(rows) and len(columns):
                yield rows, columns

    def filter(
        self, stores: StorePair, keep: tuple[np.ndarray, np.ndarray]
    ) -> tuple[RowsInDocuments, RowsInDocuments]:
        """Which rows of both texts take part, where a line counts once in each document.

        Args:
            keep: what `filter_rows` keeps of both.
        """
        source, target = (
            filter_in_documents(store, documents, kept)
            for store, documents, kept in zip(stores, (self.source, self.target), keep, strict=True)
        )
        return source, target

    def check_lines(self, rows: tuple[int, int], names: tuple[str, str]) -> None:
        """Refuse document ids that are not one a line of the texts.

        Raises:
            MexmaError: with both numbers.
        """
        for path, lines, wanted, name in zip(
            self.paths, (self.source, self.target), rows, names, strict=True
        ):
            if len(lines) != wanted:
                raise MexmaError(
                    f"{path} has {len(lines):,} lines, {name} has {wanted:,}",
                    "line n of the one must be the document id of line n of the other",
                )


class _Grouped:
    """Kept rows by document."""

    def __init__(self, documents: np.ndarray, keep: np.ndarray, count: int) -> None:
        kept = np.flatnonzero(keep)
        self._rows = kept[np.argsort(documents[kept], kind="stable")]
        self._starts = np.searchsorted(documents[self._rows], np.arange(count + 1))

    def rows(self, document: int) -> np.ndarray:
        return self._rows[self._starts[document] : self._starts[document + 1]]


def read_documents(source: Path, target: Path, pairs: Path | None = None) -> DocumentPairs:
    """Read document ids, one a line, and which of them are paired: equal ones, or those that `pairs` names.

    Args:
        pairs: a file of lines `source id TAB target id`; an id can be in several.

    Raises:
        MexmaError: a line without an id, a pair with an unknown one, or no pair at all.
    """
    sides = [_read_ids(path) for path in (source, target)]
    (source_lines, source_ids), (target_lines, target_ids) = sides
    if pairs is None:
        found = [(place, target_ids[name]) for name, place in source_ids.items() if name in target_ids]
        if not found:
            raise MexmaError(
                f"{source} and {target} have no document id in common",
                "--document-pairs names the documents that belong together if their ids differ",
            )
    else:
        found = _read_pairs(pairs, (source, target), (source_ids, target_ids))
    table = np.unique(np.array(found, dtype=np.int32), axis=0)
    alone = (len(ids) - len(np.unique(table[:, side])) for side, ids in enumerate((source_ids, target_ids)))
    return DocumentPairs(
        source=source_lines,
        target=target_lines,
        pairs=table,
        documents=(len(source_ids), len(target_ids)),
        alone=(next(alone), next(alone)),
        paths=(source, target),
    )


def _read_ids(path: Path) -> tuple[np.ndarray, dict[str, int]]:
    """The document of every line, numbered as they come, int32 [lines], and the numbers."""
    numbers: dict[str, int] = {}

    def documents() -> Iterator[int]:
        for line, name in enumerate(read_lines(path), 1):
            if is_blank(name):
                raise MexmaError(f"{path}, line {line}: no document id", "every line needs one")
            yield numbers.setdefault(name, len(numbers))

    lines = np.fromiter(documents(), dtype=np.int32)
    if not len(lines):
        raise MexmaError(f"{path} is empty", "one document id a line is expected")
    return lines, numbers


def _read_pairs(
    path: Path, sides: tuple[Path, Path], ids: tuple[dict[str, int], dict[str, int]]
) -> list[tuple[int, int]]:
    found = []
    names = "source id, target id"
    for line, pair in enumerate(read_pairs(read_lines(path), str(path), names), 1):
        for name, own, other, file in zip(pair, ids, ids[::-1], sides, strict=True):
            if name not in own:
                hint = (
                    "the columns are the other way round: source id TAB target id" if name in other else None
                )
                raise MexmaError(f"{path}, line {line}: the document {name!r} is not in {file}", hint)
        found.append((ids[0][pair[0]], ids[1][pair[1]]))
    if not found:
        raise MexmaError(f"{path} is empty: no documents are paired", f"each line must be: {names}")
    return found
