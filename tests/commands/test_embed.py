"""`mexma embed` as a user calls it."""

from __future__ import annotations

import gzip
import os
import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from mexma_cli.commands.embed import default_output
from mexma_cli.main import cli
from mexma_cli.store.embeddings import EmbeddingStore


def embed(encoder: Path, *arguments: str | Path, stdin: bytes | None = None) -> Result:
    options = ["embed", "--model", str(encoder), "--device", "cpu", *map(str, arguments)]
    return CliRunner().invoke(cli, options, input=stdin)


@pytest.fixture
def corpus(tmp_path: Path, sentences: dict[str, list[str]]) -> Path:
    path = tmp_path / "corpus.txt"
    path.write_text("\n".join([*sentences["fra"], ""]) + "\n", encoding="utf-8")
    return path


def test_embeds_beside_the_text(tiny_encoder: Path, corpus: Path) -> None:
    done = embed(tiny_encoder, "--lang", "fr", corpus)
    assert done.exit_code == 0, done.output
    assert done.stdout == ""
    device, result = done.stderr.splitlines()
    assert re.fullmatch(r"embedding on cpu \(\d+ threads?\), \w+", device)
    counts = "0 truncated to 64 tokens, 1 empty lines kept as rows, 0 duplicates embedded once"
    assert result.startswith(f"9 rows of 32 numbers in {corpus.with_suffix('.emb')} ({counts}); ")
    assert re.search(r"; [\d,]+ sentences/s, [\d,]+ tokens/s$", result)
    store = EmbeddingStore.open(corpus.with_suffix(".emb"), verify=True)
    assert store.manifest.language == "fra_Latn"
    again = embed(tiny_encoder, "--lang", "fra_Latn", corpus)
    assert again.exit_code == 0
    assert "nothing to do" in again.stderr


def test_stdin_needs_an_output_and_works_with_one(tiny_encoder: Path, corpus: Path, tmp_path: Path) -> None:
    refused = embed(tiny_encoder, "-", stdin=b"a\n")
    assert refused.exit_code == 2
    assert "-o NAME.emb is needed" in refused.stderr
    done = embed(tiny_encoder, "-", "-o", tmp_path / "in.emb", stdin=gzip.compress(corpus.read_bytes()))
    assert done.exit_code == 0, done.output
    store = EmbeddingStore.open(tmp_path / "in.emb")
    assert store.manifest.source.path == "stdin"
    assert list(store.sentences()) == corpus.read_text().splitlines()


@pytest.mark.parametrize(
    ("name", "output"),
    [
        ("corpus.txt", "corpus.emb"),
        ("corpus.txt.gz", "corpus.emb"),
        ("news.fra.txt.xz", "news.fra.emb"),
        ("tatoeba.fra-eng.fra", "tatoeba.fra-eng.fra.emb"),
        ("corpus", "corpus.emb"),
    ],
)
def test_default_output(name: str, output: str) -> None:
    assert default_output(Path("some") / name) == Path("some") / output


BAD = {
    "latin1.txt": (b"ok\ncaf\xe9 noir\n", "latin1.txt, line 2, byte 4: not UTF-8"),
    "empty.txt": (b"", "empty.txt has no lines"),
    "long.txt": (b"ok\n" + b"x" * 10_000_000 + b"\n", "long.txt, line 2: 10,000,000 bytes in one line"),
    "binary.bin": (b"ab\0cd", "binary.bin, line 1, byte 3: a NUL byte"),
    "cut.txt.gz": (gzip.compress(os.urandom(999))[:-20], "cut.txt.gz is damaged or cut short"),
    "missing.txt": (None, "missing.txt: no such file"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_text_gets_one_message_and_leaves_nothing(name: str, tmp_path: Path) -> None:
    content, message = BAD[name]
    if content is not None:
        (tmp_path / name).write_bytes(content)
    before = os.listdir(tmp_path)
    done = embed(tmp_path / "no encoder is needed to see this", tmp_path / name)
    assert done.exit_code == 1
    errors = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1
    assert message in errors[0]
    assert os.listdir(tmp_path) == before


def test_unknown_language_and_folder(tiny_encoder: Path, corpus: Path, tmp_path: Path) -> None:
    done = embed(tiny_encoder, "--lang", "frx_Latn", corpus)
    assert done.exit_code == 1
    assert "unknown language code 'frx_Latn'" in done.stderr
    assert "fra_Latn" in done.stderr
    done = embed(tiny_encoder, tmp_path)
    assert done.exit_code == 1
    assert "is a folder" in done.stderr


def test_an_output_that_is_no_store_is_left_alone(tiny_encoder: Path, corpus: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "work.txt").write_text("work")
    done = embed(tiny_encoder, corpus, "-o", tmp_path / "mine", "--overwrite")
    assert done.exit_code == 1
    assert "no embedding store: not overwritten" in done.stderr
    assert (tmp_path / "mine" / "work.txt").read_text() == "work"


def test_an_encoder_that_is_none(corpus: Path, tmp_path: Path) -> None:
    done = embed(tmp_path / "nothing", corpus)
    assert done.exit_code == 1
    assert "error: no encoder" in done.stderr
