"""On CUDA: the same neighbours, to the last bit, as on the processor; and faiss's indexes there."""

from __future__ import annotations

import logging

import faiss
import numpy as np
import pytest
import torch

from mexma_cli.knn import choice
from mexma_cli.knn.approximate import ann
from mexma_cli.knn.exact import knn
from mexma_cli.knn.products import Float32
from mexma_cli.settings.stages import SearchSettings
from tests.knn.searching import same, with_product

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]


def sides(rows: int, dim: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    topics = rng.standard_normal((rows // 50, dim), dtype=np.float32)
    x, y = (topics[rng.integers(0, len(topics), rows)] + 1 for _ in range(2))
    for side in (x, y):
        side += rng.standard_normal((rows, dim), dtype=np.float32)
    half = rows // 2
    y[:half] = x[:half] + np.float32(0.8) * rng.standard_normal((half, dim), dtype=np.float32)
    return x, y


@pytest.mark.parametrize(("rows", "dim", "k"), [(9000, 1024, 16), (20_000, 256, 4), (20_000, 33, 1)])
def test_finds_what_a_processor_finds(
    rows: int, dim: int, k: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(choice, "_PROBE_FROM", 0)
    x, y = sides(rows, dim)
    with caplog.at_level(logging.INFO):
        found = knn(x, y, k)
    assert f"searching on {torch.cuda.get_device_name()}" in caplog.text
    with_product(monkeypatch, Float32)
    assert same(found, knn(x, y, k))


@pytest.mark.skipif(faiss.get_num_gpus() == 0, reason="needs a faiss that has GPU indexes")
@pytest.mark.parametrize("index", ["IVF256,SQ8", "IVF256,PQ32x4fs"])
def test_faiss_finds_as_much_there(index: str) -> None:
    """faiss has no 4-bit codes on a GPU: those are searched on the processor."""
    found = ann(*sides(30_000, 128), 8, SearchSettings(index=index, recall=0.9))
    assert found.recall > 0.88
