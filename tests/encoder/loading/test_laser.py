"""LASER2's layout, with made weights: the vectors of a padded LSTM as LASER's own code computes them."""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from mexma_cli.encoder.encoder import SentenceEncoder
from mexma_cli.errors import MexmaError
from mexma_cli.main import cli
from mexma_cli.store.embeddings import EmbeddingStore

sentencepiece = pytest.importorskip("sentencepiece")
SPECIAL = {"<s>": 0, "<pad>": 1, "</s>": 2, "<unk>": 3}


@pytest.fixture(scope="module")
def laser(texts: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """laser2.pt and laser2.spm; two pieces of the latter are not in the dictionary."""
    folder = tmp_path_factory.mktemp("laser")
    spm = folder / "laser2.spm"
    with spm.open("wb") as file:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(text.lower()[:500] for text in texts if text),
            model_writer=file,
            vocab_size=80,
            hard_vocab_limit=False,
            num_threads=1,
            minloglevel=2,
        )
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(spm))
    known = [pieces.id_to_piece(i) for i in range(3, pieces.get_piece_size() - 2)]
    params = {"num_embeddings": len(known) + 4, "padding_idx": 1, "embed_dim": 10, "hidden_size": 12}
    params |= {"num_layers": 2, "bidirectional": True, "left_pad": True, "padding_value": 0.0}
    torch.manual_seed(7)
    weights = {"embed_tokens.weight": torch.randn(len(known) + 4, 10)}
    lstm = torch.nn.LSTM(10, 12, 2, bidirectional=True)
    weights |= {f"lstm.{name}": 3 * value for name, value in lstm.state_dict().items()}
    dictionary = SPECIAL | {piece: i + 4 for i, piece in enumerate(known)}
    torch.save({"params": params, "model": weights, "dictionary": dictionary}, folder / "laser2.pt")
    return folder / "laser2.pt"


def reference(path: Path, texts: list[str]) -> np.ndarray:
    """All in one padded batch, the longest first; padding never is the largest."""
    content = torch.load(path, weights_only=True)
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(path.with_suffix(".spm")))
    lines = [pieces.encode(text.lower(), out_type=str) for text in texts]
    ids = [torch.tensor([*(content["dictionary"].get(piece, 3) for piece in line), 2]) for line in lines]
    padded = torch.nn.utils.rnn.pad_sequence(ids, padding_value=1)
    lstm = torch.nn.LSTM(10, 12, 2, bidirectional=True)
    lstm.load_state_dict(
        {name.removeprefix("lstm."): v for name, v in content["model"].items() if "lstm" in name}
    )
    states = content["model"]["embed_tokens.weight"][padded]
    with torch.inference_mode():
        packed = lstm(pack_padded_sequence(states, list(map(len, ids)), enforce_sorted=False))[0]
    found, _ = pad_packed_sequence(packed)
    return found.masked_fill((padded == 1)[:, :, None], -torch.inf).amax(dim=0).numpy()


def test_vectors_are_those_of_a_padded_lstm(laser: Path) -> None:
    texts = ["Le chat dort.", "", "Oui", "漢字 только", "The cat sleeps on the mat, and so do I.", "OUI"]
    encoder = SentenceEncoder.load(str(laser), "cpu")
    vectors = encoder.embed(texts)
    assert vectors.shape == (6, 24) and not encoder.normalised and encoder.pooling == "max"
    np.testing.assert_allclose(vectors, reference(laser, texts), atol=1e-5)
    np.testing.assert_allclose(vectors[2], vectors[5], atol=1e-6)


def test_embed_takes_the_file_and_cleans_as_laser_does(laser: Path, tmp_path: Path) -> None:
    text = tmp_path / "corpus.txt"
    text.write_text('«\u00a0Oui\u00a0»\n"Oui"\n', encoding="utf-8")
    command = ["embed", "--model", str(laser), "--dtype", "fp32", "--store-dtype", "float32", str(text)]
    done = CliRunner().invoke(cli, command, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    vectors = EmbeddingStore.open(tmp_path / "corpus.emb").vectors(0, 2)
    np.testing.assert_allclose(vectors, reference(laser, ['"Oui"', '"Oui"']), atol=1e-5)


def test_the_fingerprint_is_of_weights_dictionary_and_pieces(laser: Path, tmp_path: Path) -> None:
    found = {SentenceEncoder.load(str(laser), "cpu").fingerprint}
    for part in ("model", "dictionary"):
        content: dict[str, Any] = torch.load(laser, weights_only=True)
        if part == "model":
            content["model"]["lstm.bias_hh_l0"][0] += 1
        else:
            content["dictionary"]["▁"] = 3
        changed = tmp_path / f"{part}.pt"
        torch.save(content, changed)
        shutil.copy(laser.with_suffix(".spm"), changed.with_suffix(".spm"))
        found.add(SentenceEncoder.load(str(changed), "cpu").fingerprint)
    assert len(found) == 3


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"cfg": {"model": argparse.Namespace(prepend_bos=False)}, "model": {}}, "no checkpoint of LASER2"),
        ({"params": {"num_embeddings": 9}, "model": {}, "dictionary": {}}, "do not belong together"),
        ([], "no checkpoint of LASER2"),
    ],
)
def test_other_checkpoints_are_refused(content: Any, message: str, tmp_path: Path) -> None:
    torch.save(content, tmp_path / "laser3.pt")
    with pytest.raises(MexmaError, match=message):
        SentenceEncoder.load(str(tmp_path / "laser3.pt"), "cpu")


def test_a_checkpoint_without_its_pieces_or_damaged_is_refused(laser: Path, tmp_path: Path) -> None:
    alone = Path(shutil.copy(laser, tmp_path / "alone.pt"))
    with pytest.raises(MexmaError, match=r"has no alone\.spm beside it"):
        SentenceEncoder.load(str(alone), "cpu")
    alone.write_bytes(laser.read_bytes()[:500])
    with pytest.raises(MexmaError, match=r"alone\.pt"):
        SentenceEncoder.load(str(alone), "cpu")
    with pytest.raises(MexmaError, match="the kind laser2 is not written"):
        SentenceEncoder.load(str(laser), "cpu").save(tmp_path / "saved")
