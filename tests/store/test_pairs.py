"""TokenisedPairs: pairs come back by number; nothing half-written, nothing damaged unnoticed."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mexma_cli import files as manifest
from mexma_cli.errors import MexmaError
from mexma_cli.store.pairs import ExtraSentences, TokenisedPairs, TokenisedPairsWriter
from tests.stores import flip, full_disk

FACTS: dict[str, Any] = {
    "name": "tatoeba",
    "source_language": "fra_Latn",
    "target_language": "eng_Latn",
    "tokenizer_fingerprint": "t" * 32,
    "max_tokens": 200,
    "read": 10,
    "dropped": {"duplicate": 1},
    "truncated": 0,
    "settings": {"cap": 0},
}
Pairs = list[tuple[list[int], list[int]]]


def make(path: Path, pairs: Pairs, vocabulary: int = 1000, step: int = 3) -> TokenisedPairs:
    with TokenisedPairsWriter(path, vocabulary) as out:
        for start in range(0, len(pairs), step):
            some = pairs[start : start + step]
            out.write([source for source, _ in some], [target for _, target in some])
        return out.finish(FACTS)


IDS = st.lists(st.integers(0, 99_999), max_size=5)


@given(st.lists(st.tuples(IDS, IDS), max_size=12), st.integers(1, 5))
def test_pairs_come_back(tmp_path_factory: pytest.TempPathFactory, pairs: Pairs, step: int) -> None:
    store = make(tmp_path_factory.mktemp("b") / "s", pairs, 100_000, step)
    assert len(store) == len(pairs)
    for index in random.Random(0).sample(range(len(pairs)), len(pairs)):
        source, target = store.pair(index)
        assert (source.tolist(), target.tolist()) == pairs[index]
        assert source.dtype == np.uint32
    assert store.manifest.tokens["source"] == sum(len(source) for source, _ in pairs)


@settings(max_examples=15)
@given(st.lists(st.lists(st.lists(st.integers(0, 99), min_size=1, max_size=4), max_size=3), max_size=9))
def test_what_is_beside_the_pairs_comes_back(
    tmp_path_factory: pytest.TempPathFactory, negatives: list[list[list[int]]]
) -> None:
    path = tmp_path_factory.mktemp("b") / "s"
    sides = [[row] * (row % 3) for row in range(len(negatives))]
    with TokenisedPairsWriter(path, 100, {"negatives": ExtraSentences(each=3, vocabulary=100)}) as out:
        for start in range(0, len(negatives), 2):
            rows = slice(start, start + 2)
            out.write(sides[rows], sides[rows], {"negatives": negatives[rows]})
        out.finish(FACTS)
    store = TokenisedPairs.open(path, verify=True)
    found = [[ids.tolist() for ids in store.extra("negatives", row)] for row in range(len(store))]
    assert found == [own + [[]] * (3 - len(own)) for own in negatives]
    assert not any(store.extra("teacher", row) for row in range(len(store)))
    assert [store.pair(row)[1].tolist() for row in range(len(store))] == sides
    flip(path / "negatives.offsets.npy")
    with pytest.raises(MexmaError, match=r"negatives\.offsets\.npy is damaged"):
        TokenisedPairs.open(path, verify=True)


def test_small_vocabularies_take_two_bytes(tmp_path: Path) -> None:
    store = make(tmp_path / "s", [([1, 65_535], [2])], 65_536)
    assert store.pair(0)[0].dtype == np.uint16
    assert store.pair(0)[0].tolist() == [1, 65_535]
    with pytest.raises(AssertionError, match="out of range"):
        make(tmp_path / "t", [([1000], [2])], 1000)


def test_a_store_replaces_an_older_one_and_nothing_else(tmp_path: Path) -> None:
    make(tmp_path / "s", [([1], [2])])
    assert make(tmp_path / "s", [([3], [4]), ([5], [6])]).pair(1)[1].tolist() == [6]
    assert [path.name for path in tmp_path.iterdir()] == ["s"]
    (tmp_path / "named").mkdir()
    (tmp_path / "named" / "source.ids.npy").write_text("like a file of a store")
    with pytest.raises(MexmaError, match=r"named has files, and no manifest\.json"):
        make(tmp_path / "named", [([1], [2])])
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "work.txt").write_text("work")
    with pytest.raises(MexmaError, match="is no store of prepared pairs"):
        make(tmp_path / "mine", [([1], [2])])


def test_what_a_killed_run_left_goes_and_nothing_else(tmp_path: Path) -> None:
    for name in ("s[1].partial/s[1]", "s[1].tmp-1"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "s[1].partial" / ".mexma").touch()
    make(tmp_path / "s[1]", [([1], [2])])
    assert {path.name for path in tmp_path.iterdir()} == {"s[1]", "s[1].tmp-1"}


def test_an_error_leaves_the_old_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(tmp_path / "s", [([1], [2])])
    with monkeypatch.context() as patch:
        patch.setattr(manifest.os, "fsync", full_disk)
        with pytest.raises(MexmaError, match="no space left"):
            make(tmp_path / "s", [([3], [4])])
    assert TokenisedPairs.open(tmp_path / "s", verify=True).pair(0)[0].tolist() == [1]
    assert [path.name for path in tmp_path.iterdir()] == ["s"]


def test_damage_is_named(tmp_path: Path) -> None:
    make(tmp_path / "s", [([1, 2, 3], [4])])
    path = tmp_path / "s" / "source.ids.npy"
    flip(path)
    with pytest.raises(MexmaError, match=r"source\.ids\.npy is damaged: its checksum"):
        TokenisedPairs.open(tmp_path / "s", verify=True)
    os.truncate(path, 133)
    with pytest.raises(MexmaError, match=r"source\.ids\.npy is damaged: 133 bytes instead of 134"):
        TokenisedPairs.open(tmp_path / "s")
    path.unlink()
    with pytest.raises(MexmaError, match=r"source\.ids\.npy is missing"):
        TokenisedPairs.open(tmp_path / "s")
    path.symlink_to(tmp_path / "elsewhere.npy")
    with pytest.raises(MexmaError, match=r"source\.ids\.npy is a link"):
        TokenisedPairs.open(tmp_path / "s")
    said = tmp_path / "s" / "manifest.json"
    said.write_text(said.read_text().replace("source.ids.npy", "../elsewhere.npy"))
    with pytest.raises(MexmaError, match=r"manifest\.json is damaged: it names other files"):
        TokenisedPairs.open(tmp_path / "s")
    with pytest.raises(MexmaError, match="no such file or folder") as caught:
        TokenisedPairs.open(tmp_path / "nowhere")
    assert "mexma prepare" in (caught.value.hint or "")


def test_cut_short_while_it_is_read(tmp_path: Path) -> None:
    store = make(tmp_path / "s", [([1, 2, 3], [4]), ([5], [6])])
    assert store.pair(0)[0].tolist() == [1, 2, 3]
    os.truncate(tmp_path / "s" / "target.offsets.npy", 130)
    with pytest.raises(MexmaError, match=r"target\.offsets\.npy is damaged: it was cut short"):
        store.pair(1)


@pytest.mark.parametrize(
    ("name", "values", "wrong"),
    [
        ("source.ids", [1, 2, 1000, 5], "an id is out of range"),
        ("source.offsets", [0, -3, 4], "an offset is out of range"),
        ("source.offsets", [0, 2**60, 4], "an offset is out of range"),
        ("source.offsets", [0, 3, 3], "it ends at another id than the last"),
    ],
)
def test_numbers_out_of_range(tmp_path: Path, name: str, values: list[int], wrong: str) -> None:
    """Also where the checksum is that of the file."""
    make(tmp_path / "s", [([1, 2, 3], [4]), ([5], [6])])
    path, said = tmp_path / "s" / f"{name}.npy", tmp_path / "s" / "manifest.json"
    before = manifest.checksum_file(path)
    dtype = "<u2" if name == "source.ids" else "<i8"
    path.write_bytes(path.read_bytes()[:128] + np.array(values, dtype).tobytes())
    said.write_text(said.read_text().replace(before, manifest.checksum_file(path)))
    with pytest.raises(MexmaError, match=wrong):
        TokenisedPairs.open(tmp_path / "s", verify=True)
