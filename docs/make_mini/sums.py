"""Rows in few bits that are right in sum: what one is off by, the others beside it make up for.

A word is the sum of a dozen n-grams, so it is the sums that should be right, and not each row. Rows are coded
one part after the other (as GPTQ does with a weight's columns, Frantar et al. 2023), each part with what is
left of the sums then, and once more from the start.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch.nn import functional

from mexma_cli.numerics.trellis import Coded

_PARTS = 16
"""Rows of one part do not know of each other: the more parts, the fewer of a word's n-grams are in one."""
_ROUNDS = 3
_OWN = 1.0
"""What a row's own error weighs beside those of its sums: it is in sums, too, that nobody has listed."""


@dataclass(frozen=True)
class Members:
    """Which rows are in which sums; a sum is divided by the root of their number.

    Attributes:
        rows, sums: int64 [P], ascending by sum.
        count: Of sums.
    """

    rows: np.ndarray
    sums: np.ndarray
    count: int

    def of(self, matrix: torch.Tensor) -> torch.Tensor:
        """The sums, float32 [count, D], of a matrix [N, D]."""
        return _bags(matrix, self.rows, self.sums, self.shares, self.count)

    @property
    def shares(self) -> np.ndarray:
        """float32 [P]: one over the root of the number of rows that a row's sum has."""
        return (1 / np.sqrt(np.bincount(self.sums, minlength=self.count).clip(min=1)))[self.sums].astype("f4")

    def only(self, kept: np.ndarray) -> Members:
        """Without the rows that are not in `kept` (ascending), the others renumbered."""
        inside = np.isin(self.rows, kept)
        return Members(np.searchsorted(kept, self.rows[inside]), self.sums[inside], self.count)


def coded_together(rows: torch.Tensor, bits: np.ndarray, members: Members, power: float) -> Coded:
    """Those of the rows that have bits, coded so that the sums are as they were.

    Args:
        rows: [N, D].
        bits: uint8 [N], of `trellis.BITS`; 0: the row is left out, and the others stand in for it.
        members: Of the sums.
        power: Of a sum its direction counts, and its length to this power.
    """
    kept = np.flatnonzero(bits)
    bits = bits[kept]
    left = members.of(rows)
    rows = rows[torch.from_numpy(kept)].float()
    members = members.only(kept)
    lengths = left.norm(dim=1)
    weights = (lengths / lengths.mean()).clamp_min(0.01).pow(2 * power - 2).numpy()
    left -= members.of(rows)
    shares = members.shares
    pull = np.bincount(members.rows, weights[members.sums] * shares**2, len(kept)).astype(np.float32)
    own = np.bincount(members.rows, shares**2, len(kept)).astype(np.float32) * _OWN
    part_of = np.random.default_rng(0).integers(0, _PARTS, len(kept))
    now, coded = rows.clone(), Coded.empty(rows, bits)
    for part in [*range(_PARTS)] * _ROUNDS:
        places = np.flatnonzero(part_of == part)
        inside = part_of[members.rows] == part
        within, sums = np.searchsorted(places, members.rows[inside]), members.sums[inside]
        order = np.argsort(within, kind="stable")
        factors = (shares[inside] * weights[sums])[order]
        wanted = _bags(left, sums[order], within[order], factors, len(places))
        at = torch.from_numpy(places)
        wanted += torch.from_numpy(pull)[at, None] * now[at] + torch.from_numpy(own)[at, None] * rows[at]
        wanted /= torch.from_numpy(pull + own)[at, None].clamp_min(torch.finfo(torch.float32).tiny)
        coded.write(places, wanted)
        found = coded.rows(places)[at].float()
        left -= _bags(found - now[at], within, sums, shares[inside], members.count)
        now[at] = found
    return coded


def _bags(
    matrix: torch.Tensor, rows: np.ndarray, bags: np.ndarray, factors: np.ndarray, count: int
) -> torch.Tensor:
    """Sums of rows times factors, float32 [count, D]; `bags`, ascending, says which sum each belongs to."""
    starts = np.searchsorted(bags, np.arange(count))
    return functional.embedding_bag(
        torch.from_numpy(rows),
        matrix.float(),
        torch.from_numpy(starts),
        mode="sum",
        per_sample_weights=torch.from_numpy(factors.astype(np.float32)),
    )
