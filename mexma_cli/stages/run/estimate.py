"""Forecast of a run: units that are to be done, disk, memory and time, before anything is done."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any

from mexma_cli.classifier.model import bytes_for
from mexma_cli.encoder.encoder import SentenceEncoder
from mexma_cli.errors import MexmaError, choice
from mexma_cli.knn.choice import LOOPS_FROM, WORK
from mexma_cli.knn.exact import seconds_needed
from mexma_cli.knn.exact_search import X_ROWS, bytes_needed
from mexma_cli.mining.match import bytes_to_mine
from mexma_cli.numerics.threads import threads
from mexma_cli.settings.corpus import CorpusEncoder, CorpusRecipe
from mexma_cli.settings.section import naming_keys
from mexma_cli.stages.costs import PEAKS, STARTING, Cost, mining_cost, slowness
from mexma_cli.stages.embed.embed import note_language
from mexma_cli.stages.embed.inputs import load_encoder
from mexma_cli.stages.knn.estimate import KEY_BYTES, STORED_BYTES, index_bytes, seconds_a_line
from mexma_cli.stages.knn.row_filter import filtering_bytes
from mexma_cli.stages.knn.search import EXACT, has_index, resident
from mexma_cli.stages.mine.probable import LIBRARIES_BYTES
from mexma_cli.stages.mine.within import bytes_within
from mexma_cli.stages.run.costs import calibrate, known_costs
from mexma_cli.stages.run.indexed import PROBES, lists_of
from mexma_cli.stages.run.plan import (
    Cut,
    Inputs,
    Selection,
    by_probability,
    cut_of,
    inputs_of,
    keys_of_text,
    plan,
    splitting_of,
)
from mexma_cli.stages.run.remote import with_copies
from mexma_cli.stages.run.run import check_recipe, look
from mexma_cli.stages.run.units import Kind, RunFolder, Unit
from mexma_cli.stages.split.inputs import Inputs as Documents
from mexma_cli.stages.split.inputs import Splitting, names_of
from mexma_cli.stages.split.sample import sampled
from mexma_cli.text.lines import estimate_lines, read_lines

_WORKER_BYTES, _TORCH_BYTES = 50_000_000, 230_000_000  # once they are loaded
_RULES_BYTES = 200_000_000  # the rules of sentences, and what tells languages
_BUFFER_BYTES, _KEPT_BYTES, _MOST_KEPT_BYTES = 85_000_000, 5500, 220_000_000
"""Memory to embed: a buffer, each different word that `mini` has met, and all of these at most."""
_SAMPLE = 6000  # lines that show how long embedding takes
_LOOKED_AT, _HEAPS = 2000, 0.7  # lines whose words are counted; their number grows by this power of the lines


@dataclass(frozen=True)
class _Text:
    """Sentences, one a line: their number, bytes and different words, some of them, whether all were counted,
    and the seconds that splitting takes for each."""

    lines: int
    bytes: int
    words: int
    sample: Sequence[str] = ()
    counted: bool = True
    splitting: float = 0.0

    def of_lines(self, lines: int) -> _Text:
        """The same text with another number of lines, which is known."""
        times = lines / max(1, self.lines)
        size, words = round(self.bytes * times), round(self.words * times**_HEAPS)
        return replace(self, lines=lines, bytes=size, words=words, counted=True)


_Group = tuple[str, str, str]
"""The stage and work of some kinds of units, and the language or language pair that they are of."""


def _group(of: Kind | Unit) -> _Group:
    return of.stage, of.work, of.name.partition("/")[0]


def estimate(
    recipe: CorpusRecipe,
    chosen: Selection,
    jobs: int,
    assumed: Mapping[str, int] | None = None,
    calibrated: bool = False,
) -> dict[str, Any]:
    """Count units, and multiply by what each kind of them costs, see `stages.run.costs`. Some lines are
    embedded, and a little is searched, where that is not known yet.

    Lines of large files are estimated from their beginning, and sentences of documents from a sample that is
    split; those of texts that are up to date are counted.

    Args:
        jobs: Units that will be done at the same time.
        assumed: Language -> lines that it is to have; its text is a sample of them then, and nothing is done.
        calibrated: Measure what all work costs, and keep it in the run's folder.

    Returns:
        `languages`: lines of each; `estimated`: the languages whose lines are; `units`: stage -> units in all
        and those up to date; `left`: kind of work -> units to do; `disk` and `memory` in bytes;
        `unit_memory`: stage -> bytes of a process that does one of its units; `network`: bytes that units
        read and write; `seconds` by stage, of what is to be done, with the `start` of the command and its
        workers. What everything takes, done or not: `processor`, hours by stage; `works`, for each kind of
        unit, how many there are and the hours of all together; `longest`, the `work` whose units are the
        longest, and the hours of one; `gpu`, the fewest hours of a GPU for the exact search; `index`, where
        `mine.index: auto` would not search exactly, the hours of the processor with it, and the bytes of
        memory and of disk.

    Raises:
        MexmaError: As the run would; or `assumed` has a language that the recipe does not have.
    """
    check_recipe(recipe)
    recipe = with_copies(chosen.narrowed(recipe))
    inputs = inputs_of(recipe)
    before = resident()
    with naming_keys({"encoder": CorpusEncoder}):
        encoder = load_encoder(recipe.encoder)
    held = max(0, resident() - before)
    if calibrated:
        calibrate(recipe, encoder.dim)
    texts = {code: _measured(recipe, code, inputs) for code in recipe.languages}
    for code in assumed or ():
        if code not in texts:
            raise MexmaError(
                f"{code} is none of the languages of the wanted pairs", choice(code, texts, "languages")
            )
        texts[code] = texts[code].of_lines((assumed or {})[code])
    done: Counter[_Group] = Counter()
    if not assumed:
        for code in recipe.languages:
            note_language(encoder, code)
        known, record = look(recipe, inputs, chosen), RunFolder(Path(recipe.run)).record
        for code, text in texts.items():
            cut = cut_of(record, code) if known.is_done(f"{code}/text") else None
            texts[code] = text if cut is None else text.of_lines(cut.lines)
        done.update(_group(known.units[name]) for name in known.found_done)
    kinds = chosen.of(_imagined(recipe, inputs, texts))
    every = sum((Counter({_group(kind): kind.count}) for kind in kinds), Counter[_Group]())
    costs, seconds = _costs(recipe, inputs, texts, encoder), dict[str, float]()
    for kind in kinds:
        left = 1 - done[_group(kind)] / every[_group(kind)]
        amounts = left * kind.count, left * kind.rows, left * kind.cells * encoder.dim
        spent = costs[kind.work].by_the_clock(amounts, jobs, threads()) if left > 0 else 0.0
        seconds[kind.stage] = seconds.get(kind.stage, 0.0) + spent
        if spent:  # the next language finds loaded what this work needs
            costs[kind.work] = costs[kind.work]._replace(start=0.0)
    remaining = {
        work: sum(every[group] - done[group] for group in every if group[1] == work)
        for work in dict.fromkeys(kind.work for kind in kinds)
    }
    units = {
        stage: {
            "all": sum(kind.count for kind in kinds if kind.stage == stage),
            "up to date": sum(number for group, number in done.items() if group[0] == stage),
        }
        for stage in seconds
    }
    disk, network = _kept_and_read(recipe, texts, encoder.dim)
    memory = _memory(recipe, texts, encoder.dim, held, units)
    wanted = {stage: spent for stage, spent in seconds.items() if spent}
    if wanted:
        wanted = {"start": 2 * STARTING * slowness(), **wanted}
    return {
        "languages": {code: text.lines for code, text in texts.items()},
        "estimated": [code for code, text in texts.items() if not text.counted],
        "units": units,
        "left": {work: count for work, count in remaining.items() if count},
        "disk": disk,
        "memory": jobs * _together(memory.values()),
        "unit_memory": {stage: _together([parts]) for stage, parts in memory.items()},
        "network": network,
        "seconds": {stage: round(spent, 1) for stage, spent in wanted.items()},
        **_costing(recipe, inputs, texts, costs, encoder.dim, held),
    }


def _imagined(recipe: CorpusRecipe, inputs: Inputs, texts: Mapping[str, _Text]) -> list[Kind]:
    """The kinds of all units, for texts that have so many lines."""
    return plan(recipe, inputs, lambda code: Cut(texts[code].lines, recipe.units.lines))


def _costs(
    recipe: CorpusRecipe, inputs: Inputs, texts: Mapping[str, _Text], encoder: SentenceEncoder
) -> dict[str, Cost]:
    """Costs of each kind of work. What depends on the encoder, and on the product of the exact search, is
    measured unless it is known already."""
    planned = plan(recipe, inputs, partial(cut_of, RunFolder(Path(recipe.run)).record))
    costs, known = known_costs(Path(recipe.run), planned, encoder.dim)
    if "embed" not in known:
        lines = sum(text.lines for text in texts.values())
        spent = sum(seconds_a_line(encoder, iter(text.sample)) * text.lines for text in texts.values())
        costs["embed"] = costs["embed"]._replace(row=threads() * spent / max(1, lines))
    split = [text for text in texts.values() if text.splitting]
    if split and "split" not in known:
        row = sum(text.splitting * text.lines for text in split) / sum(text.lines for text in split)
        costs["split"] = costs["split"]._replace(row=row)
    if "mine" not in known:
        costs["mine"] = mining_cost(by_probability(recipe) or recipe.mine.finds, recipe.mine.within)
    if "tile" not in known and recipe.align is None:
        rows = min(recipe.units.tile, max(text.lines for text in texts.values()))
        cell = seconds_needed(rows, rows, encoder.dim, recipe.mine.k) / (rows**2 * encoder.dim)
        costs["tile"] = costs["tile"]._replace(cell=threads() * cell)
    return costs


def _costing(
    recipe: CorpusRecipe,
    inputs: Inputs,
    texts: Mapping[str, _Text],
    costs: Mapping[str, Cost],
    dim: int,
    encoder: int,
) -> dict[str, Any]:
    """Hours of the processor for everything, done or not, and with indexes in place of the exact search; the
    bytes that the encoder takes are for the latter's memory."""

    def hours(kinds: Iterable[Kind]) -> float:
        return sum(costs[kind.work].of(kind.count, kind.rows, kind.cells * dim) for kind in kinds) / 3600

    kinds = _imagined(recipe, inputs, texts)
    longest, work = max((hours([kind]) / kind.count, kind.work) for kind in kinds)
    stages, works = dict.fromkeys(kind.stage for kind in kinds), dict.fromkeys(kind.work for kind in kinds)
    found: dict[str, Any] = {
        "processor": {stage: hours(kind for kind in kinds if kind.stage == stage) for stage in stages},
        "works": {
            work: {"units": sum(kind.count for kind in of_work), "hours": hours(of_work)}
            for work in works
            for of_work in [[kind for kind in kinds if kind.work == work]]
        },
        "longest": {"work": work, "hours": longest},
        "gpu": {
            name: sum(kind.cells for kind in kinds if kind.work == "tile") * 2 * dim / peak / 3600
            for name, peak in PEAKS.items()
        },
    }
    auto = recipe.model_copy(update={"mine": recipe.mine.model_copy(update={"index": "auto"})})
    if recipe.mine.index == EXACT and _indexed_pairs(auto, texts):
        found["index"] = {
            "processor": hours(kind for kind in _imagined(auto, inputs, texts) if kind.stage == "knn"),
            "bytes": _together(_memory(auto, texts, dim, encoder, stages).values()),
            "disk": _kept_and_read(auto, texts, dim)[0],
        }
    return found


def _indexed_pairs(recipe: CorpusRecipe, texts: Mapping[str, _Text]) -> list[tuple[str, str]]:
    """The language pairs that are searched with indexes."""
    pairs = recipe.language_pairs() if recipe.align is None else []
    return [
        pair for pair in pairs if has_index(texts[pair[0]].lines, texts[pair[1]].lines, recipe.mine.index)
    ]


def _memory(
    recipe: CorpusRecipe, texts: Mapping[str, _Text], dim: int, encoder: int, stages: Iterable[str]
) -> dict[str, dict[str, int]]:
    """Stage -> what a worker that does its units holds, and the bytes of it at most; of the encoder so many.
    A worker of several stages has each part once, as large as it is in any of them."""
    rows, k = {code: text.lines for code, text in texts.items()}, recipe.mine.k
    most = max(rows.values())
    tile = min(recipe.units.tile, most)
    largest = max(rows[source] + rows[target] for source, target in recipe.language_pairs())
    words = min(_KEPT_BYTES * sum(text.words for text in texts.values()), _MOST_KEPT_BYTES)
    embedding = {"libraries": encoder, "words": _BUFFER_BYTES + words}
    indexes = (
        _index_memory(recipe, texts[code].lines, dim)
        for pair in _indexed_pairs(recipe, texts)
        for code in pair
    )
    searching = max(
        filtering_bytes(most), bytes_needed(tile, tile, dim, k, min(tile, X_ROWS)), max(indexes, default=0)
    )
    mining = {
        "work": max(
            bytes_to_mine(largest, k), bytes_within(largest, dim, recipe.mine) if recipe.mine.within else 0
        )
    }
    if by_probability(recipe) or recipe.mine.finds:
        mining |= {"judging": bytes_for(largest), "libraries": LIBRARIES_BYTES}
    parts = {
        "split": {"rules": _RULES_BYTES},
        "read": {"rules": _RULES_BYTES},
        "embed": embedding,
        "knn": {
            "libraries": LIBRARIES_BYTES if tile * tile >= LOOPS_FROM else 0,
            "torch": _TORCH_BYTES if tile * tile * dim >= WORK else 0,
            "work": searching,
        },
        "mine": mining,
        "align": embedding,
        "filter": {"rules": _RULES_BYTES},
    }
    return {stage: {"worker": _WORKER_BYTES, **parts.get(stage, {})} for stage in stages}


def _together(parts: Iterable[Mapping[str, int]]) -> int:
    """Bytes of a worker that has all of these parts."""
    most: Counter[str] = Counter()
    for some in parts:
        most |= Counter(some)
    return most.total()


def _index_memory(recipe: CorpusRecipe, rows: int, dim: int) -> int:
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


def _kept_and_read(recipe: CorpusRecipe, texts: Mapping[str, _Text], dim: int) -> tuple[int, int]:
    """Bytes of all that a run keeps, at most (every line in a pair), and bytes that units read and write, all
    through the network if the run's folder is there."""
    vector, keys, tile = dim * STORED_BYTES, recipe.mine.k * KEY_BYTES, recipe.units.tile
    disk = network = 0
    for text in texts.values():  # cut, embedded, merged, looked through for rows
        disk += 3 * text.bytes + 2 * text.lines * vector
        network += 6 * text.bytes + 4 * text.lines * vector
    for source, target in recipe.language_pairs():
        rows = texts[source].lines, texts[target].lines
        across = [-(-count // tile) for count in rows]
        handled = rows[0] * across[1] + rows[1] * across[0]
        written = texts[source].bytes + texts[target].bytes
        disk += keys * (handled + sum(rows)) + written
        network += handled * (vector + 4 * keys)  # a tile's lists are written, and read whole for either side
        network += 2 * handled  # which rows take part, a byte each
        network += 5 * keys * sum(rows)  # written, compared with the checksum, and read three times
        network += 2 * written
    indexed = _indexed_pairs(recipe, texts)
    shards = {code: -(-texts[code].lines // tile) for pair in indexed for code in pair}
    sizes = {
        code: 4 * dim * lists_of(recipe.mine.index, texts[code].lines)[0] * (count + 1)
        + index_bytes(texts[code].lines, dim, recipe.mine.index)
        for code, count in shards.items()
    }
    for pair in indexed:
        for own, other in (pair, pair[::-1]):
            lines = texts[own].lines
            disk += lines * keys  # lists of the rows that are looked up; other lists are as many as of tiles
            network += lines * (3 * keys + shards[other] * vector)  # vectors are read once for each span
            network += (2 * shards[own] + 3) * sizes[other]  # for checksums, too
    return disk + sum(sizes.values()), network


def _measured(recipe: CorpusRecipe, code: str, inputs: Inputs) -> _Text:
    paths = list(map(Path, inputs[code]))
    found, spent = [estimate_lines(path) for path in paths], 0.0
    lines, size = sum(one.lines for one in found), sum(one.size for one in found)
    counted = all(one.counted for one in found)
    if recipe.languages[code].split is None:
        some = list(islice(chain.from_iterable(map(read_lines, paths)), _SAMPLE))
    else:
        how = Splitting(code, splitting_of(recipe, code, inputs))
        with naming_keys(keys_of_text(code)):
            some, read, took = sampled(Documents(paths, names_of(paths)), how)
        times, counted = size / max(1, read), False
        lines, size = round(times * len(some)), round(times * sum(len(one.encode()) + 1 for one in some))
        spent = took / max(1, len(some))
    lines, looked = max(1, lines), some[:_LOOKED_AT]
    words = len(set(chain.from_iterable(map(str.split, looked))))
    words = round(words * max(1, lines / max(1, len(looked))) ** _HEAPS)
    return _Text(lines, size, words, some, counted, spent)
