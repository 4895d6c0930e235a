"""Rows of numbers in 1, 2 or 4 bits each: a number is looked up by its own bits and the eight before them.

Trellis-coded quantisation (Marcellin and Fischer 1990) with the trellis of a shift register, as in QTIP
(Tseng et al. 2024): a table of 256 << bits levels where rounding has 1 << bits, since the bits before choose
among 256 sets of them. What is off is less by a third with 2 bits, and reading is one lookup for every byte.
"""

from __future__ import annotations

import torch
from torch.nn import functional

BITS = (1, 2, 4)
"""Those that divide a byte."""
ERRORS = (0.27, 0.076, 0.0055)
"""Of normal numbers of variance 1, the mean square of what is off (measured)."""
_MEMORY = 8
_BLOCK = 256
"""Rows at once: a step of the search, over all states, stays in the processor's cache."""
_RESTORED = 1024
"""Rows at once where they are read."""
_SAMPLE = 1024
"""Rows that levels are fitted to."""
_ROUNDS = 8


def encode(
    rows: torch.Tensor, bits: int, levels: torch.Tensor | None = None
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Codes with the least squared error, found by a Viterbi search.

    Args:
        rows: [N, D].
        bits: A number's, of `BITS`.
        levels: For numbers of variance 1; fitted to the rows if there are none.

    Returns:
        Codes, uint8 [N, D * bits / 8] rounded up, float16 scales [N], and float16 levels [256 << bits].
    """
    tiny = torch.finfo(torch.float32).tiny
    rows = functional.pad(rows.float(), (0, -rows.shape[1] % (8 // bits)))
    unit = rows / rows.square().mean(dim=1, keepdim=True).sqrt().clamp_min(tiny)
    levels = (_fitted(unit, bits) if levels is None else levels).half()
    windows = _searched(unit, levels.float())
    chosen = levels.float()[windows]
    scales = (rows * chosen).sum(dim=1) / chosen.square().sum(dim=1).clamp_min(tiny)
    shifts = torch.arange(8 - bits, -1, -bits)
    own = (windows & (1 << bits) - 1).unflatten(1, (-1, 8 // bits))
    return (own << shifts).sum(dim=2).to(torch.uint8), scales.half(), levels


def restore(codes: torch.Tensor, scales: torch.Tensor, levels: torch.Tensor, dim: int) -> torch.Tensor:
    """The matrix, float16 [N, dim], that codes and scales stand for."""
    bits = len(levels).bit_length() - 1 - _MEMORY
    two_bytes = torch.arange(1 << 16)[:, None] >> torch.arange(8 - bits, -1, -bits)
    table = levels[two_bytes & len(levels) - 1]
    restored = torch.empty(len(codes), dim, dtype=torch.float16)
    for part, own, scale in zip(
        *(whole.split(_RESTORED) for whole in (restored, codes, scales)), strict=True
    ):
        wide = own.int()
        windows = functional.pad(wide[:, :-1], (1, 0)) << 8 | wide
        chosen = functional.embedding(windows, table).flatten(1)[:, :dim]
        torch.mul(chosen, scale[:, None], out=part)
    return restored


def _fitted(unit: torch.Tensor, bits: int) -> torch.Tensor:
    """Levels by Lloyd's rounds, from those of normal numbers in an order without a pattern."""
    size = 1 << _MEMORY + bits
    generator = torch.Generator().manual_seed(0)
    quantiles = (torch.arange(size) + 0.5) / size
    levels = torch.special.ndtri(quantiles)[torch.randperm(size, generator=generator)]
    sample = unit[torch.randperm(len(unit), generator=generator)[:_SAMPLE]]
    for _ in range(_ROUNDS):
        places = _searched(sample, levels).flatten()
        uses = torch.bincount(places, minlength=size)
        sums = torch.bincount(places, sample.flatten().double(), minlength=size)
        levels = torch.where(uses > 0, sums / uses.clamp_min(1), levels.double()).float()
    return levels


def _searched(unit: torch.Tensor, levels: torch.Tensor) -> torch.Tensor:
    """The places of levels, int64 [N, D], that are nearest to rows and can follow each other."""
    return torch.cat([_path(part.T.contiguous(), levels) for part in unit.split(_BLOCK)])


def _path(columns: torch.Tensor, levels: torch.Tensor) -> torch.Tensor:
    """Viterbi's algorithm, for columns [D, rows].

    A state is the eight bits before a number, at first zeros. With its own bits behind them they are the
    place of its level, and the last eight of that are the next state.
    """
    states, choices = 1 << _MEMORY, len(levels) >> _MEMORY
    dim, rows = columns.shape
    levels = levels.view(states, choices, 1)
    squares = levels.square()
    cost = torch.full((states, rows), torch.inf)
    cost[0] = 0
    dropped = torch.empty(dim, states, rows, dtype=torch.uint8)  # the oldest bits of the best way to a state
    for column, back in zip(columns, dropped, strict=True):
        errors = torch.addcmul(squares, levels, column, value=-2)
        ways = errors.add_(cost[:, None]).view(choices, states, rows)
        cost = ways[0].clone()
        back.zero_()
        for way in range(1, choices):
            back.masked_fill_(ways[way] < cost, way)
            torch.minimum(cost, ways[way], out=cost)
    state = cost.argmin(dim=0)
    places = torch.empty(rows, dim, dtype=torch.int64)
    for place in range(dim - 1, -1, -1):
        oldest = dropped[place].gather(0, state[None])[0].long()
        places[:, place] = oldest << _MEMORY | state
        state = places[:, place] >> choices.bit_length() - 1
    return places
