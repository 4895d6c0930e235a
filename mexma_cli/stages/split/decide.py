"""What only all chunks together can say: duplicates, near-duplicates, and lines that are in many documents.

A byte a row goes to a file, and the hashes are sorted on disk: memory does not grow with the text.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from mexma_cli.stages.split.chunk import ChunkFile
from mexma_cli.store.arrays import new_mapped
from mexma_cli.store.spool import HASHED, Table, repeats
from mexma_cli.text.rules import CODES

_RULES = ("duplicate", "boilerplate")


def decide(chunks: Sequence[Path], limits: dict[str, float], folder: Path) -> np.ndarray:
    """Why rows are dropped that every chunk by itself has kept.

    Args:
        chunks: `ChunkFile`s, in order.
        limits: The rules that are on.
        folder: For temporary files.

    Returns:
        uint8 [rows kept in all chunks], mapped from a file: 0 or a code of `duplicate`, `boilerplate` (which
        goes before) or `near-duplicate`.

    Raises:
        OSError: The disk is full.
    """
    codes = new_mapped(folder / "rows.codes", np.uint8, (_rows(chunks),))
    if any(name in limits for name in _RULES):
        table = Table([*HASHED.descr, ("document", "<u4")], "hash", together=1, folder=folder)
        _mark_repeated(chunks, limits, table, codes)
    if "near-duplicate" in limits:
        _mark_near(chunks, Table(HASHED, "hash", together=1, folder=folder), codes)
    return codes


def _rows(chunks: Sequence[Path]) -> int:
    return sum(len(ChunkFile(path).array("hashes")) for path in chunks)


def _mark_repeated(chunks: Sequence[Path], limits: dict[str, float], table: Table, codes: np.ndarray) -> None:
    """Mark all rows of a sentence that is in too many documents, and all but the first of any other."""
    row = document = 0
    for path in chunks:
        chunk = ChunkFile(path)
        hashes, kept = chunk.array("hashes"), chunk.array("codes") == 0
        documents = chunk.array("documents")[kept] + np.uint32(document)
        table.append(hash=hashes, row=np.arange(row, row + len(hashes)), document=documents)
        row, document = row + len(hashes), document + chunk.counts["documents"]
    for entries in table.sorted():
        first = ~repeats(entries, "hash")
        if "duplicate" in limits:
            codes[entries["row"][~first]] = CODES["duplicate"]
        if "boilerplate" in limits:
            new_document = ~repeats(entries, "hash", "document")
            group = np.cumsum(first) - 1
            spread = np.bincount(group, weights=new_document) > limits["boilerplate"]
            codes[entries["row"][spread[group]]] = CODES["boilerplate"]


def _mark_near(chunks: Sequence[Path], table: Table, codes: np.ndarray) -> None:
    """Mark rows that share a band with an earlier row, of those that are not dropped yet."""
    row = 0
    for path in chunks:
        bands = ChunkFile(path).array("bands")
        left = np.flatnonzero(codes[row : row + len(bands)] == 0)
        table.append(hash=bands[left].reshape(-1), row=np.repeat(row + left, bands.shape[1]))
        row += len(bands)
    for entries in table.sorted():
        codes[entries["row"][repeats(entries, "hash")]] = CODES["near-duplicate"]
