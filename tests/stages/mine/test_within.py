from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from mexma_cli.errors import MexmaError
from mexma_cli.knn.exact import knn
from mexma_cli.knn.neighbours import Neighbours
from mexma_cli.mining import lists, restricted
from mexma_cli.mining.candidates import Candidates
from mexma_cli.mining.lists import sides_of
from mexma_cli.mining.margin import margin, means
from mexma_cli.mining.retrieval import RETRIEVALS, Once, Retrieval
from mexma_cli.settings.stages import MineSettings
from mexma_cli.stages.knn.row_filter import filter_rows
from mexma_cli.stages.mine import within
from mexma_cli.stages.mine.documents import DocumentFiles, DocumentPairs, read_documents
from mexma_cli.store import spool
from mexma_cli.store.embeddings import EmbeddingStore
from tests.stores import make_store, mine

ROWS, DIM, K = 90, 6, 4


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> list[EmbeddingStore]:
    """Lines of documents out of order, some of them repeated, empty, or with a vector of zeros."""
    folder, rng = tmp_path_factory.mktemp("within"), np.random.default_rng(0)
    found = []
    for name in "st":
        said = rng.integers(0, ROWS // 2, ROWS)
        vectors = rng.standard_normal((ROWS, DIM)).astype(np.float32)[said]
        vectors[said == 3] = 0
        lines = ["" if number == 7 else f"{name}{number}" for number in said.tolist()]
        found.append(make_store(folder / f"{name}.emb", lines, vectors))
        ids = "".join(f"{name if number == 8 else number}\n" for number in rng.integers(0, 9, ROWS).tolist())
        (folder / f"{name}.docs").write_text(ids)
    (folder / "pairs").write_text("".join(f"{own}\t{other}\n" for own in range(6) for other in (own, 3, 5)))
    return found


def documents_of(stores: list[EmbeddingStore], listed: bool) -> DocumentFiles:
    folder = stores[0].path.parent
    return DocumentFiles(folder / "s.docs", folder / "t.docs", folder / "pairs" if listed else None)


Pair = tuple[float, int, int]


def candidates(
    stores: list[EmbeddingStore], documents: DocumentPairs, kind: str, k: int
) -> tuple[list[Pair], list[Pair], list[int]]:
    """By plain loops, the k best pairs by margin of every line of the source, and of the target, and how many
    lines take part on either side."""
    texts, of_line = [list(store.sentences()) for store in stores], (documents.source, documents.target)
    vectors, (keep_x, keep_y) = (
        [store.vectors(0, ROWS) for store in stores],
        (filter_rows(s)[0] for s in stores),
    )
    background, twin, usable = means(knn(*vectors, K, keep_x=keep_x, keep_y=keep_y)), [], []
    for side, text in enumerate(texts):
        last = {line: row for row, line in enumerate(text)}
        in_document = {(line, of_line[side][row]): row for row, line in enumerate(text)}
        twin.append([last[line] for line in text])
        kept = [row for (line, _), row in in_document.items() if line and vectors[side][last[line]].any()]
        usable.append(sorted(kept))
    x, y = (one / np.maximum(np.linalg.norm(one, axis=1), 1e-9)[:, None] for one in vectors)
    paired, near = set(map(tuple, documents.pairs.tolist())), [{}, {}]
    for i in usable[0]:
        for j in usable[1]:
            if (of_line[0][i], of_line[1][j]) in paired:
                means_of_both = background[0][twin[0][i]], background[1][twin[1][j]]
                pair = float(margin(x[i] @ y[j], *means_of_both, kind)), i, j
                near[0].setdefault(i, []).append(pair)
                near[1].setdefault(j, []).append(pair)
    forward, backward = (
        [pair for row in side.values() for pair in sorted(row, key=lambda one: (-one[0], one[1:]))[:k]]
        for side in near
    )
    return forward, backward, [len(rows) for rows in usable]


def taken(forward: list[Pair], backward: list[Pair], retrieval: str) -> dict[tuple[int, int], float]:
    """The pairs of a retrieval, by LASER's rules, with their scores."""
    both, seen, found = {pair[1:] for pair in forward} & {pair[1:] for pair in backward}, (set(), set()), {}
    wanted = {"forward": forward, "backward": backward}.get(retrieval, forward + backward)
    for score, i, j in sorted(wanted, key=lambda one: (-one[0], one[1:])):
        if retrieval == "max":
            if score <= 0 or i in seen[0] or j in seen[1]:
                continue
            seen[0].add(i)
            seen[1].add(j)
        if retrieval != "intersect" or (i, j) in both:
            found[i, j] = score
    return found


@pytest.mark.parametrize("listed", [False, True])
@pytest.mark.parametrize("kind", ["ratio", "absolute"])
@pytest.mark.parametrize("retrieval", RETRIEVALS)
def test_pairs_are_the_best_of_paired_documents(
    stores: list[EmbeddingStore], retrieval: str, kind: str, listed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In pieces on disk; with a list, documents are in several pairs, where a line counts once, too."""
    monkeypatch.setattr(lists, "BLOCK_ROWS", 16)
    monkeypatch.setattr(spool, "BUFFER", 50 * within._LINE.itemsize)
    monkeypatch.setattr(within, "_TOGETHER", 16 * (4 * DIM + within._NEIGHBOUR))
    documents = documents_of(stores, listed)
    settings = MineSettings(margin=kind, retrieval=retrieval, k=K)
    found = mine(*stores, settings, with_ids=True, documents=documents)
    forward, backward, usable = candidates(
        stores, read_documents(*documents), kind, K if retrieval == "all" else 1
    )
    wanted = taken(forward, backward, retrieval)
    pairs = {(pair.source_line - 1, pair.target_line - 1): pair.score for pair in found}
    assert pairs.keys() == wanted.keys() != set()
    assert max(abs(pairs[one] - wanted[one]) for one in pairs) < 1e-5
    assert [found.source.kept, found.target.kept] == usable
    assert min(found.source.duplicates, found.source.empty, found.source.unusable) > 0


@pytest.mark.parametrize(
    ("rows", "dim", "each", "k", "retrieval"),
    [(5000, 8, 50, 16, "all"), (5000, 8, 50, 4, "max"), (3000, 8, 1500, 4, "max"), (3000, 32, 10, 4, "max")],
)
def test_memory_stays_below_its_estimate(
    rows: int,
    dim: int,
    each: int,
    k: int,
    retrieval: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also where neighbours are larger than vectors, in more than is in work at a time."""
    monkeypatch.setattr(restricted, "_TILE", min(each, restricted._TILE))
    monkeypatch.setattr(within, "_TOGETHER", 1 << 19)
    monkeypatch.setattr(spool, "BUFFER", 1 << 19)
    rng, stores = np.random.default_rng(0), []
    (tmp_path / "docs").write_text("".join(f"{row // each}\n" for row in range(rows)))
    for name in "st":
        vectors = rng.standard_normal((rows, dim)).astype(np.float32)
        stores.append(make_store(tmp_path / f"{name}.emb", [f"{row}" for row in range(rows)], vectors))
    documents = read_documents(tmp_path / "docs", tmp_path / "docs")
    cosines, ids = np.ones((rows, k), np.float32), np.zeros((rows, k), np.int64)
    settings = MineSettings(retrieval=retrieval, k=k)
    peaks: list[int] = []

    def stopped(candidates: Iterator[Candidates], *_: object) -> None:
        for _ in candidates:
            pass
        peaks.append(tracemalloc.get_traced_memory()[1])
        raise KeyboardInterrupt

    monkeypatch.setattr(within, "taken_of", stopped)
    tracemalloc.start()
    with pytest.raises(KeyboardInterrupt):
        within.match_within(
            (stores[0], stores[1]), sides_of(Neighbours(cosines, ids, cosines, ids)), documents, settings
        )
    tracemalloc.stop()
    assert peaks[0] < within.bytes_within(2 * rows, dim, settings)


@pytest.mark.parametrize("retrieval", RETRIEVALS)
def test_one_document_of_everything_is_as_without_documents(
    stores: list[EmbeddingStore], retrieval: str, tmp_path: Path
) -> None:
    """With as many neighbours as rows: the same pairs, scores, ranks and means, bit for bit."""
    (tmp_path / "docs").write_text("a\n" * ROWS)
    settings = MineSettings(retrieval=retrieval, k=ROWS)
    plainly, found = (
        mine(*stores, settings, with_ids=True, documents=one)
        for one in (None, DocumentFiles(tmp_path / "docs", tmp_path / "docs"))
    )
    assert list(found) == list(plainly) != []
    assert (found.source, found.target) == (plainly.source, plainly.target)


@pytest.mark.parametrize("road", ["neighbours", "documents", "probabilities"])
def test_what_takes_candidates_is_asked_on_every_road(
    road: str, stores: list[EmbeddingStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    class FirstTwo(Once):
        def taken(self, pairs: Candidates) -> np.ndarray:
            return np.arange(len(pairs)) < 2

    settings = MineSettings(score="probability" if road == "probabilities" else "margin")
    documents = documents_of(stores, listed=False) if road == "documents" else None
    assert len(mine(*stores, settings, documents=documents)) > 2
    monkeypatch.setitem(RETRIEVALS, "max", Retrieval("max", FirstTwo))
    assert len(mine(*stores, settings, documents=documents)) == 2


def test_lines_are_counted_where_the_other_side_has_none(tmp_path: Path) -> None:
    store = make_store(
        tmp_path / "s.emb", ["a", "b", "b", "c"], np.eye(4, dtype=np.float32) * [[1], [1], [1], [0]]
    )
    empty = make_store(tmp_path / "t.emb", ["", ""], np.zeros((2, 4), np.float32))
    for path, rows in ((tmp_path / "s.docs", 4), (tmp_path / "t.docs", 2)):
        path.write_text("a\n" * rows)
    found = mine(store, empty, documents=DocumentFiles(tmp_path / "s.docs", tmp_path / "t.docs"))
    assert len(found) == 0 and (found.target.empty, found.target.kept) == (2, 0)
    assert (found.source.duplicates, found.source.unusable, found.source.kept) == (1, 1, 2)


def test_ids_of_other_texts_are_refused(stores: list[EmbeddingStore], tmp_path: Path) -> None:
    (tmp_path / "x.docs").write_text("0\n" * (ROWS - 1))
    documents = DocumentFiles(stores[0].path.parent / "s.docs", tmp_path / "x.docs")
    with pytest.raises(MexmaError, match=f"has {ROWS - 1} lines, .* has {ROWS}"):
        mine(*stores, documents=documents)
