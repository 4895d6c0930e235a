"""Weights stored with product quantised word embeddings."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoTokenizer

from mexma_cli.encoder.encoder import SentenceEncoder
from mexma_cli.encoder.loading import pq
from mexma_cli.encoder.loading.folder import CHECKSUMS
from mexma_cli.encoder.model.weighted_embeddings import weight_axis_and_basis
from mexma_cli.errors import MexmaError
from mexma_cli.objectives.bag.settings import BagSettings
from tests.examples import untrained_bag

WORDS = "embeddings.word_embeddings.weight"


@pytest.fixture
def stored(tiny_encoder: Path, tmp_path: Path) -> tuple[SentenceEncoder, Path]:
    encoder = SentenceEncoder.load(str(tiny_encoder), "cpu")
    encoder.save(tmp_path / "pq", dtype="pq")
    (tmp_path / "pq" / CHECKSUMS).unlink()  # else a change is noticed before the file is read
    return encoder, tmp_path / "pq"


@pytest.fixture
def loaded(stored: tuple[SentenceEncoder, Path]) -> SentenceEncoder:
    return SentenceEncoder.load(stored[1], "cpu")


def test_it_computes_with_exactly_what_is_stored(
    stored: tuple[SentenceEncoder, Path], loaded: SentenceEncoder, sentences: dict[str, list[str]]
) -> None:
    """The vectors are those of an encoder whose word embeddings are what the parts of the file say."""
    encoder, folder = stored
    file = load_file(folder / pq.FILE)
    parts = {name.removeprefix(f"{WORDS}."): file[name] for name in file if name.startswith(WORDS)}
    rounded = parts["codebook"][parts["codes"].long()].flatten(1) * parts["lengths"].float()[:, None]
    axis = torch.from_numpy(weight_axis_and_basis(encoder.dim)[0]).float()
    rounded += parts["log_weights"].float()[:, None] * axis
    special = encoder.tokenizer.all_special_ids
    rounded[special] = encoder.model.state_dict()[WORDS][special].half().float()
    with torch.no_grad():
        for name, parameter in encoder.model.named_parameters():
            parameter.copy_(rounded if name == WORDS else parameter.half().float())
    assert loaded.model.dtype == torch.float32
    for name, parameter in encoder.model.named_parameters():
        assert torch.equal(loaded.model.get_parameter(name), parameter), name
    assert np.array_equal(encoder.embed(sentences["fra"]), loaded.embed(sentences["fra"]))


def test_embeddings_are_rounded_and_what_tokens_weigh_hardly(tmp_path: Path) -> None:
    """In an encoder that a bag of embeddings began: also <s>, which every sentence has, hardly changes."""
    encoder = untrained_bag(BagSettings(name="bag")).export()
    encoder.save(tmp_path / "bag", dtype="pq")
    before = encoder.model.get_input_embeddings().weight
    after = SentenceEncoder.load(tmp_path / "bag", "cpu").model.get_input_embeddings().weight
    axis = torch.from_numpy(weight_axis_and_basis(encoder.dim)[0]).float()
    off = (after - before).square().mean(dim=1)
    special = encoder.tokenizer.all_special_ids
    assert (off[special] < 1e-6).all() and 0.001 < off[4:].mean() < 0.012
    assert ((after - before) @ axis).abs().max() < 0.004


def test_what_was_rounded_can_be_saved_whole(loaded: SentenceEncoder, tmp_path: Path) -> None:
    loaded.save(tmp_path / "whole")
    assert SentenceEncoder.load(str(tmp_path / "whole"), "cpu").fingerprint == loaded.fingerprint


def test_it_is_an_eighth_of_float32_even_where_rows_are_short(stored: tuple[SentenceEncoder, Path]) -> None:
    encoder, folder = stored
    words = encoder.model.get_input_embeddings().weight.numel()
    rest = sum(weight.numel() for weight in encoder.model.parameters()) - words
    assert (folder / pq.FILE).stat().st_size < 0.51 * words + 2 * rest + 20_000


def test_a_damaged_file_is_named(stored: tuple[SentenceEncoder, Path]) -> None:
    _, folder = stored
    (folder / pq.FILE).write_bytes(b"x")
    with pytest.raises(MexmaError, match=r"model\.pq\.safetensors cannot be read"):
        SentenceEncoder.load(str(folder), "cpu")


@pytest.mark.parametrize("part", ["special", "log_weights", "rows"])
def test_parts_that_do_not_fit_are_damage(stored: tuple[SentenceEncoder, Path], part: str) -> None:
    _, folder = stored
    weights = load_file(folder / pq.FILE)
    of_words = weights[f"{WORDS}.{part}"]
    weights[f"{WORDS}.{part}"] = of_words + 10**6 if part == "special" else of_words[1:].clone()
    save_file(weights, folder / pq.FILE)
    with pytest.raises(MexmaError, match=r"model\.pq\.safetensors cannot be read"):
        SentenceEncoder.load(str(folder), "cpu")


def test_rows_are_those_of_the_whole(stored: tuple[SentenceEncoder, Path]) -> None:
    """Whichever are asked for, special tokens among them."""
    words = pq.load(stored[1] / pq.FILE)[WORDS]
    whole, places = np.asarray(words), np.array([5, 0, 7, 2, 0])
    assert whole.shape == words.shape and whole.dtype == np.float32
    assert np.array_equal(words[places], whole[places]) and np.array_equal(words[3:9], whole[3:9])
    assert np.array_equal(words[:0], whole[:0])


def test_missing_weights_are_named(stored: tuple[SentenceEncoder, Path]) -> None:
    _, folder = stored
    weights = load_file(folder / pq.FILE)
    del weights["encoder.layer.0.output.dense.bias"]
    save_file(weights, folder / pq.FILE)
    with pytest.raises(
        MexmaError, match=r"1 of the weights are missing.*encoder\.layer\.0\.output\.dense\.bias"
    ):
        SentenceEncoder.load(str(folder), "cpu")


def test_the_tokeniser_is_the_same_in_fewer_bytes(
    stored: tuple[SentenceEncoder, Path], tmp_path: Path
) -> None:
    encoder, folder = stored
    encoder.save(tmp_path / "whole")
    short, long = ((f / "tokenizer.json").read_text(encoding="utf-8") for f in (folder, tmp_path / "whole"))
    assert len(short) < len(long) and json.loads(short) == json.loads(long)
    one, other = (AutoTokenizer.from_pretrained(f) for f in (folder, tmp_path / "whole"))
    assert one.backend_tokenizer.to_str() == other.backend_tokenizer.to_str()
    assert one.special_tokens_map == other.special_tokens_map
