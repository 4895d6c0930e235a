"""Files of sentence pairs with similarity scores, in the layouts in which they are published."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np

from mexma_cli.errors import MexmaError
from mexma_cli.evaluation.readers.common import columns_named, filled_lines
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
class Pairs:
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
    """Where a file is, and its name without that of its packing."""
    whole = file.absolute()
    return whole.with_name(plain_name(whole.name))


def read_pairs(path: Path) -> Pairs:
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
    header = first[1].split("\t")
    if "sentence_A" in header:
        rows = _named(path, first[0], header, lines)
    else:
        split = _columns(path, *first)
        rows = ((number, *split(number, line)) for number, line in chain([first], lines))
    return _gather(path, _stem(path), rows)


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


Fields = tuple[str, str, str, str]
"""score, sentence, sentence, part"""


def _columns(path: Path, place: int, first: str) -> Callable[[int, str], Fields]:
    """What takes a line of this file apart; the first one, line `place`, tells the layout."""
    fields = first.split("\t")
    if len(fields) == 1:
        return lambda number, line: _quoted(path, number, line)
    if len(fields) >= 7:
        order, least, most = (4, 5, 6, 0), 7, 99
    elif len(fields) == 4 and fields[1] in _ENTAILMENTS:
        order, least, most = (0, 2, 3, 4), 4, 4
    elif len(fields) in (3, 4):
        order, least, most = (0, 1, 2, 3), len(fields), len(fields)
    else:
        raise MexmaError(f"{path}, line {place}: {len(fields)} columns, which is no layout known", LAYOUTS)

    def split(number: int, line: str) -> Fields:
        cells = line.split("\t")
        if not least <= len(cells) <= most:
            raise MexmaError(f"{path}, line {number}: {len(cells)} columns, {least} expected", LAYOUTS)
        score, left, right, part = order
        return cells[score], cells[left], cells[right], cells[part] if part < len(cells) else ""

    return split


def _quoted(path: Path, number: int, line: str) -> Fields:
    try:
        cells = next(csv.reader([line]))
    except csv.Error as error:  # old Macintosh line ends, for example
        raise MexmaError(f"{path}, line {number}: {error}", LAYOUTS) from None
    if len(cells) != 3:
        raise MexmaError(
            f"{path}, line {number}: {len(cells)} columns, sentence,sentence,score expected", LAYOUTS
        )
    return cells[2], cells[0], cells[1], ""


def _named(
    path: Path, place: int, header: list[str], lines: Iterator[tuple[int, str]]
) -> Iterator[tuple[int, str, str, str, str]]:
    """SICK's own files: the columns are named, in line `place`."""
    names = ("relatedness_score", "sentence_A", "sentence_B")
    places = columns_named(path, place, header, names, LAYOUTS)
    for number, line in lines:
        cells = line.split("\t")
        if len(cells) != len(header):
            raise MexmaError(f"{path}, line {number}: {len(cells)} columns, {len(header)} in the header")
        score, left, right = (cells[place] for place in places)
        yield number, score, left, right, ""


def _read_semeval(path: Path) -> Pairs:
    plain = path.with_name(plain_name(path.name).replace(".input.", ".gs.", 1))
    gold = plain_or_compressed(plain)
    if gold is None:
        raise MexmaError(f"{plain}: no such file, the scores of {path.name}", LAYOUTS)
    sentences, scores = list(read_lines(path)), list(read_lines(gold))
    if len(sentences) != len(scores):
        raise MexmaError(f"{path} has {len(sentences):,} lines, {gold.name} has {len(scores):,}")
    rows = []
    for number, (pair, score) in enumerate(zip(sentences, scores, strict=True), start=1):
        cells = pair.split("\t")
        if len(cells) < 2:
            raise MexmaError(f"{path}, line {number}: no TAB between two sentences")
        if score.strip():  # SemEval 2015 and 2016 scored a part of what they published
            rows.append((number, score, cells[0], cells[1], ""))
    pairs = _gather(gold, _SEMEVAL.sub("", _stem(path)), iter(rows))
    return Pairs(pairs.name, pairs.gold, pairs.left, pairs.right, pairs.parts, len(scores) - len(rows))


def _gather(path: Path, name: str, rows: Iterator[tuple[int, str, str, str, str]]) -> Pairs:
    gold, left, right, parts = [], [], [], []
    for number, score, a, b, part in rows:
        try:
            value = float(score)
        except ValueError:
            value = float("nan")
        if not np.isfinite(value):
            raise MexmaError(f"{path}, line {number}: the score {score!r} is no number", LAYOUTS)
        gold.append(value)
        left.append(a)
        right.append(b)
        parts.append(part)
    if len(gold) < 2:
        raise MexmaError(f"{path} has {counted(len(gold), 'scored pair')}: too few to correlate")
    if len(set(gold)) == 1:
        raise MexmaError(f"{path}: all scores are {gold[0]:g}, which correlates with nothing")
    return Pairs(name, np.array(gold), tuple(left), tuple(right), tuple(parts))
