"""NumPy's files: whatever is in one, it is an array of the shape that was asked for, or damaged."""

from __future__ import annotations

import os
import resource
from pathlib import Path

import numpy as np
import pytest

from mexma_cli.errors import MexmaError, message_lines
from mexma_cli.stages.convert import open_npy
from mexma_cli.store.arrays import as_stored, as_vectors, mapped
from mexma_cli.store.embeddings import EmbeddingStore
from tests.command import fails, ok, run, write
from tests.stores import make_store

HEADERS = {
    "negative": "{'descr': '<f4', 'fortran_order': False, 'shape': (-1, 2)}",
    "huge": "{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775807, 32)}",
    "of fractions": "{'descr': '<f4', 'fortran_order': False, 'shape': (1.5, 2)}",
    "of truth": "{'descr': '<f4', 'fortran_order': False, 'shape': (True, 2)}",
    "power": "{'descr': '<f4', 'fortran_order': False, 'shape': (9**9**9,)}",
    "deep": "(" * 9000,
    "open": "{'descr': '",
    "no type": "{'descr': 'nothing', 'fortran_order': False, 'shape': (2, 2)}",
    "objects": "{'descr': '|O', 'fortran_order': False, 'shape': (2, 2)}",
    "list": "[]",
    "another key": "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2), 'x': 1}",
}


@pytest.mark.parametrize("shape", [(4, 2), (0, 2)])
@pytest.mark.parametrize("header", HEADERS.values(), ids=HEADERS)
def test_an_impossible_header_is_damage(header: str, shape: tuple[int, int], tmp_path: Path) -> None:
    path, text = tmp_path / "v.npy", header.encode() + b"\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + bytes(32))
    with pytest.raises(MexmaError, match=r"v\.npy is damaged"):
        mapped(path, shape, "float32", "make it anew")
    if header != HEADERS["of truth"]:  # one row
        with pytest.raises(MexmaError, match=r"v\.npy is (?:no array|an array)"):
            open_npy(path)


def test_what_cannot_be_mapped_is_too_little_memory_and_named(tmp_path: Path) -> None:
    path = tmp_path / "v.npy"
    np.save(path, np.zeros((1, 2), np.float32))
    array = np.lib.format.open_memmap(path, "w+", np.float32, (1 << 28, 2))  # 2 GB, of which none is written
    del array
    held = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    limits = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (held + (1 << 29), limits[1]))
    try:
        with pytest.raises(OSError) as found:
            mapped(path, (1 << 28, 2), "float32", "make it anew")
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)
    first, hint = message_lines(found.value)
    assert first == f"error: not enough memory: {path}: Cannot allocate memory" and "ulimit -v" in hint


ODD = {
    "zeros": np.zeros(6),
    "equal": np.full(6, -3.0),
    "one": np.eye(6)[2],
    "large": np.full(6, 3e38) * np.linspace(-1, 1, 6),
    "small": np.linspace(1e-30, 2e-30, 6),
}


@pytest.mark.parametrize("name", ODD)
def test_odd_vectors_are_near(name: str) -> None:
    vectors = ODD[name][None].astype(np.float32)
    found = as_vectors(as_stored(vectors, "int8"))
    assert np.abs(found - vectors).max() <= np.abs(vectors).max() / 127 * 0.501


def test_it_is_near_and_the_same_again() -> None:
    vectors = np.random.default_rng(0).normal(size=(5000, 48)).astype(np.float32)
    stored = as_stored(vectors, "int8")
    found = as_vectors(stored)
    assert np.abs(found - vectors).max() <= np.abs(vectors).max() / 127 * 0.501
    assert as_stored(found, "int8").tobytes() == stored.tobytes()
    cosines = (found * vectors).sum(1) / np.linalg.norm(found, axis=1) / np.linalg.norm(vectors, axis=1)
    assert cosines.min() > 0.9998


def test_a_store_of_int8(tmp_path: Path) -> None:
    vectors = np.random.default_rng(1).normal(size=(23, 16)).astype(np.float32)
    lines = [str(row) for row in range(23)]
    store = make_store(tmp_path / "a.emb", lines, vectors, dtype="int8", rows_per_shard=5)
    wanted = as_vectors(as_stored(vectors, "int8"))
    assert np.array_equal(store.vectors(3, 21), wanted[3:21])
    rows = np.array([22, 0, 7, 7])
    assert np.array_equal(store.take(rows), wanted[rows])
    first = np.load(tmp_path / "a.emb" / "vectors-00000.npy")
    assert np.array_equal(first["values"] * first["scale"][:, None], wanted[:5])
    sizes = [(tmp_path / "a.emb" / f"vectors-{place:05d}.npy").stat().st_size for place in range(2)]
    assert sizes == [128 + 5 * (16 + 4)] * 2
    with pytest.raises(MexmaError, match="the vector of line 1 is not a number"):
        make_store(tmp_path / "b.emb", lines, np.full((23, 16), np.nan), dtype="int8")
    with pytest.raises(MexmaError, match="the vector of line 1 does not fit int8"):
        make_store(tmp_path / "c.emb", lines, np.full((23, 16), 1e-45, np.float32), dtype="int8")


def test_mined_with_exact_results_of_what_is_stored(sentences: dict[str, list[str]], tmp_path: Path) -> None:
    texts = [write(tmp_path / f"{name}.txt", *sentences[name], sentences[name][0]) for name in ("fra", "eng")]
    stores = [tmp_path / f"{text.stem}.emb" for text in texts]
    for text, store in zip(texts, stores, strict=True):
        ok(run("embed", text, "-o", store, "--store-dtype", "int8"))
        assert EmbeddingStore.open(store).manifest.dtype == "int8"
        again = ok(run("embed", text, "-o", store, "--store-dtype", "int8"))
        assert "nothing to do" in again.stderr
    whole = []
    for text, store in zip(texts, stores, strict=True):
        there = EmbeddingStore.open(store)
        manifest = there.manifest
        other = {"encoder": manifest.encoder, "fingerprint": manifest.fingerprint, "dtype": "float32"}
        found = there.vectors(0, there.rows)
        whole.append(
            make_store(tmp_path / f"{text.stem}-32.emb", list(there.sentences()), found, **other).path
        )
    assert ok(run("mine", *stores)).stdout == ok(run("mine", *whole)).stdout != ""
    ok(run("mine", stores[0], whole[1]))
    ok(run("search", *stores))
    ok(run("merge", *stores[:1], "-o", tmp_path / "one.emb"))
    fails(run("embed", texts[0], "-o", stores[0]), 1, "stored type: int8 there, float16 now")
    path = stores[0] / "vectors-00000.npy"
    path.write_bytes(path.read_bytes()[:-1])
    fails(run("mine", *stores), 1, "vectors-00000.npy is damaged: the manifest says 9 rows, the file has 8")
