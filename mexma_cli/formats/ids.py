"""BUCC's layout: texts as `id TAB sentence`, and pairs as `source id TAB target id`."""

from __future__ import annotations

import logging
import os
from collections.abc import Container, Iterator, Sequence
from pathlib import Path

from mexma_cli.errors import MexmaError
from mexma_cli.formats.labels import LABELS_READ_BY, begin_labels
from mexma_cli.formats.sides import columns_of
from mexma_cli.text.amounts import NAMED, counted, such_as
from mexma_cli.text.compression import plain_name
from mexma_cli.text.lines import document_id, label_of, read_lines

log = logging.getLogger(__name__)
NUMBERED = "`nl -ba -w1 TEXT` writes a text with the numbers of its lines, from 1, as ids"
"""The hint where ids are wanted, and there are none."""


def read_ids(path: str | Path) -> Iterator[tuple[str, str]]:
    """Ids and sentences of a file; refused, with the line's number: a line without a tab, an id that occurs
    twice, and a file without lines."""
    where, seen = label_of(path), set[str]()
    for number, line in enumerate(read_lines(path), 1):
        name, tab, sentence = line.partition("\t")
        if not tab:
            raise MexmaError(f"{where}, line {number}: no tab; each line must be: id TAB sentence", NUMBERED)
        if name in seen:
            raise MexmaError(f"{where}, line {number}: the id {name!r} occurs twice")
        seen.add(name)
        yield name, sentence
    if not seen:
        raise MexmaError(f"{where} is empty", "each line must be: id TAB sentence")


def read_id_pairs(
    path: str | Path, ids: Sequence[Container[str]], files: Sequence[object], documents: bool = False
) -> list[tuple[str, str]]:
    """The pairs of ids in a file; refused, with the line's number: a line that is no pair, an id that its
    side has not, and no lines.

    Args:
        ids: Those of the source and of the target.
        files: Where these are from, for messages.
        documents: They are ids of documents, some of which may have no sentences (`mexma split` drops them):
            pairs with an unknown one are left out, and counted, unless all are.
    """
    where, pairs = label_of(path), list[tuple[str, str]]()
    kind = "document" if documents else "id"
    hint, unknown = "each line must be: source id TAB target id", list[MexmaError]()
    number = header = 0
    for number, line in enumerate(read_lines(path), 1):
        names = line.split("\t")
        if number == 1 and names[0] not in ids[0] and columns_of(names):
            log.warning("%s: left out: header line (1)", where)
            header = 1
            continue
        if len(names) != 2:
            found = counted(len(names), "tab-separated field")
            hint = LABELS_READ_BY if begin_labels([line]) else hint
            raise MexmaError(f"{where}, line {number}: {found}, expected 2 (source id, target id)", hint)
        if documents:
            names = list(map(document_id, names))
        side = next((side for side, name in enumerate(names) if name not in ids[side]), None)
        if side is None:
            pairs.append((names[0], names[1]))
            continue
        error = MexmaError(
            f"{where}, line {number}: the {kind} {names[side]!r} is not in {files[side]}",
            _known_id(names[side], ids[side], ids[1 - side], files[1 - side]),
        )
        if not documents:
            raise error
        if len(unknown) < NAMED:
            unknown.append(error)
    if number == header:
        raise MexmaError(f"{where} is empty: it has no pairs", hint)
    if not pairs:
        raise unknown[0]
    if unknown:
        left = counted(number - header - len(pairs), "pair of documents", "pairs of documents")
        log.warning(
            "%s of %s left out, whose ids are misspelt or have no sentences%s",
            left,
            f"{number - header:,}",
            such_as([error.message for error in unknown]),
        )
    return pairs


def _known_id(name: str, own: Container[str], others: Container[str], other: object) -> str | None:
    """A hint for an id that its side has not: where it is, or how it is written there."""
    if name in others:
        return f"it is in {other}: the two sides are the other way round"
    bare, ending = os.path.splitext(plain_name(name))
    return f"ids of documents have no ending: {bare}" if ending and bare in own else None
