"""Reading BUCC's files and mining sets laid out like them, and measuring an encoder on them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from mexma_cli.errors import MexmaError
from mexma_cli.evaluation.bucc import MiningSet, cosine_f1, ranked
from mexma_cli.formats.ids import read_ids
from mexma_cli.formats.tsv import read_pairs
from mexma_cli.languages import resolve
from mexma_cli.mining.resampling import Labelled, held_out
from mexma_cli.mining.threshold import Threshold, best_f1, measured
from mexma_cli.reporting.results import Result
from mexma_cli.text.lines import read_lines

HINT = (
    "BUCC 2018 (comparable.limsi.fr/bucc2018): fr-en.training.fr, .en and .gold; or fra-eng.fra.tsv, "
    "fra-eng.eng.tsv and fra-eng.gold.tsv: `id TAB sentence`, and `source id TAB target id`"
)
_NAME = re.compile(
    r"(?P<pair>(?P<source>[a-z]{2,3}(?:_[A-Z][a-z]{3})?)-(?P<target>[a-z]{2,3}(?:_[A-Z][a-z]{3})?))"
    r"(?:\.(?P<split>sample|dev|train|training|test))?\.(?P<side>[A-Za-z_]+)(?:\.tsv)?(?:\.(?:gz|xz|zst|bz2))?"
)
_BUCC_SPLITS = ("sample", "training", "test")
_TUNED_ON = {
    True: ("training", "train", "dev", "sample"),
    False: ("sample", "dev"),
}
"""Where thresholds come from, with and without a test split: the paper tunes on training and applies to test;
what can be had without the organisers' gold list is sample and training."""

Files = dict[str, Path]
Embed = Callable[[Sequence[str]], np.ndarray]


def read_sets(folders: Sequence[Path]) -> list[MiningSet]:
    """All mining sets in folders and in the folders directly in these, by pair and split.

    Raises:
        MexmaError: None is there, a file of a set is missing, a line is not `id TAB sentence`, or gold names
            an unknown id or has no pairs; with file and line.
    """
    found: dict[tuple[str, str], tuple[str, Files, Path]] = {}  # fr-en and fra-eng are one pair
    for folder in folders:
        if not folder.is_dir():
            raise MexmaError(f"{folder}: no such folder")
        for where in (folder, *sorted(path for path in folder.iterdir() if path.is_dir())):
            for (pair, split), files in _sets_in(where).items():
                key = _codes(pair), split
                if key in found:
                    raise MexmaError(f"{where} and {found[key][2]} both have {' '.join(filter(None, key))}")
                found[key] = pair, files, where
    if not found:
        raise MexmaError(f"{', '.join(map(str, folders))}: no mining set", f"needed: {HINT}")
    sets = [_read(pair, split, files, where) for (_, split), (pair, files, where) in sorted(found.items())]
    return [one for one in sets if one is not None]


def _codes(pair: str) -> str:
    """`fra-eng` of `fr-en`."""
    return "-".join(resolve(code).partition("_")[0] for code in pair.split("-"))


def _sets_in(folder: Path) -> dict[tuple[str, str], Files]:
    sets: dict[tuple[str, str], Files] = {}
    for path in sorted(folder.iterdir()):
        name = _NAME.fullmatch(path.name)
        if name and name["side"] in (name["source"], name["target"], "gold"):
            side = {name["source"]: "source", name["target"]: "target"}.get(name["side"], "gold")
            sets.setdefault((name["pair"], name["split"] or ""), {})[side] = path
    return sets


def _read(pair: str, split: str, files: Files, folder: Path) -> MiningSet | None:
    if split == "test" and set(files) == {"source", "target"}:
        return None  # BUCC's own gold list for it is not public
    missing = [side for side in ("source", "target", "gold") if side not in files]
    if missing:
        there = ", ".join(path.name for path in files.values())
        raise MexmaError(
            f"{folder}: the {' and '.join(missing)} file of {pair} is missing beside {there}",
            f"needed: {HINT}",
        )
    sides = [list(read_ids(read_lines(files[side]), str(files[side]))) for side in ("source", "target")]
    (source_ids, sources), (target_ids, targets) = ([*map(list, zip(*side, strict=True))] for side in sides)
    gold = np.array(list(_gold(files, source_ids, target_ids)), dtype=np.int64)
    if not len(gold):
        raise MexmaError(f"{files['gold']} is empty: it has no gold pairs")
    is_bucc = split in _BUCC_SPLITS
    return MiningSet(_codes(pair), split, source_ids, sources, target_ids, targets, gold, is_bucc)


def _gold(files: Files, source_ids: list[str], target_ids: list[str]) -> Iterator[tuple[int, int]]:
    known = [{name: row for row, name in enumerate(ids)} for ids in (source_ids, target_ids)]
    pairs = read_pairs(read_lines(files["gold"]), str(files["gold"]), "source id, target id")
    for number, pair in enumerate(pairs, 1):
        for name, rows, side in zip(pair, known, ("source", "target"), strict=True):
            if name not in rows:
                raise MexmaError(f"{files['gold']}, line {number}: the id {name!r} is not in {files[side]}")
        yield known[0][pair[0]], known[1][pair[1]]


def measure(
    sets: Sequence[MiningSet],
    embed: Embed,
    margin: str = "ratio",
    k: int = 4,
    on_progress: Callable[[int, int], None] | None = None,
) -> list[dict[str, Any]]:
    """A row for every set: `cosine f1`; the best F1 by margin, its threshold, precision and recall; and
    `held-out f1`: of the threshold that the pair's tuning split gave, or one half of the only split's gold
    pairs, on what it was not tuned on (`tuned on` says what that was). Percent; None where there is none."""
    rows, labelled = [], []
    for data in sets:
        x, y = embed(data.sources), embed(data.targets)
        found = ranked(data, x, y, margin, k, on_progress)
        labelled.append(found)
        best = best_f1(found.scores, found.is_gold, found.gold) if len(found.scores) else None
        rows.append(
            {
                "pair": data.pair,
                "split": data.split or "-",
                "sources": len(data.sources),
                "targets": len(data.targets),
                "gold": found.gold,
                "cosine f1": 100 * cosine_f1(x, y, data.gold),
                "threshold": best and best.threshold,
                "precision": best and 100 * best.precision,
                "recall": best and 100 * best.recall,
                "tuned f1": best and 100 * best.f1,
            }
        )
    for row, data, found in zip(rows, sets, labelled, strict=True):
        source = _tuning_split(data, sets)
        applied = _applied(found, source, rows, data)
        row["held-out f1"] = applied and 100 * applied.f1
        row["tuned on"] = None if applied is None else (source if source != data.split else "half of it")
    return rows


def _tuning_split(data: MiningSet, sets: Sequence[MiningSet]) -> str:
    """The split that gives a pair's threshold; with one split, that one."""
    splits = {one.split for one in sets if one.pair == data.pair}
    if len(splits) == 1:
        return data.split
    return next((name for name in _TUNED_ON["test" in splits] if name in splits), data.split)


def _applied(
    found: Labelled, tuned_on: str, rows: Sequence[dict[str, Any]], data: MiningSet
) -> Threshold | None:
    same = [row for row in rows if row["pair"] == data.pair]
    if len(same) == 1:
        halves = held_out(found) if len(found.scores) else None
        return halves.result if halves else None
    (tuned,) = (row for row in same if row["split"] == (tuned_on or "-"))
    if tuned_on == data.split or tuned["threshold"] is None:
        return None
    if data.split != "test" and any(row["split"] == "test" for row in same):
        return None  # BUCC's sample, in the folder of training and test
    return measured(found.scores, found.is_gold, found.gold, tuned["threshold"])


def bucc_result(
    rows: list[dict[str, Any]],
    sets: Sequence[MiningSet],
    folders: Sequence[Path],
    encoder: dict[str, Any],
    margin: str,
    k: int,
) -> Result:
    """The `Result`. Means of `cosine f1` and `tuned f1` are over training splits where there are some, as the
    papers' are; of `held-out f1` over what a threshold was applied to, as `test f1` if that is test only."""
    main = [row for row in rows if row["split"] == "training"] or rows
    applied = [row for row in rows if row["held-out f1"] is not None]
    scores = {
        "cosine f1": fmean(row["cosine f1"] for row in main),
        "tuned f1": fmean(row["tuned f1"] or 0.0 for row in main),
    }
    if applied:
        tested = {(row["split"], row["tuned on"]) for row in applied} == {("test", "training")}
        name = "test f1" if tested else "held-out f1"
        rows = [{name if key == "held-out f1" else key: row[key] for key in row} for row in rows]
        scores[name] = fmean(row["held-out f1"] for row in applied)
    settings = {"data": [str(folder) for folder in folders], "margin": margin, "k": k}
    as_published = all(one.is_bucc for one in sets) and main[0]["split"] == "training"
    published = "bucc" if as_published and (margin, k) == ("ratio", 4) else None
    return Result("bucc", encoder, settings, scores, rows, published)
