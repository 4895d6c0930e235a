"""Weights stored with int8 word embeddings."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from mexma_cli.encoder import int8
from mexma_cli.encoder.encoder import SentenceEncoder
from mexma_cli.errors import MexmaError

WORDS = "embeddings.word_embeddings.weight"


@given(arrays(np.float32, (3, 5), elements=st.floats(-1e4, 1e4, width=32)))
def test_what_is_stored_is_within_half_a_step(values: np.ndarray) -> None:
    weight = torch.from_numpy(values)
    whole, steps = int8.quantise(weight)
    assert whole.dtype == torch.int8
    error = (whole.float() * steps[:, None] - weight).abs()
    assert (error <= steps[:, None] * 0.5001 + 1e-30).all()


@pytest.fixture
def stored(tiny_encoder: Path, tmp_path: Path) -> tuple[SentenceEncoder, Path]:
    encoder = SentenceEncoder.load(str(tiny_encoder), "cpu")
    encoder.save(tmp_path / "int8", dtype="int8")
    return encoder, tmp_path / "int8"


def test_it_computes_with_exactly_what_is_stored(
    stored: tuple[SentenceEncoder, Path], sentences: dict[str, list[str]]
) -> None:
    """The vectors are those of an encoder whose weights are the steps times the integers."""
    encoder, folder = stored
    loaded = SentenceEncoder.load(str(folder), "cpu")
    whole, steps = int8.quantise(encoder.model.state_dict()[WORDS])
    with torch.no_grad():
        for name, weight in encoder.model.named_parameters():
            weight.copy_(whole.float() * steps[:, None] if name == WORDS else weight.half().float())
    assert loaded.model.dtype == torch.float32
    for name, weight in encoder.model.named_parameters():
        assert torch.equal(loaded.model.get_parameter(name), weight), name
    assert np.array_equal(encoder.embed(sentences["fra"]), loaded.embed(sentences["fra"]))


def test_saving_again_loses_nothing(stored: tuple[SentenceEncoder, Path], tmp_path: Path) -> None:
    _, folder = stored
    loaded = SentenceEncoder.load(str(folder), "cpu")
    loaded.save(tmp_path / "again", dtype="int8")
    loaded.save(tmp_path / "whole")
    for other in ("again", "whole"):
        assert SentenceEncoder.load(str(tmp_path / other), "cpu").fingerprint == loaded.fingerprint


def test_it_is_a_quarter_of_float32(stored: tuple[SentenceEncoder, Path]) -> None:
    encoder, folder = stored
    words = encoder.model.get_input_embeddings().weight.numel()
    rest = sum(weight.numel() for weight in encoder.model.parameters()) - words
    assert (folder / int8.FILE).stat().st_size < 1.1 * words + 2 * rest + 20_000


def test_a_damaged_file_is_named(stored: tuple[SentenceEncoder, Path]) -> None:
    _, folder = stored
    (folder / int8.FILE).write_bytes(b"x")
    with pytest.raises(MexmaError, match=r"model\.int8\.safetensors cannot be read"):
        SentenceEncoder.load(str(folder), "cpu")


def test_missing_weights_are_named(stored: tuple[SentenceEncoder, Path]) -> None:
    from safetensors.torch import load_file, save_file

    _, folder = stored
    weights = load_file(folder / int8.FILE)
    del weights["encoder.layer.0.output.dense.bias"]
    save_file(weights, folder / int8.FILE)
    with pytest.raises(
        MexmaError, match=r"1 of the weights are missing.*encoder\.layer\.0\.output\.dense\.bias"
    ):
        SentenceEncoder.load(str(folder), "cpu")
