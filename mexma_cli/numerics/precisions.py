"""Precisions and devices by the names that users type; without torch, so that help is quick."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

SHORT_NAMES = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}

# Not a parameter: six functions from `mine` to `knn.choice.choose_product` would take it.
_device = "auto"


def default_device() -> str:
    """The device that `auto` stands for: the name that `computing_on` was given, or `auto` itself."""
    return _device


@contextmanager
def computing_on(name: str) -> Iterator[None]:
    """Let `auto` mean this device while the block runs, for encoders and for searches of neighbours."""
    global _device
    before, _device = _device, name
    try:
        yield
    finally:
        _device = before
