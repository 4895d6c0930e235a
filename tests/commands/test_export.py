from __future__ import annotations

import os
import resource
from pathlib import Path

import numpy as np
import pytest

from mexma_cli.encoder.encoder import SentenceEncoder
from tests.command import fails, ok, run

LINES = ["Wo ist der Bahnhof?", "Where is the station?", "a b", ""]


def test_others_load_it_with_the_same_vectors(tiny_encoder: Path, tmp_path: Path) -> None:
    from transformers import AutoModel, AutoTokenizer

    output = tmp_path / "new" / "it"
    assert "AutoModel.from_pretrained" in ok(run("export", tiny_encoder, "-o", output)).stderr
    wanted = SentenceEncoder.load(tiny_encoder, "cpu").embed(LINES)
    tokens = AutoTokenizer.from_pretrained(output)(LINES, padding=True, return_tensors="pt")
    states = AutoModel.from_pretrained(output)(**tokens).last_hidden_state
    np.testing.assert_allclose(states[:, 0].detach().numpy(), wanted, atol=1e-5)
    library = pytest.importorskip("sentence_transformers")
    theirs = library.SentenceTransformer(str(output), device="cpu").encode(LINES)
    np.testing.assert_allclose(theirs, wanted, atol=1e-5)


def test_a_name_that_is_not_utf8_is_refused(tiny_encoder: Path, tmp_path: Path) -> None:
    fails(run("export", tiny_encoder, "-o", os.fsdecode(bytes(tmp_path) + b"/\xe9")), 1, "has to be UTF-8")
    assert list(tmp_path.iterdir()) == []


def test_no_space_for_the_tokeniser(tiny_encoder: Path, tmp_path: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4000, before[1]))
    try:
        done = run("export", tiny_encoder, "-o", tmp_path / "it")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    fails(done, 1, "it could not be written: File too large")
    assert not (tmp_path / "it").exists()


def test_what_they_cannot_honour_is_said(tmp_path: Path) -> None:
    """That they refuse it is in tests/encoder/test_sentence_transformer.py."""
    done = ok(run("export", "mini", "-o", tmp_path / "mini"))
    assert "SentenceTransformer(FOLDER, trust_remote_code=True); without, other libraries" in done.stderr
    again = SentenceEncoder.load(tmp_path / "mini", "cpu").embed(LINES)
    np.testing.assert_array_equal(again, SentenceEncoder.load("mini", "cpu").embed(LINES))


def test_nothing_is_written_over(tiny_encoder: Path, tmp_path: Path) -> None:
    fails(run("export", tiny_encoder, "-o", tiny_encoder, "--overwrite"), 2, "is the encoder itself")
    (tmp_path / "text").mkdir()
    (tmp_path / "text" / "thesis.txt").touch()
    fails(run("export", tiny_encoder, "-o", tmp_path / "text", "--overwrite"), 1, "holds no encoder")
    output = tmp_path / "it"
    ok(run("export", tiny_encoder, "-o", output))
    before = (output / "config.json").stat().st_ino
    ok(run("export", tiny_encoder, "-o", output))  # as it was killed when all was done
    fails(run("export", tiny_encoder, "-o", output, "--dtype", "bf16"), 1, "is another encoder")
    assert (output / "config.json").stat().st_ino == before and len(list(tmp_path.iterdir())) == 2
    ok(run("export", tiny_encoder, "-o", output, "--overwrite", "--dtype", "bf16"))
    (output / "checksums.json").unlink()
    fails(run("export", tiny_encoder, "-o", output), 2, "--overwrite makes it anew")
    fails(run("export", tmp_path / "none", "-o", tmp_path / "b"), 1, "no encoder")
