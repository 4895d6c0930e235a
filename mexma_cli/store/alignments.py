"""The journal of a run that aligns documents: a folder from which one that was killed goes on.

``alignments.bin`` holds the alignments of the pairs that are done, and only grows; ``progress.json`` says how
many of its bytes count, and their checksum. ``document-pairs.npy`` are the pairs, where they were found.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import xxhash

from mexma_cli.errors import MexmaError
from mexma_cli.files import checksum_file, fsync_file, no_space_as_message, whole_file
from mexma_cli.store.arrays import check_content
from mexma_cli.store.journal import Journal

RECORD = np.dtype(
    [("pair", "<i8"), ("source", "<i4", 2), ("target", "<i4", 2), ("score", "<f4"), ("documents", "<f4")]
)
"""An alignment: the pair of documents, first sentence and the one after the last on both sides, its score,
and that of the documents (0 where nobody asks for it)."""
_FILE, _PAIRS = "alignments.bin", "document-pairs.npy"


class AlignmentJournal(Journal):
    """Alignments of pairs of documents, group by group of pairs.

    Args:
        folder: Must exist, and the caller has it to itself.
        run: What is aligned, and how; the beginning of another run is refused.

    Raises:
        MexmaError: The folder holds the beginning of another run, or is damaged.
    """

    def __init__(self, folder: Path, run: dict[str, Any]) -> None:
        super().__init__(folder, run)
        self._file = (self.folder / _FILE).open("a+b")
        self.groups: int = self.facts.get("groups", 0)
        """Groups of pairs that are done."""
        self.cut: int = self.facts.get("cut", 0)
        """Sentences that the encoder cut in these."""
        self._bytes: int = self.facts.get("bytes", 0)
        self._digest = xxhash.xxh3_128()
        self._file.seek(0)
        left = self._bytes
        while left and (block := self._file.read(min(left, 1 << 24))):
            self._digest.update(block)
            left -= len(block)
        if left or (self._bytes and self._digest.hexdigest() != self.facts["checksum"]):
            raise MexmaError(
                f"{self.folder / _FILE} is damaged: it is not what was written",
                f"remove {folder} to start anew",
            )
        self._file.truncate(self._bytes)  # after the last entry there may be one that was cut short

    def pairs(self) -> np.ndarray | None:
        """The pairs that `keep_pairs` was given, if it was; a damaged file is refused."""
        if "pairs" not in self.facts:
            return None
        path = self.folder / _PAIRS
        check_content(path, self.facts["pairs"], f"remove {self.folder.parent} to start anew")
        return np.load(path, allow_pickle=False)

    def keep_pairs(self, pairs: np.ndarray) -> None:
        """Keep the pairs of documents that were found, int32 [n, 2]."""
        with whole_file(self.folder / _PAIRS) as file:
            np.save(file, pairs)
        self.note(pairs=checksum_file(self.folder / _PAIRS))

    def add(self, records: np.ndarray, cut: int = 0) -> None:
        """Add the alignments, RECORD [n], of the next group; they are entered when that is due.

        Args:
            cut: Sentences that the encoder cut.

        Raises:
            MexmaError: The disk is full.
        """
        content = records.tobytes()
        with no_space_as_message(self.folder):
            self._file.write(content)
        self._digest.update(content)
        self.groups, self.cut, self._bytes = self.groups + 1, self.cut + cut, self._bytes + len(content)
        if self.due():
            self.enter()

    def enter(self) -> None:
        """Bring all that was added to the disk, where the next run finds it. If the disk is full, the entry
        before is still good."""
        with no_space_as_message(self.folder):
            fsync_file(self._file)
        digest = self._digest.hexdigest()
        self.note(groups=self.groups, cut=self.cut, bytes=self._bytes, checksum=digest)

    def records(self) -> np.ndarray:
        """All that was added, RECORD [n], mapped from the disk."""
        self._file.flush()
        if not self._bytes:
            return np.zeros(0, RECORD)
        return np.memmap(self.folder / _FILE, RECORD, "r", shape=(self._bytes // RECORD.itemsize,))
