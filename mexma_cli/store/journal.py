"""The journals of long searches for neighbours, and of alignments: folders from which one that was killed
goes on.

``progress.json`` says how far a search is. In the folder ``kept``, ``found.keys`` holds the lists of the
rows of x that are finished, and only grows; ``lists-a.keys`` and ``lists-b.keys`` hold, in turn, the lists of
the rows of x in work and of all rows of y. progress.json is replaced last, so the file that it names is
whole; for the same reason it is removed first.

Of documents that are aligned, ``alignments.bin`` holds the alignments of the pairs that are done, and only
grows; progress.json says how many of its bytes count, and their checksum. ``document-pairs.npy`` are the
pairs, where they were found.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, TypeVar

import numpy as np
import xxhash

from mexma_cli import files
from mexma_cli.errors import MexmaError
from mexma_cli.store.arrays import check_content

log = logging.getLogger(__name__)

SECONDS = 30.0
"""Time between two entries; more where writing one takes long."""
_SHARE = 20  # at most a twentieth of the time goes into writing
_FINISHED = "found.keys"
_ALIGNMENTS, _PAIRS = "alignments.bin", "document-pairs.npy"
GOES_ON = "going on with the run that was interrupted"
RECORD = np.dtype(
    [("pair", "<i8"), ("source", "<i4", 2), ("target", "<i4", 2), ("score", "<f4"), ("documents", "<f4")]
)
"""An alignment: the pair of documents, first sentence and the one after the last on both sides, its score,
and that of the documents (0 where nobody asks for it)."""


class Journal:
    """Facts about a search, or another long run, in a folder that the caller has to itself: files are in the
    folder ``kept`` in it. Refused: the beginning of another run than `run`, which has no facts yet."""

    def __init__(self, folder: Path, run: files.Unfinished) -> None:
        self._workplace, self.folder = folder, folder / files.KEPT
        with files.no_space_as_message(folder):
            self.folder.mkdir(exist_ok=True)
        self._entered, self._pause = time.monotonic(), SECONDS
        begun = run.begun_in(folder)
        self.begun = begun is not None
        """Whether there is an entry."""
        self._progress = begun or run

    def due(self) -> bool:
        """Whether the last entry is long enough ago."""
        return time.monotonic() - self._entered >= self._pause

    def _damaged(self, path: Path, why: str) -> MexmaError:
        return MexmaError(f"{path} is damaged: {why}", f"remove {self._workplace} to start anew")

    @property
    def facts(self) -> dict[str, Any]:
        """The facts that were noted."""
        return self._progress.facts

    def note(self, began: float | None = None, **facts: Any) -> None:
        """Enter more facts that JSON can hold, after something else was written to the folder, which `began`
        at that time (`time.monotonic`)."""
        began = began or time.monotonic()
        with files.no_space_as_message(self.folder):
            files.fsync_folder(self.folder)
            self._progress = self._progress.enter(self._workplace, **facts)
        self.begun, self._entered = True, time.monotonic()
        self._pause = max(SECONDS, _SHARE * (self._entered - began))

    def forget(self) -> None:
        """Take the entry back: nobody will want to go on with this search."""
        (self._workplace / files.PROGRESS).unlink(missing_ok=True)
        self.begun = False


class FileJournal(Journal):
    """A journal with the neighbours so far, see `Journal`. Its facts: `place`, a `SearchPlace` of
    `knn.exact_search`; `lists`, the name of the file beside ``found.keys``; `keys`, the xxh3_128 of both."""

    def __init__(self, folder: Path, run: files.Unfinished) -> None:
        super().__init__(folder, run)
        if self.begun:
            log.info(GOES_ON)
        self._finished, self._finished_digest = 0, xxhash.xxh3_128()

    def load(self, forward: np.ndarray, backward: np.ndarray) -> tuple[int, int, int] | None:
        """Fill both lists, int64 [N, k] and [M, k], with the last entry; returns its place, or None. A
        damaged file is refused."""
        if "lists" not in self.facts:
            return None
        rows, top, done = self.facts["place"]
        for name, arrays in (
            (_FINISHED, [forward[:top]]),
            (self.facts["lists"], [forward[top : top + rows], backward]),
        ):
            path = self.folder / name
            wanted = sum(array.nbytes for array in arrays)
            found = path.stat().st_size if path.is_file() else 0
            if found < wanted:
                raise self._damaged(path, f"{found:,} bytes instead of {wanted:,}")
            with path.open("rb") as file:
                for array in arrays:
                    file.readinto(array)  # pyrefly: ignore[bad-argument-type]
        if self._digest(forward, backward, rows, top) != self.facts["keys"]:
            names = f"{_FINISHED} or {path.name}"
            raise self._damaged(self.folder, f"the checksum of {names} is not right")
        return rows, top, done

    def save(self, place: tuple[int, int, int], forward: np.ndarray, backward: np.ndarray) -> None:
        """Enter both lists, int64 keys, and the place. Rows of `forward` behind those in work are empty. If
        the disk is full, the entry before is still good."""
        began = time.monotonic()
        rows, top, _ = place
        if top < self._finished:  # the search starts anew
            self._finished, self._finished_digest = 0, xxhash.xxh3_128()
        new = "lists-b.keys" if self.facts.get("lists") == "lists-a.keys" else "lists-a.keys"
        with files.no_space_as_message(self.folder):
            with (self.folder / _FINISHED).open("ab") as file:
                # After the last entry there may be one that was cut short.
                file.truncate(self._finished * forward.shape[1] * 8)
                file.write(forward[self._finished : top])  # pyrefly: ignore[bad-argument-type]
                files.fsync_file(file)
            with (self.folder / new).open("wb") as file:
                file.write(forward[top : top + rows])  # pyrefly: ignore[bad-argument-type]
                file.write(backward)  # pyrefly: ignore[bad-argument-type]
                files.fsync_file(file)
        self.note(began, place=place, lists=new, keys=self._digest(forward, backward, rows, top))

    def _digest(self, forward: np.ndarray, backward: np.ndarray, rows: int, top: int) -> str:
        """The checksum of lists of which the first `top` rows of x are finished; these are read once."""
        self._finished_digest.update(forward[self._finished : top])  # pyrefly: ignore[bad-argument-type]
        self._finished = top
        digest = self._finished_digest.copy()
        digest.update(forward[top : top + rows])  # pyrefly: ignore[bad-argument-type]
        digest.update(backward)  # pyrefly: ignore[bad-argument-type]
        return digest.hexdigest()


class GrowingFile:
    """A file that is appended to, of which an entry says how many `bytes` count, and their checksum.

    Args:
        file: Open for both, `a+b`; what comes after these bytes goes.
        facts: Those of an entry; empty at first.
    """

    def __init__(self, file: IO[bytes], facts: Mapping[str, Any]) -> None:
        self._file, self._digest, self.bytes = file, xxhash.xxh3_128(), 0
        file.seek(0)
        while block := file.read(min(facts.get("bytes", 0) - self.bytes, 1 << 24)):
            self._digest.update(block)
            self.bytes += len(block)
        self.is_whole = facts.get("checksum", self.checksum) == self.checksum
        """Whether the file holds what the entry says."""
        file.truncate(self.bytes)

    @property
    def checksum(self) -> str:
        """xxh3_128 of all that counts."""
        return self._digest.hexdigest()

    def append(self, content: bytes) -> None:
        """Append bytes."""
        self._file.write(content)
        self._digest.update(content)
        self.bytes += len(content)

    def facts(self) -> dict[str, Any]:
        """Bring all to the disk, and return what an entry has to say of it."""
        files.fsync_file(self._file)
        return {"bytes": self.bytes, "checksum": self.checksum}


class AlignmentJournal(Journal):
    """Alignments of pairs of documents, group by group of pairs, in a folder as for `Journal`. Refused: the
    beginning of another run than `run`, and a damaged file."""

    def __init__(self, folder: Path, run: files.Unfinished) -> None:
        super().__init__(folder, run)
        if self.begun:
            log.info(GOES_ON)
        self.groups: int = self.facts.get("groups", 0)
        """Groups of pairs that are done."""
        self.cut: int = self.facts.get("cut", 0)
        """Sentences that the encoder cut in these."""
        self._file = (self.folder / _ALIGNMENTS).open("a+b")
        self._kept = GrowingFile(self._file, self.facts)  # after the last entry one may have been cut short
        if not self._kept.is_whole:
            raise self._damaged(self.folder / _ALIGNMENTS, "it is not what was written")

    def pairs(self) -> np.ndarray | None:
        """The pairs that `keep_pairs` was given, if it was; a damaged file is refused."""
        if "pairs" not in self.facts:
            return None
        path = self.folder / _PAIRS
        check_content(path, self.facts["pairs"], f"remove {self.folder.parent} to start anew")
        return np.load(path, allow_pickle=False)

    def keep_pairs(self, pairs: np.ndarray) -> None:
        """Keep the pairs of documents that were found, int32 [n, 2]."""
        with files.whole_file(self.folder / _PAIRS) as file:
            np.save(file, pairs)
        self.note(pairs=files.checksum_file(self.folder / _PAIRS))

    def add(self, records: np.ndarray, cut: int = 0) -> None:
        """Add the alignments, RECORD [n], of the next group, and how many sentences the encoder `cut`; they
        are entered when that is due."""
        with files.no_space_as_message(self.folder):
            self._kept.append(records.tobytes())
        self.groups, self.cut = self.groups + 1, self.cut + cut
        if self.due():
            self.enter()

    def enter(self) -> None:
        """Bring all that was added to the disk, where the next run finds it. If the disk is full, the entry
        before is still good."""
        with files.no_space_as_message(self.folder):
            kept = self._kept.facts()
        self.note(groups=self.groups, cut=self.cut, **kept)

    def records(self) -> np.ndarray:
        """All that was added, RECORD [n], mapped from the disk."""
        self._file.flush()
        if not self._kept.bytes:
            return np.zeros(0, RECORD)
        return np.memmap(self.folder / _ALIGNMENTS, RECORD, "r", shape=(self._kept.bytes // RECORD.itemsize,))


Kept = TypeVar("Kept", bound=Journal)


@contextmanager
def kept_beside(
    output: Path | None, kind: Callable[[Path, files.Unfinished], Kept], run: files.Unfinished
) -> Iterator[Kept | None]:
    """Open the journal of a run in the workplace of its output; it is deleted on success, and stays on an
    error. None for stdout and devices."""
    if output is None or files.is_special(output):
        yield None
        return
    folder = files.workplace_path(output)
    kept = kind(folder, run)
    with files.until_done(folder, lambda: kept.begun):
        yield kept
