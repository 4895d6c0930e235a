"""BUCC's layout of monolingual text: `id TAB sentence`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from mexma_cli.errors import MexmaError


def read_ids(lines: Iterable[str], where: str) -> Iterator[tuple[str, str]]:
    """Ids and sentences.

    Args:
        where: The file, for messages.

    Raises:
        MexmaError: A line without a tab, an id that occurs twice, or no lines; with the line's number.
    """
    seen: set[str] = set()
    for number, line in enumerate(lines, 1):
        name, tab, sentence = line.partition("\t")
        if not tab:
            raise MexmaError(f"{where}, line {number}: no tab; each line must be: id TAB sentence")
        if name in seen:
            raise MexmaError(f"{where}, line {number}: the id {name!r} occurs twice")
        seen.add(name)
        yield name, sentence
    if not seen:
        raise MexmaError(f"{where} is empty", "each line must be: id TAB sentence")
