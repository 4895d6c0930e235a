"""SONAR's text encoder as fairseq2's file, made weights: the means of padded states, the language first."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from transformers.models.nllb.tokenization_nllb import FAIRSEQ_LANGUAGE_CODES

from mexma_cli import align, mine, score
from mexma_cli.encoder.encoder import SentenceEncoder
from mexma_cli.encoder.loading.sonar import SPM
from mexma_cli.errors import MexmaError
from mexma_cli.main import cli
from mexma_cli.store.embeddings import EmbeddingStore
from tests.command import fails, ok, run, write
from tests.encoder.conftest import fairseq_weights, padded_encoder, torch_states, train_pieces, waves

sentencepiece = pytest.importorskip("sentencepiece")
WIDTH = 128
"""Two heads of 64."""
TEXTS = ["Le chat dort.", "", "Oui", "漢字 ☃ <s> только", "The cat sleeps on the mat, and so do I."]
FAIRSEQ2 = [
    ("self_attn.out_proj", "self_attn.output_proj"),
    ("fc1", "ffn.inner_proj"),
    ("fc2", "ffn.output_proj"),
    ("final_layer_norm", "ffn_layer_norm"),
    ("layers.", "encoder.layers."),
]


@pytest.fixture(scope="module")
def made(texts: list[str], tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, np.ndarray]]:
    """sonar_text_encoder.pt with its pieces, and its vectors of TEXTS in French and Santali."""
    folder = tmp_path_factory.mktemp("sonar")
    pieces = train_pieces(folder / SPM, texts, "bpe", 100)
    count = pieces.get_piece_size()
    torch.manual_seed(9)
    encoder = padded_encoder(WIDTH, 2, before=True)
    weights = {"encoder_frontend.embed.weight": 0.1 * torch.randn(count + 206, WIDTH)}
    for name, weight in fairseq_weights(encoder).items():
        for theirs, ours in FAIRSEQ2:
            name = name.replace(theirs, ours)
        weights[name] = weight
    torch.save({"model": weights}, folder / "sonar_text_encoder.pt")
    scaled = weights["encoder_frontend.embed.weight"] * WIDTH**0.5
    vectors = {}
    for code in ("fra_Latn", "sat_Beng"):  # in fairseq2 <pad>, <unk>, <s> and </s> are 0 to 3
        first = count + 1 + FAIRSEQ_LANGUAGE_CODES.index(code)
        rows = [[first, *(place + 1 for place in pieces.encode(text)), 3] for text in TEXTS]
        assert 1 in rows[3] and 2 not in rows[3]
        states = torch_states(encoder, rows, scaled, waves(2, 100, WIDTH))
        vectors[code] = np.stack([part.mean(axis=0) for part in states])
    return folder / "sonar_text_encoder.pt", vectors


def test_vectors_are_the_means_of_torch_states(made: tuple[Path, dict[str, np.ndarray]]) -> None:
    path, vectors = made
    encoder = SentenceEncoder.load(str(path), "cpu")
    fingerprint = encoder.fingerprint
    for language, code in [("fra_Latn", "fra_Latn"), ("sat_Olck", "sat_Beng")]:
        encoder.set_language(language)
        np.testing.assert_allclose(encoder.embed(TEXTS), vectors[code], atol=1e-5)
    assert not np.allclose(*vectors.values(), atol=1e-3)
    assert encoder.fingerprint == fingerprint == SentenceEncoder.load(str(path), "cpu").fingerprint


def test_embed_tells_it_the_language_of_lang(
    made: tuple[Path, dict[str, np.ndarray]], tmp_path: Path
) -> None:
    path, vectors = made
    text = tmp_path / "corpus.txt"
    text.write_text("\n".join(TEXTS), encoding="utf-8")
    command = ["embed", "--model", str(path), "--dtype", "fp32", "--store-dtype", "float32", str(text)]
    done = CliRunner().invoke(cli, [*command, "--lang", "fr"], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    found = EmbeddingStore.open(tmp_path / "corpus.emb").vectors(0, len(TEXTS))
    np.testing.assert_allclose(found, vectors["fra_Latn"], atol=1e-5)
    done = CliRunner().invoke(cli, [*command, "-o", str(tmp_path / "other.emb")])
    assert done.exit_code == 1 and "has no token for the language und" in done.stderr


def test_evaluations_leave_out_languages_without_a_token(
    made: tuple[Path, dict[str, np.ndarray]], tmp_path: Path
) -> None:
    for code in ("eng_Latn", "fra_Latn", "min_Arab"):
        write(tmp_path / f"{code}.txt", *TEXTS)
    options = [tmp_path, "--model", made[0], "--device", "cpu", "--cache", "none"]
    done = ok(run("eval", "xsim", *options, "--json"))
    assert [row["language"] for row in json.loads(done.stdout)["rows"]] == ["fra_Latn"]
    assert "has no token for 1 language, left out: min_Arab\n" in done.stderr
    fails(run("eval", "xsim", *options, "--langs", "min_Arab"), 1, "and there are no others: min_Arab")


def test_python_states_the_languages(made: tuple[Path, dict[str, np.ndarray]], tmp_path: Path) -> None:
    pairs = write(tmp_path / "pairs.tsv", "Oui\tYes", "Le chat dort.\tThe cat sleeps.")
    found = score(pairs, encoder=str(made[0]), margin="absolute", languages=("fr", "eng"))
    assert found.scores.shape == (2,) and np.isfinite(found.scores).all()
    with pytest.raises(MexmaError, match="has no token for the language und"):
        score(pairs, encoder=str(made[0]), margin="absolute")
    source, target = write(tmp_path / "fr.txt", "Oui", "Non"), write(tmp_path / "eng.txt", "Yes", "No")
    for function in (mine, align):
        found = list(function(source, target, encoder=str(made[0]), languages=("fr", "eng")))
        assert found and {pair.source for pair in found} <= {"Oui", "Non", "Oui Non"}
        with pytest.raises(MexmaError, match="has no token for the language und"):
            function(source, target, encoder=str(made[0]))


def test_info_describes_the_file_or_says_what_it_lacks(
    made: tuple[Path, dict[str, np.ndarray]], tmp_path: Path
) -> None:
    done = ok(run("info", made[0]))
    assert done.stdout.startswith(f"{made[0]}: encoder\n") and "checked encoder: it loads" in done.stdout
    for fact in ("m2m_100", f"dim          {WIDTH}", "layers       2", "pooling      mean"):
        assert fact in done.stdout
    alone = Path(shutil.copy(made[0], tmp_path))
    done = fails(run("info", alone), 1, f"has no {SPM} beside it")
    assert not done.stdout and len(done.stderr.splitlines()) <= 2


def test_files_that_do_not_belong_together_are_refused(
    made: tuple[Path, dict[str, np.ndarray]], tmp_path: Path
) -> None:
    path = Path(shutil.copy(made[0], tmp_path))
    with pytest.raises(MexmaError, match=rf"has no {SPM} beside it"):
        SentenceEncoder.load(str(path), "cpu")
    shutil.copy(made[0].with_name(SPM), tmp_path)
    weights = torch.load(path, weights_only=True)["model"]
    for name, changed, message in [
        ("encoder_frontend.embed.weight", torch.zeros(300, WIDTH), r"does not belong to .* 300 embeddings"),
        (
            "encoder_frontend.embed.weight",
            torch.zeros(300, 96),
            r"have the shapes \[\[300, 96\]",
        ),
        ("encoder.layers.1.ffn.inner_proj.bias", torch.zeros(3), r"such as layers\.1\.fc1\.bias"),
        ("encoder.layers.2.ffn.inner_proj.bias", torch.zeros(256), r"such as layers\.2\.f"),
        ("pooler.projection_out.weight", torch.zeros(1), "1 of the weights are .* such as pooler"),
    ]:
        torch.save({"model": weights | {name: changed}}, path)
        with pytest.raises(MexmaError, match=message):
            SentenceEncoder.load(str(path), "cpu")
