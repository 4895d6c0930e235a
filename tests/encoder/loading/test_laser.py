"""LASER2's and LASER3's layouts, with made weights: the vectors of padded sentences, as LASER has them."""

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
from tests.command import ok, run
from tests.encoder.conftest import fairseq_weights, padded_encoder, torch_states, train_pieces, waves

sentencepiece = pytest.importorskip("sentencepiece")
SPECIAL = {"<s>": 0, "<pad>": 1, "</s>": 2, "<unk>": 3}


@pytest.fixture(scope="module")
def laser(texts: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """laser2.pt and laser2.spm; two pieces of the latter are not in the dictionary."""
    folder = tmp_path_factory.mktemp("laser")
    pieces = train_pieces(folder / "laser2.spm", [text.lower() for text in texts], "unigram", 80)
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
    assert "checked encoder: it loads" in ok(run("info", laser)).stdout
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


def test_a_checkpoint_without_its_pieces_or_damaged_is_refused(laser: Path, tmp_path: Path) -> None:
    alone = Path(shutil.copy(laser, tmp_path / "alone.pt"))
    with pytest.raises(MexmaError, match=r"has no alone\.spm or laser2\.spm beside it"):
        SentenceEncoder.load(str(alone), "cpu")
    alone.write_bytes(laser.read_bytes()[:500])
    with pytest.raises(MexmaError, match=r"alone\.pt"):
        SentenceEncoder.load(str(alone), "cpu")
    with pytest.raises(MexmaError, match="the kind laser2 is not written"):
        SentenceEncoder.load(str(laser), "cpu").save(tmp_path / "saved")


# LASER3.

NARROW, HEADS = 12, 2
TEXTS = ["Le chat dort.", "", "Oui", "ξω 漢字", "The cat sleeps on the mat, and so do I.", "OUI"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("num_embeddings", 1 << 36),
        ("num_embeddings", -1),
        ("num_embeddings", "x"),
        ("hidden_size", 1 << 20),
        ("embed_dim", 1 << 36),
        ("num_layers", 10**6),
        ("padding_idx", 10**9),
    ],
)
def test_sizes_of_laser2_that_are_not_those_of_its_weights(
    name: str, value: Any, laser: Path, tmp_path: Path
) -> None:
    """They are compared before they take memory, or hours."""
    content = torch.load(laser, weights_only=True)
    content["params"][name] = value
    torch.save(content, tmp_path / "laser2.pt")
    with pytest.raises(
        MexmaError, match=r"laser2\.pt: the parts of the checkpoint do not belong together: ."
    ):
        SentenceEncoder.load(str(tmp_path / "laser2.pt"), "cpu")


class Made:
    """A checkpoint of LASER3, and its vectors of TEXTS by torch's encoder, padded.

    Args:
        own: Whether it has pieces of its own, and its decoder; otherwise they are LASER2's.
    """

    def __init__(self, folder: Path, laser: Path, own: bool) -> None:
        self.path = folder / "laser3-wol_Latn.v1.pt"
        stem = self.path.stem if own else "laser2"
        self.pieces = folder / f"{stem}.spm"
        shutil.copy(laser.with_suffix(".spm"), self.pieces)
        known = [
            piece for piece in torch.load(laser, weights_only=True)["dictionary"] if piece not in SPECIAL
        ]
        self.vocabulary = self.pieces.with_suffix(".cvocab")
        self.vocabulary.write_text("".join(f"{piece} 7\n" for piece in [*known, "ξω"]), encoding="utf-8")
        torch.manual_seed(8)
        encoder = padded_encoder(NARROW, HEADS, before=not own)
        size = len(known) + 6  # <mask> is the last one
        tokens = torch.randn(size, NARROW)
        weights = {"embed_tokens.weight": tokens, "version": torch.tensor([3.0]), **fairseq_weights(encoder)}
        if own:
            weights = {f"encoder.{name}": weight for name, weight in weights.items()}
            weights |= {"encoder.embed_positions._float_tensor": torch.zeros(1)}
            weights |= {"encoder.project_vocabulary.weight": tokens, "decoder.version": torch.tensor([3.0])}
            places = waves(2, 100, NARROW)
        else:
            weights["embed_positions.weight"] = torch.randn(52, NARROW)
            places = weights["embed_positions.weight"][2:].numpy()
        self.settings: dict[str, Any] = {
            "encoder_embed_dim": NARROW,
            "encoder_ffn_embed_dim": 2 * NARROW,
            "encoder_layers": 2,
            "encoder_attention_heads": HEADS,
            "encoder_normalize_before": not own,
            "encoder_learned_pos": not own,
            "max_source_positions": 50,
            "sentemb_criterion": "cls" if own else "maxpool",
            "prepend_bos": own,
        }
        self.weights = weights
        self.save()
        ids = dict(zip([*SPECIAL, *known, "ξω"], range(size), strict=False))
        lines = sentencepiece.SentencePieceProcessor(model_file=str(self.pieces)).encode(
            [text.lower() for text in TEXTS], out_type=str
        )
        rows = [[*[0] * own, *(ids.get(piece, 3) for piece in line), 2] for line in lines]
        assert ids["ξω"] in rows[3] and 3 in rows[3]
        states = torch_states(encoder, rows, tokens * NARROW**0.5, places)
        self.vectors = np.stack([part[0] if own else part.max(axis=0) for part in states])

    def save(self, **changed: Any) -> None:
        """Write the checkpoint, with other settings."""
        model = argparse.Namespace(**self.settings | changed)
        torch.save({"args": None, "cfg": {"_name": None, "model": model}, "model": self.weights}, self.path)


@pytest.mark.parametrize(("own", "pooling"), [(True, "cls"), (False, "max")])
def test_vectors_of_laser3_are_those_of_a_padded_transformer(
    own: bool, pooling: str, laser: Path, tmp_path: Path
) -> None:
    made = Made(tmp_path, laser, own)
    encoder = SentenceEncoder.load(str(made.path), "cpu")
    np.testing.assert_allclose(encoder.embed(TEXTS), made.vectors, atol=1e-5)
    assert encoder.pooling == pooling and encoder.max_tokens == (200 if own else 50)
    text = tmp_path / "corpus.txt"
    text.write_text("\n".join(TEXTS), encoding="utf-8")
    command = ["embed", "--model", str(made.path), "--dtype", "fp32", "--store-dtype", "float32", str(text)]
    done = CliRunner().invoke(cli, command, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    vectors = EmbeddingStore.open(tmp_path / "corpus.emb").vectors(0, len(TEXTS))
    np.testing.assert_allclose(vectors, made.vectors, atol=1e-5)
    with pytest.raises(MexmaError, match=f"its pooling is {pooling}, not mean"):
        SentenceEncoder.load(str(made.path), "cpu", pooling="mean")
    with pytest.raises(MexmaError, match="the kind laser3 is not written"):
        encoder.save(tmp_path / "saved")


def test_laser3_with_other_settings_or_other_files_is_refused(laser: Path, tmp_path: Path) -> None:
    made = Made(tmp_path, laser, own=True)

    def refused(message: str) -> None:
        with pytest.raises(MexmaError, match=message):
            SentenceEncoder.load(str(made.path), "cpu")

    for setting, value, message in [
        ("sentemb_criterion", "mean", "sentemb_criterion 'mean', which is not supported"),
        ("prepend_bos", False, "'cls' without prepend_bos, which is not supported"),
        ("activation_fn", "swish", "activation_fn 'swish', which is not supported"),
        ("layernorm_embedding", True, "layernorm_embedding, which is not supported"),
        ("encoder_layers", 3, "do not belong together: Missing key"),
        ("encoder_layers", 10**6, "do not belong together: 1,000,000 layers of"),
        ("encoder_layers", "x", "do not belong together: "),
        ("encoder_attention_heads", 0, "do not belong together: "),
        ("encoder_embed_dim", 1 << 40, "do not belong together: "),
        ("activation_fn", [], r"activation_fn \[\], which is not supported"),
        ("encoder_attention_heads", 5, "do not belong together: 5 heads"),
        ("encoder_ffn_embed_dim", 9, "do not belong together: size mismatch"),
    ]:
        made.save(**{setting: value})
        refused(message)
    made.save()
    lines = made.vocabulary.read_text(encoding="utf-8").splitlines(keepends=True)
    for broken, message in [
        (lines[:-1], r"cvocab does not belong to .*: \d+ tokens, and \d+ embeddings"),
        ([*lines[:-1], lines[0]], rf"cvocab, line {len(lines)}: no new piece with its count"),
        (["piece\n"], r"cvocab, line 1: no new piece"),
    ]:
        made.vocabulary.write_text("".join(broken), encoding="utf-8")
        refused(message)
    made.vocabulary.unlink()
    refused(r"has no laser3-wol_Latn\.v1\.cvocab beside it")
    made.pieces.unlink()
    refused(r"has no laser3-wol_Latn\.v1\.cvocab or laser2\.cvocab beside it")
