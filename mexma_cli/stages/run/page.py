"""The page of a run: what every stage took and left out, and what came out, for each language and pair."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from mexma_cli import languages
from mexma_cli.classifier.precision import Translations
from mexma_cli.numerics.machine import processor_name
from mexma_cli.reporting import templates
from mexma_cli.settings.corpus import CorpusRecipe
from mexma_cli.stages.run.plan import has_threshold
from mexma_cli.stages.run.scheduler import Progress
from mexma_cli.stages.run.units import STAGES, RunFolder
from mexma_cli.text.amounts import counted, such_as

PAGE = "report.html"
TEMPLATE = "stages/run/page.html"
_SECONDS = "seconds of this run"
_LINKS = 20


def write_page(
    folder: RunFolder, recipe: CorpusRecipe, wanted: CorpusRecipe, progress: Progress
) -> list[str]:
    """Write the page of a run that has ended, whole; returns what units say of documents that look wrong or
    are left out. `wanted` has the language pairs of this run alone: of the others, the page has what earlier
    runs did."""
    page = _Page(folder, progress, recipe, wanted)
    pairs = recipe.language_pairs()
    codes = list(recipe.languages)
    templates.write_page(
        folder.path / PAGE,
        TEMPLATE,
        title=recipe.name,
        encoder=recipe.encoder.model,
        result=page.result(pairs),
        files=page.files[:_LINKS],
        more=max(0, len(page.files) - _LINKS),
        stages=page.stages(),
        failures=[[name, why] for name, why in progress.failed.items()],
        documents=page.documents(codes),
        languages=page.languages(codes),
        pairs=page.pairs(pairs),
        scores=[found for pair in pairs if (found := page.scores(pair))],
        notes=[[note] for note in (*page.warned, *page.notes)],
    )
    return page.notes


def translations(recipe: CorpusRecipe, facts: Iterable[Mapping[str, Any]]) -> str:
    """How many of the pairs that units made are translations, and which keys of the recipe drop the others;
    nothing where their scores are no probabilities. The error is taken to be the same in all language pairs:
    the ends of their intervals are added up."""
    found = [one["translations"] for one in facts if one.get("translations")]
    if not found:
        return ""
    expected, low, high, copies, *rest = np.sum(found, axis=0).tolist()
    said = Translations(expected, low, high, int(copies), *rest)
    if has_threshold(recipe) or not said.droppable:
        return str(said)
    return f"{said}; `mine.threshold: 0.5` or `mine.precision: 0.95` in the recipe drops most of the others"


def left_over(folder: RunFolder, recipe: CorpusRecipe, progress: Progress) -> str:
    """How many files earlier runs have left, in other formats or of language pairs that the recipe has no
    longer, and the names of some; nothing where there are none."""
    records = (record for unit, record in progress.records(folder) if unit.is_result)
    left = [name for record in records for name in record.left if (folder.path / name).is_file()]
    left += folder.results_of_others({*map("-".join, recipe.language_pairs())})
    return f"{counted(len(left), 'file')}, perhaps out of date{such_as(left)}" if left else ""


def is_page(path: Path) -> bool:
    """Whether a file is such a page."""
    text = path.read_bytes()
    return all(mark in text for mark in (b"<b>mexma</b>", b"<h2>Units</h2>", _SECONDS.encode()))


class _Page:
    def __init__(
        self, folder: RunFolder, progress: Progress, recipe: CorpusRecipe, wanted: CorpusRecipe
    ) -> None:
        self._folder, self._progress, self._recipe = folder, progress, recipe
        self._pairs = ["-".join(pair) for pair in wanted.language_pairs()]
        self._wanted = {*wanted.languages, *self._pairs}
        self._seconds = Counter[str]()  # of this run, by language and pair
        for name, spent in progress.done.items():
            self._seconds[name.partition("/")[0]] += spent  # pyrefly: ignore[unsupported-operation]
        self._processor = Counter[str]()  # seconds of the processor of this run and earlier ones, by stage
        self.files: list[str] = []
        """The sentence pairs, by their paths in the run's folder."""
        self.notes: list[str] = []
        self.warned: dict[str, None] = {}
        """What units warned of when they ended, once each."""
        for unit, record in progress.records(folder):
            self._processor[unit.stage] += record.processor_seconds  # pyrefly: ignore[unsupported-operation]
            self.files += record.files if unit.is_result else ()
            self.notes += record.facts.get("notes", ())
            if warning := record.facts.get("warning"):
                self.warned[warning] = None

    def result(self, pairs: Sequence[tuple[str, str]]) -> list[list[str]]:
        """The results, when and where they were made, and the time that they took."""
        last = [self._facts(f"{'-'.join(pair)}/{unit}") for pair in pairs for unit in ("filtered", "pairs")]
        per_pair = [last[n] or last[n + 1] for n in range(0, len(last), 2)]
        count = sum(found.get("pairs", 0) for found in per_pair)
        progress, reached = self._progress, sum(map(bool, per_pair))
        rows = [["sentence pairs", f"{count:,}; {reached:,} of {counted(len(pairs), 'language pair')} done"]]
        if len(self._pairs) < len(pairs):
            rows.append(["this run", f"{', '.join(self._pairs)}; all else is as earlier runs left it"])
        if reached and not progress.goals:
            rows.append(["this run", "its first stages; the pairs are as earlier runs left them"])
        if said := translations(self._recipe, per_pair):
            rows.append(["translations", said])
        if left := left_over(self._folder, self._recipe, progress):
            rows.append(["earlier runs left", left])
        now = time.time()
        rows.append(
            [
                "made",
                f"{datetime.fromtimestamp(now, UTC):%Y-%m-%d %H:%M} UTC, from recipe.yaml beside this page",
            ]
        )
        rows.append(["machine", f"{processor_name()}, {counted(os.cpu_count() or 1, 'core')}"])
        spent = sum(self._processor.values())
        rows.append(
            ["time", f"{now - progress.began:,.0f} s in this run; {spent:,.0f} s of a core in all runs"]
        )
        if died := +progress.died:
            names = ", ".join(f"{name} ({times})" for name, times in died.most_common(3))
            rows.append(["workers that died", f"{died.total():,}: {names}{', ...' * (len(died) > 3)}"])
        return rows

    def stages(self) -> list[list[str]]:
        """Units by stage, the seconds that this run has spent on them, and those of the processor in all."""
        progress = self._progress
        rows = [["stage", "units", "done", "failed", "blocked", _SECONDS, "seconds of a core in all runs"]]
        counts = progress.by_stage()
        for stage in STAGES:
            if stage in counts:
                count, units = counts[stage], progress.units
                spent = sum(seconds for name, seconds in progress.done.items() if units[name].stage == stage)
                states = [f"{count.get(state, 0):,}" for state in ("all", "done", "failed", "blocked")]
                rows.append([stage, *states, f"{spent:,.1f}", f"{self._processor[stage]:,.1f}"])
        return rows

    def _facts(self, unit: str) -> dict[str, Any]:
        """Facts of a unit; none where it was not done. Of languages, pairs and last stages that this run
        leaves alone, what earlier runs found."""
        progress, meant = self._progress, unit.partition("/")[0] in self._wanted
        if meant and not progress.is_done(unit) and (progress.goals or unit in progress.units):
            return {}
        record = self._folder.record(unit)
        return record.facts if record else {}

    def documents(self, codes: Sequence[str]) -> list[list[str]]:
        """Documents of every language that had some, and what was dropped of their sentences, by reason."""
        facts = {code: found for code in codes if (found := self._facts(f"{code}/sentences"))}
        reasons = list(dict.fromkeys(why for found in facts.values() for why in found["dropped"]))
        header = ["language", "documents", "dropped", "repaired", "sentences", "kept"]
        rows = [[*header, *(f"dropped: {reason}" for reason in reasons)]]
        for code, found in facts.items():
            whole = sum(found["documents_dropped"].values()), sum(found["repaired"].values())
            numbers = [found["documents"], *whole, found["sentences"], found["kept"]]
            numbers += [found["dropped"].get(reason, 0) for reason in reasons]
            rows.append([code, *map(_number, numbers)])
        return rows if facts else []

    def languages(self, codes: Sequence[str]) -> list[list[str]]:
        """Lines of every language, and what became of them."""
        names = ("lines", "empty", "cut by the encoder", "duplicates", "no usable vector", "take part")
        rows = [["language", "", *names, _SECONDS]]
        for code in codes:
            merged, kept = self._facts(f"{code}/store"), self._facts(f"{code}/rows").get("left_out", {})
            lines = merged.get("rows")
            part = lines - sum(kept.values()) if lines is not None and kept else None
            numbers = (lines, kept.get("empty"), merged.get("truncated"), kept.get("duplicates"))
            cells = [*numbers, kept.get("unusable"), part]
            unknown = self._facts(f"{code}/embed/00000").get("warning")
            name = languages.name(code) + (", unknown to the encoder" if unknown else "")
            rows.append([code, name, *map(_number, cells), f"{self._seconds[code]:,.1f}"])
        return rows

    def pairs(self, pairs: Sequence[tuple[str, str]]) -> list[list[str]]:
        """Pairs of every language pair, and what was dropped by reason."""
        facts = {pair: self._facts(f"{'-'.join(pair)}/pairs") for pair in pairs}
        for pair, found in facts.items():  # what the filter drops comes after what was dropped before
            if filtered := self._facts(f"{'-'.join(pair)}/filtered"):
                dropped = found["dropped"] | {f"rule {why}": n for why, n in filtered["dropped"].items()}
                facts[pair] = found | {"dropped": dropped, "pairs": filtered["pairs"]}
        reasons = list(dict.fromkeys(why for found in facts.values() for why in found.get("dropped", {})))
        tuned = {pair: found.get("threshold") for pair, found in facts.items()}
        efforts = {pair: self._facts(f"{'-'.join(pair)}/effort") for pair in pairs}
        header = ["source", "target", "candidates", "pairs"]
        if any(efforts.values()):
            header += ["index", "neighbours found, from source", "from target"]
        if any(tuned.values()):
            header += ["threshold", "precision, estimated (%)"]
        rows = [[*header, *(f"dropped: {reason}" for reason in reasons), _SECONDS]]
        total = Counter[str]()
        for pair, found in facts.items():
            dropped, seconds = found.get("dropped", {}), self._seconds["-".join(pair)]
            every = found["pairs"] + sum(dropped.values()) if found else None
            total.update(dropped)
            total.update({"": every or 0, header[3]: found.get("pairs", 0), _SECONDS: seconds})
            row = [*pair, _number(every), _number(found.get("pairs"))]
            if any(efforts.values()):
                row += _effort(efforts[pair])
            if any(tuned.values()):
                row += _threshold(tuned[pair])
            numbers = [_number(dropped.get(reason, 0)) for reason in reasons]
            rows.append([*row, *numbers, f"{seconds:,.1f}"])
        if len(pairs) > 1:
            row = ["all", "", _number(total[""]), _number(total[header[3]]), *[""] * (len(header) - 4)]
            rows.append([*row, *(_number(total[reason]) for reason in reasons), f"{total[_SECONDS]:,.1f}"])
        return rows

    def scores(self, pair: tuple[str, str]) -> dict[str, Any] | None:
        """How the scores of a language pair are spread, and some of its pairs; None where it has none."""
        found = self._facts(f"{'-'.join(pair)}/pairs")
        if not found.get("histogram", {}).get("counts"):
            return None
        bins = _without_gaps(**found["histogram"])
        least = found["histogram"].get("least")
        told = ", before the rules of filter" if self._facts(f"{'-'.join(pair)}/filtered") else ""
        told += ", all below the threshold" if least is not None and least > bins[0][1] else ""
        return {
            "title": " to ".join(map(languages.name, pair)),
            "counted": "pairs" if least is None else "candidates",
            "told": told,
            "taken": len(bins) if least is None else sum(low >= least for low, *_ in bins),
            "lines": [" to ".join(dict.fromkeys((f"{low:.3f}", f"{high:.3f}"))) for low, high, *_ in bins],
            "counts": [count for _, _, count, _ in bins],
            "wrong": [wrong for *_, wrong in bins] if "wrong" in found["histogram"] else [],
            "samples": _table(pair, found["samples"]),
            "beneath": _table(pair, found["beneath"]) if found.get("beneath") else [],
        }


def _table(pair: tuple[str, str], samples: Iterable[dict[str, Any]]) -> list[list[str]]:
    rows = [[f"{one['score']:.4f}", one["source"], one["target"]] for one in samples]
    return [["score", *pair], *rows]


def _without_gaps(
    edges: Sequence[float], counts: Sequence[int], wrong: Sequence[float] = (), least: float | None = None
) -> list[tuple[float, float, int, float]]:
    """The bins of a histogram, the highest first: both ends, and the numbers; bins without a score, one after
    the other, are one, on each side of the `least` score that is taken."""
    found = list[tuple[float, float, int, float]]()
    for (low, high), count, some in zip(pairwise(edges), counts, wrong or [0.0] * len(counts), strict=True):
        if found and not count and not found[-1][2] and low != least:
            low = found.pop()[0]
        found.append((low, high, count, some))
    return found[::-1]


def _effort(found: dict[str, Any]) -> list[str]:
    """The cells of a search with an index; of an exact one, that it finds all."""
    if not found:
        return ["none", "all", "all"]
    return [found["index"], *(f"{100 * share:.1f} %" for share in found["recall"])]


def _threshold(found: dict[str, Any] | None) -> list[str]:
    """The cells of a threshold that was found; of none, nothing."""
    if not found:
        return ["-", "-"]
    low, high = found["precision_interval"]
    precision = f"{100 * found['precision']:.1f} ({100 * low:.1f} to {100 * high:.1f})"
    return [f"{found['threshold']:z.4f}", precision]


def _number(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"
