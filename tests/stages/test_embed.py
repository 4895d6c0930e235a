"""Text to store: every line a row, in order, and the same bytes however often the run was killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from mexma_cli.encoder.encoder import SentenceEncoder
from mexma_cli.errors import MexmaError
from mexma_cli.stages.embed import embed_file
from mexma_cli.store.embeddings import EmbeddingStore
from mexma_cli.text.lines import read_lines


@pytest.fixture(scope="module")
def encoder(tiny_encoder: Path) -> SentenceEncoder:
    return SentenceEncoder.load(str(tiny_encoder), device="cpu")


@pytest.fixture
def corpus(tmp_path: Path, sentences: dict[str, list[str]]) -> Path:
    """100 lines; line 3 is empty, line 8 is too long for the encoder."""
    rows = [f"{sentence} {number}" for number in range(13) for sentence in sentences["fra"]][:100]
    rows[2], rows[7] = "", "mot " * 200
    path = tmp_path / "corpus.txt"
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return path


def content(path: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in path.iterdir()}


def test_every_line_is_a_row(encoder: SentenceEncoder, corpus: Path, tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    store = embed_file(
        encoder,
        corpus,
        tmp_path / "a.emb",
        "fra_Latn",
        store_dtype="float32",
        argv=["mexma", "embed"],
        rows_per_shard=32,
        on_progress=lambda done, total: told.append((done, total)),
    )
    lines = list(read_lines(corpus))
    manifest = store.manifest
    assert list(store.sentences()) == lines
    assert (store.rows, manifest.truncated, manifest.empty) == (100, 1, 1)
    assert manifest.language == "fra_Latn"
    assert (manifest.encoder, manifest.fingerprint) == (encoder.name, encoder.fingerprint)
    assert (manifest.source.path, manifest.source.lines) == (str(corpus), 100)
    for row in (0, 2, 7, 31, 32, 99):
        np.testing.assert_allclose(store.vectors(row, row + 1)[0], encoder.embed([lines[row]])[0], atol=1e-4)
    assert told[0] == (0, 100)
    assert told[-1] == (100, 100)
    store.verify()


def test_the_same_again_is_no_work(encoder: SentenceEncoder, corpus: Path, tmp_path: Path) -> None:
    embed_file(encoder, corpus, tmp_path / "a.emb", "fra_Latn")
    before = {file.name: file.stat().st_mtime_ns for file in (tmp_path / "a.emb").iterdir()}
    embed_file(encoder, corpus, tmp_path / "a.emb", "fra_Latn", on_progress=lambda *_: pytest.fail("worked"))
    assert {file.name: file.stat().st_mtime_ns for file in (tmp_path / "a.emb").iterdir()} == before


def test_other_settings_need_overwrite(encoder: SentenceEncoder, corpus: Path, tmp_path: Path) -> None:
    embed_file(encoder, corpus, tmp_path / "a.emb", "fra_Latn")
    with pytest.raises(MexmaError, match="language: fra_Latn there, eng_Latn now") as caught:
        embed_file(encoder, corpus, tmp_path / "a.emb", "eng_Latn")
    assert "--overwrite" in (caught.value.hint or "")
    corpus.write_text("another text\n")
    with pytest.raises(MexmaError, match=r"text \(checksum\)"):
        embed_file(encoder, corpus, tmp_path / "a.emb", "fra_Latn")
    assert embed_file(encoder, corpus, tmp_path / "a.emb", "fra_Latn", overwrite=True).rows == 1


@pytest.mark.parametrize("broken", [b"", b"caf\xe9\n", b"x" * 10_000_000, b"a\0b\n"])
def test_broken_text_is_refused_before_any_work(
    broken: bytes, encoder: SentenceEncoder, corpus: Path, tmp_path: Path
) -> None:
    corpus.write_bytes(broken)
    with pytest.raises(MexmaError, match=r"corpus\.txt"):
        embed_file(encoder, corpus, tmp_path / "a.emb")
    assert [path.name for path in tmp_path.iterdir()] == ["corpus.txt"]


def test_a_text_that_changes_meanwhile_is_refused(
    encoder: SentenceEncoder, corpus: Path, tmp_path: Path
) -> None:
    from mexma_cli.text.lines import scan

    found = scan(corpus)
    corpus.write_text("only one line left\n")
    with pytest.raises(MexmaError, match="changed while it was read: 100 lines before, 1 now"):
        embed_file(encoder, found, tmp_path / "a.emb")
    assert not (tmp_path / "a.emb").exists()


WORKER = """
import sys, time
from mexma_cli.encoder.encoder import SentenceEncoder
from mexma_cli.stages.embed import embed_file
encoder = SentenceEncoder.load(sys.argv[1], device="cpu")
slow = float(sys.argv[4])
embed_file(encoder, sys.argv[2], sys.argv[3], rows_per_shard=8, on_progress=lambda *_: time.sleep(slow))
"""


def run(encoder: Path, corpus: Path, output: Path, slow: float = 0.0) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", WORKER, encoder, corpus, output, str(slow)])


def test_killed_and_resumed_gives_the_same_bytes(
    tiny_encoder: Path, encoder: SentenceEncoder, corpus: Path, tmp_path: Path
) -> None:
    output = tmp_path / "a.emb"
    process = run(tiny_encoder, corpus, output, slow=0.1)
    last = output.with_name("a.emb.partial") / "vectors-00003.npy"
    deadline = time.monotonic() + 120
    while not last.exists() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    assert not output.exists()
    kept = last.with_name("vectors-00002.npy").stat().st_mtime_ns
    assert run(tiny_encoder, corpus, output).wait(120) == 0
    assert (output / "vectors-00002.npy").stat().st_mtime_ns == kept, "whole shards are not made again"
    embed_file(encoder, corpus, tmp_path / "whole.emb", rows_per_shard=8)
    assert content(output) == content(tmp_path / "whole.emb")
    assert sorted(os.listdir(tmp_path)) == ["a.emb", "corpus.txt", "whole.emb"]
    EmbeddingStore.open(output, verify=True)
