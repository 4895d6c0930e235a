"""What a processor needs to train at its speed, seen from outside."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest
import torch

from mexma_cli.training.processor import denormals_flushed

SIZE = 1 << 28


def held_after_freeing(first: str) -> int:
    """Bytes of SIZE that a process still holds when it has freed them, in parts of an activation's size."""
    program = f"""
import resource
import torch
from mexma_cli.training.processor import keep_memory
def held():
    return int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize()
torch.ones(1)
{first}
before = held()
parts = [torch.ones({SIZE} // 16 // 4) for _ in range(16)]
assert held() - before > 0.9 * {SIZE}
del parts
print(held() - before)
"""
    return int(subprocess.check_output([sys.executable, "-c", program], text=True))


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="mallopt is glibc's")
def test_freed_memory_stays_with_the_process() -> None:
    assert held_after_freeing("") < 0.2 * SIZE
    assert held_after_freeing("keep_memory()") > 0.9 * SIZE


def test_denormals_are_flushed_inside_only() -> None:
    tiny = torch.tensor([1e-40])
    with denormals_flushed():
        assert (tiny * 1).item() == 0
    assert (tiny * 1).item() > 0
