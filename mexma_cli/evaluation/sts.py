"""Semantic textual similarity: do cosines rank and measure pairs as people do (paper section 4.2)."""

from __future__ import annotations

import csv
import logging
import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from mexma_cli.errors import MexmaError
from mexma_cli.evaluation.embedder import Embed, Embedder
from mexma_cli.evaluation.reading import columns_named, filled_lines, parsed_lines
from mexma_cli.reporting.result import Result
from mexma_cli.text.amounts import counted
from mexma_cli.text.compression import plain_name, plain_or_compressed
from mexma_cli.text.lines import read_lines

log = logging.getLogger(__name__)

ENDINGS = (".tsv", ".csv", ".txt")
SPLITS = ("train", "dev", "trial", "test")
LAYOUTS = """score TAB sentence TAB sentence [TAB part]: one file a data set;
STS benchmark's sts-dev.csv, sts-test.csv (genre, file, year, id, score, two sentences, TAB between);
stsb-multi-mt's stsb-de-test.csv (sentence,sentence,score with quotes);
SemEval's STS.input.NAME.txt beside STS.gs.NAME.txt; SICK's files with their header line.
STS 2012-2017 and the STS benchmark: http://ixa2.si.ehu.eus/stswiki, SICK: https://zenodo.org/record/2787612"""
_SEMEVAL = re.compile(r"STS(?:\d{4})?\.input\.")
"""How names begin: `STS.input.`, in 2016 `STS2016.input.`."""
_ENTAILMENTS = {"NEUTRAL", "ENTAILMENT", "CONTRADICTION"}


@dataclass(frozen=True)
class ScoredPairs:
    """A data set.

    Attributes:
        name: Of the file, without endings; with its folder's before it where that is a split's: `sick/train`.
        gold: float64 [n].
        left, right: n sentences.
        parts: Name of each pair's part; empty strings where the file has none.
        unscored: Pairs that SemEval published without a score, and that are left out.
    """

    name: str
    gold: np.ndarray
    left: tuple[str, ...]
    right: tuple[str, ...]
    parts: tuple[str, ...]
    unscored: int = 0


def find_files(paths: Sequence[Path]) -> list[Path]:
    """The files that are named, and those in the folders that are, which must have some; each once, and one
    of `STS12.tsv` and `STS12.tsv.gz`, which are the same text."""
    found: dict[Path, Path] = {}
    for path in paths:
        if not path.is_dir():
            if not path.exists():
                raise MexmaError(f"{path}: no such file or folder", f"layouts:\n{LAYOUTS}")
            found.setdefault(_plain(path), path)
            continue
        files = sorted(file for file in path.iterdir() if _is_pairs(file))
        if not files:
            raise MexmaError(f"{path} has no file of scored pairs", f"layouts:\n{LAYOUTS}")
        for file in files:
            found.setdefault(_plain(file), file)
    return list(found.values())


def _plain(file: Path) -> Path:
    """Where a file is, and its name without that of its compression."""
    whole = file.absolute()
    return whole.with_name(plain_name(whole.name))


def read_pairs(path: Path) -> ScoredPairs:
    """Read a file in any of the layouts. Refused, with file and line: a line that is not of its file's
    layout, and a file without pairs."""
    if _SEMEVAL.match(path.name):
        return _read_semeval(path)
    lines = filled_lines(path)
    first = next(lines, None)
    if first is None:
        raise MexmaError(f"{path} has no lines", f"layouts:\n{LAYOUTS}")
    (split,) = parsed_lines(path, [first], _layout, LAYOUTS)
    rows = parsed_lines(path, lines if _is_header(first[1]) else chain([first], lines), split, LAYOUTS)
    return _pairs(path, _stem(path), list(rows))


def _is_pairs(file: Path) -> bool:
    name = plain_name(file.name)
    if not file.is_file() or not name.endswith(ENDINGS) or name.startswith(("STS.gs.", ".")):
        return False
    return not name.endswith(".txt") or name.startswith("SICK") or _SEMEVAL.match(name) is not None


def _stem(path: Path) -> str:
    name = plain_name(path.name)
    for ending in ENDINGS:
        name = name.removesuffix(ending)
    if name.partition(".")[0] in SPLITS:
        name = f"{path.resolve().parent.name}/{name}"
    return name


Row = tuple[float, str, str, str]
"""score, sentence, sentence, part"""


def _is_header(line: str) -> bool:
    """Whether this is the first line of SICK's own files."""
    return "sentence_A" in line.split("\t")


def _layout(first: str) -> Callable[[str], Row]:
    """A function that splits a line of the file with this first line."""
    cells = first.split("\t")
    count = len(cells)
    if count == 1:
        return _quoted
    least = most = count
    if _is_header(first):
        order = (*columns_named(cells, ("relatedness_score", "sentence_A", "sentence_B")), count)
    elif count >= 7:
        order, least, most = (4, 5, 6, 0), 7, 99
    elif count == 4 and cells[1] in _ENTAILMENTS:
        order = (0, 2, 3, 4)
    elif count in (3, 4):
        order = (0, 1, 2, 3)
    else:
        raise ValueError(f"{count} columns, which is no layout known")

    def split(line: str) -> Row:
        cells = line.split("\t")
        if not least <= len(cells) <= most:
            raise ValueError(f"{len(cells)} columns, {least} expected")
        score, left, right, part = order
        return _score(cells[score]), cells[left], cells[right], cells[part] if part < len(cells) else ""

    return split


def _quoted(line: str) -> Row:
    try:
        cells = next(csv.reader([line]))
    except csv.Error as error:  # old Macintosh line ends, for example
        raise ValueError(error) from None
    if len(cells) != 3:
        raise ValueError(f"{len(cells)} columns, sentence,sentence,score expected")
    return _score(cells[2]), cells[0], cells[1], ""


def _score(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not np.isfinite(value):
        raise ValueError(f"the score {text!r} is no number")
    return value


def _read_semeval(path: Path) -> ScoredPairs:
    plain = path.with_name(plain_name(path.name).replace(".input.", ".gs.", 1))
    gold = plain_or_compressed(plain)
    if gold is None:
        raise MexmaError(f"{plain}: no such file, the scores of {path.name}", LAYOUTS)
    pairs = list(parsed_lines(path, enumerate(read_lines(path), 1), _two_sentences, LAYOUTS))
    # SemEval 2015 and 2016 scored a part of what they published.
    numbers = enumerate(read_lines(gold), 1)
    scores = list(parsed_lines(gold, numbers, lambda line: _score(line) if line.strip() else None, LAYOUTS))
    if len(pairs) != len(scores):
        raise MexmaError(f"{path} has {counted(len(pairs), 'line')}, {gold.name} has {len(scores):,}")
    both = zip(scores, pairs, strict=True)
    rows = [(score, left, right, "") for score, (left, right) in both if score is not None]
    return _pairs(gold, _SEMEVAL.sub("", _stem(path)), rows, len(scores) - len(rows))


def _two_sentences(line: str) -> tuple[str, str]:
    cells = line.split("\t")
    if len(cells) < 2:
        raise ValueError("no TAB between two sentences")
    return cells[0], cells[1]


def _pairs(path: Path, name: str, rows: Sequence[Row], unscored: int = 0) -> ScoredPairs:
    if len(rows) < 2:
        raise MexmaError(f"{path} has {counted(len(rows), 'scored pair')}: too few to correlate")
    scores, left, right, parts = zip(*rows, strict=True)
    if len(set(scores)) == 1:
        raise MexmaError(f"{path}: all scores are {scores[0]:g}, which correlates with nothing")
    return ScoredPairs(name, np.array(scores), left, right, parts, unscored)


PUBLISHED = {"STS12": 3108, "STS13": 1500, "STS14": 3750, "STS15": 3000, "STS16": 1186, "STSBenchmark": 1379}
"""Data sets of the paper's Table 27 that are one file, and how many pairs they have there."""
ALIASES = {"sts-test": "STSBenchmark"}


def score_pairs(left: np.ndarray, right: np.ndarray, gold: np.ndarray) -> dict[str, float | None]:
    """Correlations of the cosines of n pairs with their gold scores, `spearman` and `pearson`: percent, or
    None where one side is constant.

    Args:
        left, right: float [n, dim].
        gold: float [n], in any unit, n at least 2.
    """
    similarities = cosines(left, right)
    found = {"spearman": spearman(similarities, gold), "pearson": pearson(similarities, gold)}
    return {name: None if math.isnan(value) else 100 * value for name, value in found.items()}


def cosines(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """float64 [n]: cosine of row i with row i; 0 where one of them is zero."""
    left, right = left.astype(np.float64), right.astype(np.float64)
    products = np.einsum("nd,nd->n", left, right)
    norms = np.linalg.norm(left, axis=1) * np.linalg.norm(right, axis=1)
    return np.divide(products, norms, out=np.zeros_like(products), where=norms > 0)


def pearson(a: np.ndarray, b: np.ndarray) -> float:
    """Correlation of two rows of numbers, [n] each; nan if one is constant."""
    if a.min() == a.max() or b.min() == b.max():  # their mean need not be just that number
        return float("nan")
    a, b = a - a.mean(), b - b.mean()
    return float(a @ b) / float(np.linalg.norm(a) * np.linalg.norm(b))


def spearman(a: np.ndarray, b: np.ndarray) -> float:
    """Correlation of ranks, ties sharing their mean rank; nan if one row is constant."""
    return pearson(_ranks(a), _ranks(b))


def _ranks(values: np.ndarray) -> np.ndarray:
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    return (ends - (counts - 1) / 2)[inverse]


def means_of_known(*columns: Sequence[float | None]) -> tuple[float, ...] | None:
    """The mean of each column, over the places where all of them have a number; None where there are none."""
    rows = [row for row in zip(*columns, strict=True) if None not in row]
    return tuple(fmean(column) for column in zip(*rows, strict=True)) if rows else None


def evaluate(sets: Sequence[ScoredPairs], paths: Sequence[Path], embed: Embedder) -> Result:
    """Correlations of all sets, in files as they were named, and their means over the sets."""
    rows = [row for pairs in sets for row in correlations(pairs, embed)]
    whole = [row for row in rows if row["part"] == "all"]
    scores = {}
    for key in ("spearman", "pearson"):
        if means := means_of_known([row[key] for row in whole]):
            scores[key] = means[0]
    settings = {"files": [str(path) for path in paths], "similarity": "cosine"}
    return Result("sts", embed.describe(), settings, scores, rows, "sts")


def correlations(pairs: ScoredPairs, embed: Embed) -> Iterator[dict[str, Any]]:
    """A data set's row, after one for each of its parts."""
    name = ALIASES.get(pairs.name, pairs.name)
    if len(pairs.gold) != PUBLISHED.get(name, len(pairs.gold)):
        count, whole = f"{len(pairs.gold):,}", f"{PUBLISHED[name]:,}"
        log.info("%s has %s pairs here and %s where it is published: not compared", name, count, whole)
        name += " (part)"
    left, right = embed(pairs.left), embed(pairs.right)
    parts = np.array(pairs.parts)
    groups = {part: np.flatnonzero(parts == part) for part in dict.fromkeys(pairs.parts)}
    groups = groups if len(groups) > 1 else {}
    for part, places in (groups | {"all": np.arange(len(pairs.gold))}).items():
        if len(set(pairs.gold[places].tolist())) < 2:
            continue  # a part with one score correlates with nothing
        found = score_pairs(left[places], right[places], pairs.gold[places])
        if found["spearman"] is None:
            log.warning("%s, %s: all cosines are equal, which correlates with nothing", name, part)
        yield {"data set": name, "part": part, "pairs": len(places)} | found
    if pairs.unscored:
        unscored = counted(pairs.unscored, "pair is", "pairs are")
        log.info("%s: %s left out, which were published without a score", name, unscored)
