"""Files of XNLI and MultiNLI, as they are published: TSV with a header line, or JSON lines."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mexma_cli.errors import MexmaError
from mexma_cli.evaluation.readers.common import columns_named, filled_lines, require_folder
from mexma_cli.text.amounts import counted
from mexma_cli.text.compression import ENDINGS

log = logging.getLogger(__name__)

CLASSES = ("entailment", "neutral", "contradiction")
LAYOUTS = """needed in the folder or below it: the English train set, multinli.train.en.tsv (XNLI-MT-1.0) or
multinli_1.0_train.jsonl or .txt (MultiNLI), and the test set, xnli.test.tsv or xnli.test.jsonl (XNLI-1.0).
Published at https://cims.nyu.edu/~sbowman/xnli and https://cims.nyu.edu/~sbowman/multinli"""
TRAIN = ("multinli.train.en.tsv", "multinli_1.0_train.jsonl", "multinli_1.0_train.txt")
TEST = ("xnli.test.tsv", "xnli.test.jsonl")
_ALIASES = {"contradictory": "contradiction"}

Pair = tuple[str, str, str, str]
"""language, class, premise, hypothesis"""


@dataclass(frozen=True)
class Inference:
    """n pairs of sentences and their classes (int64 [n], places in CLASSES)."""

    premises: Sequence[str]
    hypotheses: Sequence[str]
    classes: np.ndarray


@dataclass(frozen=True)
class InferenceData:
    """The English train set, and the test sets by language, with the files that they are from."""

    train_path: Path
    train: Inference
    test_path: Path
    tests: dict[str, Inference]


def read_data(folder: Path) -> InferenceData:
    """Both sets of a folder. Pairs on whose class people did not agree are left out and counted in the log.

    Raises:
        MexmaError: A set is missing, or the train set has no English; or as `read_inference`.
    """
    train_path, test_path = find(folder, TRAIN), find(folder, TEST)
    train, undecided = read_inference(train_path)
    if "en" not in train:
        raise MexmaError(f"{train_path} has no English pairs")
    tests, untested = read_inference(test_path)
    for path, count in ((train_path, undecided), (test_path, untested)):
        if count:
            log.info("%s: left out without an agreed class: %s", path, counted(count, "pair"))
    return InferenceData(train_path, train["en"], test_path, tests)


def find(folder: Path, names: tuple[str, ...]) -> Path:
    """The first of these files in a folder or below it, compressed or not.

    Raises:
        MexmaError: None is there.
    """
    require_folder(folder, LAYOUTS)
    for name in names:
        for ending in ("", *ENDINGS):
            found = sorted(folder.rglob(name + ending))
            if found:
                return found[0]
    raise MexmaError(f"{folder}: no {' or '.join(names)}", LAYOUTS)


def read_inference(path: Path) -> tuple[dict[str, Inference], int]:
    """The pairs of a file by language, as the file names it (`en` where it names none).

    Returns:
        Pairs by language, and how many are left out because people did not agree on a class (`-`).

    Raises:
        MexmaError: Not such a file, or a line that is not as the others; with its number.
    """
    rows: dict[str, list[tuple[str, str, int]]] = {}
    undecided = 0
    for number, (language, name, premise, hypothesis) in _pairs(path):
        name = _ALIASES.get(name, name)
        if name == "-":
            undecided += 1
            continue
        if name not in CLASSES:
            raise MexmaError(f"{path}, line {number}: {name!r} is none of {', '.join(CLASSES)}", LAYOUTS)
        rows.setdefault(language, []).append((premise, hypothesis, CLASSES.index(name)))
    if not rows:
        raise MexmaError(f"{path} has no pairs", LAYOUTS)
    found = {}
    for language, pairs in rows.items():
        premises, hypotheses, classes = zip(*pairs, strict=True)
        found[language] = Inference(premises, hypotheses, np.array(classes))
    return found, undecided


def _pairs(path: Path) -> Iterator[tuple[int, Pair]]:
    lines = filled_lines(path)
    if ".jsonl" in path.name:
        for number, line in lines:
            yield number, _from_json(path, number, line)
        return
    first = next(lines, None)
    if first is None:
        raise MexmaError(f"{path} is empty", LAYOUTS)
    take = _from_header(path, first[0], first[1].split("\t"))
    for number, line in lines:
        yield number, take(number, line.split("\t"))


def _from_json(path: Path, number: int, line: str) -> Pair:
    try:
        record = json.loads(line)
        label, premise, hypothesis = (record[key] for key in ("gold_label", "sentence1", "sentence2"))
        pair = record.get("language", "en"), label, premise, hypothesis
    except (ValueError, KeyError, AttributeError) as error:
        raise MexmaError(f"{path}, line {number}: no pair of XNLI in JSON ({error})", LAYOUTS) from None
    for value in pair:
        if not isinstance(value, str):
            raise MexmaError(f"{path}, line {number}: {json.dumps(value)} where a text should be", LAYOUTS)
    return pair


def _from_header(path: Path, line: int, header: list[str]) -> Callable[[int, list[str]], Pair]:
    """A function that takes a line's cells apart, by the names in the header."""
    names = ("label", "premise", "hypo") if "premise" in header else ("gold_label", "sentence1", "sentence2")
    label, premise, hypothesis = columns_named(path, line, header, names, LAYOUTS)
    language = header.index("language") if "language" in header else None
    last = max(label, premise, hypothesis)

    def take(number: int, cells: list[str]) -> Pair:
        # MultiNLI's own lines may lack cells at their end: labels that were not given.
        if len(cells) <= last or len(cells) > len(header):
            raise MexmaError(f"{path}, line {number}: {len(cells)} columns, {len(header)} in the header")
        named = cells[language] if language is not None else "en"
        return named, cells[label], cells[premise], cells[hypothesis]

    return take
