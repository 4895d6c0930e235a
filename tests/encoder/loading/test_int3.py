"""Weights stored with word embeddings of 3 bits on average."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoTokenizer, DistilBertConfig, DistilBertModel

from mexma_cli.encoder.encoder import SentenceEncoder
from mexma_cli.encoder.loading import int3
from mexma_cli.encoder.model.transformer import LazyTransformer
from mexma_cli.errors import MexmaError

WORDS = "embeddings.word_embeddings.weight"


def test_the_first_half_is_stored_better() -> None:
    """The squared error of normal numbers, with 4 bits and with 2."""
    weight = torch.randn(4000, 64, generator=torch.Generator().manual_seed(1))
    coded = int3.quantised(weight)
    assert coded.bits.tolist() == [4] * 2000 + [2] * 2000
    off = (weight - coded.restore().float()).square().mean(dim=1)
    assert float(off[:2000].mean()) == pytest.approx(0.0055, rel=0.1)
    assert float(off[2000:].mean()) == pytest.approx(0.076, rel=0.1)


@pytest.fixture
def stored(tiny_encoder: Path, tmp_path: Path) -> tuple[SentenceEncoder, Path]:
    encoder = SentenceEncoder.load(str(tiny_encoder), "cpu")
    encoder.save(tmp_path / "int3", dtype="int3")
    return encoder, tmp_path / "int3"


@pytest.fixture
def loaded(stored: tuple[SentenceEncoder, Path]) -> SentenceEncoder:
    return SentenceEncoder.load(stored[1], "cpu")


def test_it_computes_with_exactly_what_is_stored(
    stored: tuple[SentenceEncoder, Path], loaded: SentenceEncoder, sentences: dict[str, list[str]]
) -> None:
    """The vectors are those of an encoder whose word embeddings are what the parts of the file say."""
    encoder, _ = stored
    weight, direction = encoder.model.state_dict()[WORDS], int3.attended(encoder.model, 0)
    rounded = int3.quantised(weight).restore().float()
    rounded += ((weight - rounded) @ direction).half().float()[:, None] * direction
    special = encoder.tokenizer.all_special_ids
    rounded[special] = weight[special].half().float()
    with torch.no_grad():
        for name, parameter in encoder.model.named_parameters():
            parameter.copy_(rounded if name == WORDS else parameter.half().float())
    assert loaded.model.dtype == torch.float32
    for name, parameter in encoder.model.named_parameters():
        assert torch.equal(loaded.model.get_parameter(name), parameter), name
    assert np.array_equal(encoder.embed(sentences["fra"]), loaded.embed(sentences["fra"]))


def test_the_first_tokens_attention_stays(
    stored: tuple[SentenceEncoder, Path], loaded: SentenceEncoder
) -> None:
    """Rounding hardly changes the keys along the direction of the query of <s>."""
    encoder, _ = stored
    direction = int3.attended(encoder.model, 0)
    assert float(direction.norm()) == pytest.approx(1, abs=1e-5)
    before, after = (e.model.state_dict()[WORDS] @ direction for e in (encoder, loaded))
    rounded = int3.quantised(encoder.model.state_dict()[WORDS]).restore().float() @ direction
    assert (before - after).abs().max() < 0.01 * (before - rounded).abs().max()


def test_an_encoder_whose_config_names_no_first_token(masked_lms: dict[str, Path], tmp_path: Path) -> None:
    """BERT's config names none, and its tokeniser does."""
    encoder = SentenceEncoder.load(str(masked_lms["bert"]), "cpu", pooling="cls")
    assert encoder.model.config.bos_token_id is None
    encoder.save(tmp_path / "bert", dtype="int3")
    direction = int3.attended(encoder.model, encoder.tokenizer.cls_token_id)
    assert float(direction.norm()) == pytest.approx(1, abs=1e-5)
    loaded = SentenceEncoder.load(str(tmp_path / "bert"), "cpu")
    before, after = (e.model.state_dict()[WORDS] @ direction for e in (encoder, loaded))
    assert (before - after).abs().max() < 1e-3 * before.abs().max()


def test_a_model_of_another_shape_keeps_no_direction() -> None:
    model = DistilBertModel(DistilBertConfig(vocab_size=30, dim=8, n_heads=2, n_layers=1, hidden_dim=8))
    assert torch.equal(int3.attended(model, 0), torch.zeros(8))


def test_what_was_rounded_can_be_saved_whole(loaded: SentenceEncoder, tmp_path: Path) -> None:
    loaded.save(tmp_path / "whole")
    assert SentenceEncoder.load(str(tmp_path / "whole"), "cpu").fingerprint == loaded.fingerprint


@pytest.mark.parametrize("through", ["the files alone", "transformers"])
def test_what_was_rounded_is_not_rounded_again(
    stored: tuple[SentenceEncoder, Path], loaded: SentenceEncoder, tmp_path: Path, through: str
) -> None:
    _, folder = stored
    if through == "transformers":
        loaded = SentenceEncoder(
            "same",
            LazyTransformer(loaded.model, loaded.transformer.int3_file),
            loaded.tokenizer,
            max_tokens=loaded.max_tokens,
        )
    loaded.save(tmp_path / "again", dtype="int3")
    assert (tmp_path / "again" / int3.FILE).read_bytes() == (folder / int3.FILE).read_bytes()
    assert SentenceEncoder.load(str(tmp_path / "again"), "cpu").fingerprint == loaded.fingerprint
    loaded.save(folder, dtype="int3")  # over itself
    assert SentenceEncoder.load(str(folder), "cpu").fingerprint == loaded.fingerprint


def test_what_has_changed_since_or_has_no_file_any_more_is_coded_anew(
    stored: tuple[SentenceEncoder, Path], loaded: SentenceEncoder, tmp_path: Path
) -> None:
    _, folder = stored
    words = loaded.model.get_input_embeddings().weight
    with torch.no_grad():
        words[7] += 0.5
    loaded.save(tmp_path / "changed", dtype="int3")
    found = SentenceEncoder.load(str(tmp_path / "changed"), "cpu").model.get_input_embeddings().weight
    assert (found - words)[7].abs().mean() < 0.2 and not torch.equal(found, words)
    (folder / int3.FILE).unlink()
    loaded.save(tmp_path / "gone", dtype="int3")
    gone, changed = ((tmp_path / name / int3.FILE).read_bytes() for name in ("gone", "changed"))
    assert gone == changed


def test_it_is_an_eighth_of_float32_even_where_rows_are_short(stored: tuple[SentenceEncoder, Path]) -> None:
    encoder, folder = stored
    words = encoder.model.get_input_embeddings().weight.numel()
    rest = sum(weight.numel() for weight in encoder.model.parameters()) - words
    assert (folder / int3.FILE).stat().st_size < 0.51 * words + 2 * rest + 20_000


def test_a_damaged_file_is_named(stored: tuple[SentenceEncoder, Path]) -> None:
    _, folder = stored
    (folder / int3.FILE).write_bytes(b"x")
    with pytest.raises(MexmaError, match=r"model\.int3\.safetensors cannot be read"):
        SentenceEncoder.load(str(folder), "cpu")


def test_missing_weights_are_named(stored: tuple[SentenceEncoder, Path]) -> None:
    from safetensors.torch import load_file, save_file

    _, folder = stored
    weights = load_file(folder / int3.FILE)
    del weights["encoder.layer.0.output.dense.bias"]
    save_file(weights, folder / int3.FILE)
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
