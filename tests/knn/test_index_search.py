from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

import faiss
import numpy as np
import pytest

from mexma_cli.knn import faiss_index, index_search
from mexma_cli.knn.approximate import ApproximateNeighbours, ann
from mexma_cli.knn.effort import find_effort
from mexma_cli.knn.faiss_index import PartitionedIndex
from mexma_cli.knn.index_search import Direction, search_span
from mexma_cli.knn.neighbours import Neighbours
from mexma_cli.knn.sides import SearchSide
from mexma_cli.knn.spans import Window, merged, neighbours_in
from mexma_cli.settings.stages import SearchSettings
from tests.knn.searching import Source, same
from tests.knn.test_spans import spans

SETTINGS = SearchSettings(index="IVF32,PQ8x4fs", recall=0.3)
K = 6

Sides = tuple[np.ndarray, np.ndarray]


@pytest.fixture(scope="module")
def sides() -> Sides:
    """Around topics; some rows of y are equal."""
    rng = np.random.default_rng(0)
    topics = rng.standard_normal((60, 16), dtype=np.float32)
    x, y = (topics[rng.integers(0, 60, rows)] for rows in (1500, 1300))
    x, y = (side + rng.standard_normal(side.shape, dtype=np.float32) for side in (x, y))
    y[200:260] = y[100]
    return x, y


@pytest.fixture(scope="module")
def keep() -> Sides:
    """Of the first 400 rows of either side none takes part."""
    rng = np.random.default_rng(1)
    return tuple((rng.random(rows) < 0.9) & (np.arange(rows) >= 400) for rows in (1500, 1300))  # type: ignore[return-value]


@pytest.fixture(scope="module")
def wanted(sides: Sides, keep: Sides) -> ApproximateNeighbours:
    return ann(*sides, K, SETTINGS, keep_x=keep[0], keep_y=keep[1])


@pytest.mark.parametrize(("size", "block"), [(10_000, 1 << 16), (700, 100), (333, 1 << 16)])
def test_a_search_in_pieces_is_the_search_in_one(
    sides: Sides,
    keep: Sides,
    wanted: ApproximateNeighbours,
    monkeypatch: pytest.MonkeyPatch,
    size: int,
    block: int,
) -> None:
    monkeypatch.setattr(index_search, "BLOCK_BYTES", 64 * block)
    sources = Source(sides[0]), Source(sides[1])
    whole = [SearchSide(source, kept) for source, kept in zip(sources, keep, strict=True)]
    cuts = [spans(source.rows, size) for source in sources]
    pieces = [
        [SearchSide(Window(source, span), kept[slice(*span)]) for span in cut]
        for source, kept, cut in zip(sources, keep, cuts, strict=True)
    ]
    indexes = []
    for side, own in zip(whole, pieces, strict=True):
        trained = faiss_index.train(side, SETTINGS.index)
        index = PartitionedIndex(SETTINGS.index, trained)
        for piece in own:
            first = sum(part.ntotal for _, part in index.held)
            index.held.append((first, faiss_index.fill(faiss.clone_index(trained), piece, 0, len(piece))))
        indexes.append(index)
    directions = Direction(*whole, indexes[1]), Direction(*whole[::-1], indexes[0])
    effort = find_effort(*directions, K, SETTINGS.recall)
    assert effort.recall == wanted.effort.recall and max(effort.recall) < 0.99

    lists: dict[tuple[int, int], list[np.ndarray]] = defaultdict(list)
    for side, direction in enumerate(directions):
        for place, (piece, span) in enumerate(zip(pieces[side], cuts[side], strict=True)):
            of_piece = replace(direction, own=piece)
            *theirs, own = search_span(of_piece, span, effort.hits, K, cuts[1 - side])
            lists[side, place].append(own)
            for there, found in enumerate(theirs):
                lists[1 - side, there].append(found)
    columns = []
    for side, cut in enumerate(cuts):
        whole_side = [merged(lists[side, place], K) for place in range(len(cut))]
        columns += neighbours_in(np.concatenate(whole_side))
    assert same(Neighbours(*columns), wanted.neighbours)
