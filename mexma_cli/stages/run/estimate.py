"""What a run will take: units that are to be done, disk, memory and time, before anything is done."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any

from mexma_cli.errors import MexmaError
from mexma_cli.knn import faiss_index
from mexma_cli.knn.estimate import seconds_needed
from mexma_cli.knn.sweep import X_ROWS, bytes_needed
from mexma_cli.recipe import CorpusRecipe
from mexma_cli.stages.embed.embed import note_language
from mexma_cli.stages.embed.inputs import EncoderChoice, load_encoder
from mexma_cli.stages.knn.row_filter import filtering_bytes
from mexma_cli.stages.knn.search import SearchSettings, resident
from mexma_cli.stages.mine.blockwise import bytes_to_mine
from mexma_cli.stages.run.calibrate import Cost, Costs, calibrate, known_costs
from mexma_cli.stages.run.plan import Selection, check_settings, inputs_of, plan
from mexma_cli.stages.run.remote import with_copies
from mexma_cli.stages.run.units import Record, RunFolder, Unit
from mexma_cli.text.lines import estimate_lines, read_lines

_SAMPLE = 256  # lines of a language that are embedded to see how long a line takes
_SENTENCE_BYTES = 120  # of text, for a sentence of documents that are not split yet
_STORED_BYTES = 2  # of a number in an embedding store
_KEY_BYTES = 8
_TRAINED, _ROUNDS = 40, 5  # rows a list that train an index, and rounds
_PROBES, _HITS = 64, 64  # lists that are searched for a row, and answers that get an exact cosine
_GPUS = {"A100": 312e12, "H100": 989e12}
"""The most operations a second, bfloat16 without sparsity, of NVIDIA's data sheets (A100 and H100 SXM)."""


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
        takes, done or not: `processor`, hours by stage; `gpu`, the fewest hours of a GPU for the exact
        search; `index`, the hours of the processor for a search with indexes, and the bytes of the largest.

    Raises:
        MexmaError: As the run would; or `assumed` has a language that the recipe does not have.
    """
    check_settings(recipe)
    recipe = with_copies(chosen.narrowed(recipe))
    inputs = inputs_of(recipe)
    encoder = load_encoder(EncoderChoice(**recipe.encoder.model_dump()))
    costs = calibrate(recipe, encoder.dim) if calibrated else known_costs(Path(recipe.run))
    if assumed:
        return _assumed(recipe, inputs, assumed, costs, encoder.dim, jobs)
    texts = {code: _measured(recipe, code, list(map(Path, inputs[code]))) for code in recipe.languages}
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
    return {
        "languages": rows,
        "units": {
            stage: {
                "all": sum(unit.stage == stage for unit in units),
                "up to date": sum(unit.stage == stage and unit.name in done for unit in units),
            }
            for stage in dict.fromkeys(unit.stage for unit in units)
        },
        "disk": _disk(recipe, texts, encoder.dim),
        "memory": jobs * _memory(recipe, texts, encoder.dim),
        "network": _network(recipe, texts, encoder.dim),
        "seconds": {stage: round(spent, 1) for stage, spent in seconds.items() if spent},
        **_costing(recipe, _kinds(recipe, inputs, texts), texts, costs),
    }


def _assumed(
    recipe: CorpusRecipe,
    inputs: dict[str, dict[str, str]],
    assumed: Mapping[str, int],
    costs: Costs | None,
    dim: int,
    jobs: int,
) -> dict[str, Any]:
    """The estimate for other numbers of lines than the texts have, which units are not listed for."""
    for code in assumed:
        if code not in recipe.languages:
            raise MexmaError(f"{code} is none of the languages, {', '.join(recipe.languages)}")
    texts = {code: _measured(recipe, code, list(map(Path, inputs[code]))) for code in recipe.languages}
    texts = {
        code: _Text(lines, round(text.bytes / max(1, text.lines) * lines))
        for code, text in texts.items()
        for lines in [assumed.get(code, text.lines)]
    }
    kinds = _kinds(recipe, inputs, texts)
    found = {
        "languages": {code: text.lines for code, text in texts.items()},
        "units": {
            stage: {"all": sum(kind.units for kind in kinds if kind.stage == stage), "up to date": 0}
            for stage in dict.fromkeys(kind.stage for kind in kinds)
        },
        "disk": _disk(recipe, texts, dim),
        "memory": jobs * _memory(recipe, texts, dim),
        "network": _network(recipe, texts, dim),
        "seconds": {},
    }
    return found | _costing(recipe, kinds, texts, costs)


@dataclass(frozen=True)
class _Kind:
    """Units that do the same in one language or pair: how many, and the rows and cells that all handle."""

    stage: str
    work: str
    units: int
    rows: int
    cells: int = 0


def _kinds(recipe: CorpusRecipe, inputs: dict[str, dict[str, str]], texts: dict[str, _Text]) -> list[_Kind]:
    """The units of a recipe, counted and not listed: there may be millions of tiles."""
    one = {code: _Text(1, 1) for code in texts}
    found = []
    for unit in plan(recipe, inputs, lambda name: _imagined(recipe, name, one)):
        codes = [code for code in texts if code in re.split(r"[-/]", unit.name)]
        lines = [texts[code].lines for code in codes]
        units, rows, cells = 1, sum(lines), 0
        if unit.work == "embed":
            units = -(-rows // recipe.units.lines)
        elif unit.work in ("tile", "neighbours"):
            down, across = (-(-count // recipe.units.tile) for count in lines)
            lists = lines[0] * across, lines[1] * down
            units, rows, cells = down * across, sum(lists), lines[0] * lines[1]
            if unit.work == "neighbours":
                backward = unit.settings["direction"] == "backward"
                units, rows, cells = (across if backward else down), lists[backward], 0
        found.append(_Kind(unit.stage, unit.work, units, rows, cells))
    return found


def _costing(
    recipe: CorpusRecipe, kinds: list[_Kind], texts: dict[str, _Text], costs: Costs | None
) -> dict[str, Any]:
    """Hours of the processor, if costs are known: by stage, and with indexes in place of the exact search."""
    if costs is None:
        return {}
    seconds: dict[str, float] = {}
    for kind in kinds:
        cost = costs.works.get(kind.work, Cost(unit=0, row=0))
        spent = kind.units * cost.unit + kind.rows * cost.row + kind.cells * costs.cell
        seconds[kind.stage] = seconds.get(kind.stage, 0.0) + spent
    indexes = [
        index_cost(texts[own].lines, texts[other].lines, costs, hits=max(_HITS, 4 * recipe.mine.k))
        for pair in recipe.language_pairs()
        for own, other in (pair, pair[::-1])
    ]
    return {
        "processor": {stage: spent / 3600 for stage, spent in seconds.items()},
        "index": {
            "bytes": max(size for _, size in indexes),
            "processor": sum(spent for spent, _ in indexes) / 3600,
        },
        "gpu": {
            name: sum(kind.cells for kind in kinds) * 2 * costs.dim / peak / 3600
            for name, peak in _GPUS.items()
        },
    }


def index_cost(
    rows: int, indexed: int, costs: Costs, probes: int = _PROBES, hits: int = _HITS
) -> tuple[float, int]:
    """Seconds to make an index over some rows and look up others, and its bytes."""
    factory = faiss_index.choose(indexed, costs.dim)
    named = re.search(r"IVF(\d+)", factory)
    if named is None:  # few rows, which are compared with all
        return rows * indexed * costs.cell, 4 * costs.dim * indexed
    lists = int(named[1])
    training = _TRAINED * lists * lists * _ROUNDS * costs.cell
    codes = min(lists, probes) / lists * indexed
    looking = rows * (costs.lists + codes * costs.code + hits * costs.cosine)
    return training + indexed * costs.lists + looking, faiss_index.bytes_needed(indexed, costs.dim, factory)


def _memory(recipe: CorpusRecipe, texts: dict[str, _Text], dim: int) -> int:
    """Bytes that the unit which takes most of all takes."""
    rows, k = {code: text.lines for code, text in texts.items()}, recipe.mine.k
    tile = min(recipe.units.tile, max(rows.values()))
    largest = max(rows[source] + rows[target] for source, target in recipe.language_pairs())
    needed = [bytes_needed(tile, tile, dim, k, min(tile, X_ROWS)), filtering_bytes(max(rows.values()))]
    if recipe.align is None:
        auto = recipe.mine.threshold == "auto"
        whole = auto or recipe.mine.within  # what these take is in memory at once
        needed.append(SearchSettings.result_bytes(largest, k + auto) if whole else bytes_to_mine(largest, k))
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
    return Record(key="", output="", checksum="", facts={"pieces": pieces}, seconds=0)


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
    lines = list(islice(chain.from_iterable(map(read_lines, inputs[code])), _SAMPLE))
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
    return total
