"""Two embedding stores in, parallel sentences out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from mexma_cli.errors import MexmaError
from mexma_cli.mining.match import Candidates, match
from mexma_cli.mining.neighbours import knn
from mexma_cli.stages.usable import SideCounts, usable_rows
from mexma_cli.store.embeddings import EmbeddingStore

_ADVICE = "embed both texts with the same --model"


@dataclass(frozen=True)
class Mined:
    """Pairs, best first, as row numbers (from 0) and as text, and what was left out on both sides."""

    candidates: Candidates
    source_texts: list[str]
    target_texts: list[str]
    source: SideCounts
    target: SideCounts

    def pairs(self) -> Iterator[tuple[float, str, str]]:
        return zip(self.candidates.scores.tolist(), self.source_texts, self.target_texts, strict=True)


def mine(
    source: EmbeddingStore,
    target: EmbeddingStore,
    *,
    margin: str = "ratio",
    k: int = 4,
    retrieval: str = "max",
    threshold: float | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> Mined:
    """Find the pairs of two stores.

    Lines that occur more than once in a file count once, as with LASER's --unify; empty lines never pair.
    `margin`, `retrieval` and `threshold` are those of `mining.match.match`, k the neighbours a row.

    Raises:
        MexmaError: the stores are of different encoders or dimensions, or damaged.
    """
    check_comparable(source, target)
    keep_source, source_counts = usable_rows(source)
    keep_target, target_counts = usable_rows(target)
    neighbours = knn(source, target, k, keep_x=keep_source, keep_y=keep_target, on_progress=on_progress)
    found = match(neighbours, margin, retrieval, threshold)
    return Mined(
        candidates=found,
        source_texts=_texts(source, found.source),
        target_texts=_texts(target, found.target),
        source=source_counts,
        target=target_counts,
    )


def check_comparable(source: EmbeddingStore, target: EmbeddingStore) -> None:
    """Refuse stores whose vectors do not live in one space.

    Raises:
        MexmaError: naming both dimensions or both encoders.
    """
    check_encoder(source, target.manifest.encoder, target.manifest.fingerprint, str(target.path))
    if source.dim != target.dim:
        raise MexmaError(
            f"different dimensions: {source.path} has {source.dim}, {target.path} has {target.dim}", _ADVICE
        )


def check_encoder(store: EmbeddingStore, encoder: str, fingerprint: str, other: str) -> None:
    """Refuse a store whose vectors are not from the encoder that made, or is about to make, `other`.

    Raises:
        MexmaError: naming both encoders, and their fingerprints where the names are equal.
    """
    manifest = store.manifest
    if manifest.fingerprint == fingerprint:
        return
    names = (manifest.encoder, encoder)
    if names[0] == names[1]:
        names = (f"{names[0]} ({manifest.fingerprint[:12]})", f"{names[1]} ({fingerprint[:12]})")
    raise MexmaError(f"different encoders: {names[0]} for {store.path}, {names[1]} for {other}", _ADVICE)


def _texts(store: EmbeddingStore, rows: np.ndarray) -> list[str]:
    """The sentences of some rows, in their order; the store is read once, what is not wanted is not kept."""
    wanted = np.unique(rows)
    found: list[str] = []
    following = iter(wanted.tolist())
    next_row = next(following, None)
    for row, sentence in enumerate(store.sentences()):
        if next_row is None:
            break
        if row == next_row:
            found.append(sentence)
            next_row = next(following, None)
    return [found[place] for place in np.searchsorted(wanted, rows).tolist()]
