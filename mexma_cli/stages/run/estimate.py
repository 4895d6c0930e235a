"""What a run will take: units that are to be done, disk, memory and time, before anything is done."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

from mexma_cli.classifier.model import bytes_for
from mexma_cli.encoder.encoder import SentenceEncoder
from mexma_cli.errors import MexmaError
from mexma_cli.knn import faiss_index
from mexma_cli.knn.estimate import seconds_needed
from mexma_cli.knn.tiles import X_ROWS, bytes_needed
from mexma_cli.mining.lists import BLOCK_ROWS
from mexma_cli.mining.match import bytes_to_mine
from mexma_cli.settings.corpus import CorpusRecipe
from mexma_cli.stages.embed.embed import note_language
from mexma_cli.stages.embed.inputs import load_encoder
from mexma_cli.stages.knn.row_filter import filtering_bytes
from mexma_cli.stages.knn.search import EXACT, has_index, resident
from mexma_cli.stages.mine.within import bytes_within
from mexma_cli.stages.run.calibrate import Cost, Costs, calibrate, known_costs
from mexma_cli.stages.run.index_costs import (
    HITS,
    PROBES,
    Amounts,
    effort_seconds,
    fill_seconds,
    index_bytes,
    look_up_seconds,
    score_seconds,
    train_seconds,
    unit_bytes,
)
from mexma_cli.stages.run.plan import Selection, by_probability, check_settings, inputs_of, plan
from mexma_cli.stages.run.remote import with_copies
from mexma_cli.stages.run.units import Record, RunFolder, Unit, of_pieces
from mexma_cli.text.lines import estimate_lines, read_lines, read_pieces

_SAMPLE = 256  # lines of a language that are embedded to see how long a line takes
_SENTENCE_BYTES = 120  # of text, for a sentence of documents that are not split yet
_STORED_BYTES = 2  # of a number in an embedding store
_KEY_BYTES = 8
_KNOWN = 10_000  # translations that are planted
_GPUS = {"A100": 312e12, "H100": 989e12}
"""The most operations a second, bfloat16 without sparsity, of NVIDIA's data sheets (A100 and H100 SXM)."""


Efforts = Mapping[str, dict[str, Any]]
"""Language pair -> the effort that was found for it, see `knn.effort.Effort`."""


@dataclass(frozen=True)
class _Text:
    lines: int
    bytes: int


def estimate(
    recipe: CorpusRecipe,
    chosen: Selection,
    jobs: int,
    assumed: Mapping[str, int] | None = None,
    calibrated: bool = False,
) -> dict[str, Any]:
    """Look at the texts, embed a few lines, search a little, and scale that up.

    Lines of compressed files are estimated from their beginning.

    Args:
        jobs: Units that will be done at the same time.
        assumed: Language -> lines that it is to have; its text is a sample of them then, and nothing is done.
        calibrated: Measure what all work costs, and keep it in the run's folder.

    Returns:
        `languages`: lines of each; `units`: stage -> units in all and those up to date; `disk` and `memory`
        in bytes; `network`: bytes that units read and write; `seconds` by stage, for units that are to be
        done one after the other by all threads. Where costs were measured, now or before, what everything
        takes, done or not: `processor`, hours by stage; `works`, for each kind of unit, how many there are
        and the hours of all together; `longest`, the `work` whose units are the longest, and the hours of
        one; `gpu`, the fewest hours of a GPU for the exact search; `index`, where `mine.index: auto` would
        not search exactly, the hours of the processor with it, and the bytes of memory and of disk.

    Raises:
        MexmaError: As the run would; or `assumed` has a language that the recipe does not have.
    """
    check_settings(recipe)
    recipe = with_copies(chosen.narrowed(recipe))
    inputs = inputs_of(recipe)
    encoder = load_encoder(recipe.encoder)
    costs = calibrate(recipe, encoder.dim) if calibrated else known_costs(Path(recipe.run))
    texts = {code: _measured(recipe, code, list(map(Path, inputs[code]))) for code in recipe.languages}
    if assumed:
        texts = _as_if(texts, assumed)
        counted = _counted(_kinds(recipe, inputs, texts, None, {}))
    else:
        counted = _listed(recipe, inputs, texts, chosen, encoder)
    return {
        "languages": {code: text.lines for code, text in texts.items()},
        "units": counted.units,
        "disk": _disk(recipe, texts, encoder.dim),
        "memory": jobs * _memory(recipe, texts, encoder.dim),
        "network": _network(recipe, texts, encoder.dim),
        "seconds": {stage: round(spent, 1) for stage, spent in counted.seconds.items() if spent},
        **_costing(recipe, inputs, texts, costs, counted.efforts),
    }


class _Units(NamedTuple):
    """What is to be done: `units` and `seconds` as `estimate` has them, and the efforts that are known."""

    units: dict[str, dict[str, int]]
    seconds: dict[str, float]
    efforts: Efforts


def _as_if(texts: dict[str, _Text], assumed: Mapping[str, int]) -> dict[str, _Text]:
    """The texts with other numbers of lines."""
    for code in assumed:
        if code not in texts:
            raise MexmaError(f"{code} is none of the languages, {', '.join(texts)}")
    return {
        code: _Text(lines, round(text.bytes / max(1, text.lines) * lines))
        for code, text in texts.items()
        for lines in [assumed.get(code, text.lines)]
    }


def _counted(kinds: list[_Kind]) -> _Units:
    """Units that are not listed, none of them done."""
    stages = dict.fromkeys(kind.stage for kind in kinds)
    every = {stage: sum(kind.units for kind in kinds if kind.stage == stage) for stage in stages}
    return _Units({stage: {"all": count, "up to date": 0} for stage, count in every.items()}, {}, {})


def _listed(
    recipe: CorpusRecipe,
    inputs: dict[str, dict[str, str]],
    texts: dict[str, _Text],
    chosen: Selection,
    encoder: SentenceEncoder,
) -> _Units:
    """Those of the plan, what is done already, and how long the rest takes: some lines are embedded, and a
    little is searched, to tell."""
    folder = RunFolder(Path(recipe.run))
    done: dict[str, Record] = {}
    known: dict[str, Unit] = {}
    while True:  # as long as more of the plan becomes known by what is done
        before = len(done)
        for unit in chosen.of(plan(recipe, inputs, lambda name: done.get(name))):
            known[unit.name] = unit
            if all(other in done for other in unit.needs.values()) and (record := folder.done(unit)):
                done[unit.name] = record
        if len(done) == before:
            break
    efforts = {
        name.partition("/")[0]: one.facts for name, one in done.items() if known[name].work == "effort"
    }
    units = chosen.of(plan(recipe, inputs, lambda name: done.get(name) or _imagined(recipe, name, texts)))
    to_do = [unit for unit in units if unit.name not in done]
    for code in recipe.languages:
        note_language(encoder, code)
    seconds = dict.fromkeys((unit.stage for unit in to_do), 0.0)
    if "embed" in seconds:
        seconds["embed"] = sum(_embedding(recipe, inputs, texts, encoder, code, to_do) for code in texts)
    rows = {code: text.lines for code, text in texts.items()}
    pairs = [pair for pair in recipe.language_pairs() if any(_is_tile(unit, pair) for unit in to_do)]
    for source, target in pairs if "knn" in seconds else ():
        share = sum(_is_tile(unit, (source, target)) for unit in to_do) / sum(
            _is_tile(unit, (source, target)) for unit in units
        )
        seconds["knn"] += share * seconds_needed(rows[source], rows[target], encoder.dim, recipe.mine.k)
    up_to_date = Counter(unit.stage for unit in units if unit.name in done)
    every = Counter(unit.stage for unit in units)
    counts = {stage: {"all": count, "up to date": up_to_date[stage]} for stage, count in every.items()}
    return _Units(counts, seconds, efforts)


@dataclass(frozen=True)
class _Kind:
    """Units that do the same in one language or pair: how many, and the rows and cells that all handle."""

    stage: str
    work: str
    units: int
    rows: int
    cells: int
    seconds: float
    """By the model of the search with indexes."""


def _kinds(
    recipe: CorpusRecipe,
    inputs: dict[str, dict[str, str]],
    texts: dict[str, _Text],
    costs: Costs | None,
    efforts: Efforts,
) -> list[_Kind]:
    """The units of a recipe, counted and not listed: there may be millions of tiles."""
    size = 1 << 60
    one = recipe.model_copy(update={"units": recipe.units.model_copy(update={"lines": size, "tile": size})})
    found = []
    for unit in plan(one, inputs, lambda name: _imagined(one, name, texts)):
        codes = [code for code in re.split(r"[-/]", unit.name) if code in texts]
        lines = [texts[code].lines for code in codes]
        spans = [-(-count // recipe.units.tile) for count in lines]
        units, rows, cells, seconds = 1, sum(lines), 0, 0.0
        if unit.work == "embed":
            units = -(-rows // recipe.units.lines)
        elif unit.work == "shard":
            units = spans[0]
        elif unit.work == "look_up":
            units = spans[unit.settings["side"] == "target"]
        elif unit.work in ("tile", "score_tile", "neighbours"):
            lists = lines[0] * spans[1], lines[1] * spans[0]
            units, rows, cells = spans[0] * spans[1], sum(lists), lines[0] * lines[1]
            if unit.work == "neighbours":
                backward = unit.settings["direction"] == "backward"
                units, rows = spans[backward], lists[backward]
            if unit.work != "tile":
                cells = 0
        if costs is not None:
            seconds = _index_seconds(recipe, unit, texts, costs, efforts)
        found.append(_Kind(unit.stage, unit.work, units, rows, cells, seconds))
    return found


def _index_seconds(
    recipe: CorpusRecipe, unit: Unit, texts: dict[str, _Text], costs: Costs, efforts: Efforts
) -> float:
    """What units of a search with indexes take, all of this kind together."""
    name = unit.name.partition("/")[0]
    if unit.work in ("train_index", "shard"):
        index = _index_of(recipe, (name, name), texts, costs.dim)[0]
        train = unit.work == "train_index"
        return train_seconds(costs.index, index) if train else fill_seconds(costs.index, index)
    if unit.work not in ("effort", "look_up", "score_tile"):
        return 0.0
    source, _, target = name.partition("-")
    both = _index_of(recipe, (source, target), texts, costs.dim, efforts.get(name))
    if unit.work == "effort":
        return effort_seconds(costs.index, both, recipe.mine.k)
    if unit.work == "look_up":
        return look_up_seconds(costs.index, both[unit.settings["side"] == "target"])
    return score_seconds(costs.index, both)


def _index_of(
    recipe: CorpusRecipe,
    pair: tuple[str, str],
    texts: dict[str, _Text],
    dim: int,
    effort: dict[str, Any] | None = None,
) -> tuple[Amounts, Amounts]:
    """What each side of a pair is looked up in, with the effort that was found or, before that, a guess."""
    index, rows = recipe.mine.index, [texts[code].lines for code in pair]
    one, other = (
        Amounts(
            own,
            indexed,
            faiss_index.choose(indexed, dim) if index == "auto" else index,
            recipe.units.tile,
            PROBES if effort is None else int(effort["parameters"][side].partition("=")[2] or 1),
            max(HITS, 4 * recipe.mine.k) if effort is None else effort["hits"],
        )
        for side, (own, indexed) in enumerate((rows, rows[::-1]))
    )
    return one, other


def _indexed_pairs(recipe: CorpusRecipe, texts: dict[str, _Text]) -> list[tuple[str, str]]:
    """The language pairs that are searched with indexes."""
    if recipe.align is not None:
        return []
    pairs = recipe.language_pairs()
    return [
        pair for pair in pairs if has_index(texts[pair[0]].lines, texts[pair[1]].lines, recipe.mine.index)
    ]


def _costing(
    recipe: CorpusRecipe,
    inputs: dict[str, dict[str, str]],
    texts: dict[str, _Text],
    costs: Costs | None,
    efforts: Efforts,
) -> dict[str, Any]:
    """Hours of the processor, if costs are known: by stage, and with indexes in place of the exact search."""
    if costs is None:
        return {}
    kinds = [kind for kind in _kinds(recipe, inputs, texts, costs, efforts) if kind.units]
    works: dict[str, dict[str, Any]] = {}
    for kind in kinds:
        work = works.setdefault(kind.work, {"units": 0, "hours": 0.0})
        work["units"] += kind.units
        work["hours"] += _hours([kind], costs)
    hours, longest = max((_hours([kind], costs) / kind.units, kind.work) for kind in kinds)
    found: dict[str, Any] = {
        "processor": {
            stage: _hours([kind for kind in kinds if kind.stage == stage], costs)
            for stage in dict.fromkeys(kind.stage for kind in kinds)
        },
        "works": works,
        "longest": {"work": longest, "hours": hours},
        "gpu": {
            name: sum(kind.cells for kind in kinds) * 2 * costs.dim / peak / 3600
            for name, peak in _GPUS.items()
        },
    }
    auto = recipe.model_copy(update={"mine": recipe.mine.model_copy(update={"index": "auto"})})
    if recipe.mine.index == EXACT and _indexed_pairs(auto, texts):
        kinds = _kinds(auto, inputs, texts, costs, efforts)
        found["index"] = {
            "processor": _hours([kind for kind in kinds if kind.stage == "knn"], costs),
            "bytes": _memory(auto, texts, costs.dim),
            "disk": _disk(auto, texts, costs.dim),
        }
    return found


def _hours(kinds: list[_Kind], costs: Costs) -> float:
    spent = 0.0
    for kind in kinds:
        cost = costs.works.get(kind.work, Cost(unit=0, row=0))
        spent += cost.of(kind.units, kind.rows) + kind.cells * costs.cell + kind.seconds
    return spent / 3600


def _memory(recipe: CorpusRecipe, texts: dict[str, _Text], dim: int) -> int:
    """Bytes that the unit which takes most of all takes."""
    rows, k = {code: text.lines for code, text in texts.items()}, recipe.mine.k
    tile = min(recipe.units.tile, max(rows.values()))
    largest = max(rows[source] + rows[target] for source, target in recipe.language_pairs())
    needed = [bytes_needed(tile, tile, dim, k, min(tile, X_ROWS)), filtering_bytes(max(rows.values()))]
    if recipe.align is None:
        needed.append(bytes_to_mine(largest, k))
        if by_probability(recipe):
            needed.append(bytes_for(largest))
        if recipe.mine.threshold == "auto":
            part = min(BLOCK_ROWS, max(rows.values()))
            needed.append(bytes_needed(part, _KNOWN, dim, k + 1, min(part, X_ROWS)))
            needed.append(bytes_to_mine(largest, k + 1))
        if recipe.mine.within:
            needed.append(bytes_within(largest, dim))
    for pair in _indexed_pairs(recipe, texts):
        needed += [unit_bytes(dim, one) for one in _index_of(recipe, pair, texts, dim)]
    return resident() + max(needed)


def _network(recipe: CorpusRecipe, texts: dict[str, _Text], dim: int) -> int:
    """Bytes that units read and write, all through the network if the run's folder is there."""
    total, vector = 0, dim * _STORED_BYTES
    for text in texts.values():  # cut, embedded, merged, looked through for rows
        total += 6 * text.bytes + 4 * text.lines * vector
    for source, target in recipe.language_pairs():
        rows = texts[source].lines, texts[target].lines
        across = [-(-count // recipe.units.tile) for count in rows]
        handled = rows[0] * across[1] + rows[1] * across[0]
        keys = recipe.mine.k * _KEY_BYTES
        total += handled * (vector + 4 * keys)  # a tile's lists are written, and read whole for either side
        total += 2 * handled  # which rows take part, a byte each
        total += 5 * keys * sum(rows)  # written, compared with the checksum, and read three times
        total += 2 * (texts[source].bytes + texts[target].bytes)
    for pair in _indexed_pairs(recipe, texts):
        for one in _index_of(recipe, pair, texts, dim):  # an index is read for its checksum, too
            units = -(-one.rows // one.tile)
            total += 3 * one.found_bytes + (2 * units + 3) * index_bytes(dim, one)
    return total


def _measured(recipe: CorpusRecipe, code: str, paths: list[Path]) -> _Text:
    found = [estimate_lines(path) for path in paths]
    lines, size = sum(lines for lines, _, _ in found), sum(size for _, size, _ in found)
    return _Text(lines if recipe.languages[code].split is None else -(-size // _SENTENCE_BYTES), size)


def _imagined(recipe: CorpusRecipe, unit: str, texts: dict[str, _Text]) -> Record | None:
    """The record that cutting a text will leave, if the unit is that."""
    code, _, what = unit.partition("/")
    if what != "text":
        return None
    lines, size = texts[code].lines, recipe.units.lines
    pieces = [
        {"name": f"{start // size:05d}.txt.zst", "lines": min(size, lines - start), "checksum": ""}
        for start in range(0, lines, size)
    ]
    return of_pieces(pieces)


def _is_tile(unit: Unit, pair: tuple[str, str]) -> bool:
    return unit.work == "tile" and unit.name.startswith(f"{'-'.join(pair)}/")


def _embedding(
    recipe: CorpusRecipe,
    inputs: dict[str, dict[str, str]],
    texts: dict[str, _Text],
    encoder: Any,
    code: str,
    to_do: list[Unit],
) -> float:
    """Seconds to embed what is left of a language, by a sample of its lines."""
    left = [unit for unit in to_do if unit.work == "embed" and unit.settings["language"] == code]
    if not left:
        return 0.0
    if recipe.languages[code].split is None:
        lines = list(islice(chain.from_iterable(map(read_lines, inputs[code])), _SAMPLE))
    else:
        text = next(read_pieces(next(iter(inputs[code])), code), b"")[: _SAMPLE * _SENTENCE_BYTES]
        starts = range(0, max(1, len(text)), _SENTENCE_BYTES)
        lines = [text[start : start + _SENTENCE_BYTES].decode("utf-8", "replace") for start in starts]
    encoder.embed(lines[:8])
    began = time.perf_counter()
    encoder.embed(lines)
    a_line = (time.perf_counter() - began) / len(lines)
    return a_line * min(texts[code].lines, len(left) * recipe.units.lines)


def _disk(recipe: CorpusRecipe, texts: dict[str, _Text], dim: int) -> int:
    """Bytes of all that a run keeps, at most: texts in pieces, texts and vectors in the stores of these and
    of all, neighbours in tiles and put together, and every line in a pair."""
    total = sum(3 * text.bytes + 2 * text.lines * dim * _STORED_BYTES for text in texts.values())
    for source, target in recipe.language_pairs():
        rows = texts[source].lines, texts[target].lines
        across = [-(-count // recipe.units.tile) for count in rows]
        keys = rows[0] * across[1] + rows[1] * across[0]
        total += recipe.mine.k * _KEY_BYTES * (keys + sum(rows))
        total += texts[source].bytes + texts[target].bytes
    indexed = _indexed_pairs(recipe, texts)
    for pair in indexed:
        total += sum(one.found_bytes for one in _index_of(recipe, pair, texts, dim))
    for code in {code for pair in indexed for code in pair}:
        total += index_bytes(dim, _index_of(recipe, (code, code), texts, dim)[0])
    return total
