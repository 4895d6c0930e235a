"""Which pairs came before, in bounded memory: the pairs wait on disk until all hashes are sorted."""

from __future__ import annotations

import pickle
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import xxhash
import zstandard

from mexma_cli.files import temporary_space
from mexma_cli.formats.bitext import Pair
from mexma_cli.store.spool import HASHED, Table, repeats
from mexma_cli.text.duplicates import pair_hash
from mexma_cli.text.rules import CODES


class Judged(NamedTuple):
    """N pairs, and the rules that they break.

    Attributes:
        records: The lines that they stand in, if these are what is written, or the pairs.
        sources, targets: N sentences without white space at the ends; none after they were compared.
        codes: uint8 [N].
    """

    records: Sequence[str | Pair]
    sources: Sequence[str]
    targets: Sequence[str]
    codes: np.ndarray


HASHES: dict[str, Callable[[str, str], int]] = {
    "duplicate": pair_hash,
    "duplicate-source": lambda source, target: xxhash.xxh3_64_intdigest(source.encode()),
    "duplicate-target": lambda source, target: xxhash.xxh3_64_intdigest(target.encode()),
}
"""Rule -> what it takes for the same."""


def mark_duplicates(batches: Iterator[Judged], rules: Sequence[str]) -> Iterator[Judged]:
    """Batches with the pairs marked that came before, after the last batch has come.

    Of equal pairs that break no other rule the first one is kept. A rule sees what the one before it left.

    Args:
        rules: Of `HASHES`.

    Raises:
        MexmaError: The disk for temporary files is full.
    """
    with tempfile.TemporaryDirectory(prefix="mexma-") as name, temporary_space():
        folder = Path(name)
        tables = {rule: Table(HASHED, "hash", together=1) for rule in rules}
        rows = 0
        with zstandard.open(folder / "pairs", "wb") as file:
            for batch in batches:
                kept = np.flatnonzero(batch.codes == 0)
                for rule, table in tables.items():
                    hash_of = HASHES[rule]
                    hashes = [hash_of(batch.sources[row], batch.targets[row]) for row in kept.tolist()]
                    table.append(hash=np.array(hashes, dtype=np.uint64), row=kept + rows)
                pickle.dump(batch._replace(sources=(), targets=()), file)
                rows += len(batch.codes)
        broken = np.zeros(rows, dtype=np.uint8)
        for rule, table in tables.items():
            for entries in table.sorted():
                entries = entries[broken[entries["row"]] == 0]
                broken[entries["row"][repeats(entries, "hash")]] = CODES[rule]
        done = 0
        with zstandard.open(folder / "pairs", "rb") as file:
            while done < rows:
                batch = pickle.load(file)
                count = len(batch.codes)
                codes = np.maximum(batch.codes, broken[done : done + count])
                yield batch._replace(codes=codes)
                done += count
