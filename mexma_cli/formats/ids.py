"""BUCC's layout: texts as `id TAB sentence`, and pairs as `source id TAB target id`."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from pathlib import Path

from mexma_cli.errors import MexmaError
from mexma_cli.text.amounts import counted
from mexma_cli.text.lines import read_lines
from mexma_cli.text.names import label_of


def read_ids(path: str | Path) -> Iterator[tuple[str, str]]:
    """Ids and sentences of a file.

    Raises:
        MexmaError: A line without a tab, an id that occurs twice, or no lines; with the line's number.
    """
    where, seen = label_of(path), set[str]()
    for number, line in enumerate(read_lines(path), 1):
        name, tab, sentence = line.partition("\t")
        if not tab:
            raise MexmaError(f"{where}, line {number}: no tab; each line must be: id TAB sentence")
        if name in seen:
            raise MexmaError(f"{where}, line {number}: the id {name!r} occurs twice")
        seen.add(name)
        yield name, sentence
    if not seen:
        raise MexmaError(f"{where} is empty", "each line must be: id TAB sentence")


def read_id_pairs(
    path: str | Path, ids: Sequence[Container[str]], files: Sequence[object], kind: str = "id"
) -> list[tuple[str, str]]:
    """The pairs of ids in a file.

    Args:
        ids: Those of the source and of the target.
        files: Where these are from, for messages.
        kind: What has the ids, for messages.

    Raises:
        MexmaError: A line that is no pair, an id that its side has not, or no lines; with the line's number.
    """
    where, pairs = label_of(path), list[tuple[str, str]]()
    hint = "each line must be: source id TAB target id"
    for number, line in enumerate(read_lines(path), 1):
        names = line.split("\t")
        if len(names) != 2:
            found = counted(len(names), "tab-separated field")
            raise MexmaError(f"{where}, line {number}: {found}, expected 2 (source id, target id)", hint)
        for side, name in enumerate(names):
            if name not in ids[side]:
                raise MexmaError(
                    f"{where}, line {number}: the {kind} {name!r} is not in {files[side]}",
                    f"it is in {files[1 - side]}: the two sides are the other way round"
                    if name in ids[1 - side]
                    else None,
                )
        pairs.append((names[0], names[1]))
    if not pairs:
        raise MexmaError(f"{where} is empty: it has no pairs", hint)
    return pairs
