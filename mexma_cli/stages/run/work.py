"""The work of units: functions by name, each from inputs on disk to one output on disk."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from itertools import chain, islice
from operator import itemgetter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from mexma_cli.errors import MexmaError
from mexma_cli.files import MANIFEST, checksum_file, commit, workplace, write_json_atomic
from mexma_cli.formats.bitext import (
    AlignedPair,
    BitextFormat,
    MinedPair,
    formats,
    open_pairs,
    outputs_of,
    write_pairs,
)
from mexma_cli.knn.spans import Span
from mexma_cli.settings.corpus import CorpusEncoder, CorpusFilter, CorpusMining, CorpusSplitting, LanguageText
from mexma_cli.settings.section import Section, naming_keys, with_keys
from mexma_cli.settings.stages import AlignSettings, EmbedSettings, EncoderChoice, MineSettings
from mexma_cli.stages.embed.inputs import load_encoder
from mexma_cli.stages.knn.row_filter import RowCounts
from mexma_cli.stages.knn.search import SearchResult
from mexma_cli.stages.knn.span_files import ListsFile, MergedLists, merge_lists, write_kept_rows, write_tile
from mexma_cli.stages.merge import merge_stores
from mexma_cli.stages.mine.documents import DocumentFiles, in_no_pair
from mexma_cli.stages.run.indexed import SIDES
from mexma_cli.stages.run.plan import keys_of_text
from mexma_cli.stages.run.units import (
    ANEW,
    REJECTS,
    Record,
    RunFolder,
    Unit,
    changed,
    only_worker,
    read_unit,
    state_of_files,
)
from mexma_cli.store.arrays import check_content
from mexma_cli.store.embeddings import EmbeddingStore
from mexma_cli.store.layout import AGAIN as EMBED_AGAIN
from mexma_cli.text.amounts import counted, such_as
from mexma_cli.text.identify import FEWEST, LOOKED_AT, another_language, identifier
from mexma_cli.text.lines import broken_lines, read_lines, read_pieces, scan
from mexma_cli.text.pages import stating
from mexma_cli.text.writing import only_process, write_chunks

if TYPE_CHECKING:
    from mexma_cli.encoder.encoder import SentenceEncoder
    from mexma_cli.stages.knn.shards import Indexed


@dataclass(frozen=True)
class Task:
    """A unit that is being done, and where to write."""

    folder: RunFolder
    unit: Unit
    output: Path

    @property
    def settings(self) -> dict[str, Any]:
        return self.unit.settings

    @property
    def languages(self) -> tuple[str, str]:
        """FLORES-200 codes of source and target."""
        source, target = self.settings["languages"]
        return source, target

    @property
    def model(self) -> Path | None:
        """The file that tells languages, or the weights of a classifier, if the user has one."""
        return next(map(Path, self.unit.model), None)

    def record(self, name: str) -> Record:
        """The record of an input."""
        record = self.folder.record(self.unit.needs[name])
        assert record is not None, name
        return record

    def input(self, name: str, file: str | None = None) -> Path:
        """The output of the unit that is this input, or a file of it, compared with its checksum. Of a folder
        with a manifest only that is: who reads the rest compares it with the manifest.
        """
        record = self.record(name)
        path, files = self.folder.path / record.output, list(record.files)
        if file is not None:
            path, files = path / file, [f"{record.output}/{file}"]
        elif (manifest := f"{record.output}/{MANIFEST}") in files:
            files = [manifest]
        for one in files:
            if not (self.folder.path / one).is_file():
                raise MexmaError(f"{self.folder.path / one} is missing", "run again: it is made anew")
            check_content(self.folder.path / one, record.files[one], ANEW)
        return path

    def store(self, name: str) -> EmbeddingStore:
        """The embedding store that is this input."""
        return EmbeddingStore.open(self.input(name))

    def neighbours(self, k: int) -> SearchResult:
        """The k nearest of the pair's rows, in the files of the spans that are inputs."""
        sides, counts = [], []
        for direction, side in (("forward", "source"), ("backward", "target")):
            names = [name for name in self.unit.inputs if f"/neighbours/{direction}-" in name]
            spans = [self.record(name).facts for name in names]
            rows = [facts["rows"] for facts in spans]
            sides.append(MergedLists(list(map(self.input, names)), rows, spans[0]["width"], k))
            left_out = self.record(f"{side}_rows").facts["left_out"]
            counts.append(RowCounts(sum(rows), **left_out))
        found = SearchResult((sides[0], sides[1]), (counts[0], counts[1]))
        if "effort" not in self.unit.inputs:
            return found
        effort = self.record("effort").facts
        return replace(found, index=effort["index"], recall=sum(effort["recall"]) / 2)


Work = Callable[[Task], dict[str, Any]]
"""Writes the task's output, and returns the facts for its record."""

WorkT = TypeVar("WorkT", bound=Work)
WORK: dict[str, Work] = {}


def _work(function: WorkT) -> WorkT:
    WORK[function.__name__] = function
    return function


def perform(run: Path, todo: Path) -> Record:
    """Do a unit of a run (its folder, and the unit's description), unless it is done."""
    folder, unit = RunFolder(run), read_unit(todo)
    with only_worker(todo):
        if (record := folder.done(unit, whole=True)) is not None:
            return record
        key, state, began = folder.key(unit), state_of_files(unit), _clocks()
        with folder.workplace_of(unit, key) as made:
            try:
                with stating(unit.settings.get("encoding")), naming_keys(_keys(unit)):
                    facts = WORK[unit.work](Task(folder, unit, made))
            except MexmaError as error:
                raise MexmaError(error.message, ANEW if error.hint == EMBED_AGAIN else error.hint) from None
            for name, now in state_of_files(unit).items():
                if now != state[name]:  # it may have been another one for a moment
                    _loaded.cache_clear()
                    raise changed(name)
            if "notes" in facts:
                facts["notes"] = [with_keys(note, _keys(unit)) for note in facts["notes"]]
            ended, spent = _clocks()
            record = folder.finish(unit, key, made, facts, (ended - began[0], spent - began[1]))
        folder.tidy(unit)
        return record


def _keys(unit: Unit) -> dict[str, type[Section]]:
    """Where the recipe has the settings of a unit."""
    code = unit.name.partition("/")[0]
    found: dict[str, dict[str, type[Section]]] = {
        "split": {f"languages.{code}.split": CorpusSplitting},
        "cut": keys_of_text(code),
        "embed": {"encoder": CorpusEncoder, f"languages.{code}": LanguageText},
        "align": {"align": AlignSettings, "encoder": CorpusEncoder},
        "keep": {"filter": CorpusFilter},
    }
    return found.get(unit.work) or {"mine": CorpusMining, "encoder": CorpusEncoder}


def _clocks() -> tuple[float, float]:
    """Seconds by the clock, and of the processor for this process and those that it has started."""
    ended = os.times()
    return time.monotonic(), time.process_time() + ended.children_user + ended.children_system


@_work
def split(task: Task) -> dict[str, Any]:
    """Documents as sentences: a folder with these, where they were and, if wanted, what was dropped."""
    from mexma_cli.stages.split.inputs import Splitting, doubt_of_text, find_inputs, passed_over_in_words
    from mexma_cli.stages.split.split import SplitOutputs, split

    settings, language = CorpusSplitting.model_validate(task.settings["split"]), task.settings["language"]
    how = Splitting(language, settings.but(lid_model=task.model), settings.rejects)
    task.output.mkdir(exist_ok=True)
    rejects = task.output / f"{language}.rejects.zst" if settings.rejects else None
    outputs = SplitOutputs(task.output / f"{language}.txt.zst", rejects)
    inputs = find_inputs(list(task.unit.files), language)
    threads = int(os.environ.get("OMP_NUM_THREADS", 1))
    report = split(inputs, how, outputs, threads)
    outputs.report.unlink()  # it says how long it took: the facts below are in the run's report
    lost = {reason: count for reason, count in report.documents_dropped.items() if reason in report.named}
    said = [f"{count:,} {reason}{such_as(report.named[reason])}" for reason, count in lost.items()]
    notes = [passed_over_in_words(inputs.passed_over)] if inputs.passed_over else []
    notes += [f"of {counted(report.documents, 'document')} {'; '.join(said)}"] if lost else []
    notes += [*report.warnings(language), *doubt_of_text(inputs.files, how)]
    return asdict(report) | {"notes": [f"{language}: {note}" for note in notes]}


@_work
def cut(task: Task) -> dict[str, Any]:
    """A text in pieces of some lines, each a file in a folder."""
    lines = task.settings["lines"]
    if "sentences" in task.unit.inputs:
        sentences, split = _sentences(task, "sentences"), task.record("sentences").facts
        if not split["kept"]:
            lost = {**split["documents_dropped"], **split["dropped"]}
            raise MexmaError(
                f"{task.unit.name.partition('/')[0]}: no sentence is left of "
                f"{counted(split['documents'], 'document')} and {counted(split['sentences'], 'sentence')}",
                ", ".join(f"{count:,} dropped by {rule}" for rule, count in lost.items()) or None,
            )
        return write_pieces(read_lines(sentences), task.output, lines, str(sentences))
    texts = list(task.unit.files)
    broken = broken_lines(next(read_pieces(Path(texts[0]), texts[0]), b""))
    notes = [f"{texts[0]}: {broken}"] if broken else []
    every = chain.from_iterable(map(read_lines, texts))
    first = list(islice(every, LOOKED_AT))
    identified = identifier("py3langid")
    assert identified is not None
    other = another_language(first, task.unit.name.partition("/")[0], identified)
    found = write_pieces(chain(first, every), task.output, lines, ", ".join(texts))
    return found | {"notes": notes, "warning": f"{texts[0]}: {other}" if other else None}


def _sentences(task: Task, name: str, what: str = "txt") -> Path:
    """A file of an input that `split` made: `txt` or `docs`."""
    (file,) = (file for file in task.record(name).files if file.endswith(f".{what}.zst"))
    return task.input(name, Path(file).name)


@_work
def embed(task: Task) -> dict[str, Any]:
    """A piece of a text as a store."""
    from mexma_cli.stages.embed.embed import EmbedOptions, embed_file, unknown_language

    piece = task.input("text") / task.settings["piece"]
    check_content(piece, task.settings["checksum"], ANEW)
    language, encoder = task.settings["language"], _encoder(task)
    options = EmbedOptions(language, EmbedSettings(clean=task.settings["clean"]))
    manifest = embed_file(encoder, scan(piece, f"{language}/{piece.name}"), task.output, options).manifest
    warning = unknown_language(encoder, language)
    return {"truncated": manifest.truncated, "duplicates": manifest.duplicates, "warning": warning}


@_work
def merge(task: Task) -> dict[str, Any]:
    """The pieces of a text as one store."""
    store = merge_stores([task.store(name) for name in task.unit.inputs], task.output)
    return {"rows": store.rows, "empty": store.manifest.empty, "truncated": store.manifest.truncated}


@_work
def rows(task: Task) -> dict[str, Any]:
    """Which rows of a store take part in mining."""
    return {"left_out": write_kept_rows(task.store("store"), task.output)}


@_work
def tile(task: Task) -> dict[str, Any]:
    """The neighbours of some rows of both sides in one another."""
    spans = Span(*task.settings["source"]), Span(*task.settings["target"])
    stores = task.store("source"), task.store("target")
    kept = task.input("source_rows"), task.input("target_rows")
    write_tile(stores, kept, spans, task.settings["k"], task.output)
    return {}


@_work
def train_index(task: Task) -> dict[str, Any]:
    """An index for a text, without its rows."""
    from mexma_cli.stages.knn.shards import train_index

    store, rows = task.store("store"), task.input("rows")
    return {"factory": train_index(store, rows, task.settings["index"], task.output)}


@_work
def shard(task: Task) -> dict[str, Any]:
    """The index of a text with some of its rows."""
    from mexma_cli.stages.knn.shards import side_of, write_shard

    side = side_of(task.store("store"), task.input("rows"), Span(*task.settings["rows"]))
    return {"rows": write_shard(side, task.input("trained"), task.output)}


@_work
def effort(task: Task) -> dict[str, Any]:
    """How hard the indexes of a pair are searched."""
    from mexma_cli.stages.knn.shards import effort_of

    found = effort_of(_indexed(task, "source"), _indexed(task, "target"), **task.settings)
    write_json_atomic(task.output, found)
    return found


def _indexed(task: Task, side: str) -> Indexed:
    """A side of a pair, with its index."""
    from mexma_cli.stages.knn.shards import Indexed

    shards = [name for name in task.unit.inputs if name.startswith(f"{side}_0")]
    return Indexed(
        task.store(side),
        task.input(f"{side}_rows"),
        task.input(f"{side}_trained"),
        task.record(f"{side}_trained").facts["factory"],
        [task.input(name) for name in shards],
        [task.record(name).facts["rows"] for name in shards],
    )


@_work
def search_index(task: Task) -> dict[str, Any]:
    """The neighbours of some rows of a pair's side that the index of the other side finds, and of the rows
    there that are found."""
    from mexma_cli.knn.index_search import Direction
    from mexma_cli.stages.knn.shards import side_of, write_found

    settings, effort = task.settings, task.record("effort").facts
    place = SIDES.index(settings["side"])
    files = [(name, Span(*rows)) for name, rows in settings["files"]]
    store, other = task.store(SIDES[place]), _indexed(task, SIDES[1 - place])
    own = side_of(store, task.input(f"{SIDES[place]}_rows"), files[-1][1])
    direction = Direction(own, other.side(), other.index())
    direction.index.effort = effort["parameters"][place]
    write_found(direction, files, effort["hits"], settings["k"], task.output)
    for one in (store, other.store):
        one.check_unchanged()
    return {}


@_work
def neighbours(task: Task) -> dict[str, Any]:
    """The neighbours of some rows of a side of a pair, from all lists of these rows."""
    rows, k = task.settings["rows"], task.settings["k"]
    width = min(k, task.settings["others"] - sum(task.record("rows").facts["left_out"].values()))
    parts = [
        ListsFile(task.input(name, file), first, held) for name, file, first, held in task.settings["lists"]
    ]
    merge_lists(parts, rows, k, width, task.output)
    return {"rows": rows, "width": width}


@_work
def mine(task: Task) -> dict[str, Any]:
    """The pairs of two stores, in the folder of a language pair."""
    from mexma_cli.stages.mine.files import MiningJob, mined
    from mexma_cli.stages.mine.mine import UNDERESTIMATED, translations_of
    from mexma_cli.stages.mine.thresholds import stored_threshold

    settings = task.settings
    classifier, plugin = [*map(Path, task.unit.model), None, None][:2]
    how = MineSettings.model_validate(settings["mine"]).but(classifier=classifier, plugin=plugin)
    documents = None
    if "source_sentences" in task.unit.inputs:
        source, target = (_sentences(task, f"{side}_sentences", "docs") for side in SIDES)
        documents = DocumentFiles(source, target)
    job = MiningJob(
        (task.input("source"), task.input("target")),
        task.languages,
        how,
        with_ids=settings["with_ids"],
        documents=documents,
        neighbours=task.neighbours(how.k),
    )
    with mined(job, EncoderChoice()) as run:
        pairs = run.found
        changed = write_formats(task, lambda kind: pairs)
    lost = run.documents.lost if run.documents else ""
    notes = [f"documents {lost}"] if lost else []
    threshold = doubt = None
    found = pairs.estimated
    if found is not None:
        stored = stored_threshold(found.best, run.stores[0].manifest, task.languages, found.settings)
        threshold, (low, high) = stored.model_dump(mode="json"), stored.precision_interval
        doubt = found.model.doubt
        if documents is not None:
            notes.append(UNDERESTIMATED)
        if high - low > _VAGUE:
            notes.append(
                f"of the pairs above the threshold {stored.precision:.0%} may be translations, or anything "
                f"from {low:.0%} to {high:.0%}; look at some of them in the report"
            )
    if pairs.overestimated is not None:
        notes.append(pairs.overestimated)
    probable = pairs.score == "probability"
    return {
        "threshold": threshold,
        "pairs": len(pairs),
        "dropped": pairs.dropped,
        "search": pairs.how,
        "source": asdict(pairs.source),
        "target": asdict(pairs.target),
        "histogram": histogram(pairs.candidates.scores, probable=probable),
        "samples": samples(len(pairs), pairs.taken),
        "doubt": doubt,
        "unbalanced": pairs.unbalanced,
        "translations": translations_of(pairs, pairs.unbalanced, doubt) if probable else None,
        "changed_sentences": changed,
        "notes": [f"{'-'.join(task.languages)}: {note}" for note in notes],
    }


@_work
def align(task: Task) -> dict[str, Any]:
    """The sentences of documents of the same id, aligned, in the folder of a language pair."""
    from mexma_cli.stages.align.align import DocumentInputs
    from mexma_cli.stages.align.files import AlignJob, aligned

    docs = _sentences(task, "source_sentences", "docs"), _sentences(task, "target_sentences", "docs")
    known = formats(alignments=True)  # whole documents have a score of their own, whichever format is first
    name, kind = max(task.settings["files"].items(), key=lambda file: known[file[1]].whole_documents)
    job = AlignJob(
        DocumentInputs(task.input("source"), task.input("target"), docs),
        task.languages,
        outputs_of(task.output / name, kind, task.languages),
        kind,
        settings=AlignSettings.model_validate(task.settings["align"]),
    )
    with only_process(job.files), aligned(job, _encoder(task)) as run:
        found, counts, documents = run.found, run.found.counts(), run.found.documents
        changed = write_formats(task, found.written)
        scores, places = found.scores()
        some = samples(len(scores), lambda chosen: found.taken(places[chosen]))
    notes = [*counts.warnings()]
    if any(documents.alone):
        notes.insert(0, f"documents {in_no_pair(documents.alone, documents.counts)}")
    return {
        "documents": counts.pairs,
        "pairs": counts.written,
        "dropped": dict(counts.dropped),
        "histogram": histogram(scores),
        "samples": some,
        "changed_sentences": changed,
        "notes": [f"{'-'.join(task.languages)}: {note}" for note in notes],
    }


@_work
def keep(task: Task) -> dict[str, Any]:
    """The pairs that keep all rules, in the folder of a language pair; a file for the others, if wanted."""
    from mexma_cli.stages.filter import FilterJob, filter_files
    from mexma_cli.stages.mine.mine import translations_of

    how = CorpusFilter.model_validate(task.settings["filter"])
    (file,) = task.record("pairs").files
    pairs = task.input("pairs", Path(file).name)
    with TemporaryDirectory(dir=task.output.parent) as folder:
        kept = Path(folder) / "kept.jsonl.zst"  # with all that is known of the pairs, for any format
        job = FilterJob(
            (pairs,),
            task.languages,
            how.but(lid_model=task.model),
            output=kept,
            rejects=task.output / REJECTS if how.rejects else None,
            may_be_empty=True,
        )
        found, _ = filter_files(job)
        translations = None
        if "wrong" in task.record("pairs").facts["histogram"]:
            every = open_pairs(kept, languages=task.languages).pairs
            mined = (pair for pair in every if isinstance(pair, MinedPair))
            known = task.record("pairs").facts
            translations = translations_of(mined, known["unbalanced"], known["doubt"])
        changed = write_formats(task, lambda kind: open_pairs(kept, languages=task.languages).pairs)
    notes = []
    if found.read >= FEWEST and found.kept < found.read / 2:
        rule, count = max(found.dropped.items(), key=itemgetter(1))
        notes.append(
            f"{'-'.join(task.languages)}: `filter` dropped {found.read - found.kept:,} of "
            f"{counted(found.read, 'pair')}, {count:,} of them by the rule `{rule}`"
        )
    return {
        "read": found.read,
        "pairs": found.kept,
        "dropped": found.dropped,
        "translations": translations,
        "changed_sentences": changed,
        "notes": notes,
    }


def write_formats(task: Task, pairs: Callable[[BitextFormat], Iterable[Any]]) -> int:
    """Write a language pair's folder: for each format that is wanted, the `pairs` that it writes. Returns the
    number of sentences that had to be changed to fit the formats."""
    kinds = ((name, formats(alignments=True)[kind]) for name, kind in task.settings["files"].items())
    with_ids = task.settings["with_ids"]
    return sum(
        write_pairs(task.output / name, kind, pairs(kind), task.languages, with_ids) for name, kind in kinds
    )


def _encoder(task: Task) -> SentenceEncoder:
    return _loaded(EncoderChoice.model_validate(task.settings["encoder"]), tuple(task.unit.encoder.items()))


@lru_cache(maxsize=1)
def _loaded(choice: EncoderChoice, files: tuple[tuple[str, str], ...]) -> SentenceEncoder:
    """The encoder that this process embeds with; it is kept for the next unit with the same files."""
    return load_encoder(choice)


_BINS = 24
_NARROWEST = 0.001  # width of a bin
_BANDS = 6
_OF_A_BAND = 3
_WORST = 6
_VAGUE = 0.4  # width of a precision's interval
_AT_ONCE = 1 << 20


def histogram(scores: np.ndarray, probable: bool = False) -> dict[str, Sequence[float]]:
    """Count scores, sorted best first, between neighbouring `edges` (`counts`): of few scores, or scores that
    are almost one, there are few. Of probabilities, `wrong` is the number of each count's pairs that are
    expected to be no translations."""
    if not len(scores):
        return {"edges": [], "counts": []}
    ends = float(scores[-1]), float(scores[0])
    bins = max(1, min(_BINS, math.isqrt(len(scores)), int((ends[1] - ends[0]) / _NARROWEST)))
    edges = np.linspace(*ends, bins + 1)
    counts, wrong = np.zeros(bins, np.int64), np.zeros(bins)
    for start in range(0, len(scores), _AT_ONCE):
        part = scores[start : start + _AT_ONCE].astype(np.float64)
        places = np.clip(np.searchsorted(edges, part, side="right") - 1, 0, bins - 1)
        counts += np.bincount(places, minlength=bins)
        if probable:
            wrong += np.bincount(places, 1 - part, bins)
    found: dict[str, Sequence[float]] = {
        "edges": [round(edge, 4) for edge in edges.tolist()],
        "counts": counts.tolist(),
    }
    if probable:
        found["wrong"] = [round(one, 2) for one in wrong.tolist()]
    return found


def samples(
    pairs: int, taken: Callable[[np.ndarray], Iterable[MinedPair | AlignedPair]]
) -> list[dict[str, Any]]:
    """A few pairs from each of some bands of scores, which have as many pairs as one another, and the worst
    ones, which are just above the threshold; best first. `taken` gives the pairs at places, int64 [n], of the
    best first."""
    spread = np.linspace(0, pairs - 1, min(pairs, _BANDS * _OF_A_BAND)).round().astype(np.int64)
    places = np.union1d(spread, np.arange(max(0, pairs - _WORST), pairs))
    return [
        {"score": round(pair.score, 4), "source": pair.source, "target": pair.target}
        for pair in (taken(places) if pairs else ())
    ]


def write_pieces(text: Iterator[str], output: Path, lines: int, name: str) -> dict[str, Any]:
    """Cut a text, whose name is for messages, into a folder of files of so many lines, the last one perhaps
    shorter. Returns `pieces`: for each its `name`, `lines` and `checksum`."""
    pieces: list[dict[str, Any]] = []
    with workplace(output) as part:
        part.mkdir()
        for first in text:
            piece = part / f"{len(pieces):05d}.txt.zst"
            held = chain([first], islice(text, lines - 1))
            count = write_chunks([piece], (((f"{line}\n",), 1) for line in held))
            pieces.append({"name": piece.name, "lines": count, "checksum": checksum_file(piece)})
        if not pieces:
            raise MexmaError(f"{name}: no lines", "give text with one sentence a line")
        write_json_atomic(part / MANIFEST, {"kind": "pieces", "pieces": pieces})
        commit(output)
    return {"pieces": pieces}
