"""The first token's attention against transformers' eager weights, and its entropy against scipy's."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModel, BertConfig, BertModel

from mexma_cli.encoder.encoder import SentenceEncoder
from mexma_cli.encoder.model.attention import use_packed_attention
from mexma_cli.encoder.model.packing import pack
from mexma_cli.encoder.model.transformer import first_position
from mexma_cli.evaluation.attention import (
    AttentionRow,
    attention_rows,
    draw_attention,
    entropy,
    first_rows,
    mean_entropies,
)


def test_rows_are_transformers_eager_weights(tiny_encoder: Path, sentences: dict[str, list[str]]) -> None:
    encoder = SentenceEncoder.load(str(tiny_encoder), dtype="float32")
    before = encoder.embed(sentences["eng"])
    model = AutoModel.from_pretrained(tiny_encoder, attn_implementation="eager").eval()
    lines = [*sentences["eng"], "", "a"]
    rows = list(attention_rows(encoder, lines))
    assert sorted(row.line for row in rows) == list(range(10))
    for row in rows:
        ids = torch.from_numpy(encoder.tokenize([lines[row.line]])[0])[None]
        with torch.inference_mode():
            expected = model(ids, output_attentions=True).attentions[-1][0, :, 0].numpy()
        assert row.weights == pytest.approx(expected, abs=1e-6)
        assert row.tokens[0] == "<s>" and row.tokens[-1] == "</s>" and len(row.tokens) == ids.shape[1]
    assert np.array_equal(encoder.embed(sentences["eng"]), before)  # the model attends as it did


def test_another_family() -> None:
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=50, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32
    )
    model = BertModel(config, add_pooling_layer=False).eval()
    ids = [np.array([2, 7, 8, 9, 3]), np.array([2, 11, 3])]
    model.set_attn_implementation("eager")
    with torch.inference_mode():
        expected = [
            model(torch.from_numpy(one)[None], output_attentions=True).attentions[-1][0, :, 0].numpy()
            for one in ids
        ]
    use_packed_attention(model)
    for found, wanted in zip(first_rows(model, pack(ids, first_position(model))), expected, strict=True):
        assert found == pytest.approx(wanted, abs=1e-6)


def test_entropy_is_scipys() -> None:
    stats = pytest.importorskip("scipy.stats")
    weights = np.random.default_rng(0).dirichlet(np.ones(7), size=4)
    assert entropy(weights) == pytest.approx(stats.entropy(weights, axis=1))
    assert entropy(np.array([1.0, 0.0])) == 0.0


def test_means_with_and_without_the_ends() -> None:
    weights = np.array([[0.5, 0.25, 0.25, 0.0], [0.0, 0.5, 0.0, 0.5]])
    rows = [AttentionRow(0, ("<s>", "a", "b", "</s>"), weights), AttentionRow(1, ("<s>", "</s>"), weights)]
    assert mean_entropies(iter(rows)) == {
        "sentences": 1,
        "entropy": pytest.approx((1.5 * np.log(2) + np.log(2)) / 2),
        "without <s> </s>": pytest.approx(np.log(2) / 2),  # 1/2 1/2, and 1 0
        "of mean": pytest.approx(entropy(weights.mean(axis=0))),
        "of mean without <s> </s>": pytest.approx(entropy(np.array([0.75, 0.25]))),
    }
    assert mean_entropies(iter([])) == {}


def test_the_picture(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="needs the extra plot")
    weights = np.full((3, 4), 0.25)
    rows = [
        AttentionRow(0, ("<s>", "▁nine", "teen", "</s>"), weights),
        AttentionRow(1, ("<s>", "▁ኣ", "▁$$", "</s>"), weights),
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        draw_attention(tmp_path / "a.svg", rows, "tiny $\\x$")
    picture = (tmp_path / "a.svg").read_text(encoding="utf-8")
    assert picture.count("teen") >= 2  # a comment beside each drawn word: under the bars and under the heads
    assert "$$" in picture  # no formula, nor is the title
    draw_attention(tmp_path / "a.png", rows[:1], "tiny")
    assert (tmp_path / "a.png").stat().st_size > 5000
