"""Product quantisation: matrices whose rows are stored as bytes, each of which stands for a few numbers.

A row is its length times a unit vector, which is cut into parts of a few numbers (Jégou et al. 2011). Of each
part the place of the nearest of 256 in a codebook is stored. All parts have the same codebook, since the rows
that are stored here look alike in all directions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from mexma_cli.numerics.threads import in_blocks

AT_ONCE = 1 << 9
"""Rows that are restored together: they stay in the processor's cache."""
_WIDEST = 16
"""Numbers that a byte may stand for in a file: rows are not much larger in memory than on the disk."""
_SAMPLE = 1000
"""Parts that the codebook is fitted to, for each of its entries."""


@dataclass(frozen=True)
class QuantisedRows:
    """A matrix [N, D] as bytes, which is indexed as an array is.

    Attributes:
        codes: uint8 [N, P], places in the codebook of the P parts of each row.
        lengths: float16 [N], of the rows.
        codebook: float32 [at most 256, numbers of a part].
        width: D. Where parts do not divide it, zeros follow a row.
    """

    codes: np.ndarray
    lengths: np.ndarray
    codebook: np.ndarray
    width: int

    @classmethod
    def of(cls, rows: np.ndarray, part: int, codebook: np.ndarray | None = None) -> QuantisedRows:
        """Quantise rows, float32 [N, D], a byte for `part` numbers; None: a codebook is fitted to them."""
        import faiss

        lengths = np.linalg.norm(rows, axis=1)
        unit = rows / np.maximum(lengths, np.finfo(np.float32).tiny)[:, None]
        parts = np.pad(unit, ((0, 0), (0, -rows.shape[1] % part))).reshape(-1, part)
        if codebook is None:
            kmeans = faiss.Kmeans(
                part, min(256, len(parts)), min_points_per_centroid=1, max_points_per_centroid=_SAMPLE
            )
            kmeans.train(parts)
            codebook = np.array(kmeans.centroids)
        codes = faiss.knn(parts, codebook, 1)[1].astype(np.uint8).reshape(len(lengths), -1)
        return cls(codes, lengths.astype(np.float16), codebook, rows.shape[1])

    @property
    def shape(self) -> tuple[int, int]:
        """(N, D)."""
        return len(self.codes), self.width

    def __getitem__(self, places: np.ndarray | slice) -> np.ndarray:
        """The rows at these places, float32 [places, D]."""
        codes, lengths = self.codes[places], self.lengths[places].astype(np.float32)
        parts = np.empty((*codes.shape, self.codebook.shape[1]), np.float32)
        rows = parts.reshape(len(codes), parts.shape[1] * parts.shape[2])

        def some(own: slice) -> None:
            # Codes are known to be in the codebook, and unchecked ones are written where they belong at once.
            np.take(self.codebook, codes[own], axis=0, out=parts[own], mode="clip")
            rows[own] *= lengths[own, None]

        in_blocks(len(codes), AT_ONCE, some, rows.size)
        return rows[:, : self.width]

    def arrays(self) -> dict[str, np.ndarray]:
        """The arrays to store; `read` takes them."""
        return {**vars(self), "width": np.array(self.width)}

    @classmethod
    def read(cls, stored: Mapping[str, np.ndarray]) -> QuantisedRows:
        """The matrix from its arrays, among which there may be others.

        Raises:
            LookupError, ValueError: The arrays do not fit together.
        """
        codes, lengths, codebook = (stored[name] for name in ("codes", "lengths", "codebook"))
        width = int(stored["width"])
        plain = [codes.dtype.kind, lengths.dtype.kind, codebook.dtype.kind] == ["u", "f", "f"]
        if not plain or codebook.ndim != 2 or not 1 <= codebook.shape[1] <= _WIDEST:
            raise ValueError(f"{codebook.dtype} {codebook.shape} is no codebook of {codes.dtype}")
        fit = width > 0 and codes.shape == (len(lengths), -(-width // codebook.shape[1]))
        if not fit or codes.max(initial=0) >= len(codebook):
            raise ValueError(f"{codes.shape} codes for {len(lengths):,} rows of {width} numbers")
        return cls(codes, lengths, codebook, width)
