"""What only all chunks together can say: duplicates, near-duplicates, and lines that are in many documents.

A byte a row goes to a file, and the hashes are sorted in parts on disk: memory does not grow with the text.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from mexma_cli.stages.split.chunk import ChunkFile
from mexma_cli.store.arrays import new_mapped
from mexma_cli.text.partitions import HashPartitions
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
        _mark_repeated(chunks, limits, HashPartitions(folder / "sentences", "document"), codes)
    if "near-duplicate" in limits:
        _mark_near(chunks, HashPartitions(folder / "bands"), codes)
    return codes


def _rows(chunks: Sequence[Path]) -> int:
    return sum(len(ChunkFile(path).array("hashes")) for path in chunks)


def _mark_repeated(
    chunks: Sequence[Path],
    limits: dict[str, float],
    parts: HashPartitions,
    codes: np.ndarray,
) -> None:
    """Mark all rows of a sentence that is in too many documents, and all but the first of any other."""
    parts.remove()
    row = document = 0
    for path in chunks:
        chunk = ChunkFile(path)
        hashes, kept = chunk.array("hashes"), chunk.array("codes") == 0
        documents = chunk.array("documents")[kept] + np.uint32(document)
        parts.add(hashes, np.arange(row, row + len(hashes)), document=documents)
        row, document = row + len(hashes), document + chunk.counts["documents"]
    for part in parts.sorted():
        if not len(part):
            continue
        first = np.ones(len(part), dtype=bool)
        first[1:] = part["hash"][1:] != part["hash"][:-1]
        if "duplicate" in limits:
            codes[part["row"][~first]] = CODES["duplicate"]
        if "boilerplate" in limits:
            new_document = first.copy()
            new_document[1:] |= part["document"][1:] != part["document"][:-1]
            group = np.cumsum(first) - 1
            spread = np.bincount(group, weights=new_document) > limits["boilerplate"]
            codes[part["row"][spread[group]]] = CODES["boilerplate"]
    parts.remove()


def _mark_near(chunks: Sequence[Path], parts: HashPartitions, codes: np.ndarray) -> None:
    """Mark rows that share a band with an earlier row, of those that are not dropped yet."""
    parts.remove()
    row = 0
    for path in chunks:
        bands = ChunkFile(path).array("bands")
        left = np.flatnonzero(codes[row : row + len(bands)] == 0)
        parts.add(bands[left].reshape(-1), np.repeat(row + left, bands.shape[1]))
        row += len(bands)
    for part in parts.sorted():
        again = np.zeros(len(part), dtype=bool)
        again[1:] = part["hash"][1:] == part["hash"][:-1]
        codes[part["row"][again]] = CODES["near-duplicate"]
    parts.remove()
