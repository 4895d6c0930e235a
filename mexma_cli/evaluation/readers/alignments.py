"""Files of alignments: `[source ids]:[target ids]`, and a score and names of documents if there are any.

Vecalign, Bertalign, `mexma align` and Bleualign's gold lists have this layout.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from mexma_cli.errors import MexmaError
from mexma_cli.evaluation.align import Bead
from mexma_cli.text.lines import read_lines

Alignments = Mapping[str, list[Bead]]
"""By document; "" where the lines name none."""


def read_both(gold: Path, out: Path) -> tuple[Alignments, Alignments]:
    """Gold alignments and those to judge, of the same documents.

    Where only one of the files names its documents, it must be of a single one.

    Raises:
        MexmaError: A line is not as above, or the files are of different documents.
    """
    both = _read(gold), _read(out)
    if both[0].keys() == both[1].keys():
        return both
    if all(len(found) == 1 for found in both) and "" in both[0].keys() | both[1].keys():
        return dict(zip(both[1], both[0].values(), strict=True)), both[1]
    missing = sorted(both[0].keys() ^ both[1].keys())[0]
    where = (gold, out) if missing in both[0] else (out, gold)
    name = f"document {missing!r}" if missing else "alignments without a document"
    raise MexmaError(f"{where[0]} has {name}, {where[1]} has not", "compare files of the same documents")


def _read(path: Path) -> Alignments:
    found: dict[str, list[Bead]] = {}
    for number, line in enumerate(read_lines(path), 1):
        fields = [field.strip() for field in line.split(":", 3)]
        try:
            source, target = (_ids(field) for field in fields[:2])
        except ValueError:
            raise MexmaError(
                f"{path}, line {number}: {line[:60]!r} is not an alignment",
                "a line is [source ids]:[target ids]:score, as in [0, 1]:[2]:0.5, ids counted from 0",
            ) from None
        found.setdefault(fields[3] if len(fields) == 4 else "", []).append((source, target))
    if not found:
        raise MexmaError(f"{path} has no alignments")
    return found


def _ids(field: str) -> tuple[int, ...]:
    if field[:1] not in ("[", "(") or field[-1:] not in ("]", ")"):
        raise ValueError
    ids = json.loads(f"[{field[1:-1].rstrip().removesuffix(',')}]")
    if not all(type(one) is int and one >= 0 for one in ids):
        raise ValueError
    return tuple(ids)
