"""Families that are not BERT, and poolings: sentence-transformers' vectors of small random encoders."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
import torch
import transformers
from tokenizers import Tokenizer, models, pre_tokenizers, processors, trainers
from transformers import (
    AlbertConfig,
    DistilBertConfig,
    DistilBertModel,
    ModernBertConfig,
    ModernBertModel,
    MPNetConfig,
    MPNetModel,
)

from mexma_cli.encoder.encoder import SentenceEncoder
from mexma_cli.encoder.model.families import _PACKED, POOLING_KEYS, Pooling
from mexma_cli.encoder.model.hugging_face import _check_size, config_of
from mexma_cli.errors import MexmaError
from mexma_cli.evaluation.attention import attention_rows
from tests.encoder.conftest import (
    LONG,
    SHAPE,
    WIDTH,
    bert,
    modules_json,
    pieces,
    train_pieces,
    word_pieces,
    write,
)


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


@pytest.mark.parametrize(
    ("family", "pooling"),
    [
        pytest.param(family, pooling, marks=() if family == "bert" or pooling == "mean" else pytest.mark.slow)
        for family in MADE
        for pooling in POOLING_KEYS
    ],
)
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


# Those that run as they are, sentences of equal length together.

SIZES = {"max_position_embeddings": 40, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
"""Fewer positions than the folder's `max_seq_length`, which counts where there is no table of positions."""
DECODER: dict[str, Any] = {**SHAPE, **SIZES, "num_key_value_heads": 2, "head_dim": 8}
BERT: dict[str, Any] = {**SHAPE, "max_position_embeddings": 514}
XLM_R: dict[str, Any] = {**BERT, "bos_token_id": 0, "pad_token_id": 1, "eos_token_id": 2}
T5 = {"d_model": WIDTH, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4, "initializer_factor": 3.0}
WINDOWS = {"sliding_window": 16, "layer_types": ["sliding_attention", "full_attention"]}
DISTANCES = {"relative_attention": True, "pos_att_type": ["p2c", "c2p"], "position_buckets": 16}
NARROW = {**BERT, "embedding_size": 16}
OTHERS: dict[str, tuple[str, str, Pooling, dict[str, Any]]] = {
    # class without "Config" and "Model"; tokeniser; pooling; config
    "qwen3": ("Qwen3", "$A <eos>", "lasttoken", DECODER),
    "qwen2": ("Qwen2", "$A <eos>", "lasttoken", DECODER),
    "llama without special tokens": ("Llama", "$A", "mean", DECODER),
    "llama that reads both ways": ("Llama", "<bos> $A <eos>", "mean", {**DECODER, "is_causal": False}),
    "mistral": ("Mistral", "<bos> $A <eos>", "lasttoken", {**DECODER, "sliding_window": 16}),
    "mistral that reads both ways": (
        "Mistral",
        "<bos> $A <eos>",
        "mean",
        {**DECODER, "sliding_window": 16, "is_causal": False},
    ),
    "gemma": ("Gemma", "<bos> $A", "lasttoken", DECODER),
    "gemma2": ("Gemma2", "<bos> $A <eos>", "lasttoken", {**DECODER, **WINDOWS}),
    "gemma3": ("Gemma3Text", "<bos> $A <eos>", "lasttoken", {**DECODER, **WINDOWS}),
    "embeddinggemma": (
        "Gemma3Text",
        "<bos> $A <eos>",
        "mean",
        {**DECODER, **WINDOWS, "use_bidirectional_attention": True},
    ),
    "eurobert": ("EuroBert", "<bos> $A <eos>", "mean", DECODER),
    "t5": ("T5", "spiece.model", "mean", {**SIZES, **T5}),
    "mt5": ("MT5", "$A <eos>", "mean", {**SIZES, **T5}),
    "umt5": ("UMT5", "$A <eos>", "mean", {**SIZES, **T5}),
    "xlm-roberta-xl": ("XLMRobertaXL", "pieces", "mean", XLM_R),
    "jina-embeddings-v3": ("JinaEmbeddingsV3", "pieces", "mean", {**XLM_R, "type_vocab_size": 1}),
    "deberta": ("DebertaV2", "word pieces", "mean", {**BERT, **DISTANCES, "share_att_key": True}),
    "nomic": ("NomicBert", "word pieces", "mean", {**BERT, "pad_token_id": 0}),
    "gte": ("Gte", "word pieces", "cls", {**BERT, "pad_token_id": 0}),
    "albert": ("Albert", "word pieces", "mean", NARROW),
    "electra": ("Electra", "word pieces", "cls", NARROW),
    "ernie": ("Ernie", "word pieces", "cls", BERT),
    "roformer": ("RoFormer", "word pieces", "mean", NARROW),
    "rembert": ("RemBert", "word pieces", "mean", {**BERT, "input_embedding_size": 16}),
}
OFTEN = ("qwen3", "llama without special tokens", "embeddinggemma", "t5", "deberta", "jina-embeddings-v3")
"""Those that are tried in every run of the tests; the others with `-m slow`."""


def of_bytes(folder: Path, texts: list[str], template: str) -> int:
    """A decoder's or T5's tokeniser: byte pairs, and special tokens as the template has them."""
    special = ["<pad>", "<bos>", "<eos>", "<|endoftext|>"]
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    letters = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=400, special_tokens=special, initial_alphabet=letters)
    tokenizer.train_from_iterator(texts, trainer)
    if template != "$A":
        ids = [(name, place) for place, name in enumerate(special)]
        tokenizer.post_processor = processors.TemplateProcessing(single=template, special_tokens=ids)
    tokenizer.save(str(folder / "tokenizer.json"))
    names = {"pad_token": "<pad>", "bos_token": "<bos>", "eos_token": "<eos>", "model_max_length": 512}
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "padding_side": "left"}
    write(folder / "tokenizer_config.json", names | settings)
    return tokenizer.get_vocab_size()


def pieces_alone(folder: Path, texts: list[str]) -> int:
    """T5's, as SentencePiece's model and no tokenizer.json."""
    size = train_pieces(folder / "spiece.model", texts, "unigram", 200).get_piece_size()
    names = {"pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>", "extra_ids": 0}
    write(folder / "tokenizer_config.json", names | {"tokenizer_class": "T5Tokenizer"})
    return int(size) + 1


def published_other(name: str, folder: Path, texts: list[str]) -> Pooling:
    """A folder of sentence-transformers; its pooling."""
    kind, tokenizer, pooling, shape = OTHERS[name]
    makers = {"pieces": pieces, "word pieces": word_pieces, "spiece.model": pieces_alone}
    size = makers[tokenizer](folder, texts) if tokenizer in makers else of_bytes(folder, texts, tokenizer)
    torch.manual_seed(6)
    config = getattr(transformers, f"{kind}Config")(vocab_size=size, **shape)
    encoder = kind + ("EncoderModel" if kind.endswith("T5") else "Model")
    getattr(transformers, encoder)(config).save_pretrained(folder)
    modules_json(folder, "Transformer", "Pooling", "Normalize")
    modes = {f"pooling_mode_{key}": other == pooling for other, key in POOLING_KEYS.items()}
    write(folder / "1_Pooling" / "config.json", {"word_embedding_dimension": WIDTH} | modes)
    write(folder / "sentence_bert_config.json", {"max_seq_length": 60})
    return pooling


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in OFTEN else pytest.mark.slow) for name in OTHERS]
)
def test_any_family_has_the_vectors_of_sentence_transformers(
    name: str, texts: list[str], tmp_path: Path
) -> None:
    library = pytest.importorskip("sentence_transformers")
    folder, some = tmp_path / "published", [*texts[::4], "", LONG]
    folder.mkdir()
    pooling = published_other(name, folder, texts)
    theirs = library.SentenceTransformer(str(folder), device="cpu").encode(some)
    encoder = SentenceEncoder.load(str(folder), "cpu")
    kind = encoder.transformer.config.model_type
    how = "sentences packed" if kind in _PACKED else "of equal length together"
    assert encoder.pooling == pooling and encoder.computed_by.endswith(how)
    np.testing.assert_allclose(encoder.embed(some), theirs, atol=1e-5)
    assert encoder.truncated > 0
    encoder.save(tmp_path / "saved")
    again = SentenceEncoder.load(str(tmp_path / "saved"), "cpu")
    assert again.fingerprint == encoder.fingerprint
    saved = library.SentenceTransformer(str(tmp_path / "saved"), device="cpu").encode(some)
    np.testing.assert_allclose(saved, theirs, atol=1e-5)


def test_older_names_of_settings_count_and_none_that_fetches_code() -> None:
    older = {"rope_theta": 2000.0, "rope_local_base_freq": 77.0, "sliding_window_pattern": 2}
    fetching = {"attn_implementation": "owner/kernels", "_attn_implementation_internal": "owner/kernels"}
    config = config_of({"model_type": "gemma3_text", **DECODER, **older, **fetching})
    assert config.layer_types == ["sliding_attention", "full_attention"]
    rates = {kind: rope["rope_theta"] for kind, rope in config.rope_parameters.items()}
    assert rates == {"sliding_attention": 77.0, "full_attention": 2000.0}
    assert config._attn_implementation is None


def test_layers_that_share_weights_are_counted_once() -> None:
    base = AlbertConfig(hidden_size=768, intermediate_size=3072, num_attention_heads=12)  # albert-base-v2
    _check_size(base, 11_683_584)
    base.num_hidden_groups = 12
    with pytest.raises(ValueError, match="describes a model of"):
        _check_size(base, 11_683_584)


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


def test_decoders_are_packed_to_embed_alone(texts: list[str], tmp_path: Path) -> None:
    published_other("qwen3", tmp_path, texts)
    encoder = SentenceEncoder.load(str(tmp_path), "cpu")
    with pytest.raises(MexmaError, match=r"training needs .* and this qwen3 only embeds") as caught:
        encoder.check_packs("training")
    hint = caught.value.hint or ""
    assert "xlm-roberta" in hint and "qwen3" not in hint


def test_every_pooling_but_the_pooler_is_sentence_transformers() -> None:
    assert set(get_args(Pooling)) == {*POOLING_KEYS, "pooler"}


def test_other_families_are_refused_by_name(texts: list[str], tmp_path: Path) -> None:
    bert(tmp_path, texts)
    for kind in ("xlm", "t5gemma"):
        content = {"model_type": kind, "hidden_size": WIDTH}
        write(tmp_path / "config.json", content)
        with pytest.raises(MexmaError, match=f"the model type '{kind}' is not supported"):
            SentenceEncoder.load(str(tmp_path), "cpu")
