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
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import xxhash
from pydantic import Field

from mexma_cli import files
from mexma_cli.errors import MexmaError
from mexma_cli.store.arrays import check_content

log = logging.getLogger(__name__)

FORMAT_VERSION = 1
SECONDS = 30.0
"""Time between two entries; more where writing one takes long."""
_SHARE = 20  # at most a twentieth of the time goes into writing
_FINISHED = "found.keys"
_ALIGNMENTS, _PAIRS = "alignments.bin", "document-pairs.npy"
RECORD = np.dtype(
    [("pair", "<i8"), ("source", "<i4", 2), ("target", "<i4", 2), ("score", "<f4"), ("documents", "<f4")]
)
"""An alignment: the pair of documents, first sentence and the one after the last on both sides, its score,
and that of the documents (0 where nobody asks for it)."""


class Entry(files.Sealed):
    """The content of ``progress.json``."""

    format_version: int = FORMAT_VERSION
    search: dict[str, Any]
    """The stores and settings of the search: another search must not go on with this one's entries."""
    facts: dict[str, Any] = Field(default_factory=dict)
    """See `Journal.note`."""
    place: tuple[int, int, int] = (0, 0, 0)
    """The fields of a `knn.tiles.Place`."""
    lists: str = ""
    """Name of the other file; empty before the first lists."""
    keys: str = ""
    """xxh3_128 of the keys in both files."""


class Journal:
    """Facts about a search, or another long run, in a folder that the caller has to itself: files are in the
    folder ``kept`` in it. Refused: the beginning of another search than `search`."""

    def __init__(self, folder: Path, search: dict[str, Any]) -> None:
        self._workplace, self.folder, self._search = folder, folder / files.KEPT, search
        with files.no_space_as_message(folder):
            self.folder.mkdir(exist_ok=True)
        self._entered, self._pause = time.monotonic(), SECONDS
        self._kept: Entry | None = None
        if (folder / files.PROGRESS).is_file():
            kept = files.read_manifest(folder / files.PROGRESS, Entry, FORMAT_VERSION, self._anew)
            if not kept.checksum:
                raise self._damaged(folder / files.PROGRESS, "it has no checksum")
            differing = sorted(key for key in search | kept.search if search.get(key) != kept.search.get(key))
            if differing:
                raise MexmaError(
                    f"{folder} is the beginning of another search: {', '.join(differing)} differ",
                    "give the same settings to go on with it, or remove the folder to start anew",
                )
            self._kept = kept

    def due(self) -> bool:
        """Whether the last entry is long enough ago."""
        return time.monotonic() - self._entered >= self._pause

    def _damaged(self, path: Path, why: str) -> MexmaError:
        return MexmaError(f"{path} is damaged: {why}", self._anew)

    @property
    def _anew(self) -> str:
        return f"remove {self._workplace} to start the search anew"

    @property
    def facts(self) -> dict[str, Any]:
        """The facts that were noted."""
        return self._kept.facts if self._kept else {}

    def note(self, began: float | None = None, **facts: Any) -> None:
        """Enter more facts that JSON can hold, after something else was written to the folder, which `began`
        at that time (`time.monotonic`)."""
        kept = self._kept or Entry(search=self._search)
        with files.no_space_as_message(self.folder):
            self._enter(kept.model_copy(update={"facts": kept.facts | facts}), began or time.monotonic())

    def _enter(self, entry: Entry, began: float) -> None:
        files.fsync_folder(self.folder)
        files.write_json_atomic(self._workplace / files.PROGRESS, entry.sealed().model_dump(mode="json"))
        self._kept, self._entered = entry, time.monotonic()
        self._pause = max(SECONDS, _SHARE * (self._entered - began))

    def forget(self) -> None:
        """Take the entry back: nobody will want to go on with this search."""
        (self._workplace / files.PROGRESS).unlink(missing_ok=True)
        self._kept = None

    @property
    def begun(self) -> bool:
        """Whether there is an entry."""
        return self._kept is not None


class FileJournal(Journal):
    """A journal with the neighbours so far; arguments as for `Journal`."""

    def __init__(self, folder: Path, search: dict[str, Any]) -> None:
        super().__init__(folder, search)
        self._finished, self._finished_digest = 0, xxhash.xxh3_128()

    def load(self, forward: np.ndarray, backward: np.ndarray) -> tuple[int, int, int] | None:
        """Fill both lists, int64 [N, k] and [M, k], with the last entry; returns its place, or None. A
        damaged file is refused."""
        if self._kept is None or not self._kept.lists:
            return None
        rows, top, _ = self._kept.place
        for name, arrays in (
            (_FINISHED, [forward[:top]]),
            (self._kept.lists, [forward[top : top + rows], backward]),
        ):
            path = self.folder / name
            wanted = sum(array.nbytes for array in arrays)
            found = path.stat().st_size if path.is_file() else 0
            if found < wanted:
                raise self._damaged(path, f"{found:,} bytes instead of {wanted:,}")
            with path.open("rb") as file:
                for array in arrays:
                    file.readinto(array)  # pyrefly: ignore[bad-argument-type]
        if self._digest(forward, backward, rows, top) != self._kept.keys:
            names = f"{_FINISHED} or {path.name}"
            raise self._damaged(self.folder, f"the checksum of {names} is not right")
        return self._kept.place

    def save(self, place: tuple[int, int, int], forward: np.ndarray, backward: np.ndarray) -> None:
        """Enter both lists, int64 keys, and the place. Rows of `forward` behind those in work are empty. If
        the disk is full, the entry before is still good."""
        began = time.monotonic()
        rows, top, _ = place
        if top < self._finished:  # the search starts anew
            self._finished, self._finished_digest = 0, xxhash.xxh3_128()
        new = "lists-b.keys" if self._kept and self._kept.lists == "lists-a.keys" else "lists-a.keys"
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
            keys = self._digest(forward, backward, rows, top)
            entry = Entry(
                search=self._search, facts=self.facts, place=(rows, top, place[2]), lists=new, keys=keys
            )
            self._enter(entry, began)

    def _digest(self, forward: np.ndarray, backward: np.ndarray, rows: int, top: int) -> str:
        """The checksum of lists of which the first `top` rows of x are finished; these are read once."""
        self._finished_digest.update(forward[self._finished : top])  # pyrefly: ignore[bad-argument-type]
        self._finished = top
        digest = self._finished_digest.copy()
        digest.update(forward[top : top + rows])  # pyrefly: ignore[bad-argument-type]
        digest.update(backward)  # pyrefly: ignore[bad-argument-type]
        return digest.hexdigest()


class AlignmentJournal(Journal):
    """Alignments of pairs of documents, group by group of pairs, in a folder as for `Journal`. Refused: the
    beginning of another run than `run`, and a damaged file."""

    def __init__(self, folder: Path, run: dict[str, Any]) -> None:
        super().__init__(folder, run)
        self._file = (self.folder / _ALIGNMENTS).open("a+b")
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
                f"{self.folder / _ALIGNMENTS} is damaged: it is not what was written",
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
        with files.whole_file(self.folder / _PAIRS) as file:
            np.save(file, pairs)
        self.note(pairs=files.checksum_file(self.folder / _PAIRS))

    def add(self, records: np.ndarray, cut: int = 0) -> None:
        """Add the alignments, RECORD [n], of the next group, and how many sentences the encoder `cut`; they
        are entered when that is due."""
        content = records.tobytes()
        with files.no_space_as_message(self.folder):
            self._file.write(content)
        self._digest.update(content)
        self.groups, self.cut, self._bytes = self.groups + 1, self.cut + cut, self._bytes + len(content)
        if self.due():
            self.enter()

    def enter(self) -> None:
        """Bring all that was added to the disk, where the next run finds it. If the disk is full, the entry
        before is still good."""
        with files.no_space_as_message(self.folder):
            files.fsync_file(self._file)
        digest = self._digest.hexdigest()
        self.note(groups=self.groups, cut=self.cut, bytes=self._bytes, checksum=digest)

    def records(self) -> np.ndarray:
        """All that was added, RECORD [n], mapped from the disk."""
        self._file.flush()
        if not self._bytes:
            return np.zeros(0, RECORD)
        return np.memmap(self.folder / _ALIGNMENTS, RECORD, "r", shape=(self._bytes // RECORD.itemsize,))


Kept = TypeVar("Kept", bound=Journal)


@contextmanager
def kept_beside(output: Path | None, begin: Callable[[Path], Kept]) -> Iterator[Kept | None]:
    """Open a resumable journal next to an output, which `begin` makes or opens in the folder that it is
    given; it is deleted on success, and stays on an error. None for stdout and devices."""
    if output is None or files.is_special(output):
        yield None
        return
    folder = files.partial(output)
    kept = begin(folder)
    try:
        yield kept
    except BaseException:
        if kept.begun:
            log.info("what was found so far is kept in %s; the same command goes on there", folder)
        raise
    files.remove(folder / files.PROGRESS)
