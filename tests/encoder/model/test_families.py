"""Families that are not BERT, and poolings: sentence-transformers' vectors of small random encoders."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
import torch
from transformers import (
    DistilBertConfig,
    DistilBertModel,
    ModernBertConfig,
    ModernBertModel,
    MPNetConfig,
    MPNetModel,
)

from mexma_cli.encoder.encoder import SentenceEncoder
from mexma_cli.encoder.model.families import POOLING_KEYS, Pooling
from mexma_cli.errors import MexmaError
from mexma_cli.evaluation.attention import attention_rows
from tests.encoder.conftest import SHAPE, WIDTH, bert, modules_json, pieces, word_pieces, write


def distilbert(folder: Path, texts: list[str]) -> None:
    torch.manual_seed(3)
    shape: dict[str, Any] = {"dim": WIDTH, "n_layers": 2, "n_heads": 4, "hidden_dim": 64}
    size = word_pieces(folder, texts)
    config = DistilBertConfig(vocab_size=size, initializer_range=0.3, pad_token_id=0, **shape)
    DistilBertModel(config).save_pretrained(folder)


def modernbert(folder: Path, texts: list[str]) -> None:
    """Whose even layers attend to the neighbourhood of a token alone: 6 tokens on either side."""
    torch.manual_seed(4)
    size = word_pieces(folder, texts)
    ids = {"pad_token_id": 0, "cls_token_id": 2, "sep_token_id": 3, "bos_token_id": 2, "eos_token_id": 3}
    config = ModernBertConfig(
        vocab_size=size,
        max_position_embeddings=512,
        local_attention=12,
        **{**SHAPE, "num_hidden_layers": 4},
        **ids,
    )
    ModernBertModel(config).save_pretrained(folder)


def mpnet(folder: Path, texts: list[str]) -> None:
    """Whose attention has biases for distances of tokens, here strong ones."""
    torch.manual_seed(5)
    ids = {"bos_token_id": 0, "pad_token_id": 1, "eos_token_id": 2}
    config = MPNetConfig(vocab_size=pieces(folder, texts), max_position_embeddings=514, **SHAPE, **ids)
    model = MPNetModel(config)
    with torch.no_grad():
        model.encoder.relative_attention_bias.weight.normal_(std=2)
    model.save_pretrained(folder)


MADE = {"distilbert": distilbert, "modernbert": modernbert, "mpnet": mpnet, "bert": bert}


@pytest.mark.parametrize("pooling", list(POOLING_KEYS))
@pytest.mark.parametrize("family", list(MADE))
def test_vectors_are_those_of_sentence_transformers(
    family: str, pooling: Pooling, texts: list[str], tmp_path: Path
) -> None:
    library = pytest.importorskip("sentence_transformers")
    folder = tmp_path / "published"
    folder.mkdir()
    MADE[family](folder, texts)
    modules_json(folder, "Transformer", "Pooling")
    modes = {f"pooling_mode_{key}": name == pooling for name, key in POOLING_KEYS.items()}
    write(folder / "1_Pooling" / "config.json", {"word_embedding_dimension": WIDTH} | modes)
    write(folder / "sentence_bert_config.json", {"max_seq_length": 128})
    theirs = library.SentenceTransformer(str(folder), device="cpu").encode(texts)
    encoder = SentenceEncoder.load(str(folder), "cpu")
    assert encoder.pooling == pooling
    np.testing.assert_allclose(encoder.embed(texts), theirs, atol=2e-5)
    encoder.save(tmp_path / "saved")
    again = SentenceEncoder.load(str(tmp_path / "saved"), "cpu")
    assert again.fingerprint == encoder.fingerprint
    np.testing.assert_allclose(again.embed(texts), theirs, atol=2e-5)
    saved = library.SentenceTransformer(str(tmp_path / "saved"), device="cpu").encode(texts)
    np.testing.assert_allclose(saved, theirs, atol=2e-5)


@pytest.mark.parametrize("family", ["distilbert", "modernbert", "mpnet"])
def test_bfloat16_computes_in_bfloat16(family: str, texts: list[str], tmp_path: Path) -> None:
    MADE[family](tmp_path, texts)
    exact, near = (SentenceEncoder.load(str(tmp_path), "cpu", dtype) for dtype in ("float32", "bfloat16"))
    assert near.precision == "bfloat16" and near.model.dtype == torch.float32
    found = torch.cosine_similarity(*(torch.from_numpy(one.embed(texts)) for one in (exact, near)))
    assert 0.99 < found.min() < 1 - 1e-6


@pytest.mark.parametrize("family", ["distilbert", "modernbert"])
def test_there_is_no_pooler(family: str, texts: list[str], tmp_path: Path) -> None:
    MADE[family](tmp_path, texts)
    with pytest.raises(MexmaError, match="has no pooler weights"):
        SentenceEncoder.load(str(tmp_path), "cpu", pooling="pooler")


def test_what_takes_no_packed_sentences_only_embeds(texts: list[str], tmp_path: Path) -> None:
    mpnet(tmp_path, texts)
    encoder = SentenceEncoder.load(str(tmp_path), "cpu")
    with pytest.raises(MexmaError, match="needs a model that takes packed sentences, and this mpnet only em"):
        next(attention_rows(encoder, ["Oui"]))


def test_every_pooling_but_the_pooler_is_sentence_transformers() -> None:
    assert set(get_args(Pooling)) == {*POOLING_KEYS, "pooler"}


def test_what_attends_by_code_of_its_own_is_refused_by_name(texts: list[str], tmp_path: Path) -> None:
    bert(tmp_path, texts)
    for kind in ("t5", "deberta-v2"):  # positions of pairs of tokens are in the attention's scores
        content = {"model_type": kind, "hidden_size": WIDTH}
        write(tmp_path / "config.json", content)
        with pytest.raises(MexmaError, match=f"the model type '{kind}' is not supported"):
            SentenceEncoder.load(str(tmp_path), "cpu")
