"""Sums of a table's rows, whose gradient is of those rows alone: on a processor, by Numba.

A batch has a sixth of all n-grams, and the gradient of the others is neither made nor written.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from mexma_cli.numerics.compiling import summing
from mexma_cli.numerics.threads import in_slices


class RowSums(torch.autograd.Function):
    """Sums [T, D] of T groups of rows; the table's gradient is sparse."""

    @staticmethod
    def forward(
        ctx: Any, table: torch.Tensor, rows: torch.Tensor, starts: torch.Tensor, counts: torch.Tensor
    ) -> torch.Tensor:
        """Float32 [T, D], zeros for groups without rows.

        Args:
            table: float32 [N, D], contiguous.
            rows: int64, the groups' rows one after the other.
            starts, counts: int64 [T], where each group begins, and how many rows it has.
        """
        ctx.save_for_backward(rows, counts)
        ctx.shape = table.shape
        sums = torch.zeros(len(starts), table.shape[1])
        given = [part.detach().numpy() for part in (table, rows, starts, counts, sums)]
        in_slices(len(starts), lambda first, stop: _add(first, stop, *given), rows.numel() * table.shape[1])
        return sums

    @staticmethod
    def backward(ctx: Any, *slopes: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        """The table's gradient: coalesced, of the rows that were summed."""
        rows, counts = ctx.saved_tensors
        ordered, order = rows.sort()
        different, uses = torch.unique_consecutive(ordered, return_counts=True)
        groups = torch.arange(len(counts)).repeat_interleave(counts)[order]
        sums = torch.zeros(len(different), ctx.shape[1])
        given = [part.numpy() for part in (slopes[0].contiguous(), groups, uses.cumsum(0) - uses, uses, sums)]
        in_slices(len(different), lambda first, stop: _add(first, stop, *given), rows.numel() * ctx.shape[1])
        found = torch.sparse_coo_tensor(
            different[None], sums, ctx.shape, check_invariants=False, is_coalesced=True
        )
        return found, None, None, None


@summing
def _add(
    first: int,
    stop: int,
    table: np.ndarray,
    rows: np.ndarray,
    starts: np.ndarray,
    counts: np.ndarray,
    sums: np.ndarray,
) -> None:
    for group in range(first, stop):
        total = sums[group]
        for place in range(starts[group], starts[group] + counts[group]):
            row = table[rows[place]]
            for number in range(len(total)):
                total[number] += row[number]
