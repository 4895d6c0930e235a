"""Which precision a device computes fast."""

from __future__ import annotations

import pytest
import torch

from mexma_cli.numerics import devices
from mexma_cli.numerics.devices import multiplies, pick_precision


@pytest.mark.parametrize(
    ("device", "native", "picked"),
    [
        ("cpu", True, torch.bfloat16),
        ("cpu", False, torch.float32),
        ("cuda", True, torch.bfloat16),
        ("cuda", False, torch.float16),
    ],
)
def test_auto_emulates_nothing(
    device: str, native: bool, picked: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(devices, "computes_bf16", lambda: native)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: native)
    where = torch.device(device)
    assert pick_precision("auto", where) == picked
    assert multiplies(picked, where) and multiplies(torch.float32, where)
    assert multiplies(torch.bfloat16, where) is native
