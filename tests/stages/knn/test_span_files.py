from __future__ import annotations

import random
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mexma_cli.errors import MexmaError
from mexma_cli.knn.exact import knn
from mexma_cli.knn.spans import Span, search_tile
from mexma_cli.stages.knn import span_files
from mexma_cli.stages.knn.span_files import ListsFile, MergedLists, Spans, merge_lists
from tests.knn.test_spans import Rows
from tests.stores import make_store


@given(
    sizes=st.tuples(st.integers(1, 40), st.integers(1, 40)),
    tile=st.integers(1, 40),
    keys=st.integers(1, 60),
    seed=st.integers(0, 100),
)
def test_merged_files_of_tiles_are_the_search_in_one(
    sizes: tuple[int, int], tile: int, keys: int, seed: int
) -> None:
    rng, k = np.random.default_rng(seed), 3
    x, y = (rng.integers(-1, 2, (rows, 3)).astype(np.float32) for rows in sizes)
    keep = tuple(rng.random(rows) < 0.8 for rows in sizes)
    wanted = knn(x, y, k, keep_x=keep[0], keep_y=keep[1])
    down, across = (Spans(rows, tile) for rows in sizes)
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        patch.setattr(span_files, "_KEYS", keys)
        folder = Path(name)
        for a in down:
            for b in across:
                kept = keep[0][slice(*a)], keep[1][slice(*b)]
                lists = search_tile((Rows(x), Rows(y)), kept, (a, b), k)
                span_files.write_array(folder / f"{a.start}-{b.start}.npy", lists, "int64", k)
        merged = []
        for own, others, backward in ((down, across, False), (across, down, True)):
            width = min(k, int(keep[not backward].sum()))
            for span in own:
                pairs = [(other, span) if backward else (span, other) for other in others]
                parts = [
                    ListsFile(folder / f"{a.start}-{b.start}.npy", a.rows if backward else 0, a.rows + b.rows)
                    for a, b in pairs
                ]
                random.Random(seed).shuffle(parts)
                merge_lists(parts, span.rows, k, width, folder / f"{backward}-{span.start}.npy")
            paths = [folder / f"{backward}-{span.start}.npy" for span in own]
            merged.append(MergedLists(paths, [span.rows for span in own], width, k))
        for side, ids, scores in (
            (merged[0], wanted.forward_ids, wanted.forward_scores),
            (merged[1], wanted.backward_ids, wanted.backward_scores),
        ):
            rows = np.flatnonzero(rng.random(side.count) < 0.5)
            for some in (rows, np.arange(side.count)):
                cosines, near = side.at(some)
                assert np.array_equal(near, ids[some]) and cosines.tobytes() == scores[some].tobytes()


@pytest.mark.parametrize("size", [2, 7, 100])
def test_rows_that_take_part_are_read_by_span(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setattr(span_files, "_ROWS", size)
    lines = ["a", "b", "", "a", "c", "d", "b", "e", "f"]
    store = make_store(tmp_path / "s.emb", lines, np.ones((9, 2), np.float32))
    left_out = span_files.write_kept_rows(store, tmp_path / "rows")
    assert left_out == {"duplicates": 2, "empty": 1, "unusable": 0}
    wanted = np.array([0, 0, 0, 1, 1, 1, 1, 1, 1], dtype=bool)
    for start in range(9):
        for stop in range(start, 10):
            found = span_files.read_kept_rows(tmp_path / "rows", store, Span(start, stop))
            assert np.array_equal(found, wanted[start:stop])
    file = tmp_path / "rows/00000.npy"
    held = file.read_bytes()
    file.write_bytes(held[:-1] + bytes([1 - held[-1]]))
    with pytest.raises(MexmaError, match=r"00000\.npy is damaged: its checksum"):
        span_files.read_kept_rows(tmp_path / "rows", store, Span(0, 1))


def test_a_tile_of_another_size_is_refused(tmp_path: Path) -> None:
    span_files.write_array(tmp_path / "tile.npy", [np.zeros((3, 2), np.int64)], "int64", 2)
    with pytest.raises(MexmaError, match=r"tile\.npy is damaged: 176 bytes instead of 192"):
        merge_lists([ListsFile(tmp_path / "tile.npy", 0, 4)], 4, 2, 2, tmp_path / "merged.npy")
