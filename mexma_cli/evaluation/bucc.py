"""Mining sets: two monolingual texts, and the list of their translations (BUCC 2018 and others like it).

Two measures are in use. The one of the MTEB benchmark and the MEXMA paper (its Table 16): every gold source
is searched in the whole other side by cosine, and the rows found are compared with the right ones by
class-weighted F1. The one of the shared task, LASER and the DAP paper (its Tables 2 and 3): all candidates
by margin, one to one, cut at a threshold.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import xxhash

from mexma_cli.errors import MexmaError
from mexma_cli.evaluation.embedder import Embed, Embedder
from mexma_cli.evaluation.reading import require_folder
from mexma_cli.formats.ids import read_id_pairs, read_ids
from mexma_cli.knn.exact import knn
from mexma_cli.languages import resolve
from mexma_cli.mining.match import match
from mexma_cli.mining.resampling import Labelled, held_out
from mexma_cli.mining.threshold import Threshold, best_threshold, measured_threshold
from mexma_cli.reporting.result import Result
from mexma_cli.settings.stages import MineSettings, ScoreSettings
from mexma_cli.text.compression import plain_name

HINT = (
    "BUCC 2018 (comparable.limsi.fr/bucc2018): fr-en.training.fr, .en and .gold; or fra-eng.fra.tsv, "
    "fra-eng.eng.tsv and fra-eng.gold.tsv: `id TAB sentence`, and `source id TAB target id`"
)
_NAME = re.compile(
    r"(?P<pair>(?P<source>[a-z]{2,3}(?:_[A-Z][a-z]{3})?)-(?P<target>[a-z]{2,3}(?:_[A-Z][a-z]{3})?))"
    r"(?:\.(?P<split>sample|dev|train|training|test))?\.(?P<side>[A-Za-z_]+)(?:\.tsv)?"
)
_BUCC_SPLITS = ("sample", "training", "test")
Files = dict[str, Path]


@dataclass(frozen=True)
class MiningSet:
    """One pair of texts. `gold` int64 [g, 2]: rows of sources and of targets that are translations."""

    pair: str
    """`fra-eng`."""
    split: str
    """`training`; empty where the files' names have none."""
    source_ids: list[str]
    sources: list[str]
    target_ids: list[str]
    targets: list[str]
    gold: np.ndarray
    is_bucc: bool
    """Whether the files are named as BUCC's."""


def read_sets(folders: Sequence[Path]) -> list[MiningSet]:
    """All mining sets in folders and in the folders directly in these, by pair and split. Refused, with file
    and line: folders without any, a set without one of its files, a line that is not `id TAB sentence`, and
    gold without pairs or with an unknown id."""
    found: dict[tuple[str, str], tuple[str, Files, Path]] = {}  # fr-en and fra-eng are one pair
    for folder in folders:
        require_folder(folder)
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
        name = _NAME.fullmatch(plain_name(path.name))
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
    sides = [list(read_ids(files[side])) for side in ("source", "target")]
    (source_ids, sources), (target_ids, targets) = ([*map(list, zip(*side, strict=True))] for side in sides)
    rows = [{name: row for row, name in enumerate(ids)} for ids in (source_ids, target_ids)]
    pairs = read_id_pairs(files["gold"], rows, [files["source"], files["target"]])
    gold = np.array([(rows[0][source], rows[1][target]) for source, target in pairs], dtype=np.int64)
    is_bucc = split in _BUCC_SPLITS
    return MiningSet(_codes(pair), split, source_ids, sources, target_ids, targets, gold, is_bucc)


_TUNED_ON = {True: ("training", "train", "dev", "sample"), False: ("sample", "dev")}
"""The splits that a threshold may come from, the best one first, with and without a test split. The paper
tunes on training and applies to test; the organisers' gold list for test is not public."""


def weighted_f1(truth: np.ndarray, found: np.ndarray) -> float:
    """F1 of each class that is in `truth`, int [n] as `found`, n at least 1, weighted by how often it is
    there; a fraction. As scikit-learn's f1_score(average="weighted"), which is what MTEB computes for bitext
    mining."""
    classes, place, support = np.unique(truth, return_inverse=True, return_counts=True)
    right = np.bincount(place, truth == found, minlength=len(classes))
    where = np.searchsorted(classes, found)
    known = classes[np.minimum(where, len(classes) - 1)] == found
    predicted = np.bincount(where[known], minlength=len(classes))
    return float((2 * right / (support + predicted) * support).sum() / len(truth))


def cosine_f1(x: np.ndarray, y: np.ndarray, gold: np.ndarray) -> float:
    """Class-weighted F1 of the nearest rows of y by cosine; a fraction.

    Args:
        x, y: [N, d] and [M, d]: all of both sides.
        gold: int64 [g, 2], g at least 1: each pair's source is a query.
    """
    nearest = knn(x[gold[:, 0]], y, 1).forward_ids[:, 0]
    return weighted_f1(gold[:, 1], nearest)


def ranked(
    data: MiningSet,
    x: np.ndarray,
    y: np.ndarray,
    margin: str = "ratio",
    k: int = 4,
    on_progress: Callable[[int, int], object] | None = None,
) -> Labelled:
    """One-to-one candidates by margin, and which of them are gold: the list that LASER's bucc.py tunes on.

    A sentence that occurs more than once counts once in the neighbourhoods. As its id cannot be told from its
    text, candidates with it are left out, and gold pairs with it count as not found.

    Args:
        x, y: vectors of all sources and all targets.
        on_progress: as for `knn`.
    """
    first_x, alone_x = _occurrences(data.sources)
    first_y, alone_y = _occurrences(data.targets)
    near = knn(x, y, k, keep_x=first_x, keep_y=first_y, on_progress=on_progress)
    found = match(near, MineSettings().but(margin=margin))
    found = found.take(alone_x[found.source] & alone_y[found.target])
    width = len(data.targets)
    wanted = np.unique(data.gold[:, 0] * width + data.gold[:, 1])
    source, target = (
        np.fromiter((xxhash.xxh3_64_intdigest(name.encode()) for name in ids), np.uint64, len(ids))
        for ids in (data.source_ids, data.target_ids)
    )
    return Labelled(
        found.scores.astype(np.float64),
        np.isin(found.source * width + found.target, wanted),
        source[found.source],
        target[found.target],
        source[wanted // width],
        target[wanted % width],
    )


def _occurrences(sentences: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """bool [N] twice: the first row of its sentence, and the only one."""
    first: dict[str, int] = {}
    is_first, is_only = np.zeros(len(sentences), dtype=bool), np.ones(len(sentences), dtype=bool)
    for row, sentence in enumerate(sentences):
        before = first.setdefault(sentence, row)
        is_first[row] = before == row
        is_only[[before, row]] = is_only[before] & is_first[row]
    return is_first, is_only


def measure(
    sets: Sequence[MiningSet],
    embed: Embed,
    settings: ScoreSettings,
    on_progress: Callable[[int, int], object] | None = None,
) -> list[dict[str, Any]]:
    """A row for every set, in percent; None where there is no number.

    `cosine f1` is by cosine alone. `tuned f1` is the best F1 by margin, with its threshold, precision and
    recall. `held-out f1` is the F1 of a threshold that was tuned elsewhere, and `tuned on` says where: on the
    pair's tuning split or, if it has one split only, on one half of its gold pairs, for the other half.
    """
    rows, labelled = [], []
    for data in sets:
        languages = data.pair.split("-")
        x, y = embed(data.sources, languages[0]), embed(data.targets, languages[1])
        found = ranked(data, x, y, settings.margin, settings.k, on_progress)
        labelled.append(found)
        best = best_threshold(found.scores, found.is_gold, found.gold) if len(found.scores) else None
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
        applied, source = _held_out(data, found, rows)
        row |= {"held-out f1": applied and 100 * applied.f1, "tuned on": source}
    return rows


def _held_out(
    data: MiningSet, found: Labelled, rows: Sequence[dict[str, Any]]
) -> tuple[Threshold | None, str | None]:
    """Precision, recall and count at a threshold from another split, and the name of that split."""
    same = {row["split"]: row for row in rows if row["pair"] == data.pair}
    if len(same) == 1:
        halves = held_out(found) if len(found.scores) else None
        return (halves.result, "half of it") if halves else (None, None)
    source = next((name for name in _TUNED_ON["test" in same] if name in same), data.split)
    # BUCC's sample may be in the folder of training and test.
    is_for_it = source != data.split and (data.split == "test" or "test" not in same)
    if not is_for_it or same[source]["threshold"] is None:
        return None, None
    return measured_threshold(found.scores, found.is_gold, found.gold, same[source]["threshold"]), source


def evaluate(
    sets: Sequence[MiningSet],
    folders: Sequence[Path],
    embed: Embedder,
    settings: ScoreSettings = ScoreSettings(),
    on_progress: Callable[[int, int], object] | None = None,
) -> Result:
    """F1 of every mining set, and the means; `on_progress` as for `knn`. Those of `cosine f1` and `tuned f1`
    are over training splits where there are some, as in the papers; that of `held-out f1` is over all sets
    that a threshold of another split was applied to, and is called `test f1` if these are test splits
    only."""
    rows = measure(sets, embed, settings, on_progress)
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
    how = {"data": [str(folder) for folder in folders], **settings.model_dump()}
    as_published = all(one.is_bucc for one in sets) and main[0]["split"] == "training"
    published = "bucc" if as_published and settings == ScoreSettings() else None
    return Result("bucc", embed.describe(), how, scores, rows, published)
