"""One-layer encoders as sums over tokens: the states of the transformer itself."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from transformers import XLMRobertaConfig, XLMRobertaModel

from mexma_cli.encoder.encoder import SentenceEncoder
from mexma_cli.encoder.model.bag import BagOfEmbeddings
from mexma_cli.encoder.model.engine import Engine
from mexma_cli.encoder.model.packing import pack
from mexma_cli.encoder.model.transformer import Sentences, Transformer
from tests.examples import demo_pairs

WORDS = "embeddings.word_embeddings.weight"


@pytest.fixture(scope="module")
def mini() -> SentenceEncoder:
    return SentenceEncoder.load("mini", "cpu")


def one_layer(activation: str = "gelu") -> XLMRobertaModel:
    """Any weights, but for its positions, which are all the same."""
    config = XLMRobertaConfig(
        vocab_size=50,
        hidden_size=24,
        num_hidden_layers=1,
        num_attention_heads=3,
        intermediate_size=40,
        max_position_embeddings=40,
        hidden_act=activation,
        initializer_range=0.5,
    )
    torch.manual_seed(0)
    model = XLMRobertaModel(config, add_pooling_layer=False).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.1)
        positions = model.embeddings.position_embeddings.weight
        positions.copy_(positions[5].clone().expand_as(positions))
    return model


@pytest.mark.parametrize("activation", ["gelu", "gelu_new", "relu"])
def test_its_states_are_those_of_the_transformer(activation: str) -> None:
    transformer = Transformer(one_layer(activation))
    assert transformer.is_bag("cls")
    rng = np.random.default_rng(0)
    tokens = [np.array([0, *rng.integers(3, 53, size)]) for size in (0, 1, 2, 7, 30, 2)]
    extra = rng.standard_normal((3, 24)).astype(np.float32)
    ((_, found),) = BagOfEmbeddings(transformer, 0).embed(Sentences([], tokens, extra))
    batch = pack(tokens, transformer.first_position, extra)
    expected = Engine(transformer, torch.float32).hidden(batch, first_only=True).numpy()
    np.testing.assert_allclose(found, expected, atol=2e-5)


def test_which_transformers_are_bags() -> None:
    model = one_layer()
    transformer = Transformer(model)
    with torch.no_grad():
        model.embeddings.position_embeddings.weight[7, 3] += 1e-3
    assert not transformer.is_bag("cls") and transformer.is_bag("cls", tolerance=0.01)
    assert not Transformer(one_layer()).is_bag("mean")
    assert not Transformer(one_layer("silu")).is_bag("cls")
    assert not Transformer(one_layer().to(torch.bfloat16)).is_bag("cls")


@pytest.fixture
def changed_back(mini: SentenceEncoder) -> Iterator[torch.Tensor]:
    words = mini.transformer.weights[WORDS]
    before = words.clone()
    yield words
    words.copy_(before)


def test_a_sentence_has_the_same_bits_in_every_batch(
    mini: SentenceEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = [side for pair in demo_pairs(40) for side in pair.split("\t")]
    found = mini.embed(texts)
    monkeypatch.setattr("mexma_cli.encoder.encoder.SENTENCES_PER_BUFFER", 7)
    assert np.array_equal(mini.embed(texts[::-1])[::-1], found)


def test_what_is_kept_does_not_show(mini: SentenceEncoder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there is room for the tokens and words of a few sentences, and ids of words come again."""
    texts = [side for pair in demo_pairs(40) for side in pair.split("\t")]
    found = mini.embed(texts)
    for name, size in (
        ("model.bag._KEPT", 64),
        ("model.bag._TOKENS", 32),
        ("ngrams._KEPT", 4),
        ("loading.tokenizer._WORDS", 8),
    ):
        monkeypatch.setattr(f"mexma_cli.encoder.{name}", size)
    monkeypatch.setattr("mexma_cli.encoder.encoder._LETTERS_PER_BUFFER", 300)
    fresh = SentenceEncoder.load("mini", "cpu")
    for order in (1, -1, 1):
        assert np.array_equal(fresh.embed(texts[::order])[::order], found)
    assert fresh.embed([]).shape == (0, fresh.dim)


def test_it_computes_with_the_weights_as_they_are_now(
    mini: SentenceEncoder, changed_back: torch.Tensor
) -> None:
    """Read, as torch's tensors, changed, and in transformers' model."""
    before = mini.embed(["Where is it?"])
    token = mini.tokenize(["it"])[0][1]
    changed_back[token] *= -1
    changed = mini.embed(["Where is it?"])
    assert not np.allclose(changed, before)
    changed_back[token] *= -1
    assert np.array_equal(mini.embed(["Where is it?"]), before)
    assert mini.model is not None and np.array_equal(mini.embed(["Where is it?"]), before)


def test_minis_precision_is_float32_unless_another_is_asked_for(mini: SentenceEncoder) -> None:
    assert SentenceEncoder.load("mini", "cpu", "auto").precision == mini.precision == "float32"
    low = SentenceEncoder.load("mini", "cpu", "bfloat16")
    assert low.precision == "bfloat16"
    found, exact = (one.embed(["Where is the station?"]) for one in (low, mini))
    assert 0 < np.abs(found - exact).max() < 0.2
