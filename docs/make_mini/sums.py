"""Quantise rows jointly: the rounding error of a row is spread over its neighbours, so that sums stay exact.

A word is the sum of a dozen n-grams, so the error of the sums matters, and not the error of each row. The
rows are cut into parts, and one part is quantised after the other, so that each corrects the error that the
sums still have (as GPTQ does with the columns of a weight, Frantar et al. 2023). All parts are done several
times.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch.nn import functional

from mexma_cli.numerics.trellis import QuantisedMatrix

_PARTS = 16
"""Rows in one part do not correct each other. With more parts, a word has fewer n-grams in the same one."""
_ROUNDS = 3
"""How often all parts are quantised."""
_OWN = 1.0
"""Weight of a row's own error beside the errors of its sums: the row will be in other words' sums, too."""


@dataclass(frozen=True)
class Members:
    """Which rows are in which sums. A sum is divided by the square root of the number of its rows.

    Attributes:
        rows, sums: int64 [P], pairs of a row and a sum that it is in, ascending by sum.
        count: Number of sums.
    """

    rows: np.ndarray
    sums: np.ndarray
    count: int

    def of(self, matrix: torch.Tensor) -> torch.Tensor:
        """The sums, float32 [count, D], of a matrix [N, D]."""
        return _bags(matrix, self.rows, self.sums, self.shares, self.count)

    @property
    def shares(self) -> np.ndarray:
        """float32 [P], the factor of each row in its sum: 1 / sqrt(number of the sum's rows)."""
        return (1 / np.sqrt(np.bincount(self.sums, minlength=self.count).clip(min=1)))[self.sums].astype("f4")

    def only(self, kept: np.ndarray) -> Members:
        """Only the rows in `kept` (ascending), renumbered."""
        inside = np.isin(self.rows, kept)
        return Members(np.searchsorted(kept, self.rows[inside]), self.sums[inside], self.count)


def quantised_together(
    rows: torch.Tensor, bits: np.ndarray, members: Members, power: float
) -> QuantisedMatrix:
    """Quantise rows so that their sums change as little as possible.

    Args:
        rows: [N, D].
        bits: uint8 [N], of `trellis.BITS`; 0: the row is left out, and the others replace it in its sums.
        members: The rows of each sum.
        power: A sum counts by its direction and by its length to this power.
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
    now, coded = rows.clone(), QuantisedMatrix.empty(rows, bits)
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
    """Sums of rows times factors, float32 [count, D]; `bags`, ascending, are the sums that they belong to."""
    starts = np.searchsorted(bags, np.arange(count))
    return functional.embedding_bag(
        torch.from_numpy(rows),
        matrix.float(),
        torch.from_numpy(starts),
        mode="sum",
        per_sample_weights=torch.from_numpy(factors.astype(np.float32)),
    )
