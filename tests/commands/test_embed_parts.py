"""`mexma embed --shard` and `--append` as users run them: at once, killed, run again, merged, mined."""

from __future__ import annotations

import contextlib
import signal
from pathlib import Path

import numpy as np
import pytest

from mexma_cli.store.embeddings import EmbeddingStore
from mexma_cli.store.layout import Part
from mexma_cli.store.writer import EmbeddingWriter
from tests import command
from tests.command import ok
from tests.processes import KILLED_IN_A_SHARD, MEXMA, Program
from tests.stores import content

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


def run(folder: Path, *words: str | Path) -> str:
    """What the command says on stderr; it has to succeed. In this process, which has begun already."""
    with contextlib.chdir(folder):
        return ok(command.run(*words)).stderr


def killed_in_a_shard(folder: Path, *words: str | Path) -> None:
    """The command, ended by SIGKILL in its third shard."""
    process = Program(KILLED_IN_A_SHARD + MEXMA, *words, folder=folder)
    assert process.wait() == -signal.SIGKILL, process.communicate()


@pytest.mark.slow
def test_shards_made_at_once_mine_as_the_whole_text_does(tmp_path: Path) -> None:
    """As GNU parallel runs them, with the bundled encoder and real lines."""
    for name in ("spa", "eng"):
        lines = (ROOT / f"examples/spa-eng/{name}.txt").read_text(encoding="utf-8").split("\n")[:400]
        (tmp_path / f"{name}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    embed = ("embed", "--model", "mini", "--device", "cpu", "--store-dtype", "float32", "--dtype", "fp32")
    spanish = (*embed, "spa.txt", "--lang", "spa", "--shard")
    shards = [Program(MEXMA, *spanish, f"{part}/2", folder=tmp_path) for part in (1, 2)]
    for shard in shards:
        said = shard.communicate()[1]
        assert shard.returncode == 0, said
    parts = ["spa.00002-of-00002.emb", "spa.00001-of-00002.emb"]
    assert "400 rows of 320 numbers in merged.emb" in run(tmp_path, "merge", *parts, "-o", "merged.emb")
    run(tmp_path, *embed, "spa.txt", "--lang", "spa", "-o", "whole.emb")
    run(tmp_path, *embed, "eng.txt", "--lang", "eng", "-o", "eng.emb")
    merged, whole = (
        EmbeddingStore.open(tmp_path / f"{name}.emb", verify=True) for name in ("merged", "whole")
    )
    assert list(merged.sentences()) == list(whole.sentences())
    np.testing.assert_allclose(merged.vectors(0, 400), whole.vectors(0, 400), atol=1e-4)
    assert [part.manifest.part for part in map(EmbeddingStore.open, (tmp_path / name for name in parts))] == [
        Part(2, 2),
        Part(1, 2),
    ]
    for name in ("merged", "whole"):
        run(tmp_path, "mine", f"{name}.emb", "eng.emb", "-o", f"{name}.tsv")
    pairs = [
        sorted(line.split("\t", 1)[1] for line in (tmp_path / f"{name}.tsv").read_text().splitlines())
        for name in ("merged", "whole")
    ]
    assert len(pairs[0]) > 100
    assert pairs[0] == pairs[1]


@pytest.fixture
def texts(
    tmp_path: Path, sentences: dict[str, list[str]], monkeypatch: pytest.MonkeyPatch
) -> tuple[Path, Path]:
    """Two folders with the same texts: a long one with several shards in each of two parts, a short one."""
    monkeypatch.setattr(EmbeddingWriter, "rows_per_shard", 16)
    rows = [f"{sentence} {number}" for number in range(20) for sentence in sentences["fra"]]
    folders = (tmp_path / "one", tmp_path / "two")
    for folder in folders:
        folder.mkdir()
        (folder / "long.txt").write_text("\n".join(rows) + "\n", encoding="utf-8")
        (folder / "short.txt").write_text("\n".join(rows[:10]) + "\n", encoding="utf-8")
    return folders


def test_a_killed_shard_goes_on_to_the_same_bytes(texts: tuple[Path, Path], tiny_encoder: Path) -> None:
    words = ("embed", "--model", tiny_encoder, "--device", "cpu", "long.txt", "--shard", "2/2")
    whole, killed = texts
    run(whole, *words)
    name = "long.00002-of-00002.emb"
    killed_in_a_shard(killed, *words)
    assert not (killed / name).exists()
    kept = (killed / f"{name}.partial" / name / "vectors-00000.npy").stat().st_mtime_ns
    run(killed, *words)
    assert (killed / name / "vectors-00000.npy").stat().st_mtime_ns == kept, "whole shards are not made again"
    assert not (killed / f"{name}.partial").exists()
    assert content(killed / name) == content(whole / name)
    assert EmbeddingStore.open(killed / name, verify=True).rows == 80


def test_a_killed_append_goes_on_to_the_same_bytes(texts: tuple[Path, Path], tiny_encoder: Path) -> None:
    words = ("embed", "--model", tiny_encoder, "--device", "cpu", "--append", "-o", "all.emb")
    whole, killed = texts
    said = run(whole, *words, "short.txt")
    assert "all.emb had 0 rows, and has 10 now" in said
    (killed / "all.emb").mkdir()
    for name, data in content(whole / "all.emb").items():
        (killed / "all.emb" / name).write_bytes(data)
    before = content(killed / "all.emb")
    said = run(whole, *words, "long.txt")
    assert "all.emb had 10 rows, and has 170 now" in said
    killed_in_a_shard(killed, *words, "long.txt")
    assert content(killed / "all.emb") == before, "readable until the longer one is whole"
    assert "going on after line" in run(killed, *words, "long.txt")
    assert content(killed / "all.emb") == content(whole / "all.emb")
    store = EmbeddingStore.open(killed / "all.emb", verify=True)
    assert [source.lines for source in store.manifest.sources] == [10, 160]
