"""Packed sentences give what padded ones give, forward and backward, under unmodified models."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoModel, PreTrainedModel

from mexma_cli.encoder.model import attention
from mexma_cli.encoder.model.attention import choose_backend, run_packed, use_packed_attention
from mexma_cli.encoder.model.packing import pack
from mexma_cli.encoder.model.transformer import first_position
from mexma_cli.errors import MexmaError
from tests.encoder.conftest import check_same_gradients, padded_states


@pytest.fixture(scope="module")
def models(tiny_encoder: Path) -> tuple[PreTrainedModel, PreTrainedModel]:
    """The same XLM-R packed and as transformers runs it."""
    packed, padded = (AutoModel.from_pretrained(tiny_encoder, add_pooling_layer=False).eval() for _ in "ab")
    use_packed_attention(packed)
    return packed, padded


def sentences_of(lengths: list[int], seed: int, size: int) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.integers(5, size, length) for length in lengths]


@given(lengths=st.lists(st.integers(1, 60), min_size=1, max_size=8), seed=st.integers(0, 1000))
def test_packed_equals_padded(
    models: tuple[PreTrainedModel, PreTrainedModel], lengths: list[int], seed: int
) -> None:
    packed, padded = models
    sentences = sentences_of(lengths, seed, packed.config.vocab_size)
    with torch.no_grad():
        ours = run_packed(packed, pack(sentences, first_position(packed)), "bucketed")
        theirs = padded_states(padded, sentences)
    assert ours.dtype == torch.float32
    assert (ours - theirs).abs().max() < 1e-5


def test_gradients_equal_those_of_padded(models: tuple[PreTrainedModel, PreTrainedModel]) -> None:
    packed, padded = models
    sentences = sentences_of([1, 7, 7, 3, 60, 2, 2, 1], 3, packed.config.vocab_size)
    check_same_gradients(packed, padded, sentences, noise=10)


def test_embeddings_in_place_of_ids(models: tuple[PreTrainedModel, PreTrainedModel]) -> None:
    model = models[0]
    batch = pack(sentences_of([5, 2], 1, model.config.vocab_size), 2)
    with torch.no_grad():
        words = model.get_input_embeddings()(batch.input_ids)
        by_words, by_ids = run_packed(model, batch, "bucketed", words), run_packed(model, batch, "bucketed")
    assert torch.equal(by_words, by_ids)


def test_auto_on_a_processor_is_bucketed() -> None:
    assert choose_backend("auto", "cpu") == choose_backend("bucketed", "cpu") == "bucketed"


@pytest.mark.parametrize(
    ("wanted", "message"),
    [("xformers", "needs a CUDA device"), ("varlen", "needs a CUDA device"), ("flash", "unknown attention")],
)
def test_a_backend_that_cannot_run_is_refused(wanted: str, message: str) -> None:
    with pytest.raises(MexmaError, match=message) as caught:
        choose_backend(wanted, "cpu")
    assert caught.value.hint


def install_xformers(monkeypatch: pytest.MonkeyPatch, built_for_this_torch: bool) -> None:
    """In name only: where its library does not load, the real one refuses all tensors in this way."""

    def memory_efficient_attention(*_: torch.Tensor) -> None:
        if not built_for_this_torch:
            raise NotImplementedError("No operator found: xFormers wasn't build with CUDA support")

    module, zeros = ModuleType("xformers.ops"), torch.zeros
    module.memory_efficient_attention = memory_efficient_attention  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "xformers", ModuleType("xformers"))
    monkeypatch.setitem(sys.modules, "xformers.ops", module)
    monkeypatch.setattr(torch, "zeros", lambda *shape, dtype, device: zeros(*shape, dtype=dtype))
    attention._xformers_runs.cache_clear()


@pytest.fixture
def no_xformers(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("xformers", "xformers.ops"):
        monkeypatch.setitem(sys.modules, name, None)


@pytest.mark.parametrize(
    ("capability", "dropout", "expected"),
    [((8, 0), 0.0, "varlen"), ((9, 0), 0.0, "varlen"), ((9, 0), 0.1, "xformers"), ((7, 5), 0.0, "xformers")],
)
def test_auto_on_a_gpu_is_what_runs_there(
    monkeypatch: pytest.MonkeyPatch, capability: tuple[int, int], dropout: float, expected: str
) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: capability)
    install_xformers(monkeypatch, built_for_this_torch=True)
    assert choose_backend("auto", "cuda", dropout) == expected


@pytest.mark.parametrize(("capability", "dropout"), [((7, 5), 0.0), ((9, 0), 0.1)])
def test_auto_without_xformers_is_bucketed(
    monkeypatch: pytest.MonkeyPatch, no_xformers: None, capability: tuple[int, int], dropout: float
) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: capability)
    assert choose_backend("auto", "cuda", dropout) == "bucketed"


def test_xformers_of_another_torch_does_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (7, 5))
    install_xformers(monkeypatch, built_for_this_torch=False)
    assert choose_backend("auto", "cuda") == "bucketed"
    with pytest.raises(MexmaError, match="does not run with this torch") as caught:
        choose_backend("xformers", "cuda")
    assert caught.value.hint is not None and "xformers.info" in caught.value.hint


def test_varlen_with_dropout_is_refused_before_the_first_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (9, 0))
    with pytest.raises(MexmaError, match="has no dropout"):
        choose_backend("varlen", "cuda", 0.1)


def test_an_old_gpu_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (7, 5))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _: "Tesla T4")
    with pytest.raises(MexmaError, match=r"Ampere.*Tesla T4"):
        choose_backend("varlen", "cuda")


def test_xformers_absent_names_the_extra(no_xformers: None) -> None:
    with pytest.raises(MexmaError, match="not installed") as caught:
        choose_backend("xformers", "cuda")
    assert caught.value.hint is not None and "pip install 'xformers>=" in caught.value.hint
