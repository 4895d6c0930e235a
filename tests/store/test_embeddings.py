"""EmbeddingStore: what was written comes back, what is broken is named, what was interrupted goes on."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mexma_cli.errors import MexmaError
from mexma_cli.store import arrays
from mexma_cli.store.arrays import as_stored, as_vectors, unverified
from mexma_cli.store.embeddings import EmbeddingStore
from mexma_cli.store.layout import Source
from mexma_cli.store.writer import EmbeddingWriter
from tests.stores import content, embedding_writer, flip, full_disk, make_store

ROWS, DIM, SHARD = 23, 8, 5
VECTORS = np.random.default_rng(0).normal(size=(ROWS, DIM)).astype(np.float32)
SENTENCES = [f"sentence {row} é\r \u2028" if row % 4 else " " * (row % 3) for row in range(ROWS)]


def writer(path: Path, **other: Any) -> EmbeddingWriter:
    settings: dict[str, Any] = {
        "encoder": "tiny",
        "fingerprint": "f" * 32,
        "dtype": "float16",
        "language": "fra_Latn",
        "source": Source(path="a.txt", checksum="c" * 32, lines=ROWS),
        "argv": ["mexma", "embed"],
        "rows_per_shard": SHARD,
    }
    return embedding_writer(path, DIM, ROWS, **(settings | other))


def make(path: Path, stop: int = ROWS, step: int = 3, **other: Any) -> None:
    """Write rows up to `stop`; only all of them make a store."""
    with writer(path, **other) as out:
        for start in range(out.rows_done, stop, step):
            end = min(start + step, stop)
            out.write(VECTORS[start:end], SENTENCES[start:end])
        if stop == ROWS:
            out.finish(truncated=2)


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_round_trip(dtype: str, tmp_path: Path) -> None:
    make(tmp_path / "a.emb", dtype=dtype)
    store = EmbeddingStore.open(tmp_path / "a.emb", verify=True)
    wanted = VECTORS.astype(dtype).astype(np.float32)
    assert (store.rows, store.dim, len(store.manifest.shards)) == (ROWS, DIM, 5)
    np.testing.assert_array_equal(store.vectors(0, ROWS), wanted)
    np.testing.assert_array_equal(store.vectors(4, 17), wanted[4:17])
    np.testing.assert_array_equal(np.asarray(store), wanted)
    assert np.array(store, dtype=np.float64).dtype == np.float64
    assert store.vectors(7, 7).shape == (0, DIM)
    assert store.vectors(0, 1).dtype == np.float32
    blocks = list(store.blocks(6))
    assert [len(block) for block in blocks] == [6, 6, 6, 5]
    np.testing.assert_array_equal(np.concatenate(blocks), wanted)
    assert list(store.sentences()) == SENTENCES
    assert store.manifest.empty == sum(not sentence.strip() for sentence in SENTENCES)
    assert store.manifest.truncated == 2
    np.testing.assert_array_equal(np.load(store.path / "vectors-00001.npy"), VECTORS[5:10].astype(dtype))
    assert not (tmp_path / "a.emb.partial").exists()


@pytest.mark.parametrize("dtype", ["float16", "float32", "int8"])
def test_rows_are_read_back_while_it_is_written(dtype: str, tmp_path: Path) -> None:
    """From whole shards and the open one, in any order, more than once, with no row lost by it."""
    rows = np.array([13, 0, 5, 5, 12, 3, 8, 4, 7])
    with writer(tmp_path / "a.emb", dtype=dtype) as out:
        out.write(VECTORS[:10], None)
        out.write(VECTORS[10:14], None)
        found = out.stored(rows)
        expected = as_vectors(as_stored(VECTORS, dtype))
        assert found.dtype == np.float32
        np.testing.assert_array_equal(found, expected[rows])
        assert out.stored(np.empty(0, np.int64)).shape == (0, DIM)
        store = out.finish(truncated=0, empty=0)
    np.testing.assert_array_equal(store.vectors(0, 14), expected[:14])


@pytest.mark.parametrize("stop", [5, 6, 12, 20, 22])
def test_interrupted_and_resumed_gives_the_same_bytes(stop: int, tmp_path: Path) -> None:
    make(tmp_path / "whole.emb", step=SHARD)
    make(tmp_path / "a.emb", stop=stop, step=SHARD)
    with pytest.raises(MexmaError, match="interrupted"):
        EmbeddingStore.open(tmp_path / "a.emb")
    with writer(tmp_path / "a.emb") as out:
        assert out.rows_done == stop // SHARD * SHARD
    make(tmp_path / "a.emb", step=SHARD)
    assert content(tmp_path / "a.emb") == content(tmp_path / "whole.emb")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.emb", "whole.emb"]


def test_what_a_killed_run_leaves_is_swept_up(tmp_path: Path) -> None:
    make(tmp_path / "whole.emb", step=SHARD)
    make(tmp_path / "a.emb", stop=10, step=SHARD)
    part = tmp_path / "a.emb.partial"
    (part / "a.emb" / "vectors-00002.npy").write_bytes(b"not noted as whole")
    for name in (".DS_Store", "._progress.json", "Thumbs.db", ".nfs000000000c1d"):  # nobody's work
        for folder in (part, part / "a.emb"):
            (folder / name).write_bytes(b"of a file manager, or NFS")
    make(tmp_path / "a.emb", step=SHARD)
    assert content(tmp_path / "a.emb") == content(tmp_path / "whole.emb")


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_folder_of_the_users_that_is_called_like_an_unfinished_one_stays(
    overwrite: bool, tmp_path: Path
) -> None:
    theirs = tmp_path / "a.emb.partial"
    theirs.mkdir()
    (theirs / "thesis.txt").write_text("all my work")
    with pytest.raises(MexmaError, match=r"a\.emb\.partial has the name of .* and holds thesis\.txt"):
        make(tmp_path / "a.emb", overwrite=overwrite)
    assert content(theirs) == {"thesis.txt": b"all my work"}


def test_nothing_finished_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), writer(tmp_path / "a.emb") as out:
        out.write(VECTORS[:3], SENTENCES[:3])
        _ = 1 // 0
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"fingerprint": "0" * 32}, "run: the encoder is another one, or has changed"),
        ({"dtype": "float32"}, "stored type: float16 there, float32 now"),
        ({"language": "eng_Latn"}, "language: fra_Latn there"),
        ({"source": Source(path="a.txt", checksum="0" * 32, lines=1)}, "run: the text is another one"),
        ({"precision": "bfloat16"}, "computing type"),
    ],
)
def test_other_settings_over_an_unfinished_store(change: dict[str, Any], words: str, tmp_path: Path) -> None:
    make(tmp_path / "a.emb", stop=10)
    before = content(tmp_path / "a.emb.partial" / "a.emb")
    with pytest.raises(MexmaError, match=words) as caught:
        make(tmp_path / "a.emb", **change)
    assert f"remove {tmp_path}/a.emb.partial to start anew" in (caught.value.hint or "")
    assert content(tmp_path / "a.emb.partial" / "a.emb") == before
    make(tmp_path / "a.emb", overwrite=True, **change)
    assert list(EmbeddingStore.open(tmp_path / "a.emb", verify=True).sentences()) == SENTENCES


@pytest.mark.parametrize("language", ["fra_Latn", "eng_Latn"])
def test_a_journal_whose_store_is_gone_is_not_believed(language: str, tmp_path: Path) -> None:
    """Killed when the store had its name; then somebody has removed it."""
    make(tmp_path / "whole.emb", language=language)
    make(tmp_path / "a.emb", stop=10)
    shutil.rmtree(tmp_path / "a.emb.partial/a.emb")
    make(tmp_path / "a.emb", language=language)
    assert content(tmp_path / "a.emb") == content(tmp_path / "whole.emb")
    assert not (tmp_path / "a.emb.partial").exists()


def test_a_finished_store_is_not_overwritten_unasked(tmp_path: Path) -> None:
    make(tmp_path / "a.emb")
    before = content(tmp_path / "a.emb")
    with pytest.raises(MexmaError, match="there already"):
        make(tmp_path / "a.emb")
    with pytest.raises(ZeroDivisionError), writer(tmp_path / "a.emb", dtype="float32", overwrite=True):
        _ = 1 // 0
    assert content(tmp_path / "a.emb") == before
    make(tmp_path / "a.emb", dtype="float32", overwrite=True)
    assert EmbeddingStore.open(tmp_path / "a.emb").manifest.dtype == "float32"
    assert [path.name for path in tmp_path.iterdir()] == ["a.emb"]


@pytest.mark.parametrize("overwrite", [False, True])
def test_what_is_no_store_is_never_overwritten(overwrite: bool, tmp_path: Path) -> None:
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter1.txt").write_text("all my work")
    (tmp_path / "file").write_text("more work")
    for name in ("thesis", "file"):
        with pytest.raises(MexmaError, match="is no embedding store: not overwritten"):
            make(tmp_path / name, overwrite=overwrite)
    assert (tmp_path / "thesis" / "chapter1.txt").read_text() == "all my work"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "thesis"]


def test_a_second_writer_is_refused(tmp_path: Path) -> None:
    with writer(tmp_path / "a.emb") as out, pytest.raises(MexmaError, match="another process"):
        out.write(VECTORS[:SHARD], SENTENCES[:SHARD])
        make(tmp_path / "a.emb")


def test_a_full_disk_keeps_whole_shards_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(tmp_path / "whole.emb", step=SHARD)
    written = 0
    write = arrays.ArrayWriter.write

    def limited(self: arrays.ArrayWriter, values: np.ndarray) -> None:
        nonlocal written
        written += len(values)
        if written > 12:
            full_disk()
        write(self, values)

    with monkeypatch.context() as patch:
        patch.setattr(arrays.ArrayWriter, "write", limited)
        with pytest.raises(MexmaError, match="no space left on the disk"):
            make(tmp_path / "a.emb", step=SHARD)
    assert not (tmp_path / "a.emb").exists()
    assert sorted(content(tmp_path / "a.emb.partial" / "a.emb")) == [
        "lines-00000.txt.zst",
        "lines-00001.txt.zst",
        "vectors-00000.npy",
        "vectors-00001.npy",
    ]
    make(tmp_path / "a.emb", step=SHARD)
    assert content(tmp_path / "a.emb") == content(tmp_path / "whole.emb")


def test_a_short_shard_is_named_with_rows_wanted_and_found(tmp_path: Path) -> None:
    make(tmp_path / "a.emb")
    path = tmp_path / "a.emb" / "vectors-00002.npy"
    os.truncate(path, path.stat().st_size - 2 * DIM * 2 - 3)
    with pytest.raises(
        MexmaError, match=r"vectors-00002\.npy is damaged: the manifest says 5 rows, the file has 2"
    ):
        EmbeddingStore.open(tmp_path / "a.emb")
    os.truncate(path, 10)
    with pytest.raises(MexmaError, match="the file has 0"):
        EmbeddingStore.open(tmp_path / "a.emb")
    path.unlink()
    with pytest.raises(MexmaError, match=r"vectors-00002\.npy is missing"):
        EmbeddingStore.open(tmp_path / "a.emb")


@pytest.mark.parametrize("broken", ["vectors-00001.npy", "lines-00001.txt.zst", "manifest.json"])
@pytest.mark.parametrize("left", [None, b"{"])
def test_overwrite_mends_what_it_is_the_hint_for(broken: str, left: bytes | None, tmp_path: Path) -> None:
    make(tmp_path / "a.emb")
    path = tmp_path / "a.emb" / broken
    path.unlink()
    if left is not None:
        path.write_bytes(left)
    with pytest.raises(MexmaError, match=broken) as caught:
        EmbeddingStore.open(tmp_path / "a.emb")
    assert caught.value.hint == "embed the text again with --overwrite, or fetch the whole file"
    with pytest.raises(MexmaError, match="there already"):
        make(tmp_path / "a.emb")
    make(tmp_path / "a.emb", overwrite=True)
    assert list(EmbeddingStore.open(tmp_path / "a.emb", verify=True).sentences()) == SENTENCES


@pytest.mark.parametrize(("key", "value"), [("dim", 0), ("rows", -1), ("dim", 10**30)])
def test_a_manifest_with_numbers_that_cannot_be(key: str, value: int, tmp_path: Path) -> None:
    make(tmp_path / "a.emb")
    said = tmp_path / "a.emb" / "manifest.json"
    said.write_text(json.dumps(json.loads(said.read_text()) | {key: value}))
    with pytest.raises(MexmaError, match="is damaged"):
        EmbeddingStore.open(tmp_path / "a.emb")


@pytest.mark.parametrize("broken", [None, b"{", b'{"kind": "neighbours"}'])
def test_a_damaged_store_with_other_files_is_never_overwritten(broken: bytes | None, tmp_path: Path) -> None:
    make(tmp_path / "a.emb")
    (tmp_path / "a.emb" / "notes.txt").write_text("all my work")
    (tmp_path / "a.emb" / "manifest.json").unlink()
    if broken is not None:
        (tmp_path / "a.emb" / "manifest.json").write_bytes(broken)
    before = content(tmp_path / "a.emb")
    with pytest.raises(MexmaError, match=r"a\.emb also holds notes\.txt, which would be lost"):
        make(tmp_path / "a.emb", overwrite=True)
    assert content(tmp_path / "a.emb") == before


def test_a_shard_that_is_cut_short_while_it_is_read_is_named(tmp_path: Path) -> None:
    make(tmp_path / "a.emb")
    store = EmbeddingStore.open(tmp_path / "a.emb")
    store.vectors(0, ROWS)
    path = tmp_path / "a.emb" / "vectors-00001.npy"
    os.truncate(path, path.stat().st_size - DIM * 2)
    for read in (lambda: store.vectors(5, 10), lambda: store.take(np.array([9]))):
        with pytest.raises(MexmaError, match=r"vectors-00001\.npy is damaged: it was cut short"):
            read()
    np.testing.assert_array_equal(store.take(np.array([8])), VECTORS[8:9].astype(np.float16))
    shutil.rmtree(store.path)
    make_store(store.path, ["another"] * 3, VECTORS[:3], rows_per_shard=2)  # shorter files
    for read in (lambda: store.vectors(5, 10), lambda: store.take(np.array([9]))):
        with pytest.raises(MexmaError, match=r"a\.emb was made anew while it was read"):
            read()


@pytest.mark.parametrize("name", ["vectors-00001.npy", "lines-00001.txt.zst"])
@pytest.mark.parametrize("at", [3, -2])
def test_a_flipped_byte_is_found_when_it_is_read(name: str, at: int, tmp_path: Path) -> None:
    make(tmp_path / "a.emb")
    flip(tmp_path / "a.emb" / name, at)
    store = EmbeddingStore.open(tmp_path / "a.emb")
    with pytest.raises(MexmaError, match=name):
        store.verify()
    reads: dict[str, list[Callable[[], object]]] = {
        "lines": [lambda: list(store.sentences())],
        "vectors": [lambda: store.vectors(0, ROWS), lambda: store.take(np.array([9, 0]))],
    }
    for read in reads[name.partition("-")[0]]:
        with pytest.raises(MexmaError, match=f"{name} is damaged: its checksum"):
            read()
    np.testing.assert_array_equal(store.vectors(0, 4), VECTORS[:4].astype(np.float16))
    if name.startswith("vectors") and at < 0:
        with unverified():
            assert store.vectors(0, ROWS).shape == (ROWS, DIM)


def test_what_is_no_store_is_said_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "folder").mkdir()
    for name, words in (("nowhere", "no such file"), ("file", "is a file"), ("folder", "no embedding store")):
        with pytest.raises(MexmaError, match=words):
            EmbeddingStore.open(tmp_path / name)


def test_a_damaged_manifest_is_refused(tmp_path: Path) -> None:
    make(tmp_path / "a.emb")
    path = tmp_path / "a.emb" / "manifest.json"
    path.write_text(path.read_text().replace('"rows": 23', '"rows": 24'))
    with pytest.raises(MexmaError, match="23 rows in shards, 24 said") as caught:
        EmbeddingStore.open(tmp_path / "a.emb")
    assert "--overwrite" in (caught.value.hint or "")
    path.write_text("{")
    with pytest.raises(MexmaError, match="not JSON"):
        EmbeddingStore.open(tmp_path / "a.emb")


@pytest.mark.parametrize("name", ["../secret.npy", "vectors-00002.npy", "lines-00001.txt.zst"])
def test_names_that_the_writer_does_not_give_are_refused(name: str, tmp_path: Path) -> None:
    make(tmp_path / "a.emb")
    path = tmp_path / "a.emb" / "manifest.json"
    (tmp_path / "a.emb" / "vectors-00001.npy").rename(tmp_path / "secret.npy")
    path.write_text(path.read_text().replace("vectors-00001.npy", name))
    with pytest.raises(MexmaError, match=f"`shards`: '{name}' is named in place of vectors-00001.npy"):
        EmbeddingStore.open(tmp_path / "a.emb")


@pytest.mark.parametrize("name", ["vectors-00001.npy", "lines-00001.txt.zst"])
def test_a_link_in_a_store_is_refused(name: str, tmp_path: Path) -> None:
    make(tmp_path / "a.emb")
    path = tmp_path / "a.emb" / name
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(MexmaError, match=rf"{name} is a link, and a store holds its files itself"):
        EmbeddingStore.open(tmp_path / "a.emb")


def test_vectors_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    large = VECTORS.copy()
    large[3, 2] = 1e6
    with pytest.raises(MexmaError, match="line 4 does not fit float16"), writer(tmp_path / "a.emb") as out:
        out.write(large, SENTENCES)
    large[3] = 1e-30  # would be zeros, and have no direction any more
    with pytest.raises(MexmaError, match="line 4 does not fit float16"), writer(tmp_path / "a.emb") as out:
        out.write(large, SENTENCES)
    large[3, 2] = np.nan
    with (
        pytest.raises(MexmaError, match="line 4 is not a number"),
        writer(tmp_path / "a.emb", dtype="float32") as out,
    ):
        out.write(large, SENTENCES)
    assert not list(tmp_path.iterdir())


def test_vectors_without_sentences(tmp_path: Path) -> None:
    with writer(tmp_path / "a.emb") as out:
        out.write(VECTORS, None)
        out.finish(truncated=0, empty=0)
    store = EmbeddingStore.open(tmp_path / "a.emb", verify=True)
    assert not store.has_sentences
    with pytest.raises(MexmaError, match="vectors without their sentences"):
        list(store.sentences())


def test_long_stores_have_longer_shards(tmp_path: Path) -> None:
    many = np.random.default_rng(1).normal(size=(100, DIM)).astype(np.float32)
    with writer(tmp_path / "a.emb", rows_per_shard=1, dtype="float32") as out:
        out.write(many, [str(row) for row in range(100)])
        out.finish()
    store = EmbeddingStore.open(tmp_path / "a.emb", verify=True)
    assert [shard.rows for shard in store.manifest.shards] == [1] * 16 + [8] * 10 + [4]
    np.testing.assert_array_equal(store.vectors(3, 99), many[3:99])
    assert list(store.sentences()) == [str(row) for row in range(100)]
