"""Units that search for neighbours: in tiles, exactly, or with an index for each language."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mexma_cli.errors import MexmaError
from mexma_cli.files import write_json_atomic
from mexma_cli.knn.choice import LOOPS_FROM, WORK
from mexma_cli.knn.exact_search import X_ROWS, bytes_needed
from mexma_cli.knn.spans import Span
from mexma_cli.settings.corpus import CorpusRecipe
from mexma_cli.stages.costs import Cost
from mexma_cli.stages.knn.estimate import KEY_BYTES, index_bytes
from mexma_cli.stages.knn.row_filter import filtering_bytes
from mexma_cli.stages.knn.search import has_index
from mexma_cli.stages.knn.span_files import ListsFile, Spans, merge_lists, write_kept_rows, write_tile
from mexma_cli.stages.mine.probable import LIBRARIES_BYTES
from mexma_cli.stages.run.units import Facts, Kind, Sizes, Task, Unit, one

if TYPE_CHECKING:
    from mexma_cli.stages.knn.shards import Indexed

SIDES = ("source", "target")
DIRECTIONS = ("forward", "backward")
PROBES = 16
"""Lists of an index that are looked at for each row, as far as forecasts know: how many its recall needs, a
run finds out."""
_SCORED = 6  # times as long as a product of a search in lists takes an exact cosine
_GRAPH = 4096  # lists with which a row could be compared while a graph finds the nearest
_TORCH_BYTES = 230_000_000  # once it is loaded


@dataclass(frozen=True)
class LanguagePair:
    """A language pair of a recipe: the codes of both sides, and their rows."""

    recipe: CorpusRecipe
    codes: tuple[str, str]
    rows: tuple[int, int]

    @property
    def name(self) -> str:
        """What the names of its units begin with."""
        return "-".join(self.codes)

    @property
    def spans(self) -> tuple[Spans, Spans]:
        """The rows of both sides that one unit searches."""
        source, target = (Spans(count, self.recipe.units.tile) for count in self.rows)
        return source, target

    @property
    def indexed(self) -> bool:
        """Whether the search is with indexes."""
        return has_index(*self.rows, self.recipe.mine.index)

    def side(self, side: int) -> dict[str, str]:
        """The store of a side and which of its rows take part, as inputs."""
        return {SIDES[side]: f"{self.codes[side]}/store", f"{SIDES[side]}_rows": f"{self.codes[side]}/rows"}

    def unit(self, what: str, *places: int) -> str:
        """The name of the unit at a place of a grid."""
        return f"{self.name}/{what}" + "-".join(f"{place:05d}" for place in places)


def found_of(side: int, place: int) -> str:
    """The file of a unit's output with what it found for the rows of a span."""
    return f"{SIDES[side]}-{place:05d}.npy"


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


def indexed_pairs(recipe: CorpusRecipe, lines: Mapping[str, int]) -> list[tuple[str, str]]:
    """The language pairs that are searched with indexes, of languages with so many lines."""
    pairs = recipe.language_pairs() if recipe.align is None else []
    known = [(pair, [lines[code] for code in pair]) for pair in pairs if lines.keys() >= set(pair)]
    return [pair for pair, (source, target) in known if has_index(source, target, recipe.mine.index)]


def index_memory(recipe: CorpusRecipe, rows: int, dim: int) -> int:
    """Bytes that a unit takes at most of those that train an index over so many rows and search in it."""
    from mexma_cli.knn.effort import fewest_hits
    from mexma_cli.knn.faiss_index import SLACK, training_rows
    from mexma_cli.knn.index_search import BLOCK_BYTES, CHUNK, row_bytes

    tile, centres = min(recipe.units.tile, rows), lists_of(recipe.mine.index, rows)[0]
    hits = fewest_hits(recipe.mine.k)
    training = 12 * dim * min(rows, training_rows(centres)) + 2 * KEY_BYTES * rows
    shard = 4 * dim * centres + round(SLACK * index_bytes(rows, dim, recipe.mine.index) * tile / rows)
    lists = 9 * KEY_BYTES * recipe.mine.k * tile
    chunk = min(CHUNK, tile * row_bytes(2 * dim, hits, PROBES)) + BLOCK_BYTES
    searching = chunk + KEY_BYTES * (hits * tile + rows) + max(shard, lists)
    return max(training, searching)


class _Search(Unit):
    """Units that search. That of indexes is exact in samples of the rows."""

    stage = "knn"

    @classmethod
    def memory(cls, sizes: Sizes) -> dict[str, int]:
        recipe, dim, most = sizes.recipe, sizes.dim, max(sizes.lines.values())
        tile = min(recipe.units.tile, most)
        codes = {code for pair in indexed_pairs(recipe, sizes.lines) for code in pair}
        parts = [index_memory(recipe, sizes.lines[code], dim) for code in codes]
        parts += [filtering_bytes(most), bytes_needed(tile, tile, dim, recipe.mine.k, min(tile, X_ROWS))]
        return {
            "libraries": LIBRARIES_BYTES if tile * tile >= LOOPS_FROM else 0,
            "torch": _TORCH_BYTES if tile * tile * dim >= WORK else 0,
            "work": max(parts),
        }


class Rows(_Search):
    """Which rows of a store take part in mining."""

    cost = Cost(0.0, 0.01, 4e-6, threads=False)

    @classmethod
    def planned(cls, code: str, lines: int) -> Kind:
        return one(cls(name=f"{code}/rows", inputs={"store": f"{code}/store"}, output=f"{code}/rows"), lines)

    def do(self, task: Task) -> Facts:
        return {"left_out": write_kept_rows(task.store("store"), task.output)}


class Tile(_Search):
    """The neighbours of some rows of both sides in one another."""

    cost = Cost(0.2, 0.02, 2e-6, 2e-11)
    source: Span
    target: Span
    k: int

    @classmethod
    def planned(cls, pair: LanguagePair) -> Kind:
        spans, inputs = pair.spans, pair.side(0) | pair.side(1)

        def tile(row: int, column: int) -> Tile:
            return cls(
                name=pair.unit("tile/", row, column),
                source=spans[0][row],
                target=spans[1][column],
                k=pair.recipe.mine.k,
                inputs=inputs,
                output=pair.unit("tiles/", row, column) + ".npy",
            )

        (source, target), (down, across) = pair.rows, map(len, spans)
        read = source * across + target * down
        return Kind(f"{pair.name}/tile", cls, tile, (down, across), read, source * target)

    def do(self, task: Task) -> Facts:
        stores = task.store("source"), task.store("target")
        kept = task.input("source_rows"), task.input("target_rows")
        write_tile(stores, kept, (self.source, self.target), self.k, task.output)
        return {}


class TrainIndex(_Search):
    """An index for a text, without its rows."""

    cost = Cost(0.7, 0.3, 1e-5, 2e-11)
    index: str

    @classmethod
    def planned(cls, recipe: CorpusRecipe, code: str, rows: int) -> Kind:
        from mexma_cli.knn.faiss_index import ROUNDS, training_rows

        name, lists = f"{code}/index/trained", lists_of(recipe.mine.index, rows)[0]
        inputs = {"store": f"{code}/store", "rows": f"{code}/rows"}
        unit = cls(name=name, index=recipe.mine.index, inputs=inputs, output=f"{name}.faiss")
        learnt = min(rows, training_rows(lists))
        return one(unit, learnt, learnt * lists * ROUNDS)

    def do(self, task: Task) -> Facts:
        from mexma_cli.stages.knn.shards import train_index

        store, rows = task.store("store"), task.input("rows")
        return {"factory": train_index(store, rows, self.index, task.output)}


class Shard(_Search):
    """The index of a text with some of its rows."""

    cost = Cost(0.0, 0.02, 5e-6, 4e-11)
    rows: Span

    @classmethod
    def planned(cls, recipe: CorpusRecipe, code: str, rows: int) -> Kind:
        spans, compared = Spans(rows, recipe.units.tile), lists_of(recipe.mine.index, rows)[1]

        def shard(place: int) -> Shard:
            name = f"{code}/index/{place:05d}"
            inputs = {"store": f"{code}/store", "rows": f"{code}/rows", "trained": f"{code}/index/trained"}
            return cls(name=name, rows=spans[place], inputs=inputs, output=f"{name}.faiss")

        return Kind(f"{code}/index", cls, shard, (len(spans),), rows, rows * compared)

    def do(self, task: Task) -> Facts:
        from mexma_cli.stages.knn.shards import search_side, write_shard

        side = search_side(task.store("store"), task.input("rows"), self.rows)
        return {"rows": write_shard(side, task.input("trained"), task.output)}


def _index_of(pair: LanguagePair, side: int) -> dict[str, str]:
    """A side with its index, as inputs."""
    code, shards = pair.codes[side], range(len(pair.spans[side]))
    index = {f"{SIDES[side]}_{place:05d}": f"{code}/index/{place:05d}" for place in shards}
    return pair.side(side) | {f"{SIDES[side]}_trained": f"{code}/index/trained"} | index


def _indexed(task: Task, side: str) -> Indexed:
    """A side with its index."""
    from mexma_cli.stages.knn.shards import Indexed

    shards = [name for name in task.unit.inputs if name.removeprefix(f"{side}_").isdigit()]
    return Indexed(
        task.store(side),
        task.input(f"{side}_rows"),
        task.input(f"{side}_trained"),
        task.record(f"{side}_trained").facts["factory"],
        [task.input(name) for name in shards],
        [task.record(name).facts["rows"] for name in shards],
    )


class Effort(_Search):
    """How hard the indexes of a pair are searched."""

    cost = Cost(0.0, 0.2, 0.0, 5e-11)
    k: int
    recall: float

    @classmethod
    def planned(cls, pair: LanguagePair) -> Kind:
        from mexma_cli.knn.index_search import MEASURED_ON, TUNED_ON

        def effort() -> Effort:
            return cls(
                name=f"{pair.name}/effort",
                k=pair.recipe.mine.k,
                recall=pair.recipe.mine.recall,
                inputs=_index_of(pair, 0) | _index_of(pair, 1),
                output=f"{pair.name}/effort.json",
            )

        rows = sum(pair.rows)
        return Kind(f"{pair.name}/effort", cls, effort, (), rows, (TUNED_ON + MEASURED_ON) * rows)

    def do(self, task: Task) -> Facts:
        from mexma_cli.stages.knn.shards import effort_of

        found = effort_of(_indexed(task, "source"), _indexed(task, "target"), self.k, self.recall)
        write_json_atomic(task.output, found)
        return found


class SearchIndex(_Search):
    """Looks up the rows of a span in the index of the other side: their neighbours there, and, for each row
    that is found, these rows as its neighbours."""

    cost = Cost(0.0, 0.02, 1.3e-5, 3e-11)
    k: int
    side: int
    spans: list[tuple[str, Span]]  # of the other side, and at last this one, with their files in the output

    @classmethod
    def planned(cls, pair: LanguagePair, side: int) -> Kind:
        from mexma_cli.knn.effort import fewest_hits

        own, indexed = pair.rows[side], pair.rows[1 - side]
        spans, others = pair.spans[side], pair.spans[1 - side]
        lists, compared = lists_of(pair.recipe.mine.index, indexed)
        products = min(1.0, PROBES / lists) * indexed + _SCORED * fewest_hits(pair.recipe.mine.k)

        def search(place: int) -> SearchIndex:
            name = pair.unit(f"found/{SIDES[side]}-", place)
            found = [(found_of(1 - side, there), span) for there, span in enumerate(others)]
            return cls(
                name=name,
                k=pair.recipe.mine.k,
                side=side,
                spans=[*found, (found_of(side, place), spans[place])],
                inputs=pair.side(side) | _index_of(pair, 1 - side) | {"effort": f"{pair.name}/effort"},
                output=name,
            )

        name, cells = f"{pair.name}/found/{SIDES[side]}", own * (compared + products)
        return Kind(name, cls, search, (len(spans),), own * len(others), cells)

    def do(self, task: Task) -> Facts:
        from mexma_cli.knn.index_search import Direction
        from mexma_cli.stages.knn.shards import search_side, write_found

        effort, side = task.record("effort").facts, SIDES[self.side]
        store, other = task.store(side), _indexed(task, SIDES[1 - self.side])
        own = search_side(store, task.input(f"{side}_rows"), self.spans[-1][1])
        direction = Direction(own, other.side(), other.index())
        direction.index.effort = effort["parameters"][self.side]
        write_found(direction, self.spans, effort["hits"], self.k, task.output)
        for one_store in (store, other.store):
            one_store.check_unchanged()
        return {}


class Neighbours(_Search):
    """The neighbours of the rows of a span of a side, from all lists of these rows."""

    cost = Cost(0.0, 0.01, 4e-7, threads=False)
    k: int
    rows: int
    others: int  # rows of the other side
    lists: list[tuple[str, int, int]]
    """Units, where in their outputs the lists of the span begin, and how many these have in all."""
    file: str | None  # of the outputs, if these are folders

    @classmethod
    def planned(cls, pair: LanguagePair, side: int) -> Kind:
        own, others = pair.spans[side], pair.spans[1 - side]

        def neighbours(place: int) -> Neighbours:
            name, rows = pair.unit(f"neighbours/{DIRECTIONS[side]}-", place), own[place].rows
            if pair.indexed:
                found = [(side, place), *((1 - side, there) for there in range(len(others)))]
                lists = [(pair.unit(f"found/{SIDES[of]}-", there), 0, rows) for of, there in found]
            else:  # a tile has the lists of the source's rows, and behind them those of the target's
                tiles = [(there, place) if side else (place, there) for there in range(len(others))]
                sizes = [(side * other.rows, rows + other.rows) for other in others]
                lists = [(pair.unit("tile/", *tiles[n]), *size) for n, size in enumerate(sizes)]
            return cls(
                name=name,
                k=pair.recipe.mine.k,
                rows=rows,
                others=pair.rows[1 - side],
                lists=lists,
                file=found_of(side, place) if pair.indexed else None,
                inputs={"rows": f"{pair.codes[1 - side]}/rows"} | {unit: unit for unit, *_ in lists},
                output=f"{name}.npy",
            )

        name, read = f"{pair.name}/neighbours/{DIRECTIONS[side]}", pair.rows[side] * len(others)
        return Kind(name, cls, neighbours, (len(own),), read)

    def do(self, task: Task) -> Facts:
        width = min(self.k, self.others - sum(task.record("rows").facts["left_out"].values()))
        parts = [ListsFile(task.input(unit, self.file), first, held) for unit, first, held in self.lists]
        merge_lists(parts, self.rows, self.k, width, task.output)
        return {"rows": self.rows, "width": width}
