"""Folders read without transformers have the same vectors; those that are not plain are left to it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from mexma_cli.encoder.encoder import SentenceEncoder
from mexma_cli.encoder.loading import load as loading
from mexma_cli.encoder.loading.settings import read_settings
from mexma_cli.encoder.loading.tokenizer import LazyTokenizer
from tests.encoder.conftest import WEIGHTS, change_json, write


def never() -> Any:
    raise AssertionError("transformers' tokeniser was asked for")


def rename(folder: Path, change: Callable[[str], str], types: dict[str, torch.dtype] | None = None) -> None:
    weights = {change(name): tensor for name, tensor in load_file(folder / WEIGHTS).items()}
    for name, dtype in (types or {}).items():
        weights[name] = weights[name].to(dtype)
    save_file(weights, folder / WEIGHTS, metadata={"format": "pt"})


@pytest.mark.parametrize("dtype", ["float32", "float16", "pq"])
def test_it_is_what_transformers_reads(
    dtype: str,
    tiny_encoder: Path,
    sentences: dict[str, list[str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    SentenceEncoder.load(str(tiny_encoder), "cpu").save(tmp_path / "saved", dtype)
    plain = SentenceEncoder.load(str(tmp_path / "saved"), "cpu")
    assert loading._without_transformers(read_settings(tmp_path / "saved")) and LazyTokenizer.plain(
        tmp_path / "saved", never
    )
    monkeypatch.setattr(loading, "_without_transformers", lambda settings: None)
    monkeypatch.setattr(LazyTokenizer, "plain", lambda folder, load: None)
    other = SentenceEncoder.load(str(tmp_path / "saved"), "cpu")
    assert plain.fingerprint == other.fingerprint
    texts = [*sentences["fra"], "", "漢字"]
    assert np.array_equal(plain.embed(texts), other.embed(texts))
    assert plain.transformer.first_position == other.transformer.first_position == 2
    assert plain.tokenizer.backend_tokenizer.to_str() == plain.fast_tokenizer.backend.to_str()


def test_the_model_is_made_when_it_is_asked_for(tiny_encoder: Path, sentences: dict[str, list[str]]) -> None:
    encoder = SentenceEncoder.load(str(tiny_encoder), "cpu")
    before, weights = encoder.embed(sentences["fra"]), dict(encoder.transformer.weights)
    model = encoder.model
    assert encoder.model is model and not model.training
    assert all(torch.equal(model.state_dict()[name], tensor) for name, tensor in weights.items())
    assert np.array_equal(encoder.embed(sentences["fra"]), before)
    with torch.no_grad():
        model.get_input_embeddings().weight.mul_(2)
    assert not np.allclose(encoder.embed(sentences["fra"]), before)


def test_what_the_engine_does_not_compute(
    tiny_encoder: Path, sentences: dict[str, list[str]], two_threads: None
) -> None:
    """float16 on a processor: the model is made once, before several threads want it."""
    half = SentenceEncoder.load(str(tiny_encoder), "cpu", "float16")
    found = half.embed(sentences["fra"] * 300)[: len(sentences["fra"])]
    expected = SentenceEncoder.load(str(tiny_encoder), "cpu").embed(sentences["fra"])
    assert half.model.dtype == torch.float16 and np.abs(found - expected).max() < 0.05


LEFT: dict[str, Callable[[Path], object]] = {
    "names with a prefix": lambda f: rename(f, "roberta.{}".format),
    "a weight more": lambda f: rename(f, lambda name: name.replace("layer.1.output.dense.bias", "more")),
    "weights of two types": lambda f: rename(f, str, {"embeddings.LayerNorm.bias": torch.float16}),
    "cross-attention": change_json("config.json", add_cross_attention=True),
    "pickled": lambda f: (f / WEIGHTS).rename(f / "pytorch_model.bin"),
    "sizes that are none": change_json("config.json", num_hidden_layers="2"),
}


@pytest.mark.parametrize("case", LEFT)
def test_weights_that_are_left_to_transformers(case: str, folder: Path) -> None:
    assert loading._without_transformers(read_settings(folder))
    LEFT[case](folder)
    assert loading._without_transformers(read_settings(folder)) is None


@pytest.mark.parametrize("prefix", ["", "roberta."])
def test_weights_keep_all_digits_whatever_type_is_stated(prefix: str, folder: Path) -> None:
    expected = SentenceEncoder.load(folder, "cpu").embed(["Le chat dort."])
    rename(folder, prefix.__add__)
    change_json("config.json", dtype="bfloat16")(folder)
    assert np.abs(SentenceEncoder.load(folder, "cpu").embed(["Le chat dort."]) - expected).max() < 1e-6


@pytest.mark.parametrize(
    "changes",
    [
        {"tokenizer_class": "XLMRobertaTokenizer"},
        {"add_bos_token": True},
        {"mask_token": "<other>"},
        {"model_max_length": None},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_tokenisers_that_are_left_to_transformers(changes: dict[str, object], folder: Path) -> None:
    assert LazyTokenizer.plain(folder, never)
    change_json("tokenizer_config.json", **changes)(folder)
    assert LazyTokenizer.plain(folder, never) is None


@pytest.mark.parametrize(
    ("name", "content"),
    [("config.json", {"model_type": "qwen2"}), ("special_tokens_map.json", {}), ("added_tokens.json", {})],
)
def test_files_of_which_transformers_changes_the_tokeniser(
    name: str, content: dict[str, str], folder: Path
) -> None:
    write(folder / name, content)
    assert LazyTokenizer.plain(folder, never) is None


def test_a_cut_sentence_keeps_its_end_whatever_the_letters_of_the_tokeniser() -> None:
    backend = Tokenizer(models.BPE({"<s>": 0, "</s>": 1, "\u043a": 2}, []))
    ends = [("<s>", 0), ("</s>", 1)]
    backend.post_processor = processors.TemplateProcessing(single="<s> $A </s>", special_tokens=ends)
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = LazyTokenizer(backend, never, None, 512)
    assert tokenizer.cut(tokenizer.encode(["\u043a " * 9])[0], 4).tolist() == [0, 2, 2, 1]


def test_a_pooler_in_the_file_is_no_hindrance(folder: Path) -> None:
    weights = load_file(folder / WEIGHTS) | {
        "pooler.dense.weight": torch.ones(32, 32),
        "pooler.dense.bias": torch.ones(32),
        "embeddings.position_ids": torch.arange(66)[None],
    }
    save_file(weights, folder / WEIGHTS, metadata={"format": "pt"})
    plain = loading._without_transformers(read_settings(folder))
    assert plain and len(plain.weights) == len(weights) - 3


EMBED = "from mexma_cli.main import cli; cli('embed --device cpu text'.split(), standalone_mode=False)"


@pytest.mark.parametrize(
    ("code", "unused"), [(EMBED, "transformers"), ("import mexma_cli.stages.prepare.prepare", "torch")]
)
def test_what_is_not_needed_is_not_loaded(code: str, unused: str, tmp_path: Path) -> None:
    """A command's start is most of what a page of text costs."""
    (tmp_path / "text").write_text("Le chat dort.\n")
    code += f"; import sys; sys.exit({unused!r} in sys.modules and '{unused} was loaded')"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, text=True, capture_output=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
