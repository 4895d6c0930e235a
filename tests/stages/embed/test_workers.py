"""One text embedded by several processes: the rows of one process, whole or gone on with, one message."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from torch.distributed import HashStore

from mexma_cli.encoder.encoder import SentenceEncoder
from mexma_cli.errors import MexmaError
from mexma_cli.files import in_work
from mexma_cli.stages.embed.embed import EmbedOptions, embed_file
from mexma_cli.stages.embed.workers import Rank, SharedProgress, embed_in_processes, torchrun_rank
from mexma_cli.store.embeddings import EmbeddingStore
from mexma_cli.store.layout import EmbeddingSettings, Part, part_path
from tests.processes import KILLED_IN_A_SHARD, MEXMA, SMALL_SHARDS, Program, forks_of_launchers, together
from tests.stores import content

LINES = 101


@pytest.fixture(autouse=True)
def one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


@pytest.fixture(autouse=True)
def started(monkeypatch: pytest.MonkeyPatch) -> list[Program]:
    """The processes that this one has started."""
    return forks_of_launchers(monkeypatch)


def said_by(started: list[Program]) -> str:
    return "".join(process.communicate()[1] for process in started)


@pytest.fixture
def corpus(tmp_path: Path, sentences: dict[str, list[str]]) -> Path:
    """101 lines, two of them empty."""
    rows = [f"{sentence} {number}" for number in range(13) for sentence in sentences["fra"]][:LINES]
    rows[2] = rows[70] = ""
    path = tmp_path / "corpus.txt"
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return path


@pytest.fixture
def long_corpus(tmp_path: Path, sentences: dict[str, list[str]]) -> Path:
    """4,000 different lines."""
    rows = [f"{sentence} {number}" for number in range(500) for sentence in sentences["fra"]]
    path = tmp_path / "long.txt"
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return path


def arguments(corpus: Path, encoder: Path, output: Path) -> list[str]:
    how = ["--lang", "fra", "--model", str(encoder), "--device", "cpu", "--dtype", "fp32"]
    return ["embed", str(corpus), *how, "-o", str(output)]


def in_two(corpus: Path, encoder: Path, output: Path) -> EmbeddingStore:
    assert embed_in_processes(arguments(corpus, encoder, output), 2, output) == 0
    return EmbeddingStore.open(output)


@pytest.fixture
def whole(tiny_encoder: Path, corpus: Path, tmp_path: Path) -> EmbeddingStore:
    """The same text embedded by one process."""
    encoder = SentenceEncoder.load(str(tiny_encoder), device="cpu", dtype="float32")
    return embed_file(encoder, corpus, tmp_path / "whole.emb", EmbedOptions("fra_Latn"))


def stores(folder: Path) -> list[str]:
    return sorted(name for name in os.listdir(folder) if ".emb" in name)


def check_equal(store: EmbeddingStore, whole: EmbeddingStore) -> None:
    store.verify()
    assert list(store.sentences()) == list(whole.sentences())
    # Other batches may round a float16 the other way.
    np.testing.assert_allclose(store.vectors(0, LINES), whole.vectors(0, LINES), atol=4e-3)
    assert store.manifest.sources == whole.manifest.sources
    assert (store.manifest.part, store.manifest.empty) == (None, 2)


@pytest.mark.slow
def test_processes_make_what_one_makes(
    tiny_encoder: Path,
    corpus: Path,
    whole: EmbeddingStore,
    tmp_path: Path,
    started: list[Program],
) -> None:
    output = tmp_path / "a.emb"
    store = in_two(corpus, tiny_encoder, output)
    check_equal(store, whole)
    assert EmbeddingSettings.of(store.manifest) == EmbeddingSettings.of(whole.manifest)
    assert store.manifest.argv == ("mexma", *arguments(corpus, tiny_encoder, output))
    assert stores(tmp_path) == ["a.emb", "whole.emb"]
    said = said_by(started)
    assert said.count("embedding on cpu") == said.count("101 rows of 32 numbers in") == 1
    before = content(output)
    in_two(corpus, tiny_encoder, output)
    assert "nothing to do" in said_by(started)
    corpus.write_text("another text\n")
    with pytest.raises(MexmaError, match=r"^process 1 of 2: .*of another run: the text is another one"):
        in_two(corpus, tiny_encoder, output)
    assert content(output) == before


@pytest.mark.slow
def test_notes_in_a_part_stay(tiny_encoder: Path, corpus: Path, tmp_path: Path) -> None:
    encoder = SentenceEncoder.load(str(tiny_encoder), "cpu", "float32")
    for part in (Part(1, 2), Part(2, 2)):
        embed_file(encoder, corpus, tmp_path / "a.emb", EmbedOptions("fra_Latn", part=part))
    notes = part_path(tmp_path / "a.emb", Part(1, 2)) / "notes.txt"
    notes.write_text("my notes\n")
    in_two(corpus, tiny_encoder, tmp_path / "a.emb")
    assert stores(tmp_path) == [notes.parent.name, "a.emb"] and notes.read_text() == "my notes\n"


@pytest.mark.slow
def test_what_fails_in_one_ends_all_with_its_message(
    tiny_encoder: Path, long_corpus: Path, tmp_path: Path, started: list[Program]
) -> None:
    blocked = part_path(tmp_path / "a.emb", Part(2, 2))
    blocked.mkdir()
    with pytest.raises(MexmaError, match=r"process 2 of 2: .*no embedding store: not overwritten") as caught:
        in_two(long_corpus, tiny_encoder, tmp_path / "a.emb")
    assert caught.value.hint == "name another output"
    assert not (tmp_path / "a.emb").exists()
    assert said_by(started).splitlines()[1:] == [], "it is said once, by who started them"


def test_an_output_that_is_taken_is_refused_before_any_work(corpus: Path, tmp_path: Path) -> None:
    encoder = tmp_path / "no encoder is needed to see this"
    (tmp_path / "a.emb").mkdir()
    with pytest.raises(MexmaError, match="no embedding store: not overwritten"):
        in_two(corpus, encoder, tmp_path / "a.emb")
    left = tmp_path / "b.emb.partial"
    left.mkdir()
    (left / "progress.json").write_text("{}")
    with pytest.raises(MexmaError, match="is the beginning of another store"):
        in_two(corpus, encoder, tmp_path / "b.emb")


@pytest.mark.slow  # its stops at any moment are those of tests/faults, embed-shard
def test_killed_and_started_again_gives_the_same_bytes(
    tiny_encoder: Path, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    forks_of_launchers(monkeypatch, SMALL_SHARDS)
    whole = content(in_two(corpus, tiny_encoder, tmp_path / "whole.emb").path)
    output = tmp_path / "a.emb"
    forks_of_launchers(monkeypatch, KILLED_IN_A_SHARD)
    with pytest.raises(MexmaError, match="process 1 of 2 was ended by SIGKILL"):
        in_two(corpus, tiny_encoder, output)
    assert not output.exists()
    kept = (in_work(part_path(output, Part(1, 2))) / "vectors-00000.npy").stat().st_ino
    forks_of_launchers(monkeypatch, SMALL_SHARDS)
    store = in_two(corpus, tiny_encoder, output)
    assert (store.path / "vectors-00000.npy").stat().st_ino == kept, "whole shards are not made again"
    assert content(output) == {name: data.replace(b"whole.emb", b"a.emb") for name, data in whole.items()}
    assert stores(tmp_path) == ["a.emb", "whole.emb"]


def test_under_torchrun_processes_share_a_text(
    tiny_encoder: Path, corpus: Path, whole: EmbeddingStore, tmp_path: Path
) -> None:
    for done in together(MEXMA, *arguments(corpus, tiny_encoder, tmp_path / "a.emb")):
        assert done.wait() == 0, done.communicate()[1]
    check_equal(EmbeddingStore.open(tmp_path / "a.emb"), whole)
    assert stores(tmp_path) == ["a.emb", "whole.emb"]


def test_a_place_under_torchrun(monkeypatch: pytest.MonkeyPatch) -> None:
    assert torchrun_rank() is None
    for name, value in (("RANK", "3"), ("WORLD_SIZE", "4"), ("LOCAL_RANK", "1"), ("LOCAL_WORLD_SIZE", "2")):
        monkeypatch.setenv(name, value)
    rank = torchrun_rank()
    assert rank == Rank(3, 4, 1, 2)
    assert [rank.device(name) for name in ("cuda", "cuda:0", "cpu")] == ["cuda:1", "cuda:0", "cpu"]
    monkeypatch.setenv("WORLD_SIZE", "1")
    assert torchrun_rank() is None, "alone"


def test_what_all_processes_have_done_is_added_up() -> None:
    told: list[tuple[int, int, int]] = []
    counts = HashStore()
    first, second = (
        SharedProgress(counts, Rank(number, 2, number, 2), lambda *done: told.append(done))
        for number in range(2)
    )
    first(3, 50, 0)
    assert not told, "the number of lines is not known yet"
    second(0, 51, 0)
    first(5, 50, 20)
    second(40, 51, 300)
    first.again()
    assert told == [(5, 101, 20), (45, 101, 320)]
