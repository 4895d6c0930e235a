"""The processor's engine gives what the padded model gives, in float32 and nearly in bfloat16."""

from __future__ import annotations

import copy
import itertools
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import BertConfig, BertModel, PreTrainedModel, RobertaConfig, RobertaModel

from mexma_cli.encoder.encoder import SentenceEncoder
from mexma_cli.encoder.model import engine as engine_module
from mexma_cli.encoder.model.engine import Engine
from mexma_cli.encoder.model.packing import pack
from mexma_cli.encoder.model.transformer import Transformer, first_position
from mexma_cli.numerics.torch_private import computes_bf16
from mexma_cli.text.lines import read_lines

EXAMPLES = Path(__file__).parents[3] / "examples" / "spa-eng"


def model_of(kind: type[PreTrainedModel], config: type, **changes: object) -> PreTrainedModel:
    shape = {
        "vocab_size": 60,
        "hidden_size": 48,
        "num_hidden_layers": 3,
        "num_attention_heads": 3,
        "intermediate_size": 80,
        "max_position_embeddings": 140,
        "initializer_range": 0.3,
    }
    torch.manual_seed(0)
    return kind(config(**shape | changes), add_pooling_layer=False).eval()  # type: ignore[call-arg]


MODELS = {
    "bert": model_of(BertModel, BertConfig),
    "roberta": model_of(RobertaModel, RobertaConfig, type_vocab_size=1, layer_norm_eps=1e-5),
    "relu": model_of(BertModel, BertConfig, hidden_act="relu"),
    "gelu_new": model_of(RobertaModel, RobertaConfig, hidden_act="gelu_new"),
}


def lazy(model: PreTrainedModel) -> Transformer:
    """Of a copy: the model itself attends in its own way, to be compared with."""
    return Transformer(copy.deepcopy(model))


def padded(model: PreTrainedModel, sentences: list[np.ndarray]) -> torch.Tensor:
    """Last hidden states [T, D] of the model alone, each sentence by itself."""
    with torch.no_grad():
        states = [model(input_ids=torch.from_numpy(ids)[None]).last_hidden_state[0] for ids in sentences]
    return torch.cat(states)


def sentences_of(lengths: list[int]) -> list[np.ndarray]:
    rng = np.random.default_rng(len(lengths))
    return [rng.integers(5, 60, length) for length in lengths]


@pytest.mark.parametrize(
    "kind",
    ["bert", "gelu_new", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("roberta", "relu"))],
)
@settings(max_examples=15)
@given(lengths=st.lists(st.integers(1, 130), min_size=1, max_size=6))
def test_float32_is_the_models_own(kind: str, lengths: list[int]) -> None:
    model, sentences = MODELS[kind], sentences_of(lengths)
    batch = pack(sentences, first_position(model))
    engine = Engine(lazy(model), torch.float32)
    hidden, expected = engine.hidden(batch, first_only=False), padded(model, sentences)
    assert hidden.dtype == torch.float32
    assert (hidden - expected).abs().max() < 3e-5  # of values up to 4: sums are in another order
    first = engine.hidden(batch, first_only=True)
    assert (first - expected[batch.cu_seqlens[:-1].long()]).abs().max() < 3e-5


def test_what_it_does_not_compute() -> None:
    """Another activation, weights of another type, or code of a folder's own: the model runs as it is."""

    class Own(BertModel):
        pass

    assert Transformer(model_of(BertModel, BertConfig)).fits_engine
    assert not Transformer(model_of(BertModel, BertConfig, hidden_act="silu")).fits_engine
    assert not Transformer(model_of(BertModel, BertConfig, num_hidden_layers=0)).fits_engine
    assert not Transformer(model_of(BertModel, BertConfig).half()).fits_engine
    assert not Transformer(model_of(Own, BertConfig)).fits_engine


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_without_packed_products(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    model, sentences = MODELS["bert"], sentences_of([3, 3, 70, 12])
    batch = pack(sentences, 0)
    packed = Engine(lazy(model), dtype).hidden(batch, first_only=False)
    monkeypatch.setattr(engine_module, "has_onednn", lambda dtype: False)
    plain = Engine(lazy(model), dtype).hidden(batch, first_only=False)
    assert (plain - packed).abs().max() < (1e-5 if dtype == torch.float32 else 0.1)


@pytest.fixture(scope="module")
def texts() -> list[str]:
    return list(itertools.islice(read_lines(EXAMPLES / "spa.txt"), 400))


def test_bfloat16_on_real_text(texts: list[str]) -> None:
    exact = SentenceEncoder.load("mini", "cpu").embed(texts)
    encoder = SentenceEncoder.load("mini", "cpu", dtype="bfloat16")
    vectors = encoder.embed(texts)
    assert encoder.precision == "bfloat16" and encoder.model.dtype == torch.float32
    cosines = (vectors * exact).sum(1) / np.linalg.norm(vectors, axis=1) / np.linalg.norm(exact, axis=1)
    assert 0.9995 < cosines.min() < 1
    assert not np.array_equal(vectors, exact)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_number_of_threads_changes_no_bit(dtype: str, texts: list[str], two_threads: None) -> None:
    encoder = SentenceEncoder.load("mini", "cpu", dtype=dtype)
    told: list[int] = []
    two = encoder.embed(texts, lambda sentences, tokens: told.append(sentences))
    assert torch.get_num_threads() == 2 and sum(told) == len(texts)
    assert len(told) > 2 or dtype == "float32", "there it is one sum for all"
    torch.set_num_threads(1)
    assert np.array_equal(encoder.embed(texts), two)


def test_an_error_in_the_middle_ends_the_work(texts: list[str], two_threads: None) -> None:
    encoder = SentenceEncoder.load("mini", "cpu")
    with pytest.raises(ZeroDivisionError):
        encoder.embed(texts, lambda sentences, tokens: 1 // 0)
    assert torch.get_num_threads() == 2
    assert encoder.embed(texts[:2]).shape == (2, encoder.dim)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_changed_weights_are_noticed(
    dtype: str, tiny_encoder: Path, texts: list[str], tmp_path: Path
) -> None:
    """All of them, and also by an optimiser that leaves their versions as they are."""
    encoder = SentenceEncoder.load(str(tiny_encoder), "cpu", dtype)
    encoder.model.train()
    before = encoder.embed(texts[:5])
    optimiser = torch.optim.AdamW(encoder.model.parameters(), lr=0.1, fused=True)
    encoder.model(input_ids=torch.tensor([[0, 7, 8, 2]]), **one_sentence(4)).last_hidden_state[
        0, 0
    ].sum().backward()
    optimiser.step()
    stepped = encoder.embed(texts[:5])
    assert np.abs(stepped - before).max() > 1e-2
    encoder.save(tmp_path / "stepped")
    np.testing.assert_array_equal(
        stepped, SentenceEncoder.load(str(tmp_path / "stepped"), "cpu", dtype).embed(texts[:5])
    )
    with torch.no_grad():
        for parameter in encoder.model.parameters():
            parameter.copy_(parameter * 0.5)
    assert not np.allclose(encoder.embed(texts[:5]), stepped)


def one_sentence(length: int) -> dict[str, object]:
    return {
        "position_ids": torch.arange(2, 2 + length)[None],
        "packed": ((length,), torch.tensor([0, length], dtype=torch.int32), "bucketed"),
    }


def test_auto_is_bfloat16_where_the_processor_has_it(tiny_encoder: Path) -> None:
    encoder = SentenceEncoder.load(str(tiny_encoder), "cpu", dtype="auto")
    assert encoder.precision == ("bfloat16" if computes_bf16() else "float32")
