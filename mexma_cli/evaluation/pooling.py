"""The mean of the tokens against the first token, as sentence vector: the paper's Table 10."""

from __future__ import annotations


def relative_change(cls: float, uniform: float) -> float | None:
    """100 (CLS - uniform) / CLS, as Table 10 has it (its text says "relative from uniform"): percent.

    None where CLS is 0.
    """
    return 100 * (cls - uniform) / cls if cls else None
