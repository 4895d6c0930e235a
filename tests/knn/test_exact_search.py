"""The pass over all tiles: what it holds at its peak, and what a journal keeps of one that was wrong."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mexma_cli.files import Unfinished
from mexma_cli.knn import exact_search
from mexma_cli.knn.exact import knn
from mexma_cli.knn.products import Float32
from mexma_cli.knn.torch_products import BFloat16
from mexma_cli.store.journal import FileJournal
from tests.knn.searching import Killed, same, with_product

PEAK = """
import resource, sys
import numpy as np, torch
from mexma_cli.knn import exact_search, torch_products
from mexma_cli.knn.exact import knn

class File:
    def __init__(self, path, rows, dim):
        self.path, self.rows, self.dim = path, rows, dim

    def vectors(self, start, stop):
        count = (stop - start) * self.dim
        found = np.fromfile(self.path, np.float16, count, offset=2 * self.dim * start)
        return found.reshape(-1, self.dim).astype(np.float32)

torch.set_num_threads(2)
kind = getattr(torch_products, sys.argv[2])
exact_search.choose_product = lambda sides, *_: kind((sides[0].sample(), sides[1].sample()))
sizes = 4 * exact_search.X_TILE, 2 * exact_search.Y_TILE
x, y = (File(sys.argv[1], rows, int(sys.argv[3])) for rows in sizes)
small = np.random.default_rng(0).standard_normal((900, x.dim), dtype=np.float32)
knn(small, small, 16)  # libraries and compiled code are no part of it
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
before, allowed = peak(), exact_search.bytes_needed(x.rows, y.rows, x.dim, 16, 2 * exact_search.X_TILE)
knn(x, y, 16, memory=allowed)
print(peak() - before, allowed)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="counts the peak as Linux does")
@pytest.mark.parametrize(
    ("product", "dim"),
    [("Float32", 256), pytest.param("BFloat16", 256, marks=pytest.mark.slow)],  # some processors emulate it
)
def test_holds_no_more_than_it_is_given(tmp_path: Path, product: str, dim: int) -> None:
    """Two blocks of a side at a time, or results of products that the C library keeps, would be too much."""
    path = tmp_path / "vectors"
    vectors = np.random.default_rng(1).standard_normal((2 * 8192, dim), dtype=np.float32)
    vectors.astype(np.float16).tofile(path)
    command = [sys.executable, "-c", PEAK, str(path), product, str(dim)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    taken, allowed = map(int, done.stdout.split())
    assert taken < allowed


def test_a_journal_forgets_what_wrong_estimates_found(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The seventh tile loses all its pairs, which nobody can see; from the 13th on estimates are seen to be
    wrong. The search in float32 is killed after its first entry, when more of it is done than before."""
    x, y = np.random.default_rng(0).standard_normal((2, 400, 16)).astype(np.float32)
    wanted = knn(x, y, 5)
    search, against, save, done = exact_search.ExactSearch._tile, BFloat16.against, FileJournal.save, []

    def counted(self: exact_search.ExactSearch, *arguments: Any) -> None:
        done.append(type(self.product))
        search(self, *arguments)

    def sloppy(self: BFloat16, low: Any) -> Any:
        def multiply(*given: Any) -> Any:
            tile = against(self, low)(*given)
            return tile.mul_(1.5 if len(done) > 12 else 1).add_(-1e6 if len(done) == 7 else 0)

        return multiply

    def deadly(self: FileJournal, place: tuple[int, int, int], *lists: np.ndarray) -> None:
        save(self, place, *lists)
        if done[-1] is Float32:
            raise Killed

    with monkeypatch.context() as patch:
        for name in ("X_TILE", "Y_TILE", "X_ROWS"):
            patch.setattr(exact_search, name, 100)
        with_product(patch, BFloat16)
        patch.setattr(exact_search.ExactSearch, "_tile", counted)
        patch.setattr(BFloat16, "against", sloppy)
        patch.setattr(FileJournal, "due", lambda _: done[-1] is BFloat16 or done.count(Float32) > 9)
        patch.setattr(FileJournal, "save", deadly)
        with pytest.raises(Killed):
            knn(x, y, 5, journal=FileJournal(tmp_path, Unfinished(by="knn", of={})))
    assert same(knn(x, y, 5, journal=FileJournal(tmp_path, Unfinished(by="knn", of={}))), wanted)
