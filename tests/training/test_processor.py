"""What a processor needs to train at its speed, seen from outside."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest
import torch

from mexma_cli.training.processor import denormals_flushed
from tests.examples import tiny_recipe
from tests.processes import Program

SIZE = 1 << 27
HELD = """
import resource
import torch
from mexma_cli.training.processor import KeptMemory
def held():
    return int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize()
torch.ones(1)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="mallopt is glibc's")
def test_freed_memory_stays_with_the_process() -> None:
    """In parts of an activation's size; without `KeptMemory` the system has it again."""
    program = f"""{HELD}
def still_held():
    before = held()
    parts = [torch.ones({SIZE} // 16 // 4) for _ in range(16)]
    assert held() - before > 0.9 * {SIZE}
    del parts
    return held() - before
assert still_held() < 0.2 * {SIZE}
KeptMemory()
assert still_held() > 0.9 * {SIZE}
"""
    process = Program(program)
    assert process.wait() == 0, process.communicate()


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="mallopt is glibc's")
def test_what_is_kept_does_not_grow_beyond_what_a_step_needs() -> None:
    """Nor does a step that takes four times as much leave all of that behind; but needs may become more."""
    program = f"""{HELD}
def take(memory, tensors):
    parts = [torch.ones({SIZE} // 4 // 4) for _ in range(tensors)]
    del parts
    memory.bound()
before = held()
for steps in ((4, 4, 4, 16, 4, 4), (16, 4, 4), (4, 16, 4)):
    memory = KeptMemory()
    for tensors in steps:
        take(memory, tensors)
        assert held() < 1.35 * (before + {SIZE}), (steps, tensors, held() - before)
for _ in range(3):
    take(memory, 16)
assert held() > before + 3.6 * {SIZE}, held() - before
"""
    process = Program(program)
    assert process.wait() == 0, process.communicate()


def test_denormals_are_flushed_inside_only() -> None:
    tiny = torch.tensor([1e-40])
    with denormals_flushed():
        assert (tiny * 1).item() == 0
    assert (tiny * 1).item() > 0


def test_all_threads_of_a_training_command_flush_them(
    sentences: dict[str, list[str]], tmp_path: Path
) -> None:
    """Threads keep what they were started with, so the command has to be first."""
    trainer = {"batch_pairs": 4, "steps": 1, "warmup": 0, "device": "cpu"}
    keys = {"trainer": trainer, "phases": [{"name": "one", "objective": {"name": "contrastive"}}]}
    program = """
import sys, torch
torch.set_num_threads(2)
import mexma_cli.stages.train.train as stage
from mexma_cli.main import cli
def prepare(*_):
    assert torch.get_num_threads() == 2
    print(int((torch.full((1 << 22,), 1e-40) * 1 == 0).sum()) - (1 << 22))
    sys.exit(0)
stage.prepare = prepare
cli(["train", sys.argv[1]])
"""
    process = Program(program, tiny_recipe(tmp_path, sentences, keys))
    stdout, stderr = process.communicate()
    assert stdout == "0\n", stderr
