"""Parallel text to tokenised pairs, language by language in several processes; finished stores are kept.

Each corpus is read twice. The first reading decides about every pair (selection.py), the second
tokenises what is kept (language.py). The stores have the same bytes whatever the number of processes.
"""

from __future__ import annotations

import glob
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import numpy as np
import xxhash

from mexma_cli.errors import MexmaError
from mexma_cli.files import (
    check_outside_stores,
    clear_all,
    in_work,
    make_folder,
    only_writer,
    read_json,
    workplace,
    write_json_atomic,
)
from mexma_cli.formats.bitext import open_lines
from mexma_cli.objectives.bag.tokenizer import Weighed
from mexma_cli.settings.training import Data, Recipe
from mexma_cli.stages.prepare.corpora import Bitext, bitexts_of
from mexma_cli.stages.prepare.language import (
    CorpusPlan,
    CorpusReport,
    LanguageWorker,
    rules_of,
)
from mexma_cli.stages.prepare.tokenizer import Teacher, as_text, recipe_tokenizer, teachers_tokenizer
from mexma_cli.stages.worker_pool import in_processes
from mexma_cli.text.duplicates import folded
from mexma_cli.text.lines import Member

CHECKSUMS = "files.json"
"""In the folder of the stores: checksums of files that were read, so that they are not read for it again."""
_WORK = "prepare"

Progress = Callable[[int, int, str], object]


def prepare(recipe: Recipe, on_progress: Progress | None = None, workers: int = 1) -> list[CorpusReport]:
    """Make the stores of all corpora of a recipe, whose `data` say which text, and whose `encoder` says which
    tokeniser, or that one is to be trained; those with the same settings are left as they are.

    `on_progress` is told corpora done, corpora in all, and the one that is worked on. More than one worker
    (processes) needs a script that can be imported (``if __name__ == ...``). Refused, before any work starts:
    a file that is missing or broken, a language that is unknown or without any data; and at the end no pair.
    """
    bitexts = bitexts_of(recipe.data)
    report_progress = on_progress or (lambda done, bitexts, label: None)
    with ExitStack() as stack:
        preparation = _Preparation(recipe.data, bitexts, report_progress, workers, stack)
        tokenizer = preparation.tokenizer(recipe)
        reports = preparation.reports(tokenizer, teachers_tokenizer(recipe, tokenizer))
    if not any(report.kept for report in reports):
        raise MexmaError("no pair is left in any corpus", "look at the filters in `data`")
    return reports


def chains_of(data: Data, bitexts: list[Bitext]) -> list[list[Bitext]]:
    """Corpora in chains, one done after the other: those of a language if a limit counts them together. They
    keep the recipe's order, those with `top_up` come last."""
    if not data.cap_per_language and not data.minimum_per_language:
        return [[bitext] for bitext in bitexts]
    chains: dict[tuple[str, str], list[Bitext]] = {}
    for bitext in sorted(bitexts, key=lambda bitext: bitext.corpus.top_up):
        chains.setdefault(bitext.pair, []).append(bitext)
    return list(chains.values())


class _Preparation:
    """One run of `prepare`; it starts no process and writes nothing if all stores are there already. When
    `stack` is closed, temporary files go, and other processes may write there again."""

    def __init__(
        self, data: Data, bitexts: list[Bitext], report_progress: Progress, workers: int, stack: ExitStack
    ) -> None:
        self._data, self._jobs, self._report_progress, self._workers = data, bitexts, report_progress, workers
        self._store = Path(data.store)
        self._work = in_work(self._store / _WORK)
        rules_of(data)  # a mistake there shows before the work
        self._worker = LanguageWorker(data, excluded_sentences(data), self._work)
        self._known = _read_checksums(self._store)
        self._before = dict(self._known)
        for bitext in bitexts:
            bitext.known = self._known
        self._chains = chains_of(data, bitexts)
        self._stack = stack
        self._open = False

    def tokenizer(self, recipe: Recipe) -> str:
        """The recipe's tokeniser as `tokenizers` writes it; it is trained first if it has to be."""
        settings: dict[str, Any] = {}
        if recipe.encoder.new is not None:
            plans = self._plans("counts")
            settings = {
                "excluded": self._worker.excluded[1],
                "corpora": [plans[bitext.path].settings for bitext in self._jobs],
            }
            wanted = recipe.encoder.tokenizer
            if wanted is not None and wanted.words:  # only words are counted as often as they are seen
                settings["repeats"] = [bitext.corpus.repeat for bitext in self._jobs]

        def sentences() -> Iterator[Weighed]:
            plans = self._plans("all")
            for bitext in self._jobs:
                selection = plans[bitext.path].selection
                if selection is not None:
                    for *pair, _ in selection.pairs(bitext):
                        yield from ((sentence, bitext.corpus.repeat) for sentence in pair)

        return as_text(recipe_tokenizer(recipe, settings, sentences), recipe.data.max_tokens)

    def reports(self, tokenizer: str, teachers: tuple[str, str] | None) -> list[CorpusReport]:
        """Make the stores that are not there yet; a report for each bitext, in the recipe's order. `teachers`
        are tokeniser and prefix of a teacher that reads the targets otherwise."""
        digest = xxhash.xxh3_128_hexdigest(tokenizer.encode())
        teachers_path = self._work / "teacher.json"
        if teachers is not None:
            of_teacher = xxhash.xxh3_128_hexdigest(teachers[0].encode())
            self._worker.teacher = Teacher(teachers_path, of_teacher, teachers[1])
        done: dict[str, CorpusReport] = {}
        left = []
        for chain in self._chains:
            found = self._worker.finished(chain, digest)
            done |= {report.path: report for report in found or ()}
            if found is None:
                left.append(chain)
        if left:
            self._begin()
            path = self._work / "tokenizer.json"
            path.write_text(tokenizer, encoding="utf-8")
            if teachers is not None:
                teachers_path.write_text(teachers[0], encoding="utf-8")
            for found in self._run("write", left, path):
                done |= {report.path: report for report in found}
        self._keep_checksums()
        clear_all(self._store)
        self._report_progress(len(self._jobs), len(self._jobs), "")
        return [done[str(bitext.path)] for bitext in self._jobs]

    def _plans(self, choose: str) -> dict[Path, CorpusPlan]:
        """The plans of all bitexts, with their pairs chosen as far as `choose` says."""
        plans: dict[Path, CorpusPlan] = {}
        left = []
        for chain in self._chains:
            known = self._worker.plan(chain, "none") if choose == "counts" else None
            if known is None:
                left.append(chain)
            else:
                plans |= {bitext.path: plan for bitext, plan in zip(chain, known, strict=True)}
        if left:
            self._begin()
            for chain, found in zip(left, self._run("plan", left, choose), strict=True):
                plans |= {bitext.path: plan for bitext, plan in zip(chain, found, strict=True)}
        self._worker.selections |= {
            path: plan.selection for path, plan in plans.items() if plan.selection is not None
        }
        return plans

    def _begin(self) -> None:
        """Take the folder for this process alone, and make room for temporary files in it."""
        if self._open:
            return
        check_outside_stores(self._store)
        make_folder(self._store)
        self._stack.enter_context(only_writer(self._store))
        self._stack.enter_context(workplace(self._store / _WORK))
        self._work.mkdir()
        self._open = True

    def _run(self, what: str, chains: list[list[Bitext]], argument: Any) -> list[Any]:
        """Results of a worker's method for all chains, in their order."""
        total = len(self._jobs)
        done = total - sum(map(len, chains))
        # The longest first, so that no process is alone at the end.
        order = sorted(range(len(chains)), key=lambda place: -_size(chains[place]))
        found: dict[int, Any] = {}

        def left() -> Iterator[tuple[int, tuple[Any, ...]]]:
            for place in order:
                chain = chains[place]
                self._report_progress(done, total, chain[0].label if len(chain) == 1 else chain[0].language)
                yield place, (chain, what, argument)

        processes = min(self._workers, len(chains))
        with closing(in_processes(processes, self._worker.work_on, left())) as ended:
            for place, (found[place], checksums) in ended:
                self._known.update(checksums)
                done += len(chains[place])
                self._report_progress(done, total, "")
                self._keep_checksums()
        return [found[place] for place in range(len(chains))]

    def _keep_checksums(self) -> None:
        if self._open and self._known != self._before:
            write_json_atomic(self._store / CHECKSUMS, dict(sorted(self._known.items())))
            self._before = dict(self._known)


def _size(chain: list[Bitext]) -> int:
    files = [file for bitext in chain for file in bitext.files]
    paths = {file.archive if isinstance(file, Member) else file for file in files}
    return sum(path.stat().st_size for path in paths)


def _read_checksums(store: Path) -> dict[str, list[Any]]:
    try:
        found = read_json(store / CHECKSUMS)
    except MexmaError:
        return {}  # none yet, or damaged: the files are read again
    return found if isinstance(found, dict) else {}


def excluded_files(data: Data) -> tuple[list[str], list[MexmaError]]:
    """The `exclude` files, and an error for each pattern that matches none."""
    found: list[str] = []
    missing: list[MexmaError] = []
    for pattern in data.exclude:
        here, there = data.pattern(pattern), pattern
        paths = sorted(glob.glob(here, recursive=True) or glob.glob(there, recursive=True))
        found += paths
        if not paths:
            hint = (
                f"paths are taken from `data.root`, now {data.root} (`--set data.root=DIR`); `exclude: []` "
                "in a recipe excludes nothing, also where the one that it extends does"
            )
            missing.append(MexmaError(f"data.exclude: no file is called {data.resolve(pattern)}", hint))
    return found, missing


def excluded_sentences(data: Data) -> tuple[set[int], str]:
    """Hashes of the sentences in the `exclude` files, and one of them all."""
    found: set[int] = set()
    paths, missing = excluded_files(data)
    if missing:
        raise missing[0]
    for path in paths:
        found |= folded(open_lines(path))
    hashes = np.sort(np.fromiter(found, dtype=np.uint64, count=len(found)))
    return found, xxhash.xxh3_128_hexdigest(hashes.tobytes())
