"""Devices and precisions by the names that users type."""

from __future__ import annotations

import torch

from mexma_cli.errors import MexmaError
from mexma_cli.numerics.precisions import default_device
from mexma_cli.numerics.torch_private import computes_bf16, computes_fp16

PRECISIONS = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


def precision_of(name: str) -> torch.dtype:
    """The type of a name such as `bfloat16`.

    Raises:
        MexmaError: There is no precision of that name.
    """
    if name not in PRECISIONS:
        raise MexmaError(f"unknown precision {name!r}", ", ".join(PRECISIONS))
    return PRECISIONS[name]


def pick_precision(wanted: str, device: torch.device) -> torch.dtype:
    """The type for `auto`, `float32`, `bfloat16`, `float16` on a device.

    Raises:
        MexmaError: There is no precision of that name.
    """
    if wanted != "auto":
        return precision_of(wanted)
    if multiplies(torch.bfloat16, device):
        return torch.bfloat16
    return torch.float32 if device.type == "cpu" else torch.float16


def multiplies(precision: torch.dtype, device: torch.device) -> bool:
    """Whether a device has instructions that multiply such numbers; else they are emulated, and slow."""
    if precision == torch.float32:
        return True
    if device.type != "cpu":
        return precision == torch.float16 or torch.cuda.is_bf16_supported(including_emulation=False)
    if precision == torch.bfloat16:
        return computes_bf16()
    return computes_fp16()


def pick_device(wanted: str) -> torch.device:
    """The device for `auto`, `cpu`, `cuda`, `cuda:N`.

    Raises:
        MexmaError: The name is unknown, or this machine has no such device.
    """
    if wanted == "auto":
        wanted = default_device()
    if wanted == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device: torch.device | None = torch.device(wanted)
    except RuntimeError:
        device = None
    if device is None or device.type not in ("cpu", "cuda"):
        raise MexmaError(f"unknown device {wanted!r}", "auto, cpu, cuda or cuda:N")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise MexmaError(
            f"no device {wanted!r} on this machine ({torch.cuda.device_count()} CUDA devices)",
            "use --device cpu",
        )
    return device
