"""SentenceEncoder: the vectors, the folder, and what it refuses."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from tokenizers import Regex
from tokenizers.pre_tokenizers import Split

from mexma_cli.encoder import encoder as encoder_module
from mexma_cli.encoder.encoder import SentenceEncoder
from mexma_cli.errors import MexmaError
from mexma_cli.settings.training import NewEncoder
from tests.encoder.conftest import WEIGHTS


@pytest.fixture(scope="module")
def encoder(tiny_encoder: Path) -> SentenceEncoder:
    return SentenceEncoder.load(str(tiny_encoder), "cpu")


def test_results_stand_in_input_order(
    encoder: SentenceEncoder, sentences: dict[str, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mexma_cli.encoder.model.packed.TOKENS_PER_BATCH", 30)
    monkeypatch.setattr(encoder_module, "SENTENCES_PER_BUFFER", 5)
    texts = [*sentences["fra"], "", *sentences["eng"]]
    told: list[tuple[int, int]] = []
    together = encoder.embed(texts, on_batch=lambda sentences, tokens: told.append((sentences, tokens)))
    assert len(told) > 4
    assert sum(count for count, _ in told) == len(texts)
    assert sum(tokens for _, tokens in told) == sum(map(len, encoder.tokenize(texts)))
    for text, vector in zip(texts, together, strict=True):
        assert np.abs(encoder.embed([text])[0] - vector).max() < 1e-5, text


def test_no_sentence_and_an_empty_one(encoder: SentenceEncoder) -> None:
    assert encoder.embed([]).shape == (0, 32)
    assert [len(one) for one in encoder.embed_each([[], ["a", ""], []])] == [0, 2, 0]
    bos, eos = encoder.tokenizer.cls_token_id, encoder.tokenizer.sep_token_id
    assert encoder.tokenize([""])[0].tolist() == [bos, eos]
    assert np.isfinite(encoder.embed([""])).all()


def test_what_is_not_utf8_is_refused(encoder: SentenceEncoder) -> None:
    with pytest.raises(MexmaError, match=r"(?m)^'caf\\udce9' is not UTF-8$"):
        encoder.embed(["Oui", os.fsdecode(b"caf\xe9")])


def test_a_regular_expression_of_a_tokeniser_that_gives_up(tiny_encoder: Path) -> None:
    encoder = SentenceEncoder.load(str(tiny_encoder), "cpu")
    encoder.fast_tokenizer.backend.pre_tokenizer = Split(Regex("(a+)+$|(?:a|aa)+b"), "isolated")
    with pytest.raises(MexmaError, match=r"the tokeniser gave up on a sentence: .*retry-limit"):
        encoder.embed(["a" * 3000 + "c"])


def test_one_string_is_no_list_of_letters(encoder: SentenceEncoder) -> None:
    with pytest.raises(MexmaError, match="takes a list of sentences"):
        encoder.embed("One sentence.")


@pytest.mark.parametrize("odd", [None, float("nan"), 3, b"Oui"])
def test_what_is_no_sentence_is_named(odd: Any, encoder: SentenceEncoder) -> None:
    with pytest.raises(MexmaError, match=rf"(?m)^{odd!r} is no sentence: a sentence is a string$"):
        encoder.embed(["Oui", odd])


def test_long_sentences_are_cut_and_counted(tiny_encoder: Path) -> None:
    encoder = SentenceEncoder.load(str(tiny_encoder), "cpu")
    assert encoder.max_tokens == 64
    long, short = encoder.tokenize(["mot " * 500, "mot"])
    assert len(long) == 64 and long[-1] == encoder.tokenizer.sep_token_id
    assert len(short) < 64
    assert encoder.truncated == 1
    encoder.embed(["mot " * 500] * 2)
    assert encoder.truncated == 3


def test_saved_and_loaded_is_the_same_to_the_bit(
    encoder: SentenceEncoder, sentences: dict[str, list[str]], tmp_path: Path
) -> None:
    encoder.save(tmp_path / "saved")
    again = SentenceEncoder.load(str(tmp_path / "saved"), "cpu")
    assert again.fingerprint == encoder.fingerprint
    assert (again.pooling, again.normalised, again.max_tokens) == ("cls", False, 64)
    for name, tensor in encoder.model.state_dict().items():
        assert torch.equal(tensor, again.model.state_dict()[name]), name
    assert np.array_equal(again.embed(sentences["fra"]), encoder.embed(sentences["fra"]))
    again.save(tmp_path / "twice")
    for file in ("model.safetensors", "tokenizer.json", "config.json", "modules.json"):
        assert (tmp_path / "twice" / file).read_bytes() == (tmp_path / "saved" / file).read_bytes(), file


def test_saving_over_an_older_folder_replaces_all_of_it(encoder: SentenceEncoder, tmp_path: Path) -> None:
    encoder.save(tmp_path / "saved")
    (tmp_path / "saved" / "tokenizer.json").write_bytes(b"x")
    encoder.save(tmp_path / "saved")
    assert (tmp_path / "saved" / "tokenizer.json").stat().st_size > 1
    (tmp_path / "saved" / "thesis.bin").write_bytes(b"x")
    with pytest.raises(MexmaError, match="also holds thesis"):
        encoder.save(tmp_path / "saved")
    assert (tmp_path / "saved" / "thesis.bin").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["saved"]


def test_no_other_folder_is_saved_over(encoder: SentenceEncoder, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(MexmaError, match="holds no encoder"):
        encoder.save(tmp_path)
    with pytest.raises(MexmaError, match="is a file, not an encoder's folder"):
        encoder.save(tmp_path / "notes.txt")
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]
    assert (tmp_path / "notes.txt").read_text() == "mine"
    (tmp_path / "config.json").write_text('{"port": 8080}')
    with pytest.raises(MexmaError, match="holds no encoder"):
        encoder.save(tmp_path)


@pytest.mark.parametrize("name", [".", "..", "../saved"])
def test_the_folder_that_one_is_in_is_not_saved_over(
    name: str, encoder: SentenceEncoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder.save(tmp_path / "saved")
    monkeypatch.chdir(tmp_path / "saved")
    with pytest.raises(MexmaError, match="is the folder that you are in, or holds it"):
        encoder.save(name)
    assert [path.name for path in tmp_path.iterdir()] == ["saved"] and Path("config.json").is_file()


@pytest.mark.parametrize("name", ["int8", "fp16", "load"])
def test_an_unknown_precision(
    name: str, encoder: SentenceEncoder, tiny_encoder: Path, tmp_path: Path
) -> None:
    """Weights as int8 would be all zeros."""
    with pytest.raises(MexmaError, match=f"unknown precision '{name}'"):
        encoder.save(tmp_path / "saved", name)
    with pytest.raises(MexmaError, match=f"unknown precision '{name}'"):
        SentenceEncoder.load(str(tiny_encoder), "cpu", name)
    assert not list(tmp_path.iterdir())


def test_a_save_that_fails_leaves_what_was_there(
    encoder: SentenceEncoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder.save(tmp_path / "saved")
    before = (tmp_path / "saved" / WEIGHTS).read_bytes()
    monkeypatch.setattr(encoder_module, "write_settings", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        encoder.save(tmp_path / "saved")
    assert [path.name for path in tmp_path.iterdir()] == ["saved"]
    assert (tmp_path / "saved" / WEIGHTS).read_bytes() == before


def test_float16_storage(encoder: SentenceEncoder, sentences: dict[str, list[str]], tmp_path: Path) -> None:
    encoder.save(tmp_path / "half", dtype="float16")
    stored = load_file(tmp_path / "half" / WEIGHTS)
    assert {tensor.dtype for tensor in stored.values()} == {torch.float16}
    assert json.loads((tmp_path / "half" / "config.json").read_text())["dtype"] == "float16"
    half = SentenceEncoder.load(str(tmp_path / "half"), "cpu", dtype="float32")
    assert half.model.dtype == torch.float32
    ours, full = half.embed(sentences["fra"]), encoder.embed(sentences["fra"])
    cosines = (ours * full).sum(1) / np.linalg.norm(ours, axis=1) / np.linalg.norm(full, axis=1)
    assert cosines.min() > 0.9999
    # The fingerprint is of the weights as stored: the type computed in does not change it.
    other = SentenceEncoder.load(str(tmp_path / "half"), "cpu", dtype="bfloat16")
    assert other.precision == "bfloat16" and other.model.dtype == torch.float32
    assert other.fingerprint == half.fingerprint != encoder.fingerprint


def test_a_run_stands_for_its_encoder(encoder: SentenceEncoder, tmp_path: Path) -> None:
    encoder.save(tmp_path / "run" / "encoder")
    assert SentenceEncoder.load(str(tmp_path / "run"), "cpu").fingerprint == encoder.fingerprint


def test_a_new_encoder_comes_from_its_seed(encoder: SentenceEncoder) -> None:
    shape = NewEncoder(layers=1, width=16, heads=2, ffn=32)
    first, second, other = (SentenceEncoder.new(shape, encoder.tokenizer, 40, seed) for seed in (1, 1, 2))
    assert first.fingerprint == second.fingerprint != other.fingerprint
    assert first.dim == 16 and first.max_tokens == 40
    assert np.isfinite(first.embed(["mot " * 500])).all()  # a sentence of 40 tokens has its positions
    assert first.truncated == 1


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nosuch", "no encoder 'nosuch'"),
        ("./nosuch", "no encoder './nosuch'"),
        ("a/b/c", "no encoder 'a/b/c'"),
        ("a/", "no encoder 'a/'"),
        ("~/a", "no encoder '~/a'"),
        ("my encoders/a", "no encoder 'my encoders/a'"),
        ("modèles/a", "no encoder 'modèles/a'"),
    ],
)
def test_an_unknown_name(name: str, message: str) -> None:
    with pytest.raises(MexmaError, match=message) as caught:
        SentenceEncoder.load(name)
    assert caught.value.hint is not None and "mini" in caught.value.hint


def test_a_path_is_a_folder(
    encoder: SentenceEncoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for path in (Path("mini"), tmp_path / "mini"):
        encoder.save(path)
        assert SentenceEncoder.load(path, "cpu").fingerprint == encoder.fingerprint, "not the bundled one"
    with pytest.raises(MexmaError, match=r"no encoder './owner/name'"):
        SentenceEncoder.load(Path("owner/name"), "cpu")


def test_a_path_that_is_no_encoder(tmp_path: Path) -> None:
    with pytest.raises(MexmaError, match=r"it has no config\.json"):
        SentenceEncoder.load(str(tmp_path))
    (tmp_path / "file").write_text("x")
    with pytest.raises(MexmaError, match="is a file"):
        SentenceEncoder.load(str(tmp_path / "file"))


@pytest.mark.parametrize("device", ["gpu", "mps", "meta"])
def test_an_unknown_device(device: str, tiny_encoder: Path) -> None:
    with pytest.raises(MexmaError, match=f"unknown device '{device}'"):
        SentenceEncoder.load(str(tiny_encoder), device)


def test_a_device_that_is_not_there(tiny_encoder: Path) -> None:
    with pytest.raises(MexmaError, match="no device 'cuda:99' on this machine") as caught:
        SentenceEncoder.load(str(tiny_encoder), "cuda:99")
    assert caught.value.hint == "use --device cpu"


def test_mapped_to_another_encoder_it_has_its_vectors(
    tiny_encoder: Path, sentences: dict[str, list[str]], tmp_path: Path
) -> None:
    encoder, texts = SentenceEncoder.load(tiny_encoder, "cpu"), sentences["fra"]
    before, turn = encoder.fingerprint, np.random.default_rng(1).normal(size=(encoder.dim, 40))
    others = encoder.embed(texts) @ turn
    others /= np.linalg.norm(others, axis=1, keepdims=True)
    encoder.map_to(texts, others)
    found = encoder.embed(texts)
    assert np.abs(found - others).max() < 0.01 and encoder.dim == 40 and encoder.normalised
    encoder.save(tmp_path / "mapped")
    again = SentenceEncoder.load(tmp_path / "mapped", "cpu")
    assert np.abs(again.embed(texts) - found).max() < 1e-6
    assert before != encoder.fingerprint == again.fingerprint
    with pytest.raises(MexmaError, match=r"vectors of the shape \(2, 40\) for 1 sentences"):
        encoder.map_to(texts[:1], others[:2])


def test_encode_is_that_of_sentence_transformers(
    tiny_encoder: Path, sentences: dict[str, list[str]], capfd: pytest.CaptureFixture[str]
) -> None:
    library = pytest.importorskip("sentence_transformers")
    theirs = library.SentenceTransformer(str(tiny_encoder), device="cpu", prompts={"query": "query: "})
    encoder = SentenceEncoder.load(tiny_encoder, "cpu")
    encoder.prompts = {"query": "query: "}
    texts = [*sentences["fra"], ""]
    for how in (
        {},
        {"prompt_name": "query"},
        {"prompt": "clue: "},
        {"normalize_embeddings": True},
        {"batch_size": 3, "show_progress_bar": False},
        {"convert_to_tensor": True},
    ):
        ours, expected = encoder.encode(texts, **how), theirs.encode(texts, **how)
        assert type(ours) is type(expected)
        np.testing.assert_allclose(np.asarray(ours), np.asarray(expected), atol=1e-5)
        one = encoder.encode(texts[0], **how)
        np.testing.assert_allclose(np.asarray(one), np.asarray(expected)[0], atol=1e-5)
    assert (encoder.prefix, encoder.dim, encoder.batch_size) == ("", 32, None)
    capfd.readouterr()
    encoder.encode(texts, show_progress_bar=True)
    assert "9/9" in capfd.readouterr().err
    assert encoder.encode([]).shape == (0, 32)
    with pytest.raises(MexmaError, match="has no prompt of the name 'passage'"):
        encoder.encode(texts, prompt_name="passage")
    with pytest.raises(MexmaError, match="a batch of 0 sentences is none"):
        encoder.encode(texts, batch_size=0)
