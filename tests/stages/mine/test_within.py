from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mexma_cli.errors import MexmaError
from mexma_cli.knn.exact import knn
from mexma_cli.mining import lists
from mexma_cli.mining.lists import sides_of
from mexma_cli.settings.stages import MineSettings
from mexma_cli.stages.knn.row_filter import filter_rows
from mexma_cli.stages.mine import within
from mexma_cli.stages.mine.documents import DocumentFiles, read_documents
from mexma_cli.stages.mine.mine import PrecomputedNeighbours, mine
from mexma_cli.store import spool
from mexma_cli.store.embeddings import EmbeddingStore
from tests.stores import make_store

ROWS, DIM = 90, 6


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[EmbeddingStore], DocumentFiles]:
    """Lines of documents out of order, some of them repeated, empty, or with a vector of zeros."""
    folder, rng = tmp_path_factory.mktemp("within"), np.random.default_rng(0)
    stores = []
    for name in "st":
        said = rng.integers(0, ROWS // 2, ROWS)
        vectors = rng.standard_normal((ROWS, DIM)).astype(np.float32)[said]
        vectors[said == 3] = 0
        lines = ["" if number == 7 else f"{name}{number}" for number in said.tolist()]
        stores.append(make_store(folder / f"{name}.emb", lines, vectors))
        ids = "".join(f"{name if number == 8 else number}\n" for number in rng.integers(0, 9, ROWS).tolist())
        (folder / f"{name}.docs").write_text(ids)
    return stores, DocumentFiles(folder / "s.docs", folder / "t.docs")


def known(stores: list[EmbeddingStore], documents: DocumentFiles) -> PrecomputedNeighbours:
    (keep_x, own), (keep_y, other) = map(filter_rows, stores)
    near = knn(*stores, 4, keep_x=keep_x, keep_y=keep_y)
    return PrecomputedNeighbours(sides_of(near), (own, other), documents=documents)


@pytest.mark.parametrize("margin", ["ratio", "absolute"])
@pytest.mark.parametrize("retrieval", ["max", "intersect", "forward", "backward"])
def test_pairs_are_those_of_documents_in_memory(
    texts: tuple[list[EmbeddingStore], DocumentFiles],
    retrieval: str,
    margin: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lists, "BLOCK_ROWS", 16)
    monkeypatch.setattr(within, "_LINES", 16)
    monkeypatch.setattr(spool, "BUFFER", 50 * within._LINE.itemsize)
    monkeypatch.setattr(within, "_VECTORS", 4 * DIM * 16)
    stores, documents = texts
    settings = MineSettings(margin=margin, retrieval=retrieval)
    wanted = mine(*stores, settings, with_ids=True, documents=read_documents(*documents))
    found = mine(*stores, settings, with_ids=True, neighbours=known(stores, documents))
    assert list(found.pairs()) == list(wanted.pairs()) != []
    assert (found.source, found.target, found.dropped) == (wanted.source, wanted.target, wanted.dropped)
    assert min(found.source.duplicates, found.source.empty, found.source.unusable) > 0


def test_ids_that_do_not_fit_are_refused(
    texts: tuple[list[EmbeddingStore], DocumentFiles], tmp_path: Path
) -> None:
    stores, documents = texts
    for lines, message in (
        (["a"] * ROWS, "no document id in common"),
        (["a"] * (ROWS - 1), f"has {ROWS - 1} lines, .* has {ROWS}"),
        (["a"] * (ROWS + 1), f"has {ROWS + 1} lines, .* has {ROWS}"),
        (["a", ""] * ROWS, "line 2: no document id"),
    ):
        (tmp_path / "x.docs").write_text("".join(f"{line}\n" for line in lines))
        with pytest.raises(MexmaError, match=message):
            mine(*stores, neighbours=known(stores, DocumentFiles(documents.source, tmp_path / "x.docs")))
