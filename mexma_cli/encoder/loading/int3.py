"""Weights in the format of the bundled encoder's first version, which is read until it has new weights."""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file

from mexma_cli.encoder.loading.weights import damaged
from mexma_cli.numerics.trellis import QuantisedMatrix

FILE = "model.int3.safetensors"
_BITS = ".bits"
_BLOCK = 2048


def load(path: Path) -> dict[str, torch.Tensor]:
    """The weights in such a file, float32.

    Raises:
        MexmaError: The file is damaged.
    """
    try:
        stored = load_file(path)
    except (SafetensorError, OSError) as error:
        raise damaged(path, error) from None
    for start in [name.removesuffix("bits") for name in stored if name.endswith(_BITS)]:
        own = [name for name in stored if name.startswith(start)]
        parts = {name.removeprefix(start): stored.pop(name) for name in own}
        direction, errors = parts["direction"], parts["errors"].float()
        words = QuantisedMatrix.read(parts, len(errors), len(direction)).restore().float()
        for block, off in zip(words.split(_BLOCK), errors.split(_BLOCK), strict=True):
            block += off[:, None] * direction
        words[parts["special"]] = parts["rows"].float()
        stored[start.removesuffix(".")] = words
    return {name: weight.float() for name, weight in stored.items()}
