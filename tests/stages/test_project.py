"""Stores to the stores of a part: block by block, resumable, and only of the right encoder."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from mexma_cli.encoder.model.pooling import Dense
from mexma_cli.errors import MexmaError
from mexma_cli.files import in_work
from mexma_cli.stages import project as stage
from mexma_cli.stages.project import project
from mexma_cli.stages.train.decompose import DecomposerManifest, TrainedDecomposer
from mexma_cli.store.embeddings import EmbeddingStore, check_encoder
from tests.stores import embedding_writer, shards_of

DIM, ROWS = 5, 31


def decomposer(run: Path, **other: Any) -> TrainedDecomposer:
    settings: dict[str, Any] = {
        "encoder": "some encoder",
        "encoder_fingerprint": "f" * 32,
        "pooling": "cls",
        "prefix": "",
        "dim": DIM,
        "languages": ("eng_Latn", "fra_Latn"),
        "fingerprints": {"meaning": "1" * 32, "language": "2" * 32},
        "exported": False,
        "tool_version": "0",
    }
    torch.manual_seed(0)
    maps = {part: Dense(torch.nn.Linear(DIM, DIM), torch.nn.Identity()) for part in ("meaning", "language")}
    return TrainedDecomposer(run, DecomposerManifest.model_validate(settings | other), maps)  # type: ignore[arg-type]


@pytest.fixture
def store(tmp_path: Path, make_store: Callable[..., Path]) -> EmbeddingStore:
    vectors = np.random.default_rng(0).normal(size=(ROWS, DIM)).astype(np.float32)
    return EmbeddingStore.open(make_store(tmp_path / "fra.emb", vectors, "fra_Latn", dtype="float16"))


@pytest.mark.parametrize("part", ["meaning", "language"])
@pytest.mark.parametrize("block", [1, 3, 1000])
def test_every_row(part: Any, block: int, store: EmbeddingStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stage, "_BLOCK_BYTES", block * 4 * DIM)
    trained = decomposer(Path("runs/x"))
    progress: list[tuple[int, int]] = []
    out = store.path.with_name("out.emb")
    made = project(
        store, trained, part, out, argv=["mexma", "project"], on_progress=lambda *at: progress.append(at)
    )
    made = EmbeddingStore.open(made.path, verify=True)
    wanted = trained.part(store.vectors(0, ROWS), part).astype(np.float16)
    np.testing.assert_array_equal(made.vectors(0, ROWS), wanted.astype(np.float32))
    assert list(made.sentences()) == list(store.sentences())
    assert progress[-1] == (ROWS, ROWS)
    manifest = made.manifest
    assert manifest.fingerprint == trained.manifest.fingerprints[part]
    assert manifest.encoder == f"some encoder, {part} by runs/x"
    assert (manifest.language, manifest.normalised, manifest.dtype) == ("fra_Latn", False, "float16")
    assert manifest.sources == store.manifest.sources and manifest.argv == ("mexma", "project")


@shards_of(6)
def test_counts_go_along(tmp_path: Path) -> None:
    vectors = np.random.default_rng(0).normal(size=(9, DIM)).astype(np.float32)
    sentences = ["a", "b", "", "c", "a", "d", "e", "f", "a"]
    writer = embedding_writer(
        tmp_path / "a.emb", DIM, 9, encoder="some encoder", fingerprint="f" * 32, dtype="float16",
        normalised=True, language="fra_Latn", rows_per_shard=4, clean=True, prefix="query: ", part="1/1",
    )  # fmt: skip
    with writer:
        writer.write(vectors[:4], sentences[:4], truncated=2)
        writer.write(vectors[4:8], sentences[4:8], duplicates=1)
        writer.write(vectors[8:], sentences[8:], truncated=1, duplicates=1)
        store = writer.finish()
    made = project(store, decomposer(tmp_path), "meaning", tmp_path / "b.emb")
    there, now = store.manifest, made.manifest
    assert (now.truncated, now.empty, now.duplicates) == (3, 1, 2)
    assert (now.clean, now.prefix, now.part, now.precision) == (
        *(there.clean, there.prefix, there.part),
        there.precision,
    )


@shards_of(5)
def test_a_killed_run_goes_on_to_the_same_bytes(
    store: EmbeddingStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stage, "_BLOCK_BYTES", 4 * 4 * DIM)
    trained, parent = decomposer(Path("runs/x")), store.path.parent
    whole = project(store, trained, "meaning", parent / "whole.emb")

    def killed(done: int, total: int) -> None:
        if done > 17:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        project(store, trained, "meaning", parent / "cut.emb", on_progress=killed)
    assert not (parent / "cut.emb").exists()
    assert len(list(in_work(parent / "cut.emb").glob("vectors-*.npy"))) == 3
    begins: list[int] = []
    made = project(
        store, trained, "meaning", parent / "cut.emb",
        on_progress=lambda done, total: begins.append(done),
    )  # fmt: skip
    assert begins[0] > 15
    for file in whole.path.iterdir():
        assert (made.path / file.name).read_bytes() == file.read_bytes(), file.name


def test_a_store_that_is_made_anew_meanwhile_is_not_mixed_with_the_one_before(
    store: EmbeddingStore, make_store: Callable[..., Path]
) -> None:
    def overwrite(done: int, total: int) -> None:
        shutil.rmtree(store.path)
        make_store(store.path, np.ones((ROWS, DIM), np.float32), "fra_Latn", dtype="float16")

    out = store.path.with_name("out.emb")
    with pytest.raises(MexmaError, match=r"fra\.emb was made anew while it was read"):
        project(store, decomposer(Path("runs/x")), "meaning", out, on_progress=overwrite)
    assert not out.exists()


def test_again_is_nothing_to_do_and_another_part_is_refused(store: EmbeddingStore) -> None:
    trained, out = decomposer(Path("runs/x")), store.path.with_name("out.emb")
    first = project(store, trained, "meaning", out).path / "manifest.json"
    before = first.stat().st_mtime_ns
    project(store, trained, "meaning", out)
    assert first.stat().st_mtime_ns == before
    with pytest.raises(MexmaError, match=r"out.emb is there already"):
        project(store, trained, "language", out)
    made = project(store, trained, "language", out, overwrite=True)
    assert made.manifest.fingerprint == "2" * 32
    with pytest.raises(MexmaError, match="is the output too"):
        project(store, trained, "meaning", store.path)


def test_what_is_there_is_checked(store: EmbeddingStore) -> None:
    out = store.path.with_name("out.emb")
    made = project(store, decomposer(Path("runs/x")), "meaning", out)
    (vectors,) = made.path.glob("vectors-*.npy")
    vectors.write_bytes(vectors.read_bytes()[:-1] + b"\x7f")
    with pytest.raises(MexmaError, match="is damaged: its checksum"):
        project(store, decomposer(Path("runs/x")), "meaning", out)


def test_another_encoder_is_refused(store: EmbeddingStore) -> None:
    out = store.path.with_name("out.emb")
    trained = decomposer(Path("runs/x"), encoder="other", encoder_fingerprint="e" * 32)
    with pytest.raises(MexmaError, match=r"different encoders: some encoder \(ffff.*fra.emb, other \(eeee"):
        project(store, trained, "meaning", out)
    same = decomposer(Path("runs/x"))
    made = project(store, same, "meaning", out)
    with pytest.raises(MexmaError, match="these vectors are the meaning of runs/x already"):
        project(made, same, "meaning", store.path.with_name("twice.emb"))


def test_parts_do_not_mix(store: EmbeddingStore) -> None:
    trained, parent = decomposer(Path("runs/x")), store.path.parent
    meaning = project(store, trained, "meaning", parent / "m.emb")
    language = project(store, trained, "language", parent / "l.emb")
    for other in (store, language):
        with pytest.raises(MexmaError, match="different encoders"):
            check_encoder(other, meaning.manifest.encoder, meaning.manifest.fingerprint, "m.emb")
