"""Encoders as models of sentence-transformers: its vectors are ours, and what it saves is read back."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from mexma_cli.encoder.encoder import SentenceEncoder
from mexma_cli.encoder.loading.folder import BUNDLED
from mexma_cli.encoder.sentence_transformer import sentence_transformer
from mexma_cli.errors import MexmaError
from mexma_cli.objectives.bag.settings import BagSettings
from mexma_cli.objectives.masking import load_masked_lm
from tests.examples import demo_pairs, untrained_bag

pytestmark = pytest.mark.skipif(find_spec("sentence_transformers") is None, reason="needs it")
NAMES = ["mini", "of today"]


@pytest.fixture(scope="module")
def lines() -> list[str]:
    pairs = [side for pair in demo_pairs(8) for side in pair.split("\t")]
    return [*pairs, "", "Zweiundvierzig Donaudampfschiffe 42 Łódź!", "zurbelnd " * 200]


@pytest.mark.parametrize("name", NAMES)
def test_vectors_are_ours(
    name: str, published: Callable[[str], Path], lines: list[str], tmp_path: Path
) -> None:
    """Of words in pieces, whatever stands beside a sentence, with modules and prompt; and when saved."""
    from sentence_transformers import SentenceTransformer

    where = name if name == "mini" else str(published(name))
    encoder = SentenceEncoder.load(where, "cpu")
    ours = encoder.embed(lines)
    model = sentence_transformer(where)
    assert model.max_seq_length == encoder.max_tokens and model.get_embedding_dimension() == encoder.dim
    np.testing.assert_allclose(model.encode(lines, batch_size=4), ours, atol=2e-3)
    model.save_pretrained(str(tmp_path / "saved"), create_model_card=False)
    with pytest.raises(ValueError, match="trust_remote_code"):
        SentenceTransformer(str(tmp_path / "saved"), device="cpu")
    saved = SentenceTransformer(str(tmp_path / "saved"), device="cpu", trust_remote_code=True)
    np.testing.assert_allclose(saved.encode(lines, batch_size=4), ours, atol=2e-3)
    again = SentenceEncoder.load(str(tmp_path / "saved"), "cpu")
    assert (again.prefix, again.max_tokens) == (encoder.prefix, encoder.max_tokens)
    assert again.prompts.items() >= encoder.prompts.items()
    assert (again.ngrams is None) == (encoder.ngrams is None)
    np.testing.assert_allclose(again.embed(lines), ours, atol=2e-3)


@pytest.mark.parametrize("dtype", ["pq", "float32"])
def test_what_others_cannot_honour_they_refuse(dtype: str, lines: list[str], tmp_path: Path) -> None:
    """Quantised weights, or n-grams beside plain ones: no other vectors, and the message names the way."""
    from sentence_transformers import SentenceTransformer
    from transformers import AutoModel

    folder, settings = str(tmp_path / "it"), BagSettings(name="bag", ngrams=[2, 3], keep_ngrams=True)
    encoder = untrained_bag(settings).export()
    encoder.save(folder, dtype)
    lines = [line for line in lines if line]  # of no words this bag's vector is next to nothing
    for where in (folder, str(BUNDLED / "mini")):
        with pytest.raises(ValueError, match=r"mexma_cli\.SentenceEncoder\.load\(FOLDER\)"):
            AutoModel.from_pretrained(where)
        assert not (Path(where) / "model.safetensors").exists(), "transformers 4 would read it"
        with pytest.raises(ValueError, match="trust_remote_code"):
            SentenceTransformer(where, device="cpu")
        theirs = SentenceTransformer(where, device="cpu", trust_remote_code=True).encode(lines)
        np.testing.assert_allclose(theirs, SentenceEncoder.load(where, "cpu").embed(lines), atol=2e-3)
    for pooling in ("cls", "mean"):  # by the engine; and through transformers, as training does
        again = SentenceEncoder.load(folder, "cpu", pooling=pooling)
        assert again.model.config.hidden_size == again.dim
    with pytest.raises(MexmaError, match="has no pooler weights"):
        SentenceEncoder.load(folder, "cpu", pooling="pooler")
    if dtype == "float32":
        assert load_masked_lm(folder)[0].config.hidden_size == encoder.dim


def test_a_folder_of_mexmas_that_is_written_there(tmp_path: Path) -> None:
    encoder = untrained_bag(BagSettings(name="bag", ngrams=[2], keep_ngrams=True)).export()
    encoder.save(tmp_path)
    before = SentenceEncoder.load(tmp_path, "cpu")
    model = sentence_transformer(tmp_path)
    model.max_seq_length = before.max_tokens - 1
    model.save(str(tmp_path))
    assert SentenceEncoder.load(tmp_path, "cpu").max_tokens == before.max_tokens - 1


def test_a_plain_folder_is_loaded_there_without_a_pooler(
    tiny_encoder: Path, lines: list[str], tmp_path: Path
) -> None:
    """Transformers would make one of random numbers, and report that its weights are missing."""
    from sentence_transformers import SentenceTransformer

    encoder = SentenceEncoder.load(str(tiny_encoder), "cpu")
    encoder.save(tmp_path / "it")
    theirs: Any = SentenceTransformer(str(tmp_path / "it"), device="cpu")
    assert theirs[0].auto_model.pooler is None
    np.testing.assert_allclose(theirs.encode(lines), encoder.embed(lines), atol=2e-3)


@pytest.mark.slow
def test_it_is_trained_there_with_words_spelled(lines: list[str], tmp_path: Path) -> None:
    """Steps of one of its losses: it falls, and the encoder that is saved is the one that was trained."""
    from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss

    model = sentence_transformer("mini")
    model[1].requires_grad_(False)
    sides = [model.preprocess(texts) for texts in (lines[:16:2], lines[1:16:2])]
    size = model[0].auto_model.config.vocab_size
    assert all(int((side["input_ids"] >= size).sum()) for side in sides)
    loss = MultipleNegativesRankingLoss(model, scale=5)
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-3)
    found = []
    for _ in range(4):
        value = loss([dict(side) for side in sides], torch.empty(0))
        optimiser.zero_grad()
        value.backward()
        optimiser.step()
        found.append(float(value.detach()))
    assert found[-1] < found[0]
    model.save_pretrained(str(tmp_path), create_model_card=False)
    trained, before = SentenceEncoder.load(str(tmp_path), "cpu"), SentenceEncoder.load("mini", "cpu")
    np.testing.assert_allclose(trained.embed(lines), model.encode(lines), atol=2e-3)
    assert np.abs(trained.embed(lines) - before.embed(lines)).max() > 0.01


def test_without_it_the_message_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(MexmaError, match="sentence-transformers 6 is not installed"):
        sentence_transformer("mini")
