"""SONAR's text encoder in transformers' layout: the mean of M2M100Encoder's states, the language first."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from transformers import AutoTokenizer, M2M100Config, NllbTokenizer
from transformers.models.m2m_100.modeling_m2m_100 import M2M100Encoder

from mexma_cli.encoder.encoder import SentenceEncoder
from mexma_cli.errors import MexmaError
from mexma_cli.evaluation.embedder import Embedder
from mexma_cli.languages import resolve
from mexma_cli.main import cli
from mexma_cli.store.embeddings import EmbeddingStore
from tests.command import fails, ok, run
from tests.encoder.conftest import WIDTH, change_json

SPECIAL = ["<s>", "<pad>", "</s>", "<unk>"]


@pytest.fixture(scope="module")
def sonar(texts: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sonar")
    letters = sorted({letter for text in texts for letter in text if letter != "漢"} | {"▁"})
    vocabulary = {piece: i for i, piece in enumerate([*SPECIAL, *letters])}
    tokenizer = NllbTokenizer(vocab=vocabulary, merges=[], model_max_length=512)
    tokenizer.save_pretrained(folder)
    torch.manual_seed(6)
    config = M2M100Config(
        vocab_size=len(tokenizer),
        d_model=WIDTH,
        encoder_layers=2,
        encoder_attention_heads=4,
        encoder_ffn_dim=64,
        max_position_embeddings=512,
        init_std=0.3,
    )
    M2M100Encoder(config).save_pretrained(folder)
    return folder


def reference(folder: Path, texts: list[str], language: str) -> np.ndarray:
    """Padded, by transformers alone, as the model card of SONAR in that layout has it."""
    tokenizer = AutoTokenizer.from_pretrained(folder, src_lang=language)
    batch = tokenizer(texts, return_tensors="pt", padding=True)
    model = M2M100Encoder.from_pretrained(folder).eval()
    with torch.inference_mode():
        states = model(**batch).last_hidden_state
    mask = batch["attention_mask"][:, :, None]
    return ((states * mask).sum(dim=1) / mask.sum(dim=1)).numpy()


def test_vectors_are_the_means_of_transformers_encoder(sonar: Path, texts: list[str]) -> None:
    short = [text[:190] for text in texts]
    encoder = SentenceEncoder.load(str(sonar), "cpu")
    found = {}
    for language in ("fra_Latn", "deu_Latn"):
        encoder.set_language(language)
        found[language] = encoder.embed(short)
        np.testing.assert_allclose(found[language], reference(sonar, short, language), atol=1e-5)
    assert not np.allclose(*found.values(), atol=1e-2)
    assert encoder.fingerprint == SentenceEncoder.load(str(sonar), "cpu").fingerprint


def test_embed_tells_it_the_language_of_lang(sonar: Path, tmp_path: Path) -> None:
    text = tmp_path / "corpus.txt"
    text.write_text("Oui\nLe chat dort.\n", encoding="utf-8")
    command = ["embed", "--model", str(sonar), "--dtype", "fp32", "--store-dtype", "float32", str(text)]
    done = CliRunner().invoke(cli, [*command, "--lang", "fr"], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    vectors = EmbeddingStore.open(tmp_path / "corpus.emb").vectors(0, 2)
    np.testing.assert_allclose(vectors, reference(sonar, ["Oui", "Le chat dort."], "fra_Latn"), atol=1e-5)


def test_evaluations_and_score_tell_it_the_language_of_each_text(sonar: Path, tmp_path: Path) -> None:
    """Each sentence is its own translation: its cosine with itself is 1 only where languages are equal."""
    lines = ["Oui", "Le chat dort.", "Un deux trois"]
    text = "".join(f"{line}\n" for line in lines)
    for name in ("fra_Latn.txt", "deu_Latn.txt", "tatoeba.fra-eng.fra", "tatoeba.fra-eng.eng"):
        (tmp_path / name).write_text(text, encoding="utf-8")
    (tmp_path / "pairs.tsv").write_text("".join(f"{line}\t{line}\n" for line in lines), encoding="utf-8")
    encoder = SentenceEncoder.load(str(sonar), "cpu")
    kept = tmp_path / "kept"
    for language in ("fra", "deu", "eng"):
        encoder.set_language(resolve(language))
        np.testing.assert_allclose(
            Embedder(encoder, kept)(lines, language), reference(sonar, lines, resolve(language)), atol=1e-5
        )
    assert len(list(kept.iterdir())) == 3
    model = ("--model", str(sonar), "--dtype", "fp32", "--max-tokens", "200")
    for arguments in (("xsim", tmp_path, "--target", "deu", "--langs", "fra"), ("tatoeba", tmp_path)):
        ok(run("eval", *arguments, *model, "--cache", kept))
    assert len(list(kept.iterdir())) == 3  # all of them found again: in French, German and English
    score = ("score", tmp_path / "pairs.tsv", "--margin", "absolute", *model)
    for streamed in ((), ("--scores-only",)):
        same = ok(run(*score, *streamed, "--source-lang", "fr", "--target-lang", "fra_Latn")).stdout
        assert all(float(line.split("\t")[0]) > 0.999 for line in same.splitlines())
        other = ok(run(*score, *streamed, "--source-lang", "fr", "--target-lang", "de")).stdout
        assert all(float(line.split("\t")[0]) < 0.999 for line in other.splitlines())
        fails(run(*score, *streamed), 1, "has no token for the language und")
    sts = tmp_path / "sts.tsv"
    sts.write_text("1\tOui\tOui\n2\tUn\tOui\n")
    fails(run("eval", "sts", sts, *model), 1, "has to know the language of the text")


def test_a_language_that_is_not_stated_or_not_known_is_an_error(sonar: Path, tmp_path: Path) -> None:
    encoder = SentenceEncoder.load(str(sonar), "cpu")
    with pytest.raises(MexmaError, match="has to know the language of the text"):
        encoder.embed(["Oui"])
    for code in ("und", "tlh_Latn"):
        with pytest.raises(MexmaError, match=f"has no token for the language {code}"):
            encoder.set_language(code)
    with pytest.raises(MexmaError, match="an encoder of the kind m2m_100 is not written"):
        encoder.save(tmp_path / "saved")


def test_a_translation_model_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    change_json("config.json", model_type="m2m_100", architectures=["M2M100Model"])(tmp_path)
    with pytest.raises(MexmaError, match="a translation model's own encoder is none of sentences"):
        SentenceEncoder.load(str(tmp_path), "cpu")
