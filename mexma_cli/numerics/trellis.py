"""Matrices in the format of the bundled encoder's first version, read until it has new weights.

A number is looked up by its own 1, 2 or 4 bits and the 8 bits before them.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

import numpy as np
import torch
from torch.nn import functional

_MEMORY = 8
_RESTORED = 1024

Part = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


class QuantisedMatrix:
    """A matrix [N, D] whose rows are quantised, each with its own number of bits, uint8 [N]."""

    def __init__(self, bits: np.ndarray, parts: Mapping[int, Part], dim: int) -> None:
        self.bits, self.parts, self.shape = bits, dict(parts), (len(bits), dim)
        self._within = np.empty(len(bits), np.int64)  # each row's place among the rows with as many bits
        for each in self.parts:
            own = bits == each
            self._within[own] = np.arange(np.count_nonzero(own))
        with torch.inference_mode(False):  # so that it can be written to in every mode later
            self._matrix = torch.empty(len(bits), dim, dtype=torch.float16)  # takes memory only where written
        self._computed = np.zeros(len(bits), bool)

    def __getitem__(self, places: np.ndarray | slice) -> np.ndarray:
        """These rows, float16; each is computed only once."""
        places = np.arange(len(self.bits))[places]
        new = np.unique(places[~self._computed[places]])
        for each, (codes, scales, _) in self.parts.items():
            own = new[self.bits[new] == each]
            if len(own):
                within = torch.from_numpy(self._within[own])
                rows = _restore(codes[within], scales[within], self._tables[each], self.shape[1])
                self._matrix[torch.from_numpy(own)] = rows
        self._computed[new] = True
        return self._matrix.numpy()[places]

    def restore(self) -> torch.Tensor:
        """The whole matrix, float16."""
        return torch.from_numpy(self[:])

    @cached_property
    def _tables(self) -> dict[int, torch.Tensor]:
        return {each: _lookup_table(levels) for each, (_, _, levels) in self.parts.items()}

    def arrays(self) -> dict[str, np.ndarray]:
        """All that is stored."""
        stored = {"bits": self.bits}
        for each, part in self.parts.items():
            stored |= {f"{name}{each}": tensor.numpy() for name, tensor in zip(_PARTS, part, strict=True)}
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


_PARTS = ("codes", "scales", "levels")


def _restore(codes: torch.Tensor, scales: torch.Tensor, table: torch.Tensor, dim: int) -> torch.Tensor:
    restored = torch.empty(len(codes), dim, dtype=torch.float16)
    for part, own, scale in zip(
        *(whole.split(_RESTORED) for whole in (restored, codes, scales)), strict=True
    ):
        wide = own.int()
        windows = functional.pad(wide[:, :-1], (1, 0)) << 8 | wide
        chosen = functional.embedding(windows, table).flatten(1)[:, :dim]
        torch.mul(chosen, scale[:, None], out=part)
    return restored


def _lookup_table(levels: torch.Tensor) -> torch.Tensor:
    bits = len(levels).bit_length() - 1 - _MEMORY
    two_bytes = torch.arange(1 << 16)[:, None] >> torch.arange(8 - bits, -1, -bits)
    return levels[two_bytes & len(levels) - 1]
