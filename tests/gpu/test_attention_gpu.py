"""On CUDA: every backend gives what bucketed attention gives, forward and backward."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from mexma_cli.encoder.encoder import SentenceEncoder
from mexma_cli.encoder.model.attention import Backend, choose_backend, run_packed
from mexma_cli.encoder.model.packing import pack
from mexma_cli.errors import MexmaError

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]

LENGTHS = [1, 2, 2, 7, 30, 30, 60]
TOLERANCES = {torch.float32: 2e-5, torch.bfloat16: 3e-2, torch.float16: 4e-3}


def available(backend: Backend) -> Backend:
    try:
        return choose_backend(backend, "cuda")
    except MexmaError as error:  # xformers is not there, or was built for another torch
        pytest.skip(error.message)


def states_and_gradient(
    encoder: SentenceEncoder, backend: Backend, dtype: torch.dtype
) -> tuple[torch.Tensor, torch.Tensor]:
    rng = np.random.default_rng(0)
    size = encoder.model.config.vocab_size
    batch = pack([rng.integers(5, size, length) for length in LENGTHS], 2).to("cuda")
    encoder.model.zero_grad()
    with torch.autocast("cuda", dtype, enabled=dtype != torch.float32):
        states = run_packed(encoder.model, batch, backend).float()
    torch.manual_seed(0)
    (states * torch.randn(states.shape).cuda()).sum().backward()
    gradient = encoder.model.get_input_embeddings().weight.grad
    assert gradient is not None
    return states.detach(), gradient.clone()


@pytest.mark.parametrize("dtype", list(TOLERANCES), ids=str)
@pytest.mark.parametrize("backend", ["varlen", "xformers"])
def test_backends_agree(backend: Backend, dtype: torch.dtype, tiny_encoder: Path) -> None:
    encoder = SentenceEncoder.load(str(tiny_encoder), "cuda")
    tolerance = TOLERANCES[dtype]
    expected, slope = states_and_gradient(encoder, "bucketed", dtype)
    states, gradient = states_and_gradient(encoder, available(backend), dtype)
    assert (states - expected).abs().max() < tolerance * expected.abs().max()
    assert (gradient - slope).abs().max() < tolerance * slope.abs().max()


@pytest.mark.parametrize("attention", ["auto", "bucketed", "varlen", "xformers"])
def test_cuda_embeds_what_a_processor_embeds(
    attention: Backend, tiny_encoder: Path, sentences: dict[str, list[str]]
) -> None:
    if attention == "xformers":
        available(attention)
    texts = [*sentences["fra"], "", *sentences["eng"]]
    expected = SentenceEncoder.load(str(tiny_encoder), "cpu").embed(texts)
    encoder = SentenceEncoder.load(str(tiny_encoder), "cuda")
    encoder.backend = choose_backend(attention, "cuda")
    assert np.abs(encoder.embed(texts) - expected).max() < 1e-3
