"""Units that make sentence pairs: mined or aligned, and filtered."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import asdict, replace
from operator import itemgetter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

import numpy as np

from mexma_cli.classifier.model import bytes_for
from mexma_cli.classifier.precision import Errors
from mexma_cli.formats.bitext import AlignedPair, MinedPair, formats, open_pairs, outputs_of, write_pairs
from mexma_cli.mining.match import bytes_to_mine
from mexma_cli.settings.corpus import CorpusEncoder, CorpusFilter, CorpusRecipe
from mexma_cli.settings.stages import AlignSettings, EncoderChoice, MineSettings
from mexma_cli.stages.align.align import DocumentInputs
from mexma_cli.stages.align.files import AlignJob, aligned
from mexma_cli.stages.costs import MINING, Cost
from mexma_cli.stages.filter import FilterJob, filter_files
from mexma_cli.stages.knn.row_filter import RowCounts
from mexma_cli.stages.knn.search import SearchResult
from mexma_cli.stages.knn.span_files import MergedLists
from mexma_cli.stages.mine.documents import DocumentFiles, in_no_pair
from mexma_cli.stages.mine.files import MiningJob, mined
from mexma_cli.stages.mine.mine import UNDERESTIMATED, translations_of
from mexma_cli.stages.mine.probable import LIBRARIES_BYTES, why_margin
from mexma_cli.stages.mine.texts import PairTexts
from mexma_cli.stages.mine.thresholds import stored_threshold
from mexma_cli.stages.mine.within import bytes_within
from mexma_cli.stages.run.search import DIRECTIONS, SIDES, LanguagePair
from mexma_cli.stages.run.texts import ENCODER, RULES, Inputs, UsesEncoder, loaded, model_of
from mexma_cli.stages.run.units import BITEXT, REJECTS, Facts, Kind, Sizes, Task, Unit, one
from mexma_cli.store.folder import Frozen
from mexma_cli.text.amounts import counted
from mexma_cli.text.identify import FEWEST
from mexma_cli.text.writing import only_process

_VAGUE = 0.4  # width of a precision's interval
_OF_OTHERS = {"within", "index", "recall", "classifier", "plugin"}  # settings of other units, and files


class PairFiles(Frozen):
    """The sentence pairs of a language pair, in the files of a folder."""

    languages: tuple[str, str]  # FLORES-200 codes of source and target
    formats: dict[str, str]  # of files, by their names
    with_ids: bool

    @classmethod
    def of(cls, recipe: CorpusRecipe, pair: tuple[str, str], first: bool = False) -> PairFiles:
        """Where and how pairs are written; those that are to be filtered are written `first` with all that is
        known of them."""
        if first and recipe.filter is not None:
            return cls(languages=pair, formats={"pairs.jsonl.zst": "jsonl"}, with_ids=True)
        compression, files = f".{recipe.output.compression}" if recipe.output.compression else "", {}
        for name in recipe.output.format:
            kind = formats(alignments=True)[name]
            ending = ("" if kind.two_files else f".{name}") + ("" if kind.compressed else compression)
            files[f"{'-'.join(pair)}{ending}"] = name
        return cls(languages=pair, formats=files, with_ids=recipe.output.with_ids)

    def write(self, folder: Path, pairs: Callable[[Any], Iterable[Any]]) -> int:
        """Write for each format the `pairs` that it writes. Returns the number of sentences that had to be
        changed to fit the formats."""
        kinds = ((name, formats(alignments=True)[kind]) for name, kind in self.formats.items())
        return sum(
            write_pairs(folder / name, kind, pairs(kind), self.languages, self.with_ids)
            for name, kind in kinds
        )


def results_of(recipe: CorpusRecipe) -> list[str]:
    """The files of sentence pairs that a run makes, by their paths in its folder."""
    found = []
    for pair in recipe.language_pairs():
        folder = Path(BITEXT, "-".join(pair))
        for name, kind in PairFiles.of(recipe, pair).formats.items():
            found += outputs_of(folder / name, kind, pair)
        if recipe.filter is not None and recipe.filter.rejects:
            found.append(folder / REJECTS)
    return list(map(str, found))


def by_probability(recipe: CorpusRecipe) -> bool:
    """Whether pairs are scored by the classifier, and not by margin."""
    mine = recipe.mine
    return recipe.align is None and why_margin(mine, recipe.encoder.model, within=mine.within) is None


def _folder_of(pair: LanguagePair) -> str:
    """Where pairs that were mined or aligned are: with the results, or where they wait for the filter."""
    return f"{BITEXT}/{pair.name}" if pair.recipe.filter is None else f"{pair.name}/pairs"


def _sentences(pair: LanguagePair) -> dict[str, str]:
    return {f"{side}_sentences": f"{code}/sentences" for side, code in zip(SIDES, pair.codes, strict=True)}


class Mine(Unit):
    """The pairs of two stores, in the folder of a language pair."""

    stage = "mine"
    cost = MINING
    written: PairFiles
    mine: MineSettings

    @classmethod
    def planned(cls, pair: LanguagePair, inputs: Inputs) -> Kind:
        recipe, name = pair.recipe, f"{pair.name}/pairs"

        def unit() -> Mine:
            merged = [
                pair.unit(f"neighbours/{way}-", place)
                for way, own in zip(DIRECTIONS, pair.spans, strict=True)
                for place in range(len(own))
            ]
            effort = {"effort": f"{pair.name}/effort"} if pair.indexed else {}
            documents = _sentences(pair) if recipe.mine.within else {}
            return cls(
                name=name,
                written=PairFiles.of(recipe, pair.codes, first=True),
                mine=MineSettings.model_validate(recipe.mine.model_dump(exclude=_OF_OTHERS)),
                inputs=pair.side(0) | pair.side(1) | {one: one for one in merged} | effort | documents,
                model=model_of(inputs, "mine") | model_of(inputs, "mine/plugin"),
                output=_folder_of(pair),
            )

        return Kind(name, cls, unit, (), sum(pair.rows))

    @classmethod
    def memory(cls, sizes: Sizes) -> dict[str, int]:
        recipe, lines = sizes.recipe, sizes.lines
        rows = max(lines[source] + lines[target] for source, target in recipe.language_pairs())
        within = bytes_within(rows, sizes.dim, recipe.mine) if recipe.mine.within else 0
        judging = {"judging": bytes_for(rows), "libraries": LIBRARIES_BYTES}
        judges = by_probability(recipe) or recipe.mine.finds
        return {"work": max(bytes_to_mine(rows, recipe.mine.k), within), **(judging if judges else {})}

    def do(self, task: Task) -> Facts:
        languages, documents = self.written.languages, None
        classifier, plugin = [*map(Path, self.model), None, None][:2]
        if "source_sentences" in self.inputs:
            source, target = (task.sentences(f"{side}_sentences", "docs") for side in SIDES)
            documents = DocumentFiles(source, target)
        job = MiningJob(
            (task.input("source"), task.input("target")),
            languages,
            self.mine.but(classifier=classifier, plugin=plugin),
            with_ids=self.written.with_ids,
            documents=documents,
            neighbours=self._neighbours(task),
        )
        with mined(job, EncoderChoice()) as run:
            pairs = run.found
            changed = self.written.write(task.output, lambda kind: pairs)
            beneath = pairs.every.take(slice(pairs.above, pairs.above + _WORST))
            texts = PairTexts.join(beneath, run.stores).of(slice(0, len(beneath)))
        lost = run.documents.lost if run.documents else ""
        notes = [f"documents {lost}"] if lost else []
        threshold = None
        if (found := pairs.estimated) is not None:
            stored = stored_threshold(found.best, run.stores[0].manifest, languages, found.settings)
            threshold, (low, high) = stored.model_dump(mode="json"), stored.precision_interval
            if documents is not None:
                notes.append(UNDERESTIMATED)
            if high - low > _VAGUE:
                notes.append(
                    f"of the pairs above the threshold {stored.precision:.0%} may be translations, or "
                    f"anything from {low:.0%} to {high:.0%}; look at some of them in the report"
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
            "histogram": histogram(pairs.every.scores, pairs.above, probable),
            "samples": samples(len(pairs), pairs.taken),
            "beneath": list(map(_sample, beneath.scores.tolist(), *(side.sentences for side in texts))),
            "errors": pairs.errors,
            "translations": translations_of(pairs, pairs.errors) if probable else None,
            "changed_sentences": changed,
            "notes": [f"{self.room}: {note}" for note in notes],
        }

    def _neighbours(self, task: Task) -> SearchResult:
        """The nearest of the pair's rows, in the files of the spans that are inputs."""
        sides, counts = [], []
        for direction, side in zip(DIRECTIONS, SIDES, strict=True):
            names = [name for name in self.inputs if f"/neighbours/{direction}-" in name]
            spans = [task.record(name).facts for name in names]
            rows = [facts["rows"] for facts in spans]
            sides.append(MergedLists(list(map(task.input, names)), rows, spans[0]["width"], self.mine.k))
            counts.append(RowCounts(sum(rows), **task.record(f"{side}_rows").facts["left_out"]))
        found = SearchResult((sides[0], sides[1]), (counts[0], counts[1]))
        if "effort" not in self.inputs:
            return found
        effort = task.record("effort").facts
        return replace(found, index=effort["index"], recall=sum(effort["recall"]) / 2)


class Align(UsesEncoder):
    """The sentences of documents of the same id, aligned, in the folder of a language pair."""

    stage = "align"
    cost = Cost(0.1, 0.02, 1.7e-4)
    keys: ClassVar = {"align": AlignSettings, "encoder": CorpusEncoder}
    written: PairFiles
    align: AlignSettings

    @classmethod
    def planned(cls, pair: LanguagePair, inputs: Inputs) -> Kind:
        recipe, (source, target) = pair.recipe, pair.codes
        assert recipe.align is not None
        unit = cls(
            name=f"{pair.name}/pairs",
            written=PairFiles.of(recipe, pair.codes, first=True),
            align=recipe.align,
            encoder=recipe.encoder,
            encoder_files=inputs[ENCODER],
            inputs={"source": f"{source}/store", "target": f"{target}/store", **_sentences(pair)},
            output=_folder_of(pair),
        )
        return one(unit, sum(pair.rows))

    def do(self, task: Task) -> Facts:
        docs = task.sentences("source_sentences", "docs"), task.sentences("target_sentences", "docs")
        known = formats(alignments=True)  # whole documents have a score of their own, whichever is first
        name, kind = max(self.written.formats.items(), key=lambda file: known[file[1]].whole_documents)
        job = AlignJob(
            DocumentInputs(task.input("source"), task.input("target"), docs),
            self.written.languages,
            outputs_of(task.output / name, kind, self.written.languages),
            kind,
            settings=self.align,
        )
        encoder = loaded(self.encoder, tuple(self.encoder_files.items()))
        with only_process(job.files), aligned(job, encoder) as run:
            found, counts, documents = run.found, run.found.counts(), run.found.documents
            changed = self.written.write(task.output, found.written)
            scores, places = found.scores()
            some = samples(len(scores), lambda chosen: found.taken(places[chosen]))
        alone = [f"documents {in_no_pair(documents.alone, documents.counts)}"] if any(documents.alone) else []
        notes = [*alone, *counts.warnings()]
        return {
            "documents": counts.pairs,
            "pairs": counts.written,
            "dropped": dict(counts.dropped),
            "histogram": histogram(scores, len(scores)),
            "samples": some,
            "changed_sentences": changed,
            "notes": [f"{self.room}: {note}" for note in notes],
        }


class Keep(Unit):
    """The pairs that keep all rules, in the folder of a language pair; a file for the others, if wanted."""

    stage = "filter"
    cost = Cost(0.9, 0.03, 3e-5)
    keys: ClassVar = {"filter": CorpusFilter}
    holds = RULES
    written: PairFiles
    filter: CorpusFilter

    @classmethod
    def planned(cls, pair: LanguagePair, inputs: Inputs) -> Kind:
        how = pair.recipe.filter
        assert how is not None
        unit = cls(
            name=f"{pair.name}/filtered",
            written=PairFiles.of(pair.recipe, pair.codes),
            filter=how.but(lid_model=None),
            inputs={"pairs": f"{pair.name}/pairs"},
            model=model_of(inputs, "filter"),
            output=f"{BITEXT}/{pair.name}",
        )
        return one(unit, sum(pair.rows))

    def do(self, task: Task) -> Facts:
        languages, known = self.written.languages, task.record("pairs")
        (file,) = known.files
        with TemporaryDirectory(dir=task.output.parent) as folder:
            kept = Path(folder) / "kept.jsonl.zst"  # with all that is known of the pairs, for any format
            job = FilterJob(
                (task.input("pairs", Path(file).name),),
                languages,
                self.filter.but(lid_model=next(map(Path, self.model), None)),
                output=kept,
                rejects=task.output / REJECTS if self.filter.rejects else None,
                may_be_empty=True,
            )
            found, _ = filter_files(job)
            translations = None
            if "wrong" in known.facts["histogram"]:
                every = open_pairs(kept, languages=languages).pairs
                scored = (pair for pair in every if isinstance(pair, MinedPair))
                translations = translations_of(scored, Errors(*known.facts["errors"]))
            changed = self.written.write(
                task.output, lambda kind: open_pairs(kept, languages=languages).pairs
            )
        notes = []
        if found.read >= FEWEST and found.kept < found.read / 2:
            rule, count = max(found.dropped.items(), key=itemgetter(1))
            notes.append(
                f"`filter` dropped {found.read - found.kept:,} of {counted(found.read, 'pair')}, "
                f"{count:,} of them by the rule `{rule}`"
            )
        return {
            "read": found.read,
            "pairs": found.kept,
            "dropped": found.dropped,
            "translations": translations,
            "changed_sentences": changed,
            "notes": [f"{self.room}: {note}" for note in notes],
        }


_BINS = 24
_NARROWEST = 0.001  # width of a bin
_BANDS = 6
_OF_A_BAND = 3
_WORST = 6
_AT_ONCE = 1 << 20


def histogram(scores: np.ndarray, above: int, probable: bool = False) -> dict[str, Any]:
    """Count scores, sorted best first, between neighbouring `edges` (`counts`): of few scores, or scores that
    are almost one, there are few. Where not all are `above` the threshold, the least that is (`least`) is one
    of the edges, or above them all if none is. Of probabilities, `wrong` is the number of each count's pairs
    that are expected to be no translations."""
    if not len(scores):
        return {"edges": [], "counts": []}
    ends = float(scores[-1]), float(scores[0])
    bins = max(1, min(_BINS, math.isqrt(len(scores)), int((ends[1] - ends[0]) / _NARROWEST)))
    edges = np.linspace(*ends, bins + 1)
    least = None if above == len(scores) else float(scores[above - 1]) if above else ends[1] + _NARROWEST
    if least is not None and above:
        others = edges[1:-1][abs(edges[1:-1] - least) > (edges[1] - edges[0]) / 2]
        edges = np.unique([ends[0], *others, least, ends[1]])
        bins = len(edges) - 1
    counts, wrong = np.zeros(bins, np.int64), np.zeros(bins)
    for start in range(0, len(scores), _AT_ONCE):
        part = scores[start : start + _AT_ONCE].astype(np.float64)
        places = np.clip(np.searchsorted(edges, part, side="right") - 1, 0, bins - 1)
        counts += np.bincount(places, minlength=bins)
        if probable:
            wrong += np.bincount(places, 1 - part, bins)
    found: dict[str, Any] = {"edges": [round(edge, 4) for edge in edges.tolist()], "counts": counts.tolist()}
    if probable:
        found["wrong"] = [round(one, 2) for one in wrong.tolist()]
    return found | ({"least": round(least, 4)} if least is not None else {})


def samples(
    pairs: int, taken: Callable[[np.ndarray], Iterable[MinedPair | AlignedPair]]
) -> list[dict[str, Any]]:
    """A few pairs from each of some bands of scores, which have as many pairs as one another, and the worst
    ones, which are just above the threshold; best first. `taken` gives the pairs at places, int64 [n], of the
    best first."""
    spread = np.linspace(0, pairs - 1, min(pairs, _BANDS * _OF_A_BAND)).round().astype(np.int64)
    places = np.union1d(spread, np.arange(max(0, pairs - _WORST), pairs))
    found = taken(places) if pairs else ()
    return [_sample(pair.score, pair.source, pair.target) for pair in found]


def _sample(score: float, source: str, target: str) -> dict[str, Any]:
    return {"score": round(score, 4), "source": source, "target": target}
