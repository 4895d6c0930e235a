"""What a processor can tell of embedding on a GPU: shapes, types, one device, nothing that waits.

`meta` stands for the GPU: tensors without numbers, on which torch refuses operations between two devices and
whatever has to look at a number. (A torch without CUDA refuses to index tensors that claim to be of `cuda`.)
Training and searching are tested with numbers in test_pretended.py.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensorMode

from mexma_cli.encoder.encoder import SentenceEncoder
from mexma_cli.encoder.model.attention import Backend, run_packed
from mexma_cli.encoder.model.packing import PackedBatch, pack
from mexma_cli.encoder.model.pooling import pool

STAND_IN = "meta"
LENGTHS = [1, 2, 2, 7, 30, 30, 60]


def gpu() -> FakeTensorMode:
    return FakeTensorMode(allow_non_fake_inputs=True)


def batch() -> PackedBatch:
    return pack([np.arange(5, 5 + length) for length in LENGTHS], 2)


def test_two_devices_and_waiting_are_noticed() -> None:
    with gpu():
        there = torch.ones(3, device=STAND_IN)
        with pytest.raises(RuntimeError, match="at least two devices"):
            there + torch.ones(3)
        with pytest.raises(DataDependentOutputException):
            there.sum().item()


@pytest.mark.parametrize(
    ("backend", "dtype"),
    [("bucketed", torch.float32), ("varlen", torch.bfloat16), ("varlen", torch.float16)],
    ids=str,
)
def test_packed_sentences_are_embedded_without_waiting(
    backend: Backend, dtype: torch.dtype, tiny_encoder: Path
) -> None:
    encoder = SentenceEncoder.load(str(tiny_encoder), "cpu")
    model, width = encoder.model.to(dtype).to(STAND_IN), encoder.dim
    with gpu(), torch.inference_mode():
        there = batch().to(STAND_IN)
        states = run_packed(model, there, backend)
        assert states.shape == (sum(LENGTHS), width)
        assert states.dtype == dtype and states.device.type == STAND_IN
        for pooling in ("cls", "mean", "max", "weightedmean", "lasttoken"):
            pooled = encoder.modules.to(STAND_IN)(pool(states.float(), there, pooling))
            assert pooled.shape == (len(LENGTHS), width) and pooled.device.type == STAND_IN


class Step(torch.nn.Module):
    def __init__(self, encoder: SentenceEncoder) -> None:
        super().__init__()
        self.model = encoder.model

    def forward(self, ids: torch.Tensor, positions: torch.Tensor, cu_seqlens: torch.Tensor) -> torch.Tensor:
        packed = PackedBatch(ids, positions, cu_seqlens, tuple(LENGTHS))
        return pool(run_packed(self.model, packed, "varlen").float(), packed, "mean")


@pytest.mark.slow
def test_the_packed_step_can_be_exported(tiny_encoder: Path) -> None:
    step = Step(SentenceEncoder.load(str(tiny_encoder), "cpu")).to(torch.bfloat16).to(STAND_IN).eval()
    there = batch().to(STAND_IN)
    program = torch.export.export(step, (there.input_ids, there.position_ids, there.cu_seqlens))
    names = {str(node.target) for node in program.graph.nodes}
    assert any("varlen" in name for name in names)
