"""Which lines of a text are equal to earlier ones, found in bounded memory."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import xxhash

SLOTS = 1 << 22
"""Sentences remembered at most: 64 MB."""


class Seen:
    """The row where a sentence stood first, for the sentences seen last.

    Every sentence has one slot, by its hash, and a sentence that comes later takes it over: a line that is
    repeated again and again is still known after about as many others as there are slots. The sentences that
    are known depend on the rows entered so far and on how they were cut into chunks: a run that was killed
    and enters the same chunks again finds the same rows.

    Args:
        slots: A power of two; each takes 16 bytes.
    """

    def __init__(self, slots: int = SLOTS) -> None:
        assert slots & (slots - 1) == 0, slots
        self._mask = np.uint64(slots - 1)
        # `row` counts from 1, so that a slot of zeros is a free one.
        self._slots = np.zeros(slots, dtype=[("tag", "<u8"), ("row", "<i8")])

    def first_rows(self, sentences: Sequence[str], row: int) -> np.ndarray:
        """Enter a chunk.

        Args:
            sentences: N sentences, those of the rows from `row` on.

        Returns:
            int64 [N]: the earlier row that has the same sentence, or a sentence's own row.
        """
        first: dict[str, int] = {}
        inside = np.array([first.setdefault(text, at) for at, text in enumerate(sentences)], dtype=np.int64)
        new = np.array(list(first.values()), dtype=np.int64)
        digests = b"".join(xxhash.xxh3_128_digest(text.encode("utf-8")) for text in first)
        # Half of the 128 bits chooses the slot, the other 64 are compared: of a billion lines one is taken
        # for another with a chance of 5e-11, so the sentences themselves need not be kept.
        halves = np.frombuffer(digests, dtype="<u8").reshape(-1, 2)
        slots, tags = halves[:, 0] & self._mask, halves[:, 1]
        there = self._slots[slots]
        known = (there["row"] > 0) & (there["tag"] == tags)
        rows = inside + row
        rows[new[known]] = there["row"][known] - 1
        there["tag"], there["row"] = tags, rows[new] + 1
        self._slots[slots] = there
        return rows[inside]
