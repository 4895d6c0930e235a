"""Estimate of a run: units that are to be done, disk, memory and time, before anything is done."""

from __future__ import annotations

import re
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from itertools import chain, islice
from operator import or_
from pathlib import Path
from typing import Any

from mexma_cli.encoder.encoder import SentenceEncoder
from mexma_cli.errors import MexmaError, choice, quieted
from mexma_cli.files import make_parent, read_manifest, write_json_atomic
from mexma_cli.knn.exact import seconds_needed
from mexma_cli.numerics.threads import threads
from mexma_cli.settings.corpus import CorpusEncoder, CorpusRecipe
from mexma_cli.settings.section import naming_keys
from mexma_cli.stages.costs import PEAKS, STARTING, Cost, mining_cost, slowness
from mexma_cli.stages.embed.embed import note_language
from mexma_cli.stages.embed.inputs import load_encoder
from mexma_cli.stages.knn.estimate import KEY_BYTES, STORED_BYTES, index_bytes, seconds_a_line
from mexma_cli.stages.knn.search import EXACT, resident
from mexma_cli.stages.run.executor import InThisProcess
from mexma_cli.stages.run.pairs import Mine, by_probability
from mexma_cli.stages.run.plan import KINDS, Selection, inputs_of, pieces_of, plan
from mexma_cli.stages.run.remote import with_copies
from mexma_cli.stages.run.run import check_recipe, look, run_corpus
from mexma_cli.stages.run.search import Tile, indexed_pairs, lists_of
from mexma_cli.stages.run.texts import Embed, Inputs, Pieces, Split, keys_of_text, splitting_of
from mexma_cli.stages.run.units import Kind, RunFolder, Sizes, Unit
from mexma_cli.stages.split.inputs import Inputs as Documents
from mexma_cli.stages.split.inputs import Splitting, names_of
from mexma_cli.stages.split.sample import sampled
from mexma_cli.store.folder import Frozen
from mexma_cli.text.lines import estimate_size, read_lines

FILE = "costs.json"
VERSION = 5
_LINES = 2000  # of every language in the run that is measured, and a quarter of that
_PLACE = re.compile(r"[/-][0-9]{5,}(-[0-9]+)?$")  # of a unit in the grid of its kind, at the end of its name
_WORKER_BYTES = 50_000_000  # of a process, once it is loaded
_SAMPLE = 6000  # lines that show how long embedding takes
_LOOKED_AT, _HEAPS = 2000, 0.7  # lines whose words are counted; their number grows by this power of the lines


@dataclass(frozen=True)
class Estimate:
    """What a run takes; sizes are in bytes. From `processor` on it is of all of the run, done or not."""

    languages: dict[str, int]  # -> their lines
    estimated: list[str]  # the languages whose lines are estimated
    units: dict[str, dict[str, int]]  # in all, and those up to date
    left: dict[str, int]  # kind of work -> units to do
    disk: int  # that the run keeps, at most
    memory: int  # of all processes together
    unit_memory: dict[str, int]  # of a process that does one of its units
    network: int  # what units read and write
    seconds: dict[str, float]  # of what is to be done, by stage; `start`: of the command and its workers
    processor: dict[str, float]  # hours
    works: dict[str, dict[str, Any]]  # kind of work -> its units, and the hours of all of them together
    longest: dict[str, Any]  # the kind of work whose units are the longest, and the hours of one
    gpu: dict[str, float]  # kind of GPU -> the fewest hours of it for the exact search
    index: dict[str, float] | None  # hours, bytes of memory and disk with the index that `auto` takes


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


@dataclass(frozen=True)
class _Imagined(Sizes):
    """A run with texts as long as these are said to be."""

    inputs: Inputs
    texts: Mapping[str, _Text]

    def cut(self, code: str) -> Pieces:
        """How a text will be cut."""
        return Pieces(self.lines[code], self.recipe.units.lines)

    def kinds(self) -> list[Kind]:
        """The kinds of all units."""
        return plan(self.recipe, self.inputs, self.cut)

    def memory(self, kinds: Iterable[Kind]) -> dict[str, Counter[str]]:
        """Stage -> what a worker that does its units holds, and the bytes of it at most. A worker of several
        stages has each part once, as large as it is in any of them."""
        found: dict[str, Counter[str]] = {}
        for unit in dict.fromkeys(kind.of for kind in kinds):
            held = found.setdefault(unit.stage, Counter(worker=_WORKER_BYTES))
            held |= Counter(unit.memory(self))
        return found

    def kept_and_read(self) -> tuple[int, int]:
        """Bytes of all that the run keeps, at most (every line in a pair), and bytes that units read and
        write, all through the network if the run's folder is there."""
        recipe, texts, dim = self.recipe, self.texts, self.dim
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
            network += handled * (vector + 4 * keys)  # lists of tiles are written, and read for either side
            network += 2 * handled  # which rows take part, a byte each
            network += 5 * keys * sum(rows)  # written, compared with the checksum, and read three times
            network += 2 * written
        indexed = indexed_pairs(recipe, self.lines)
        shards = {code: -(-texts[code].lines // tile) for pair in indexed for code in pair}
        sizes = {
            code: 4 * dim * lists_of(recipe.mine.index, texts[code].lines)[0] * (count + 1)
            + index_bytes(texts[code].lines, dim, recipe.mine.index)
            for code, count in shards.items()
        }
        for pair in indexed:
            for own, other in (pair, pair[::-1]):
                lines = texts[own].lines
                disk += lines * keys  # lists of rows that are looked up; others are as many as of tiles
                network += lines * (3 * keys + shards[other] * vector)  # vectors are read once for each span
                network += (2 * shards[own] + 3) * sizes[other]  # for checksums, too
        return disk + sum(sizes.values()), network


def estimate(
    recipe: CorpusRecipe,
    chosen: Selection,
    jobs: int,
    assumed: Mapping[str, int] | None = None,
    calibrated: bool = False,
) -> Estimate:
    """Count units, and multiply by what each kind of them costs. Some lines are embedded, and a little is
    searched, where that is not known yet.

    Lines of large files are estimated from their beginning, and sentences of documents from a sample that is
    split; those of texts that are up to date are counted.

    Args:
        jobs: Units that will be done at the same time.
        assumed: Language -> lines that it is to have; its text is a sample of them then, and nothing is done.
        calibrated: Measure what all work costs, and keep it in the run's folder.

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
        _calibrate(recipe, encoder.dim)
    texts = {code: _measured(recipe, code, inputs) for code in recipe.languages}
    for code in assumed or ():
        if code not in texts:
            raise MexmaError(
                f"{code} is none of the languages of the wanted pairs", choice(code, texts, "languages")
            )
        texts[code] = texts[code].of_lines((assumed or {})[code])
    done = Counter[str]()
    if not assumed:
        for code in recipe.languages:
            note_language(encoder, code)
        known, record = look(recipe, inputs, chosen), RunFolder(Path(recipe.run)).record
        for code, text in texts.items():
            made = pieces_of(record, code) if known.is_done(f"{code}/text") else None
            texts[code] = text if made is None else text.of_lines(made.lines)
        done.update(_PLACE.sub("", name) for name in known.found_done)
    lines = {code: text.lines for code, text in texts.items()}
    words = sum(text.words for text in texts.values())
    run = _Imagined(recipe, lines, words, encoder.dim, held, inputs, texts)
    return _estimate(run, chosen.kinds(recipe, inputs, run.cut), done, _costs(run, encoder), jobs)


def _estimate(
    run: _Imagined, kinds: list[Kind], done: Counter[str], costs: Mapping[type[Unit], Cost], jobs: int
) -> Estimate:
    """The forecast of some kinds of a run's units, of which so many are done, by the kinds' names."""
    units, seconds = dict[str, dict[str, int]](), dict[str, float](start=0.0)
    left, loaded = Counter[str](), set[type[Unit]]()
    for kind in kinds:
        stage, to_do = kind.of.stage, kind.count - done[kind.name]
        counts = units.setdefault(stage, {"all": 0, "up to date": 0})
        counts["all"] += kind.count
        counts["up to date"] += done[kind.name]
        if to_do > 0:
            share = to_do / kind.count
            cost = costs[kind.of]._replace(start=0.0) if kind.of in loaded else costs[kind.of]
            loaded.add(kind.of)  # which the next language finds loaded
            amounts = to_do, share * kind.rows, share * kind.cells * run.dim
            seconds[stage] = seconds.get(stage, 0.0) + cost.by_the_clock(amounts, jobs, threads())
            seconds["start"] = 2 * STARTING * slowness()
            left[kind.of.work] += to_do
    processor, works = dict[str, float](), dict[str, dict[str, Any]]()
    longest, cells = (0.0, ""), 0.0
    for kind in run.kinds():
        hours = costs[kind.of].of(kind.count, kind.rows, kind.cells * run.dim) / 3600
        of = works.setdefault(kind.of.work, {"units": 0, "hours": 0.0})
        processor[kind.of.stage] = processor.get(kind.of.stage, 0.0) + hours
        of["units"] += kind.count
        of["hours"] += hours
        longest = max(longest, (hours / kind.count, kind.of.work))
        cells += kind.cells if kind.of is Tile else 0
    memory, (disk, network) = run.memory(kinds), run.kept_and_read()
    return Estimate(
        languages=dict(run.lines),
        estimated=[code for code, text in run.texts.items() if not text.counted],
        units=units,
        left=dict(left),
        disk=disk,
        memory=jobs * reduce(or_, memory.values()).total(),
        unit_memory={stage: parts.total() for stage, parts in memory.items()},
        network=network,
        seconds={stage: round(spent, 1) for stage, spent in seconds.items() if spent},
        processor=processor,
        works=works,
        longest={"work": longest[1], "hours": longest[0]},
        gpu={name: cells * 2 * run.dim / peak / 3600 for name, peak in PEAKS.items()},
        index=_with_index(run, costs),
    )


def _with_index(run: _Imagined, costs: Mapping[type[Unit], Cost]) -> dict[str, float] | None:
    """What a run would take with indexes in place of the exact search, where `auto` takes some."""
    auto = replace(run, recipe=run.recipe.but(mine=run.recipe.mine.but(index="auto")))
    if run.recipe.mine.index != EXACT or not indexed_pairs(auto.recipe, run.lines):
        return None
    kinds = auto.kinds()
    searching = [kind for kind in kinds if kind.of.stage == "knn"]
    spent = [costs[kind.of].of(kind.count, kind.rows, kind.cells * run.dim) for kind in searching]
    return {
        "processor": sum(spent) / 3600,
        "bytes": reduce(or_, auto.memory(kinds).values()).total(),
        "disk": auto.kept_and_read()[0],
    }


class Costs(Frozen):
    """Measurements of `calibrate`: kind of work -> how many times as long as its `cost` it takes here."""

    format_version: int = VERSION
    factors: dict[str, float]


def _costs(run: _Imagined, encoder: SentenceEncoder) -> dict[type[Unit], Cost]:
    """Costs of each kind of work on this machine, as busy as it is now: what a calibration has kept in the
    run's folder, or what this run's own units took. What depends on the encoder, and on the product of the
    exact search, is measured unless it is known so."""
    recipe, texts, folder = run.recipe, run.texts.values(), RunFolder(Path(run.recipe.run))
    path, planned = folder.path / FILE, plan(recipe, run.inputs, partial(pieces_of, folder.record))
    factors = read_manifest(path, Costs, VERSION).factors if path.is_file() else {}
    factors |= _factors(folder, planned, encoder.dim)
    costs = {of: of.cost.times(factors.get(of.work, slowness())) for of in KINDS.values()}
    known = {of for of in costs if of.work in factors}
    if Embed not in known:
        lines = sum(text.lines for text in texts)
        spent = sum(seconds_a_line(encoder, iter(text.sample)) * text.lines for text in texts)
        costs[Embed] = costs[Embed]._replace(row=threads() * spent / max(1, lines))
    split = [text for text in texts if text.splitting]
    if split and Split not in known:
        row = sum(text.splitting * text.lines for text in split) / sum(text.lines for text in split)
        costs[Split] = costs[Split]._replace(row=row)
    if Mine not in known:
        costs[Mine] = mining_cost(by_probability(recipe) or recipe.mine.finds, recipe.mine.within)
    if Tile not in known and recipe.align is None:
        rows = min(recipe.units.tile, max(text.lines for text in texts))
        cell = seconds_needed(rows, rows, encoder.dim, recipe.mine.k) / (rows**2 * encoder.dim)
        costs[Tile] = costs[Tile]._replace(cell=threads() * cell)
    return costs


def _factors(folder: RunFolder, kinds: Iterable[Kind], dim: int, warm: bool = False) -> dict[str, float]:
    """Kind of work -> how many times as long as its `cost` says the units took that were done; `warm`: in a
    process that had loaded what they need."""
    took, said = dict[type[Unit], float](), dict[type[Unit], float]()
    for kind in kinds:
        records = [record for unit in kind.units() if (record := folder.record(unit.name)) is not None]
        if done := [record.processor_seconds for record in records if record.processor_seconds]:
            share, before = len(done) / kind.count, 0 if warm else kind.of.cost.start
            seconds = kind.of.cost.of(len(done), share * kind.rows, share * kind.cells * dim)
            took[kind.of] = took.get(kind.of, 0) + sum(done)
            said[kind.of] = said.get(kind.of, before) + seconds
    return {unit.work: took[unit] / said[unit] for unit in took}


def _calibrate(recipe: CorpusRecipe, dim: int) -> None:
    """Measure what work costs with vectors of `dim`, and keep it in the run's folder.

    The recipe is run in this process with the first lines of its texts, after a run with a quarter of them
    has loaded what is needed. Texts that are documents are refused.
    """
    if any(text.split is not None for text in recipe.languages.values()):
        raise MexmaError(
            "--calibrate measures texts of one sentence a line, and `split` takes documents",
            "calibrate a recipe of the same `run` with sentences that `mexma split` makes of some documents",
        )
    factors: dict[str, float] = {}
    for lines in (_LINES // 4, _LINES):
        with tempfile.TemporaryDirectory(prefix="mexma-") as name, quieted():
            few = _shortened(recipe, lines, Path(name))
            run_corpus(few, InThisProcess)
            folder = RunFolder(Path(few.run))
            kinds = plan(few, inputs_of(few), partial(pieces_of, folder.record))
            factors = _factors(folder, kinds, dim, warm=True)
    factors.pop(Tile.work, None)  # whose cells take longer than all else as soon as there are more of them
    path = Path(recipe.run) / FILE
    make_parent(path)
    write_json_atomic(path, Costs(factors=factors).model_dump(mode="json"))


def _shortened(recipe: CorpusRecipe, lines: int, folder: Path) -> CorpusRecipe:
    """The recipe with the first lines of its texts, in another folder."""
    for code, files in inputs_of(recipe).items():
        if "/" not in code:
            text = islice(chain.from_iterable(map(read_lines, files)), lines)
            (folder / f"{code}.txt").write_text("".join(f"{line}\n" for line in text))
    return recipe.but(
        run=f"{folder}/run",
        languages={code: one.but(input=(f"{folder}/{code}.txt",)) for code, one in recipe.languages.items()},
        mine=recipe.mine.but(index=EXACT),  # so few lines need no index
        output=recipe.output.but(to=None),
    )


def _measured(recipe: CorpusRecipe, code: str, inputs: Inputs) -> _Text:
    paths = list(map(Path, inputs[code]))
    found, spent = [estimate_size(path) for path in paths], 0.0
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
