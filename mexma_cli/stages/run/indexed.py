"""Units of a search with indexes: an index for each language, and what comes before the tiles of a pair."""

from __future__ import annotations

from mexma_cli.errors import MexmaError
from mexma_cli.settings.corpus import CorpusRecipe
from mexma_cli.stages.knn.tiles import spans_of
from mexma_cli.stages.run.units import Unit

SIDES = ("source", "target")


def check_index(index: str) -> None:
    """Refuse an index that cannot be searched in pieces, to the same result.

    Raises:
        MexmaError: The message names the key.
    """
    if index not in ("exact", "auto") and "IVF" not in index:
        raise MexmaError(
            f"`mine.index`: {index!r} is neither exact nor auto, and an index without lists",
            "write it as for faiss.index_factory, with IVF and a number of lists: IVF4096,PQ128x4fs",
        )


def index_units(recipe: CorpusRecipe, code: str, rows: int) -> list[Unit]:
    """The index over a language's text: trained once, then filled span by span."""
    sides = {"store": f"{code}/store", "rows": f"{code}/rows"}
    trained = Unit(
        name=f"{code}/index/trained",
        stage="knn",
        work="train_index",
        settings={"index": recipe.mine.index},
        inputs=sides,
        output=f"{code}/index/trained.faiss",
    )
    return [
        trained,
        *(
            Unit(
                name=shard,
                stage="knn",
                work="shard",
                settings={"rows": list(span)},
                inputs=sides | {"trained": trained.name},
                output=f"{shard}.faiss",
            )
            for shard, span in zip(
                _shards(recipe, code, rows), spans_of(rows, recipe.units.tile), strict=True
            )
        ),
    ]


def _shards(recipe: CorpusRecipe, code: str, rows: int) -> list[str]:
    return [f"{code}/index/{place:05d}" for place in range(len(spans_of(rows, recipe.units.tile)))]


def search_units(recipe: CorpusRecipe, pair: tuple[str, str], rows: tuple[int, int], k: int) -> list[Unit]:
    """The units that find pairs with the indexes of both languages; the first of them finds the effort."""
    name = "-".join(pair)
    stores, indexes = {}, {}
    for side, code, count in zip(SIDES, pair, rows, strict=True):
        stores[side] = {side: f"{code}/store", f"{side}_rows": f"{code}/rows"}
        shards = {f"{side}_{shard.rpartition('/')[2]}": shard for shard in _shards(recipe, code, count)}
        indexes[side] = stores[side] | {f"{side}_trained": f"{code}/index/trained"} | shards
    effort = Unit(
        name=f"{name}/effort",
        stage="knn",
        work="effort",
        settings={"k": k, "recall": recipe.mine.recall},
        inputs=indexes["source"] | indexes["target"],
        output=f"{name}/effort.json",
    )
    spans = {
        side: [list(span) for span in spans_of(count, recipe.units.tile)]
        for side, count in zip(SIDES, rows, strict=True)
    }
    found = [
        Unit(
            name=f"{name}/found/{side}-{place:05d}",
            stage="knn",
            work="look_up",
            settings={"side": side, "rows": span, "spans": spans[other], "k": k},
            inputs=stores[side] | indexes[other] | {"effort": effort.name},
            output=f"{name}/found/{side}-{place:05d}",
        )
        for side, other in (SIDES, SIDES[::-1])
        for place, span in enumerate(spans[side])
    ]
    return [effort, *found]


def scored(tile: Unit) -> Unit:
    """A tile that scores what was found in place of searching."""
    name, _, places = tile.name.partition("/tile/")
    row, column = places.split("-")
    found = {"source_found": f"{name}/found/source-{row}", "target_found": f"{name}/found/target-{column}"}
    settings = tile.settings | {"place": [int(row), int(column)]}
    return tile.model_copy(update={"work": "score_tile", "settings": settings, "inputs": tile.inputs | found})
