"""Stores of neighbours: what is written is read, only whole ones get the name, damage is found."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from mexma_cli.errors import MexmaError
from mexma_cli.store.arrays import unverified
from mexma_cli.store.embeddings import EmbeddingStore, StorePair
from mexma_cli.store.neighbours import ARRAYS, NeighbourStore, searched_store, searching
from mexma_cli.store.neighbours import write as write_store
from tests.stores import flip, full_disk, make_store


def embeddings(path: Path, rows: int, value: float = 1, argv: tuple[str, ...] = ()) -> EmbeddingStore:
    vectors = np.full((rows, 2), value, np.float32)
    return make_store(path, [str(row) for row in range(rows)], vectors, argv=argv)


def arrays(rows: tuple[int, int], k: tuple[int, int]) -> dict[str, np.ndarray]:
    numbers = np.random.default_rng(0)
    found = {}
    for side, width, others in (("forward", k[0], rows[1]), ("backward", k[1], rows[0])):
        shape = rows[side == "backward"], width
        found[f"{side}_scores"] = numbers.standard_normal(shape).astype(np.float32)
        found[f"{side}_ids"] = numbers.integers(-1, others, shape)
    return found


def write(path: Path, stores: StorePair, values: dict[str, np.ndarray], **options: bool) -> NeighbourStore:
    source, target = (searched_store(store, duplicates=1, empty=2, unusable=3) for store in stores)
    with searching(path, **options):
        return write_store(path, values, source, target, k=4, index="exact", recall=None, argv=("mexma",))


@pytest.fixture
def sides(tmp_path: Path) -> StorePair:
    return embeddings(tmp_path / "s.emb", 5), embeddings(tmp_path / "t.emb", 3)


@pytest.fixture
def store(tmp_path: Path, sides: StorePair) -> NeighbourStore:
    return write(tmp_path / "a.knn", sides, arrays((5, 3), (3, 4)))


def test_reads_what_was_written(store: NeighbourStore, tmp_path: Path) -> None:
    again = NeighbourStore.open(store.path, verify=True)
    for (name, wanted), found, fewer in zip(
        arrays((5, 3), (3, 4)).items(), again.read(4), again.read(2), strict=True
    ):
        assert np.array_equal(found, wanted) and found.dtype == wanted.dtype
        assert np.array_equal(fewer, wanted[:, :2])
        assert np.array_equal(np.load(store.path / f"{name.replace('_', '-')}.npy"), wanted)
    manifest = again.manifest
    assert (manifest.k, manifest.forward_k, manifest.backward_k) == (4, 3, 4)
    assert (manifest.source.rows, manifest.source.path) == (5, str(tmp_path / "s.emb"))
    assert (manifest.target.duplicates, manifest.target.empty, manifest.target.unusable) == (1, 2, 3)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.knn", "s.emb", "t.emb"]


@pytest.mark.parametrize(("name", "row"), [("forward_ids", 3), ("backward_ids", 5), ("backward_ids", -2)])
def test_no_neighbour_is_outside_the_other_store(
    name: str, row: int, sides: StorePair, tmp_path: Path
) -> None:
    """Also where the checksums are right: a program wrote it so."""
    values = arrays((5, 3), (3, 4))
    values[name][1, 2] = row
    with pytest.raises(MexmaError, match=f"{name.replace('_', '-')}.npy is damaged: not all are rows of "):
        write(tmp_path / "a.knn", sides, values).read(4)


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), k=st.tuples(st.integers(0, 5), st.integers(0, 5)))
def test_any_numbers_come_back(data: st.DataObject, k: tuple[int, int], sides: StorePair) -> None:
    shapes = [(5, k[0])] * 2 + [(3, k[1])] * 2
    ids = {"forward_ids": st.integers(-1, 2), "backward_ids": st.integers(-1, 4)}
    values = {
        name: data.draw(npst.arrays(dtype, shape, elements=ids.get(name)))
        for (name, dtype), shape in zip(ARRAYS.items(), shapes, strict=True)
    }
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder) / "a.knn", sides, values)
        found = NeighbourStore.open(Path(folder) / "a.knn")
        for array, wanted in zip(found.read(5), values.values(), strict=True):
            assert array.tobytes() == wanted.tobytes()


def test_knows_the_stores_again_by_their_content(
    store: NeighbourStore, sides: StorePair, tmp_path: Path
) -> None:
    store.check_made_of(*sides)
    store.check_made_of(embeddings(tmp_path / "moved.emb", 5, argv=("another", "command")), sides[1])
    for wrong in (sides[::-1], (sides[0], embeddings(tmp_path / "other.emb", 3, value=2))):
        with pytest.raises(MexmaError, match="is another store, or was made anew since"):
            store.check_made_of(*wrong)


@pytest.mark.parametrize("name", [f"{name.replace('_', '-')}.npy" for name in ARRAYS])
def test_damage_is_found(store: NeighbourStore, name: str) -> None:
    path = store.path / name
    size = path.stat().st_size
    flip(path)
    opened = NeighbourStore.open(store.path)
    with pytest.raises(MexmaError, match=f"{name} is damaged: its checksum"):
        opened.read(4)
    os.truncate(path, size - 8)  # which ends a process that has mapped it
    for read in (lambda: opened.read(4), lambda: NeighbourStore.open(store.path)):
        with unverified(), pytest.raises(MexmaError, match=rf"{name} is damaged: {size - 8} bytes instead"):
            read()
    path.rename(elsewhere := store.path.parent / name)
    with pytest.raises(MexmaError, match=f"{name} is missing"):
        NeighbourStore.open(store.path)
    path.symlink_to(elsewhere)
    with pytest.raises(MexmaError, match=f"{name} is a link"):
        NeighbourStore.open(store.path)


def test_what_is_no_store_of_neighbours(tmp_path: Path, sides: StorePair) -> None:
    for path, words in ((tmp_path / "none", "no such file or folder"), (tmp_path, "has no manifest.json")):
        with pytest.raises(MexmaError, match=words):
            NeighbourStore.open(path)
    with pytest.raises(MexmaError, match=r"s\.emb is no store of neighbours"):
        NeighbourStore.open(sides[0].path)


def test_whole_or_not_at_all(tmp_path: Path, sides: StorePair) -> None:
    with pytest.raises(RuntimeError), searching(tmp_path / "a.knn"):
        raise RuntimeError("stop")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["s.emb", "t.emb"]
    part = tmp_path / "a.knn.partial"
    with searching(tmp_path / "a.knn"):
        second = searching(tmp_path / "a.knn")
        with pytest.raises(MexmaError, match="another process is writing there"), second:
            pass
        assert part.is_dir() and not (tmp_path / "a.knn").exists()


def test_what_is_there_stays_unless_overwritten(
    store: NeighbourStore, sides: StorePair, tmp_path: Path
) -> None:
    values = arrays((5, 3), (1, 1))
    with pytest.raises(MexmaError, match=r"a\.knn is there already"):
        write(store.path, sides, values)
    with pytest.raises(MexmaError, match=r"is no store of neighbours: not overwritten"):
        write(sides[0].path, sides, values, overwrite=True)
    with pytest.raises(RuntimeError), searching(store.path, overwrite=True):
        raise RuntimeError("stop")
    assert NeighbourStore.open(store.path, verify=True).manifest.forward_k == 3
    assert write(store.path, sides, values, overwrite=True).manifest.forward_k == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.knn", "s.emb", "t.emb"]


def test_a_full_disk_leaves_what_was_there(
    store: NeighbourStore, sides: StorePair, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr("mexma_cli.files.fsync_file", full_disk)
    with pytest.raises(MexmaError, match="no space left on the disk"):
        write(store.path, sides, arrays((5, 3), (1, 1)), overwrite=True)
    assert NeighbourStore.open(store.path, verify=True).manifest.forward_k == 3
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.knn", "s.emb", "t.emb"]
