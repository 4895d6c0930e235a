"""Rows of numbers in 1, 2 or 4 bits each: a number is looked up by its own bits and the eight before them.

Trellis-coded quantisation (Marcellin and Fischer 1990) with the trellis of a shift register, as in QTIP
(Tseng et al. 2024): a table of 256 << bits levels where rounding has 1 << bits, since the bits before choose
among 256 sets of them. What is off is less by a third with 2 bits, and reading is one lookup for every byte.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

import numpy as np
import torch
import xxhash
from torch.nn import functional

from mexma_cli.numerics.compiling import summing

BITS = (1, 2, 4)
"""Those that divide a byte."""
ERRORS = (0.27, 0.076, 0.0055)
"""Of normal numbers of variance 1, the mean square of what is off (measured)."""
_MEMORY = 8
_LANES = 64
"""Rows at once: they fill vector registers, and a step of the search stays in the processor's cache."""
_RESTORED = 1024
"""Rows at once where they are read."""
_SAMPLE = 1024
"""Rows that levels are fitted to."""
_ROUNDS = 8
_TINY = torch.finfo(torch.float32).tiny


Part = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


class Coded:
    """A matrix [N, D] whose rows have so many bits a number each.

    Args:
        bits: uint8 [N], of `BITS`.
        parts: For each number of bits that occurs, codes, scales and levels of its rows, as of `encode`.
        dim: D.
    """

    def __init__(self, bits: np.ndarray, parts: Mapping[int, Part], dim: int) -> None:
        self.bits, self.parts, self.dim = bits, dict(parts), dim
        self._within = np.empty(len(bits), np.int64)  # where each row is among those with as many bits
        for each in self.parts:
            own = bits == each
            self._within[own] = np.arange(np.count_nonzero(own))
        with torch.inference_mode(False):  # it is written to whatever the mode is then
            self._matrix = torch.empty(len(bits), dim, dtype=torch.float16)  # takes memory where it is used
        self._computed = np.zeros(len(bits), bool)

    @classmethod
    def of(cls, rows: torch.Tensor, bits: np.ndarray) -> Coded:
        """Rows [N, D] with these bits."""
        coded = cls.empty(rows, bits)
        coded.write(np.arange(len(rows)), rows)
        return coded

    @classmethod
    def empty(cls, rows: torch.Tensor, bits: np.ndarray) -> Coded:
        """One that rows such as these can be written to."""
        parts = {}
        for each in np.unique(bits).tolist():
            own = rows[torch.from_numpy(bits == each)]
            codes = torch.empty(len(own), -(rows.shape[1] * each // -8), dtype=torch.uint8)
            parts[each] = codes, torch.empty(len(own), dtype=torch.float16), fitted(own, each)
        return cls(bits, parts, rows.shape[1])

    def write(self, places: np.ndarray, rows: torch.Tensor) -> None:
        """Code rows [P, D] for these places, int64 [P]."""
        for each, (codes, scales, levels) in self.parts.items():
            own = self.bits[places] == each
            within = torch.from_numpy(self._within[places[own]])
            codes[within], scales[within], _ = encode(rows[torch.from_numpy(own)], each, levels)
        self._computed[places] = False

    def __len__(self) -> int:
        return len(self.bits)

    def rows(self, places: np.ndarray) -> torch.Tensor:
        """The matrix, float16, of which these can be read: a row is computed when it is first asked for."""
        new = np.unique(places[~self._computed[places]])
        for each, (codes, scales, _) in self.parts.items():
            own = new[self.bits[new] == each]
            if len(own):
                within = torch.from_numpy(self._within[own])
                rows = _read(codes[within], scales[within], self._tables[each], self.dim)
                self._matrix[torch.from_numpy(own)] = rows
        self._computed[new] = True
        return self._matrix

    def restore(self) -> torch.Tensor:
        """The whole matrix, float16."""
        return self.rows(np.arange(len(self)))

    @cached_property
    def _tables(self) -> dict[int, torch.Tensor]:
        return {each: _table(levels) for each, (_, _, levels) in self.parts.items()}

    def tensors(self) -> dict[str, torch.Tensor]:
        """What is stored; `read` takes it."""
        stored = {"bits": torch.from_numpy(self.bits)}
        for each, part in self.parts.items():
            stored |= {f"{name}{each}": tensor for name, tensor in zip(_PARTS, part, strict=True)}
        return stored

    @classmethod
    def read(cls, stored: Mapping[str, torch.Tensor], count: int, dim: int) -> Coded:
        """From its tensors, and perhaps others: so many rows.

        Raises:
            LookupError, ValueError: They do not fit together.
        """
        bits, parts = stored["bits"].numpy(), {}
        if bits.shape != (count,):
            raise ValueError(f"bits of {len(bits):,} rows, not of {count:,}")
        for each in np.unique(bits).tolist():
            codes, scales, levels = (stored[f"{name}{each}"] for name in _PARTS)
            rows = int(np.count_nonzero(bits == each))
            if (rows, -(dim * each // -8), rows, 256 << each) != (*codes.shape, len(scales), len(levels)):
                raise ValueError(f"{tuple(codes.shape)} codes for {rows:,} rows of {dim} numbers")
            parts[each] = codes, scales, levels
        return cls(bits, parts, dim)

    def hash_into(self, digest: xxhash.xxh3_128) -> None:
        """Add all of it."""
        for name, tensor in sorted(self.tensors().items()):
            digest.update(name.encode())
            digest.update(tensor.contiguous().view(torch.uint8).numpy().data)


_PARTS = ("codes", "scales", "levels")


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
    levels = fitted(rows, bits) if levels is None else levels
    rows = _padded(rows, bits)
    windows = _searched(_unit(rows), levels.float())
    chosen = levels.float()[windows]
    scales = (rows * chosen).sum(dim=1) / chosen.square().sum(dim=1).clamp_min(_TINY)
    shifts = torch.arange(8 - bits, -1, -bits)
    own = (windows & (1 << bits) - 1).unflatten(1, (-1, 8 // bits))
    return (own << shifts).sum(dim=2).to(torch.uint8), scales.half(), levels


def restore(codes: torch.Tensor, scales: torch.Tensor, levels: torch.Tensor, dim: int) -> torch.Tensor:
    """The matrix, float16 [N, dim], that codes and scales stand for."""
    return _read(codes, scales, _table(levels), dim)


def _read(codes: torch.Tensor, scales: torch.Tensor, table: torch.Tensor, dim: int) -> torch.Tensor:
    restored = torch.empty(len(codes), dim, dtype=torch.float16)
    for part, own, scale in zip(
        *(whole.split(_RESTORED) for whole in (restored, codes, scales)), strict=True
    ):
        wide = own.int()
        windows = functional.pad(wide[:, :-1], (1, 0)) << 8 | wide
        chosen = functional.embedding(windows, table).flatten(1)[:, :dim]
        torch.mul(chosen, scale[:, None], out=part)
    return restored


def _table(levels: torch.Tensor) -> torch.Tensor:
    """The numbers of a byte behind another, for all pairs of bytes: [65536, 8 / bits]."""
    bits = len(levels).bit_length() - 1 - _MEMORY
    two_bytes = torch.arange(1 << 16)[:, None] >> torch.arange(8 - bits, -1, -bits)
    return levels[two_bytes & len(levels) - 1]


def fitted(rows: torch.Tensor, bits: int) -> torch.Tensor:
    """Levels for such rows, float16, by Lloyd's rounds, from those of normal numbers in no order."""
    size = 1 << _MEMORY + bits
    generator = torch.Generator().manual_seed(0)
    quantiles = (torch.arange(size) + 0.5) / size
    levels = torch.special.ndtri(quantiles)[torch.randperm(size, generator=generator)]
    sample = _unit(_padded(rows[torch.randperm(len(rows), generator=generator)[:_SAMPLE]], bits))
    for _ in range(_ROUNDS):
        places = _searched(sample, levels).flatten()
        uses = torch.bincount(places, minlength=size)
        sums = torch.bincount(places, sample.flatten().double(), minlength=size)
        levels = torch.where(uses > 0, sums / uses.clamp_min(1), levels.double()).float()
    return levels.half()


def _padded(rows: torch.Tensor, bits: int) -> torch.Tensor:
    """With zeros, to whole bytes."""
    return functional.pad(rows.float(), (0, -rows.shape[1] % (8 // bits)))


def _unit(rows: torch.Tensor) -> torch.Tensor:
    return rows / rows.square().mean(dim=1, keepdim=True).sqrt().clamp_min(_TINY)


def _searched(unit: torch.Tensor, levels: torch.Tensor) -> torch.Tensor:
    """The places of levels, int64 [N, D], that are nearest to rows and can follow each other."""
    places = np.empty(unit.shape, np.int64)
    _search(unit.contiguous().numpy(), levels.numpy(), places)
    return torch.from_numpy(places)


@summing
def _search(unit: np.ndarray, levels: np.ndarray, places: np.ndarray) -> None:
    """Viterbi's algorithm, for rows float32 [N, D] and as many places.

    A state is the eight bits before a number, at first zeros. With its own bits behind them they are the
    place of its level, and the last eight of that are the next state.
    """
    states = 1 << _MEMORY
    choices = len(levels) // states
    bits = 0
    while 1 << bits < choices:
        bits += 1
    dim = unit.shape[1]
    column, best, way = np.empty((3, _LANES), np.float32)
    cost, after = np.empty((2, states, _LANES), np.float32)
    dropped = np.empty((dim, states, _LANES), np.uint8)  # the oldest bits of the best way to a state
    for start in range(0, len(unit), _LANES):
        rows = min(_LANES, len(unit) - start)
        column[:] = 0
        cost[:] = np.inf
        cost[0] = 0
        for d in range(dim):
            for r in range(rows):
                column[r] = -2 * unit[start + r, d]
            for state in range(states):
                level, before = levels[state], cost[state >> bits]
                for r in range(_LANES):
                    best[r] = before[r] + level * (level + column[r])
                    way[r] = 0
                for choice in range(1, choices):
                    place = choice << _MEMORY | state
                    level, before, own = levels[place], cost[place >> bits], np.float32(choice)
                    for r in range(_LANES):
                        error = before[r] + level * (level + column[r])
                        way[r] = own if error < best[r] else way[r]
                        best[r] = min(error, best[r])
                for r in range(_LANES):
                    after[state, r] = best[r]
                    dropped[d, state, r] = np.uint8(way[r])
            cost, after = after, cost
        for r in range(rows):
            end = int(cost[:, r].argmin())
            for d in range(dim - 1, -1, -1):
                place = int(dropped[d, end, r]) << _MEMORY | end
                places[start + r, d] = place
                end = place >> bits
