"""Sums of a table's rows, whose gradient is of those rows alone: on a processor.

A batch has a sixth of all n-grams, and the gradient of the others is neither made nor written.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.nn.functional import embedding_bag


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
        return embedding_bag(rows, table.detach(), starts, mode="sum")

    @staticmethod
    def backward(ctx: Any, *slopes: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        """The table's gradient: coalesced, of the rows that were summed."""
        rows, counts = ctx.saved_tensors
        ordered, order = rows.sort()
        different, uses = torch.unique_consecutive(ordered, return_counts=True)
        groups = torch.arange(len(counts)).repeat_interleave(counts)[order]
        sums = embedding_bag(groups, slopes[0].contiguous(), uses.cumsum(0) - uses, mode="sum")
        found = torch.sparse_coo_tensor(
            different[None], sums, ctx.shape, check_invariants=False, is_coalesced=True
        )
        return found, None, None, None
