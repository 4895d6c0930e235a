"""Trellis-coded quantisation: matrices whose rows are stored with 1, 2 or 4 bits a number.

The method is Marcellin and Fischer's (1990), with the trellis of a shift register, as in QTIP (Tseng et al.
2024). Plain rounding with b bits chooses among 2**b levels. Here a number is looked up by its own b bits and
the 8 bits before them, so that there are 2**(8 + b) levels. The squared error is a third smaller with 2 bits,
and reading takes one table lookup for each byte.
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
"""The supported bits a number: they divide a byte."""
ERRORS = (0.27, 0.076, 0.0055)
"""The mean squared error for normal numbers of variance 1, for each of BITS (measured)."""
_MEMORY = 8
"""Bits of earlier numbers that help to choose a level."""
_LANES = 64
"""Rows searched together: they fill vector registers, and one step stays in the processor's cache."""
_RESTORED = 1024
"""Rows restored together."""
_SAMPLE = 1024
"""Rows that levels are fitted to."""
_ROUNDS = 8
"""Rounds of fitting levels."""
_TINY = torch.finfo(torch.float32).tiny


Part = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


class QuantisedMatrix:
    """A matrix [N, D] whose rows are quantised, each with its own number of bits.

    Args:
        bits: uint8 [N], bits a number of each row, of `BITS`.
        parts: For each number of bits that occurs: the codes, scales and levels of its rows (see `encode`).
        dim: D.
    """

    def __init__(self, bits: np.ndarray, parts: Mapping[int, Part], dim: int) -> None:
        self.bits, self.parts, self.dim = bits, dict(parts), dim
        self._within = np.empty(len(bits), np.int64)  # each row's place among the rows with as many bits
        for each in self.parts:
            own = bits == each
            self._within[own] = np.arange(np.count_nonzero(own))
        with torch.inference_mode(False):  # so that it can be written to in every mode later
            self._matrix = torch.empty(len(bits), dim, dtype=torch.float16)  # takes memory only where written
        self._computed = np.zeros(len(bits), bool)

    @classmethod
    def of(cls, rows: torch.Tensor, bits: np.ndarray) -> QuantisedMatrix:
        """Quantise rows [N, D]."""
        coded = cls.empty(rows, bits)
        coded.write(np.arange(len(rows)), rows)
        return coded

    @classmethod
    def empty(cls, rows: torch.Tensor, bits: np.ndarray) -> QuantisedMatrix:
        """A matrix to write to, with levels fitted to rows such as these [N, D]."""
        parts = {}
        for each in np.unique(bits).tolist():
            own = rows[torch.from_numpy(bits == each)]
            codes = torch.empty(len(own), -(rows.shape[1] * each // -8), dtype=torch.uint8)
            parts[each] = codes, torch.empty(len(own), dtype=torch.float16), fitted(own, each)
        return cls(bits, parts, rows.shape[1])

    def write(self, places: np.ndarray, rows: torch.Tensor) -> None:
        """Quantise rows [P, D] and put them in these places, int64 [P]."""
        for each, (codes, scales, levels) in self.parts.items():
            own = self.bits[places] == each
            within = torch.from_numpy(self._within[places[own]])
            codes[within], scales[within] = encode(rows[torch.from_numpy(own)], each, levels)
        self._computed[places] = False

    def __len__(self) -> int:
        return len(self.bits)

    def rows(self, places: np.ndarray) -> torch.Tensor:
        """The matrix [N, D], float16, in which the rows at `places` are valid; each is computed only once."""
        new = np.unique(places[~self._computed[places]])
        for each, (codes, scales, _) in self.parts.items():
            own = new[self.bits[new] == each]
            if len(own):
                within = torch.from_numpy(self._within[own])
                rows = restore(codes[within], scales[within], self._tables[each], self.dim)
                self._matrix[torch.from_numpy(own)] = rows
        self._computed[new] = True
        return self._matrix

    def restore(self) -> torch.Tensor:
        """The whole matrix, float16."""
        return self.rows(np.arange(len(self)))

    @cached_property
    def _tables(self) -> dict[int, torch.Tensor]:
        return {each: lookup_table(levels) for each, (_, _, levels) in self.parts.items()}

    def tensors(self) -> dict[str, torch.Tensor]:
        """The tensors to store; `read` takes them."""
        stored = {"bits": torch.from_numpy(self.bits)}
        for each, part in self.parts.items():
            stored |= {f"{name}{each}": tensor for name, tensor in zip(_PARTS, part, strict=True)}
        return stored

    @classmethod
    def read(cls, stored: Mapping[str, torch.Tensor], count: int, dim: int) -> QuantisedMatrix:
        """The matrix [count, dim] from its tensors, among which there may be others.

        Raises:
            LookupError, ValueError: The tensors do not fit together.
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
        """Add all that is stored."""
        for name, tensor in sorted(self.tensors().items()):
            digest.update(name.encode())
            digest.update(tensor.contiguous().view(torch.uint8).numpy().data)


_PARTS = ("codes", "scales", "levels")


def encode(rows: torch.Tensor, bits: int, levels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Quantise rows with the least squared error, found by a Viterbi search.

    Args:
        rows: [N, D].
        bits: Bits a number, of `BITS`.
        levels: For numbers of variance 1 (`fitted`).

    Returns:
        Codes, uint8 [N, D * bits / 8] rounded up, and float16 scales [N].
    """
    rows = _padded(rows, bits)
    windows = _searched(_unit(rows), levels.float())
    chosen = levels.float()[windows]
    scales = (rows * chosen).sum(dim=1) / chosen.square().sum(dim=1).clamp_min(_TINY)
    shifts = torch.arange(8 - bits, -1, -bits)
    own = (windows & (1 << bits) - 1).unflatten(1, (-1, 8 // bits))
    return (own << shifts).sum(dim=2).to(torch.uint8), scales.half()


def restore(codes: torch.Tensor, scales: torch.Tensor, table: torch.Tensor, dim: int) -> torch.Tensor:
    """The matrix, float16 [N, dim], that codes and scales stand for; `table` is of `lookup_table`."""
    restored = torch.empty(len(codes), dim, dtype=torch.float16)
    for part, own, scale in zip(
        *(whole.split(_RESTORED) for whole in (restored, codes, scales)), strict=True
    ):
        wide = own.int()
        windows = functional.pad(wide[:, :-1], (1, 0)) << 8 | wide
        chosen = functional.embedding(windows, table).flatten(1)[:, :dim]
        torch.mul(chosen, scale[:, None], out=part)
    return restored


def lookup_table(levels: torch.Tensor) -> torch.Tensor:
    """The numbers that a byte stands for after another byte, for all pairs of bytes: [65536, 8 / bits]."""
    bits = len(levels).bit_length() - 1 - _MEMORY
    two_bytes = torch.arange(1 << 16)[:, None] >> torch.arange(8 - bits, -1, -bits)
    return levels[two_bytes & len(levels) - 1]


def fitted(rows: torch.Tensor, bits: int) -> torch.Tensor:
    """Levels for such rows, float16 [256 << bits], by Lloyd's algorithm.

    The first levels are quantiles of the normal distribution, shuffled.
    """
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
    """Rows with zeros behind them, so that their codes fill whole bytes."""
    return functional.pad(rows.float(), (0, -rows.shape[1] % (8 // bits)))


def _unit(rows: torch.Tensor) -> torch.Tensor:
    return rows / rows.square().mean(dim=1, keepdim=True).sqrt().clamp_min(_TINY)


def _searched(unit: torch.Tensor, levels: torch.Tensor) -> torch.Tensor:
    """The places of the best levels, int64 [N, D], of those sequences that the trellis allows."""
    places = np.empty(unit.shape, np.int64)
    _search(unit.contiguous().numpy(), levels.numpy(), places)
    return torch.from_numpy(places)


@summing
def _search(unit: np.ndarray, levels: np.ndarray, places: np.ndarray) -> None:
    """Viterbi's algorithm on rows, float32 [N, D]; writes `places`, int64 [N, D].

    The state is the 8 bits before a number, zeros at first. The state's bits and then the number's own are
    the place of its level, and the last 8 bits of that place are the next state.
    """
    states = 1 << _MEMORY
    choices = len(levels) // states
    bits = 0
    while 1 << bits < choices:
        bits += 1
    dim = unit.shape[1]
    column, best, way = np.empty((3, _LANES), np.float32)
    cost, after = np.empty((2, states, _LANES), np.float32)
    dropped = np.empty((dim, states, _LANES), np.uint8)  # the oldest bits of the best path to a state
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
