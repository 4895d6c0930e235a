"""Encoders in their publishers' layouts have the vectors of sentence-transformers and of transformers."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, processors
from transformers import AutoModel, AutoTokenizer, BertModel, PreTrainedModel, XLMRobertaForMaskedLM

from mexma_cli.encoder.encoder import SentenceEncoder
from mexma_cli.encoder.model.attention import use_packed_attention
from mexma_cli.encoder.model.packing import pack
from mexma_cli.encoder.model.pooling import Dense, pool
from mexma_cli.encoder.model.transformer import first_position
from mexma_cli.errors import MexmaError
from tests.encoder.conftest import LONG, WIDTH, check_same_gradients

PUBLISHED = ["labse", "e5", "old roberta", "lower cased", "of today"]


def sentence_transformers(folder: Path, texts: list[str]) -> np.ndarray:
    st = pytest.importorskip("sentence_transformers")
    return st.SentenceTransformer(str(folder), device="cpu").encode(texts, show_progress_bar=False)


@pytest.mark.parametrize("name", PUBLISHED)
def test_vectors_are_those_of_sentence_transformers(
    name: str, published: Callable[[str], Path], texts: list[str], tmp_path: Path
) -> None:
    encoder = SentenceEncoder.load(str(published(name)), "cpu", max_tokens=512)
    ours, theirs = encoder.embed(texts), sentence_transformers(published(name), texts)
    assert encoder.truncated == 2  # the limit is the same one
    assert ours.shape == theirs.shape == (len(texts), encoder.dim)
    assert np.abs(ours - theirs).max() < 1e-5
    encoder.save(tmp_path / "saved")
    again = SentenceEncoder.load(str(tmp_path / "saved"), "cpu", max_tokens=512)
    assert again.fingerprint == encoder.fingerprint
    assert (again.prefix, again.max_tokens) == (encoder.prefix, encoder.max_tokens)
    assert np.array_equal(again.embed(texts), ours)
    assert np.abs(sentence_transformers(tmp_path / "saved", texts) - ours).max() < 1e-5


def test_a_tokeniser_that_cuts_and_pads_is_the_same_encoder(copy: Callable[[str], Path]) -> None:
    """As sentence-transformers' older folders have it."""
    folder = copy("e5")
    before = SentenceEncoder.load(str(folder), "cpu")
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.enable_truncation(20)
    tokenizer.enable_padding(pad_id=1, pad_token="<pad>")
    tokenizer.save(str(folder / "tokenizer.json"))
    encoder = SentenceEncoder.load(str(folder), "cpu")
    assert encoder.fingerprint == before.fingerprint
    assert np.array_equal(encoder.embed([LONG, "Oui"]), before.embed([LONG, "Oui"]))


@pytest.mark.parametrize("kept_in", ["tokenizer_config.json", "tokenizer.json"])
def test_a_tokeniser_that_cuts_the_beginning_off(
    kept_in: str, copy: Callable[[str], Path], texts: list[str], tmp_path: Path
) -> None:
    folder = copy("e5")
    (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 20}))
    before = SentenceEncoder.load(str(folder), "cpu")
    if kept_in == "tokenizer.json":
        tokenizer = Tokenizer.from_file(str(folder / kept_in))
        tokenizer.enable_truncation(20, direction="left")
        tokenizer.save(str(folder / kept_in))
    else:
        config = json.loads((folder / kept_in).read_text()) | {"truncation_side": "left"}
        (folder / kept_in).write_text(json.dumps(config))
    encoder = SentenceEncoder.load(str(folder), "cpu")
    assert encoder.fingerprint != before.fingerprint
    whole, cut = before.fast_tokenizer.encode([LONG])[0], encoder.tokenize([LONG])[0]
    assert cut.tolist() == [whole[0], *whole[-19:]] and encoder.truncated == 1
    ours = encoder.embed(texts)
    assert np.abs(ours - sentence_transformers(folder, texts)).max() < 1e-5
    encoder.save(tmp_path / "saved")
    again = SentenceEncoder.load(str(tmp_path / "saved"), "cpu")
    assert again.fingerprint == encoder.fingerprint and np.array_equal(again.embed(texts), ours)


@pytest.mark.parametrize("special", [("[CLS]",), ()])
def test_tokenisers_with_one_special_token_or_none(
    special: tuple[str, ...], copy: Callable[[str], Path], texts: list[str]
) -> None:
    folder = copy("labse")
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    single = [*special, "$A"]
    tokenizer.post_processor = processors.TemplateProcessing(single=single, special_tokens=[("[CLS]", 2)])
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "pad_token": "[PAD]"}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    (folder / "1_Pooling" / "config.json").write_text(json.dumps({"word_embedding_dimension": WIDTH}))
    (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 60}))
    encoder = SentenceEncoder.load(str(folder), "cpu")
    assert encoder.computed_by.startswith("mexma's engine") and len(encoder.tokenize([LONG])[0]) == 60
    assert np.abs(encoder.embed(texts) - sentence_transformers(folder, texts)).max() < 1e-5
    assert np.isfinite(encoder.embed([""])).all()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] [CLS] $A [CLS]", special_tokens=[("[CLS]", 2)]
    )
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 2}))
    with pytest.raises(MexmaError, match="takes 2 tokens, of which 3 are special: no room for a sentence"):
        SentenceEncoder.load(str(folder), "cpu")


@pytest.mark.parametrize("kind", ["bert", "xlmr", "roberta"])
def test_lower_case_is_kept_by_a_saved_folder(
    kind: str, plain: Callable[..., Path], texts: list[str], tmp_path: Path
) -> None:
    folder = plain(kind)
    encoder = SentenceEncoder.load(str(folder), "cpu")
    encoder.save(tmp_path / "as it is")
    settings = folder / "sentence_bert_config.json"
    settings.write_text(json.dumps({"max_seq_length": 200, "do_lower_case": True}))
    shutil.copytree(tmp_path / "as it is" / "1_Pooling", folder / "1_Pooling")
    shutil.copy(tmp_path / "as it is" / "modules.json", folder)
    lower = SentenceEncoder.load(str(folder), "cpu")
    ours = lower.embed(texts)
    assert np.array_equal(ours, encoder.embed([text.lower() for text in texts]))
    lower.save(tmp_path / "lower")
    again = SentenceEncoder.load(str(tmp_path / "lower"), "cpu")
    assert again.fingerprint == lower.fingerprint and np.array_equal(again.embed(texts), ours)
    assert np.abs(sentence_transformers(tmp_path / "lower", texts) - ours).max() < 1e-5


def test_what_the_folders_say_is_kept(published: Callable[[str], Path]) -> None:
    encoders = {name: SentenceEncoder.load(str(published(name)), "cpu") for name in PUBLISHED}
    assert {name: encoder.max_tokens for name, encoder in encoders.items()} == {
        "labse": 200,  # its own is larger
        "e5": 200,
        "old roberta": 128,
        "lower cased": 200,
        "of today": 90,
    }
    assert {name: str(list(encoder.modules)) for name, encoder in encoders.items()} == {
        "labse": f"[Dense({WIDTH}, 24, Tanh), Normalize()]",
        "e5": "[Normalize()]",
        "old roberta": "[]",
        "lower cased": "[]",
        "of today": f"[Dense({WIDTH}, 48, GELU), Normalize(), Dense(48, 20, Identity), Dense(20, 16, ReLU)]",
    }
    assert [name for name, encoder in encoders.items() if encoder.normalised] == ["labse", "e5"]
    assert encoders["of today"].prefix == "query: "
    assert encoders["of today"].dim == 16
    assert SentenceEncoder.load(str(published("labse")), "cpu", max_tokens=300).max_tokens == 256
    assert SentenceEncoder.load(str(published("labse")), "cpu", max_tokens=30).max_tokens == 30


@pytest.mark.parametrize(("kind", "positions"), [("bert", 512), ("xlmr", 512)])
def test_a_folder_that_names_no_limit_has_that_of_its_positions(
    kind: str, positions: int, plain: Callable[..., Path], caplog: pytest.LogCaptureFixture
) -> None:
    folder = plain(kind)
    config = json.loads((folder / "tokenizer_config.json").read_text())
    del config["model_max_length"]
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    assert SentenceEncoder.load(str(folder), "cpu").max_tokens == 200
    assert "tokens at most" not in caplog.text
    encoder = SentenceEncoder.load(str(folder), "cpu", max_tokens=600)
    assert encoder.max_tokens == positions
    assert f"takes {positions} tokens at most: the limit is {positions}, not 600" in caplog.text
    assert np.isfinite(encoder.embed(["Le chat dort. " * 300])).all()
    assert encoder.truncated == 1


@pytest.mark.parametrize(("prefix", "default"), [("query: ", "query"), ("", None), ("clue: ", "default")])
def test_prompts_are_saved_by_their_names(
    prefix: str, default: str | None, published: Callable[[str], Path], tmp_path: Path
) -> None:
    encoder = SentenceEncoder.load(str(published("of today")), "cpu")
    encoder.prefix = prefix
    encoder.save(tmp_path / "saved")
    again = SentenceEncoder.load(str(tmp_path / "saved"), "cpu")
    assert again.prefix == prefix
    assert again.prompts.items() >= {"query": "query: ", "passage": "passage: "}.items()
    saved = json.loads((tmp_path / "saved/config_sentence_transformers.json").read_text())
    assert saved["default_prompt_name"] == default


def test_a_prefix_stands_before_every_sentence(published: Callable[[str], Path], texts: list[str]) -> None:
    encoder = SentenceEncoder.load(str(published("e5")), "cpu")
    expected, fingerprint = encoder.embed([f"passage: {text}" for text in texts]), encoder.fingerprint
    encoder.prefix = "passage: "
    assert np.array_equal(encoder.embed(texts), expected)
    assert encoder.fingerprint == fingerprint


def padded(folder: Path, texts: list[str], pooling: str) -> np.ndarray:
    """By transformers alone, cut to 200 tokens."""
    model, tokenizer = AutoModel.from_pretrained(folder).eval(), AutoTokenizer.from_pretrained(folder)
    inputs = tokenizer(texts, padding=True, truncation=True, max_length=200, return_tensors="pt")
    inputs.pop("token_type_ids", None)
    with torch.no_grad():
        output = model(**inputs)
    if pooling == "pooler":
        return output.pooler_output.numpy()
    if pooling == "cls":
        return output.last_hidden_state[:, 0].numpy()
    mask = inputs["attention_mask"][..., None]
    return ((output.last_hidden_state * mask).sum(1) / mask.sum(1)).numpy()


@pytest.mark.parametrize("pooling", ["cls", "mean", "pooler"])
@pytest.mark.parametrize(
    "kind",
    ["xlmr", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("bert", "roberta", "camembert"))],
)
def test_plain_folders_have_their_pooling_by_flag(
    kind: str, pooling: Any, texts: list[str], plain: Callable[..., Path], tmp_path: Path
) -> None:
    folder = plain(kind)
    encoder = SentenceEncoder.load(f"{folder}/", "cpu", pooling=pooling)
    ours = encoder.embed(texts)
    assert encoder.truncated == 2 and encoder.pooling == pooling
    assert np.abs(ours - padded(folder, texts, pooling)).max() < 1e-5
    encoder.save(tmp_path / "saved")
    again = SentenceEncoder.load(str(tmp_path / "saved"), "cpu")
    assert again.fingerprint == encoder.fingerprint
    assert np.array_equal(again.embed(texts), ours)
    assert np.abs(sentence_transformers(tmp_path / "saved", texts) - ours).max() < 1e-5


@pytest.mark.parametrize("published_as", ["bare", "with pooler", "masked language model"])
def test_mexma_is_cls_however_it_was_published(
    published_as: str, texts: list[str], plain: Callable[..., Path]
) -> None:
    folder = plain("xlmr", pooler=published_as == "with pooler")
    if published_as == "masked language model":
        model = XLMRobertaForMaskedLM.from_pretrained(folder)
        model.save_pretrained(folder)
    encoder = SentenceEncoder.load(str(folder), "cpu")
    assert (encoder.pooling, encoder.normalised, encoder.max_tokens) == ("cls", False, 200)
    assert np.abs(encoder.embed(texts) - padded(folder, texts, "cls")).max() < 1e-5
    if published_as != "with pooler":
        with pytest.raises(MexmaError, match="has no pooler weights"):
            SentenceEncoder.load(str(folder), "cpu", pooling="pooler")


# Packed and padded: see test_attention.py for XLM-R.


@pytest.fixture
def berts(plain: Callable[..., Path]) -> tuple[PreTrainedModel, PreTrainedModel]:
    """The same BERT packed and as transformers runs it; its token types have weights to be noticed."""
    model = BertModel.from_pretrained(plain("bert"), add_pooling_layer=False).eval()
    packed = deepcopy(model)
    use_packed_attention(packed)
    return packed, model


@pytest.mark.parametrize("lengths", [[512, 512, 3], [1, 400, 400, 400, 60, 2, 2]], ids=str)
def test_bert_in_a_batch_longer_than_its_positions(
    lengths: list[int], berts: tuple[PreTrainedModel, PreTrainedModel]
) -> None:
    packed, reference = berts
    rng = np.random.default_rng(0)
    sentences = [rng.integers(5, packed.config.vocab_size, length) for length in lengths]
    assert first_position(packed) == 0 and sum(lengths) > packed.config.max_position_embeddings
    check_same_gradients(packed, reference, sentences, noise=30)


def test_dense_works_in_float32_under_a_half_precision_model(
    published: Callable[[str], Path], texts: list[str]
) -> None:
    half = SentenceEncoder.load(str(published("labse")), "cpu", "bfloat16")
    full = SentenceEncoder.load(str(published("labse")), "cpu")
    assert isinstance(half.modules[0], Dense)
    assert half.modules[0].linear.weight.dtype == torch.float32
    assert (half.embed(texts) * full.embed(texts)).sum(1).min() > 0.999


def test_a_mean_waits_for_no_device() -> None:
    """On a device whose tensors have no numbers, whatever would have to wait for them is refused."""
    batch = pack([np.arange(length) for length in (1, 2, 2, 7)], 2)
    hidden = torch.randn(12, 8)
    found = pool(hidden, batch, "mean")
    assert torch.allclose(found[3], hidden[5:].mean(dim=0), atol=1e-6)
    nowhere = pool(hidden.to("meta"), batch.to("meta"), "mean")
    assert (nowhere.device.type, nowhere.shape, nowhere.dtype) == ("meta", found.shape, found.dtype)
