"""The content of manifests: old ones are read, several sources are told as one, parts make a whole."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mexma_cli.errors import MexmaError
from mexma_cli.files import read_manifest
from mexma_cli.store.embeddings import EmbeddingStore
from mexma_cli.store.layout import (
    EmbeddingManifest,
    EmbeddingSettings,
    Part,
    part_path,
)
from mexma_cli.store.neighbours import NeighbourStore

MANIFEST: dict[str, Any] = {
    "kind": "embeddings",
    "format_version": 1,
    "encoder": "tiny",
    "fingerprint": "f",
    "pooling": "cls",
    "dim": 8,
    "dtype": "float16",
    "precision": "float32",
    "normalised": True,
    "language": "fra_Latn",
    "rows": 0,
    "shards": [],
    "source": {"path": "a.txt", "checksum": "c", "lines": 0},
    "truncated": 0,
    "empty": 0,
    "tool_version": "0.1.0",
    "argv": [],
}


def test_a_manifest_of_version_1_is_read() -> None:
    manifest = EmbeddingManifest.model_validate(json.loads(json.dumps(MANIFEST)))
    assert manifest.source.path == "a.txt"
    assert (manifest.clean, manifest.prefix, manifest.part) == (False, "", None)
    assert EmbeddingSettings.of(manifest).source_checksum == "c"
    assert EmbeddingManifest.model_validate(manifest.model_dump(mode="json")) == manifest


def test_several_sources_are_told_as_one() -> None:
    old = {name: value for name, value in MANIFEST.items() if name != "source"}
    sources = [{"path": f"{name}.txt", "checksum": name, "lines": 3} for name in "abcde"]
    two = EmbeddingManifest.model_validate(old | {"sources": sources[:2]}).source
    assert (two.path, two.lines) == ("a.txt + b.txt", 6)
    other = EmbeddingManifest.model_validate(old | {"sources": sources[1::-1]}).source
    assert two.checksum not in ("a", "b", other.checksum), "the order counts"
    five = EmbeddingManifest.model_validate(old | {"sources": sources}).source
    assert (five.path, five.lines) == ("a.txt + b.txt + c.txt + 2 more", 15)


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("fra.emb", "fra.00003-of-00010.emb"),
        ("news.fra.emb", "news.fra.00003-of-00010.emb"),
        ("fra", "fra.00003-of-00010"),
    ],
)
def test_names_of_parts(name: str, part: str) -> None:
    assert part_path(Path("some") / name, Part(3, 10)) == Path("some") / part


@pytest.mark.parametrize("part", ["3/0", "0/3", "4/3", "x/y", "1/" + "9" * 5000, "1/100000", "\u0663/4", "1"])
def test_an_impossible_part_is_damage(part: str, tmp_path: Path) -> None:
    path = tmp_path / "manifest.json"
    path.write_text(json.dumps(MANIFEST | {"part": part}))
    with pytest.raises(MexmaError, match=r"manifest.json is damaged: `part`: should be a part of a text"):
        read_manifest(path, EmbeddingManifest, 2)
    path.write_text(json.dumps(MANIFEST | {"part": "3/10"}))
    assert read_manifest(path, EmbeddingManifest, 2).part == Part(3, 10)


@given(lines=st.integers(0, 1000), of=st.integers(1, 50))
def test_parts_make_a_whole(lines: int, of: int) -> None:
    borders = [Part(number, of).rows(lines) for number in range(1, of + 1)]
    assert (borders[0][0], borders[-1][1]) == (0, lines)
    assert all(before[1] == after[0] for before, after in pairwise(borders))
    sizes = [stop - start for start, stop in borders]
    assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize("name", ["a.npz", "a.npy", "a.CSV", "a.parquet", "a.emb", "a.knn"])
def test_a_store_is_not_named_as_what_it_is_not(name: str, tmp_path: Path) -> None:
    for store in (EmbeddingStore, NeighbourStore):
        check, ending = store.check_replaceable, store.ending
        if name.endswith(ending):
            check(tmp_path / name, overwrite=False)
            continue
        with pytest.raises(MexmaError, match=f"{name} would be a folder for mexma") as caught:
            check(tmp_path / name, overwrite=False)
        assert f"name it a{ending}" in str(caught.value.hint)
