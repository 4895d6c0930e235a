"""Files of weights: read without running code that is in them, and one message for those that are damaged."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import TYPE_CHECKING

from safetensors import SafetensorError

from mexma_cli.errors import MexmaError

if TYPE_CHECKING:
    import torch

FILES = ("model.safetensors", "pytorch_model.bin")


def read_weights(folder: Path) -> dict[str, torch.Tensor]:
    """The tensors in `model.safetensors`, or else in `pytorch_model.bin`, whose code is never run.

    Raises:
        MexmaError: Neither file is there, or it is damaged, or it holds more than tensors.
    """
    import torch
    from safetensors.torch import load_file

    for name in FILES:
        path = folder / name
        if not path.is_file():
            continue
        try:
            if path.suffix == ".safetensors":
                return load_file(path)
            return torch.load(path, map_location="cpu", weights_only=True)
        except (SafetensorError, pickle.UnpicklingError, RuntimeError, OSError, EOFError) as error:
            raise damaged(path, error) from None
    raise MexmaError(f"{folder} has no weights ({' or '.join(FILES)})")


def damaged(path: Path | str, error: Exception) -> MexmaError:
    """The error for a file of weights that cannot be read."""
    if isinstance(error, pickle.UnpicklingError):
        return MexmaError(
            f"{path}: the pickled weights are damaged, or bring code along, which was not run",
            "weights in safetensors format are read without such doubts",
        )
    return MexmaError(
        f"{path} cannot be read: {str(error).splitlines()[0]}", "is the file whole? fetch or save it anew"
    )
