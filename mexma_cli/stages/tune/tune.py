"""Mined candidates and a gold list in, the best threshold out."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import chain, islice
from pathlib import Path

import numpy as np
import xxhash

from mexma_cli.errors import MexmaError
from mexma_cli.files import together
from mexma_cli.formats.bitext import MinedPair, format_of, one_field, open_pairs
from mexma_cli.formats.csv import row_lines
from mexma_cli.formats.ids import NUMBERED, read_id_pairs, read_ids
from mexma_cli.formats.tsv import ONE_SIDE
from mexma_cli.languages import resolve
from mexma_cli.mining.resampling import HeldOut, Intervals, Labelled, bootstrap, held_out
from mexma_cli.mining.threshold import Threshold, best_threshold, measured_threshold
from mexma_cli.reporting.plot import draw_scores
from mexma_cli.settings.section import of_percent
from mexma_cli.stages.embed.inputs import is_store
from mexma_cli.text.amounts import counted
from mexma_cli.text.lines import label_of
from mexma_cli.text.writing import write_chunks

log = logging.getLogger(__name__)
Pair = tuple[str, str]


@dataclass(frozen=True)
class Tuned:
    """The threshold, and the candidates it was found on: `scores` float64 [n], `is_gold` bool [n], `pairs`
    with their text, each pair once with its best score, in the order of the file."""

    best: Threshold
    intervals: Intervals
    held_out: HeldOut | None
    """None: no two halves without a common sentence; see `mining.resampling.held_out`."""
    scores: np.ndarray = field(repr=False)
    is_gold: np.ndarray = field(repr=False)
    pairs: list[MinedPair] = field(repr=False)
    gold: int
    """Different gold pairs."""
    repeated: int
    """Candidate lines whose pair occurs more than once."""
    ambiguous: int
    """Candidate lines with a sentence that has more than one id; they take no part."""
    unknown: int
    """Candidate lines with a sentence that has no id; they take no part."""

    def __repr__(self) -> str:
        return f"Tuned{repr(self.best).removeprefix('Threshold')}"

    @property
    def all(self) -> Threshold:
        """The result of all candidates."""
        return measured_threshold(self.scores, self.is_gold, self.gold, -math.inf)

    def without_pairs(self) -> Tuned:
        """The figures alone, to keep those of many languages."""
        return replace(self, pairs=[])

    def kept(self) -> Iterator[tuple[float, str, str]]:
        """The pairs above the threshold, best first."""
        above = [pair for pair in self.pairs if pair.score > self.best.threshold]
        for pair in sorted(above, key=lambda pair: -pair.score):
            yield pair.score, pair.source, pair.target


def tune(
    candidates: str | Path,
    gold: str | Path,
    source_ids: str | Path | None = None,
    target_ids: str | Path | None = None,
    precision: float | None = None,
) -> Tuned:
    """Find the threshold with the best F1, or the loosest one with a wanted precision (a fraction).

    Without id files `gold` has pairs of sentences, with them pairs of ids (BUCC's layout: `id TAB sentence`
    in the id files). A sentence that occurs under more than one id cannot be told apart by its text; as in
    LASER's bucc.py the candidates with it are left out, and gold pairs with it count as not found. Refused: a
    file that is empty or not of its format, a gold list that names unknown ids, or shares no pair with the
    candidates, a precision that no threshold has.
    """
    check_precision(precision)
    name = label_of(candidates)
    found = list(_candidates(candidates))
    if not found:
        raise MexmaError(f"{name} has no candidates", "`mexma mine` writes them")
    if (source_ids is None) != (target_ids is None):
        raise ValueError("id files for both sides or for none")
    ambiguous = unknown = 0
    if source_ids is None or target_ids is None:
        wanted = {(one_field(pair.source), one_field(pair.target)) for pair in open_pairs(gold).pairs}
        if not wanted:
            raise MexmaError(f"{label_of(gold)} is empty: it has no gold pairs")
        keyed = [((pair.source, pair.target), pair) for pair in found]
    else:
        sources, targets = _Ids(source_ids), _Ids(target_ids)
        wanted = set(read_id_pairs(gold, (sources.ids, targets.ids), (sources.path, targets.path)))
        keyed, ambiguous, unknown = _with_ids(found, sources, targets)
        if unknown == len(found):
            swapped = any(pair.source in targets.known and pair.target in sources.known for pair in found)
            raise MexmaError(
                f"{name}, line 1: no candidate has both its sentences in {sources.path} and {targets.path}",
                "they are there with the sides swapped: swap --source and --target, and the ids of the pairs"
                if swapped
                else "the id files must hold the sentences that were mined",
            )
    best_of = _each_once(keyed)
    is_gold = np.fromiter((key in wanted for key in best_of), dtype=bool, count=len(best_of))
    if not is_gold.any():
        hint = None
        if any((target, source) in wanted for source, target in best_of):
            hint = "they are there with the sides swapped: each line of the gold list is source TAB target"
        elif source_ids is None:
            hint = "give the sentences exactly as they were mined, or ids with --source and --target"
            if all(side.isdecimal() for pair in wanted for side in pair):
                hint = f"numbers of lines go with --source and --target: {NUMBERED}"
        raise MexmaError(
            f"{label_of(gold)}: none of its {counted(len(wanted), 'pair')} is among the {len(best_of):,} "
            f"of {name}",
            hint,
        )
    pairs = list(best_of.values())
    scores = np.array([pair.score for pair in pairs])
    try:
        best = best_threshold(scores, is_gold, len(wanted), precision)
    except MexmaError as error:
        raise MexmaError(f"{name}: {error.message}", error.hint) from None
    sides = [_hashes(key[side] for key in keys) for keys in (best_of, wanted) for side in (0, 1)]
    labelled = Labelled(scores, is_gold, *sides)
    return Tuned(
        best=best,
        intervals=bootstrap(labelled, best, precision),
        held_out=held_out(labelled, precision),
        scores=scores,
        is_gold=is_gold,
        pairs=pairs,
        gold=len(wanted),
        repeated=len(keyed) - len(pairs),
        ambiguous=ambiguous,
        unknown=unknown,
    )


def check_precision(precision: float | None) -> None:
    """Refuse a precision that no threshold can have."""
    if precision is not None and not 0 < precision <= 1:
        raise MexmaError(f"precision {precision:g} is no share between 0 and 1{of_percent(precision)}")


def _candidates(path: str | Path) -> Iterator[MinedPair]:
    """The pairs of a file with their scores, and with sentences as they are in TSV."""
    if is_store(Path(path)):
        raise MexmaError(
            f"{label_of(path)} is an embedding store, and the candidates are a file of pairs",
            "`mexma mine SOURCE TARGET -o pairs.tsv` writes it. Without a gold list: `mexma tune SOURCE "
            "TARGET`, in Python `tune(source, target)`",
        )
    pairs = open_pairs(path).pairs
    try:
        first = list(islice(pairs, 1))
    except MexmaError as error:
        mined = "`mexma mine SOURCE TARGET -o pairs.tsv` writes the candidates, with their scores"
        raise MexmaError(error.message, mined if error.hint == ONE_SIDE else error.hint) from None
    hint = "each pair needs one, as `mexma mine` writes them: score TAB source TAB target"
    number = without = 0
    for number, pair in enumerate(chain(first, pairs), 1):
        score = getattr(pair, "score", math.nan)
        if math.isinf(score):
            raise MexmaError(f"{label_of(path)}, pair {number}: the score is no finite number", hint)
        if math.isnan(score):  # `mexma score` writes it for a pair with an empty side
            without += 1
        else:
            yield MinedPair(score, one_field(pair.source), one_field(pair.target))
    if number and number == without:
        raise MexmaError(f"{label_of(path)}: no pair has a score", hint)
    if without:
        log.warning("%s: left out: %s without a score", label_of(path), counted(without, "pair"))


def _each_once(keyed: Iterable[tuple[Pair, MinedPair]]) -> dict[Pair, MinedPair]:
    """The candidate with the best score of each pair, the first of equals."""
    best_of: dict[Pair, MinedPair] = {}
    for key, pair in keyed:
        if key not in best_of or pair.score > best_of[key].score:
            best_of[key] = pair
    return best_of


def _hashes(sentences: Iterable[str]) -> np.ndarray:
    return np.fromiter(
        (xxhash.xxh3_64_intdigest(sentence.encode("utf-8")) for sentence in sentences), np.uint64
    )


class _Ids:
    """Sentences and ids of one side: `known` is sentence -> id, None where it has more than one."""

    def __init__(self, path: str | Path) -> None:
        self.path = label_of(path)
        self.known: dict[str, str | None] = {}
        self.ids: set[str] = set()
        for name, sentence in read_ids(path):
            self.ids.add(name)
            sentence = one_field(sentence)
            self.known[sentence] = None if sentence in self.known else name


def _with_ids(
    found: Sequence[MinedPair], sources: _Ids, targets: _Ids
) -> tuple[list[tuple[Pair, MinedPair]], int, int]:
    """The candidates under the ids of their sentences; how many have several, and how many none."""
    keyed: list[tuple[Pair, MinedPair]] = []
    ambiguous = unknown = 0
    for pair in found:
        if pair.source not in sources.known or pair.target not in targets.known:
            unknown += 1
            continue
        source, target = sources.known[pair.source], targets.known[pair.target]
        if source is None or target is None:
            ambiguous += 1
        else:
            keyed.append(((source, target), pair))
    return keyed, ambiguous, unknown


@dataclass(frozen=True)
class TuningFiles:
    """The files of a threshold; `{lang}` in their names stands for a language where there are several."""

    candidates: Path
    gold: Path
    source_ids: Path | None
    """Ids of the source sentences; with these and `target_ids`, gold pairs are ids and not sentences."""
    target_ids: Path | None
    output: Path | None
    """A file for the pairs above the threshold."""
    plot: Path | None
    """A file for a picture of the scores."""

    @property
    def inputs(self) -> list[Path]:
        """The files that are read."""
        every = (self.candidates, self.gold, self.source_ids, self.target_ids)
        return [path for path in every if path is not None]

    def of(self, language: str) -> TuningFiles:
        """The files of one language, whose code, as the user wrote it, stands for `{lang}`."""
        paths = (getattr(self, field.name) for field in fields(self))
        return TuningFiles(*(path and Path(str(path).replace("{lang}", language)) for path in paths))

    def of_all(self, languages: Sequence[str]) -> dict[str, TuningFiles]:
        """The files of every language; refused are unknown languages, one given twice, and one that lacks a
        file."""
        known: dict[str, str] = {}
        for language in languages:
            code = resolve(language)
            if code in known:
                raise MexmaError(f"--langs: {known[code]} and {language} are the same language")
            known[code] = language
        found = {language: self.of(language) for language in languages}
        for language, files in found.items():
            for path in files.inputs:
                if not path.exists():
                    raise MexmaError(f"language {language}: there is no {path}")
        return found


def tune_files(files: TuningFiles, precision: float | None) -> Tuned:
    """Find the threshold, as `tune`, draw the picture and write the pairs above it, best first."""
    found = tune(files.candidates, files.gold, files.source_ids, files.target_ids, precision)
    with together():
        if files.plot is not None:
            title = f"Scores of {label_of(files.candidates.name)}"
            draw_scores(files.plot, found.scores, found.is_gold, found.best.threshold, title)
        if files.output is not None:
            names = ("score", "source", "target")
            write_chunks([files.output], row_lines(found.kept(), names, format_of(files.output)))
    return found
