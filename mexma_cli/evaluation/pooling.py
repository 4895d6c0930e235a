"""The mean of the tokens against the first token, as sentence vector: the paper's Table 10."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from statistics import fmean

log = logging.getLogger(__name__)


def means_of_both(
    measure: str, cls: Sequence[float | None], uniform: Sequence[float | None]
) -> tuple[float, float] | None:
    """Of both, over what both have a number for; None: over nothing. A warning says what is left out."""
    pairs = zip(cls, uniform, strict=True)
    there = [(one, other) for one, other in pairs if one is not None and other is not None]
    if lacking := len(cls) - len(there):
        log.warning("warning: %s: all cosines of %s sets are equal: left out", measure, lacking)
    return (fmean(one for one, _ in there), fmean(other for _, other in there)) if there else None


def relative_change(cls: float, uniform: float) -> float | None:
    """100 (CLS - uniform) / CLS, as Table 10 has it (its text says "relative from uniform"): percent.

    None where CLS is 0.
    """
    return 100 * (cls - uniform) / cls if cls else None
