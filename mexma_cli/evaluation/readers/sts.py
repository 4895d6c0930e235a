"""Files of sentence pairs with similarity scores, in the layouts in which they are published."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np

from mexma_cli.errors import MexmaError
from mexma_cli.evaluation.readers.common import columns_named, filled_lines, parsed
from mexma_cli.text.amounts import counted
from mexma_cli.text.compression import plain_name, plain_or_compressed
from mexma_cli.text.lines import read_lines

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
    """The files that are named, and those in the folders that are; each once, and one of `STS12.tsv` and
    `STS12.tsv.gz`, which are the same text.

    Raises:
        MexmaError: Missing, or a folder without such files.
    """
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
    """Read a file in any of the layouts.

    Raises:
        MexmaError: A line that is not of its file's layout, or no pairs at all; with file and line.
    """
    if _SEMEVAL.match(path.name):
        return _read_semeval(path)
    lines = filled_lines(path)
    first = next(lines, None)
    if first is None:
        raise MexmaError(f"{path} has no lines", f"layouts:\n{LAYOUTS}")
    (split,) = parsed(path, [first], _layout, LAYOUTS)
    rows = parsed(path, lines if _is_header(first[1]) else chain([first], lines), split, LAYOUTS)
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
    """A function that splits a line of the file with this first line.

    Raises:
        ValueError: No known layout begins so.
    """
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
    pairs = list(parsed(path, enumerate(read_lines(path), 1), _two_sentences, LAYOUTS))
    # SemEval 2015 and 2016 scored a part of what they published.
    numbers = enumerate(read_lines(gold), 1)
    scores = list(parsed(gold, numbers, lambda line: _score(line) if line.strip() else None, LAYOUTS))
    if len(pairs) != len(scores):
        raise MexmaError(f"{path} has {len(pairs):,} lines, {gold.name} has {len(scores):,}")
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
