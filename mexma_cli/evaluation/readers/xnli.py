"""Files of XNLI and MultiNLI, as they are published: TSV with a header line, or JSON lines."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from mexma_cli.errors import MexmaError
from mexma_cli.evaluation.readers.common import columns_named, filled_lines, parsed, require_folder
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
            log.info("%s: left out, since people did not agree on a class: %s", path, counted(count, "pair"))
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
    lines = filled_lines(path)
    split: Callable[[str], _Pair] = _from_json
    if ".jsonl" not in path.name:
        first = next(lines, None)
        if first is None:
            raise MexmaError(f"{path} is empty", LAYOUTS)
        (split,) = parsed(path, [first], _from_header, LAYOUTS)
    rows: dict[str, list[tuple[str, str, int]]] = {}
    undecided = 0
    for pair, place in parsed(path, lines, lambda line: _with_class(split(line)), LAYOUTS):
        if place is None:
            undecided += 1
        else:
            rows.setdefault(pair.language, []).append((pair.premise, pair.hypothesis, place))
    if not rows:
        raise MexmaError(f"{path} has no pairs", LAYOUTS)
    found = {}
    for language, pairs in rows.items():
        premises, hypotheses, classes = zip(*pairs, strict=True)
        found[language] = Inference(premises, hypotheses, np.array(classes))
    return found, undecided


class _Pair(NamedTuple):
    language: str
    label: str
    premise: str
    hypothesis: str


def _with_class(pair: _Pair) -> tuple[_Pair, int | None]:
    """A pair and the place of its label in CLASSES; None where people did not agree."""
    label = _ALIASES.get(pair.label, pair.label)
    if label not in (*CLASSES, "-"):
        raise ValueError(f"{label!r} is none of {', '.join(CLASSES)}")
    return pair, None if label == "-" else CLASSES.index(label)


def _from_json(line: str) -> _Pair:
    try:
        record = json.loads(line)
        named = [record[key] for key in ("gold_label", "sentence1", "sentence2")]
        pair = _Pair(record.get("language", "en"), *named)
    except (ValueError, KeyError, AttributeError) as error:
        raise ValueError(f"no pair of XNLI in JSON ({error})") from None
    for value in pair:
        if not isinstance(value, str):
            raise ValueError(f"{json.dumps(value)} where a text should be")
    return pair


def _from_header(line: str) -> Callable[[str], _Pair]:
    """A function that splits a line of the file with this header."""
    header = line.split("\t")
    names = ("label", "premise", "hypo") if "premise" in header else ("gold_label", "sentence1", "sentence2")
    places = columns_named(header, names)
    language = header.index("language") if "language" in header else None

    def split(line: str) -> _Pair:
        cells = line.split("\t")
        # MultiNLI's own lines may lack cells at their end: labels that were not given.
        if not max(places) < len(cells) <= len(header):
            raise ValueError(f"{len(cells)} columns, {len(header)} in the header")
        label, premise, hypothesis = (cells[place] for place in places)
        return _Pair("en" if language is None else cells[language], label, premise, hypothesis)

    return split
