"""Which pairs of a corpus are kept: the first of its two readings, in bounded memory.

One byte a pair (kept, or why not) goes to a file. The hashes of the pairs that pass the filter are sorted, on
disk where there are many: so exact duplicates are found, and a cap keeps the smallest hashes.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np

from mexma_cli.errors import MexmaError
from mexma_cli.files import no_space_as_message
from mexma_cli.stages.prepare.corpora import Bitext, Row
from mexma_cli.stages.worker_pool import end_if_stopped
from mexma_cli.store.spool import HASHED, Table, repeats
from mexma_cli.text.duplicates import pair_hash
from mexma_cli.text.rules import CODES, NAMES, PairRules

log = logging.getLogger(__name__)

CAP_SEED = 42
"""A cap keeps the pairs with the smallest hashes under this seed, in whatever order they stand."""
BYTES_PER_PAIR = 17
"""At most so much of the disk is taken for every pair while a corpus is worked on."""
_BATCH = 1 << 14


@dataclass(frozen=True)
class PairSelection:
    """The pairs of a corpus that are kept: a file of uint8, 0 for those; and why the others are dropped."""

    path: Path
    read: int
    kept: int
    dropped: dict[str, int]

    def pairs(self, bitext: Bitext) -> Iterator[tuple[str, str, str]]:
        """The kept pairs, read again from the files, and what a tsv has behind each."""
        rows = bitext.rows()
        with self.path.open("rb") as file:
            while codes := file.read(_BATCH):
                end_if_stopped()
                for code, (_, source, target, further) in zip(codes, rows, strict=False):
                    if not code:
                        yield source, target, further


def select(bitext: Bitext, rules: PairRules, limit: int | None, folder: Path) -> PairSelection:
    """Decide about every pair of a corpus, at most `limit` of which are kept, with temporary files in a
    folder."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{bitext.path.name}.codes"
    with no_space_as_message(path):
        table, read, others = Table(HASHED, "hash", together=1, folder=folder), 0, 0
        with path.open("wb") as file:
            rows = bitext.rows()
            while batch := list(islice(rows, _BATCH)):
                end_if_stopped()
                file.write(_filtered(batch, read, rules, table))
                read += len(batch)
                others += sum(map(bool, "\t".join(further for *_, further in batch).split("\t")))
        if others and not (bitext.data.negatives and bitext.corpus.negatives == "columns"):
            log.warning("%s: left out: values of other columns (%s)", bitext.looked, f"{others:,}")
        if not read:
            raise MexmaError(f"{bitext.looked}: no lines")
        codes = np.memmap(path, dtype=np.uint8, mode="r+")
        left = read if limit is None else limit
        for entries in table.sorted():
            end_if_stopped()
            left -= _duplicates_and_cap(entries, codes, left, bitext.data.drop_duplicates)
        codes.flush()
    counts = Counter({code: int(count) for code, count in enumerate(_counts(codes)) if count})
    dropped = {reason: counts[code] for reason, code in CODES.items() if counts[code]}
    return PairSelection(path, read, counts[0], dropped)


def _filtered(batch: list[Row], first: int, rules: PairRules, table: Table) -> bytes:
    """The codes of a batch whose first pair is pair `first` of all; pairs that pass go to the table."""
    reasons, sources, targets, _ = zip(*batch, strict=True)
    codes = rules.codes(sources, targets)
    for place, reason in enumerate(reasons):
        if reason:
            codes[place] = CODES[reason]
    places = np.flatnonzero(codes == 0)
    hashes = [pair_hash(sources[place], targets[place], CAP_SEED) for place in places.tolist()]
    table.append(hash=np.array(hashes, dtype=np.uint64), row=first + places)
    return codes.tobytes()


def _duplicates_and_cap(entries: np.ndarray, codes: np.ndarray, left: int, drop_duplicates: bool) -> int:
    """Mark the dropped pairs of some `HASHED`, sorted by hash and row; returns how many are kept."""
    if drop_duplicates:
        again = repeats(entries, "hash")
        codes[entries["row"][again]] = CODES["duplicate"]
        entries = entries[~again]
    codes[entries["row"][max(0, left) :]] = CODES["cap"]
    return min(len(entries), max(0, left))


def _counts(codes: np.ndarray) -> np.ndarray:
    step = 1 << 24
    return sum(
        (np.bincount(codes[at : at + step], minlength=len(NAMES)) for at in range(0, len(codes), step)),
        np.zeros(len(NAMES), dtype=np.int64),
    )
