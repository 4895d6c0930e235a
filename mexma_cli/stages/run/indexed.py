"""Kinds of units of a search with indexes: an index for each language, and what it finds for the other."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from mexma_cli.errors import MexmaError
from mexma_cli.settings.corpus import CorpusRecipe
from mexma_cli.stages.knn.span_files import Spans
from mexma_cli.stages.run.units import Kind, Unit, one

SIDES = ("source", "target")
PROBES = 16
"""Lists that are looked at for each row, as far as forecasts know: how many its recall needs, a run finds
out."""
_SCORED = 6  # times as long as a product of a search in lists takes an exact cosine
_GRAPH = 4096  # lists with which a row could be compared while a graph finds the nearest


def check_index(index: str) -> None:
    """Refuse an index that cannot be searched in pieces, to the same result."""
    if index not in ("exact", "auto") and "IVF" not in index:
        raise MexmaError(
            f"`mine.index`: {index!r} is neither exact nor auto, and an index without lists",
            "write it as for faiss.index_factory, with IVF and a number of lists: IVF4096,PQ128x4fs",
        )


def lists_of(index: str, rows: int) -> tuple[int, int]:
    """The lists of an index over so many rows, and those with which a row is compared to find the nearest."""
    from mexma_cli.knn.faiss_index import choose_index, lists_in

    factory = choose_index(rows, 1, index)
    lists = lists_in(factory) or 1
    return lists, min(lists, _GRAPH) if "HNSW" in factory else lists


def index_kinds(recipe: CorpusRecipe, code: str, rows: int) -> list[Kind]:
    """The index over a language's text: trained once, then filled span by span."""
    from mexma_cli.knn.faiss_index import ROUNDS, training_rows

    sides = {"store": f"{code}/store", "rows": f"{code}/rows"}
    trained = Unit(
        name=f"{code}/index/trained",
        work="train_index",
        settings={"index": recipe.mine.index},
        inputs=sides,
        output=f"{code}/index/trained.faiss",
    )
    spans = Spans(rows, recipe.units.tile)

    def shard(place: int) -> Unit:
        name = f"{code}/index/{place:05d}"
        return Unit(
            name=name,
            work="shard",
            settings={"rows": list(spans[place])},
            inputs=sides | {"trained": trained.name},
            output=f"{name}.faiss",
        )

    lists, compared = lists_of(recipe.mine.index, rows)
    learnt = min(rows, training_rows(lists))
    return [
        replace(one(trained, learnt), cells=learnt * lists * ROUNDS),
        Kind(f"{code}/index", "shard", shard, (len(spans),), rows, rows * compared),
    ]


def search_kinds(recipe: CorpusRecipe, pair: tuple[str, str], rows: tuple[int, int], k: int) -> list[Kind]:
    """The kinds of units that search with the indexes of both languages, after one that finds the effort."""
    from mexma_cli.knn.effort import fewest_hits
    from mexma_cli.knn.index_search import MEASURED_ON, TUNED_ON

    name = "-".join(pair)
    spans = [Spans(count, recipe.units.tile) for count in rows]
    stores = [
        {side: f"{code}/store", f"{side}_rows": f"{code}/rows"}
        for side, code in zip(SIDES, pair, strict=True)
    ]

    def index(side: int) -> dict[str, str]:
        """A side with its index."""
        code, shards = pair[side], range(len(spans[side]))
        of_index = {f"{SIDES[side]}_{place:05d}": f"{code}/index/{place:05d}" for place in shards}
        return stores[side] | {f"{SIDES[side]}_trained": f"{code}/index/trained"} | of_index

    def effort() -> Unit:
        return Unit(
            name=f"{name}/effort",
            work="effort",
            settings={"k": k, "recall": recipe.mine.recall},
            inputs=index(0) | index(1),
            output=f"{name}/effort.json",
        )

    def search(side: int, place: int) -> Unit:
        output, own = f"{name}/found/{SIDES[side]}-{place:05d}", spans[side]
        files = [[found_of(1 - side, there), list(span)] for there, span in enumerate(spans[1 - side])]
        files.append([found_of(side, place), list(own[place])])
        return Unit(
            name=output,
            work="search_index",
            settings={"side": SIDES[side], "files": files, "k": k},
            inputs=stores[side] | index(1 - side) | {"effort": f"{name}/effort"},
            output=output,
        )

    kinds = [Kind(f"{name}/effort", "effort", effort, (), sum(rows), (TUNED_ON + MEASURED_ON) * sum(rows))]
    for side, (own, indexed) in enumerate((rows, rows[::-1])):
        lists, compared = lists_of(recipe.mine.index, indexed)
        cells = own * (compared + min(1.0, PROBES / lists) * indexed + _SCORED * fewest_hits(k))
        grid, work, looked_up = (len(spans[side]),), partial(search, side), own * len(spans[1 - side])
        kinds.append(Kind(f"{name}/found/{SIDES[side]}", "search_index", work, grid, looked_up, cells))
    return kinds


def found_of(side: int, place: int) -> str:
    """The file of a unit's output with what it found for the rows of a span."""
    return f"{SIDES[side]}-{place:05d}.npy"


def lists_found(name: str, side: int, place: int, rows: int, others: int) -> list[tuple[str, str, int, int]]:
    """The lists that units of a pair of languages (`name`) found for a span of `rows`, which the other side's
    `others` spans found, too: as `work.neighbours` takes it."""
    units = [f"{SIDES[side]}-{place:05d}", *(f"{SIDES[1 - side]}-{there:05d}" for there in range(others))]
    return [(f"{name}/found/{unit}", found_of(side, place), 0, rows) for unit in units]
