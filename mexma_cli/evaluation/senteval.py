"""SentEval: logistic regression on frozen sentence vectors, validated as SentEval validates it.

Protocols and seeds are those of SentEval's `validation.py` (nhid 0): stratified folds shuffled with seed
1111; the inverse strength of the L2 penalty is the best of `PENALTIES`, of `PENALTIES_BY_FOLDS` for a task
with a test part and no dev part (the first of equals). The solvers are scikit-learn's Newton (two classes: a
few steps, ten times faster) and lbfgs (more), run until they converge, where SentEval's time had liblinear.
"""

from __future__ import annotations

import logging
import re
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from mexma_cli.errors import MexmaError
from mexma_cli.evaluation.embedder import Embed
from mexma_cli.evaluation.reading import filled_lines, require_folder
from mexma_cli.reporting.result import Result
from mexma_cli.text.amounts import counted
from mexma_cli.text.compression import plain_or_compressed
from mexma_cli.text.lines import is_blank, read_latin_lines, read_lines

log = logging.getLogger(__name__)

TASKS = ("MR", "SST2", "TREC", "CR", "SUBJ", "MPQA", "MRPC")
"""In the order of the paper's Table 17."""
SPLITS = {"SST2": ("train", "dev", "test"), "TREC": ("train", "test"), "MRPC": ("train", "test")}
"""Splits of the tasks that are not validated by folds alone."""
LAYOUTS = """needed, in one of the folders named, compressed or not:
MR/rt-polarity.{pos,neg}, CR/custrev.{pos,neg}, SUBJ/subj.{objective,subjective}, MPQA/mpqa.{pos,neg},
SST/binary/sentiment-{train,dev,test}, TREC/{train_5500,TREC_10}.label, MRPC/msr_paraphrase_{train,test}.txt
(data/downstream after SentEval's get_transfer_data.bash, github.com/facebookresearch/SentEval);
or MR.tsv, CR.tsv, SUBJ.tsv, MPQA.tsv, SST2.{train,dev,test}.tsv, TREC.{train,test}.tsv with label TAB
sentence, and MRPC.{train,test}.tsv or mrpc/{train,test}.tsv with label TAB sentence TAB sentence"""
_BY_CLASS = {
    "MR": ("MR/rt-polarity.neg", "MR/rt-polarity.pos"),
    "CR": ("CR/custrev.neg", "CR/custrev.pos"),
    "SUBJ": ("SUBJ/subj.subjective", "SUBJ/subj.objective"),
    "MPQA": ("MPQA/mpqa.neg", "MPQA/mpqa.pos"),
}
_OWN_FILES = {
    ("SST2", "train"): "SST/binary/sentiment-train",
    ("SST2", "dev"): "SST/binary/sentiment-dev",
    ("SST2", "test"): "SST/binary/sentiment-test",
    ("TREC", "train"): "TREC/train_5500.label",
    ("TREC", "test"): "TREC/TREC_10.label",
    ("MRPC", "train"): "MRPC/msr_paraphrase_train.txt",
    ("MRPC", "test"): "MRPC/msr_paraphrase_test.txt",
}
_OWN_LAYOUTS = {
    "SST2": r"(?P<sentence>.*)\t(?P<label>[01])",
    "TREC": r"(?P<label>[^ :]*):[^ ]* (?P<sentence>.*)",
    "MRPC": r"(?P<label>[01])\t[^\t]*\t[^\t]*\t(?P<sentence>[^\t]*)\t(?P<second>[^\t]*)",
}
_TABLE = r"(?P<label>[^\t]*)\t(?P<sentence>[^\t]*)"
_PAIR_TABLE = r"(?P<label>[01])\t(?P<sentence>[^\t]*)\t(?P<second>[^\t]*)"


@dataclass
class Examples:
    """Labelled sentences, or pairs of sentences, in order.

    Attributes:
        labels: As they are in the file.
        sentences: As many.
        seconds: The pairs' other sentences; empty for single sentences.
    """

    labels: list[str] = field(default_factory=list)
    sentences: list[str] = field(default_factory=list)
    seconds: list[str] = field(default_factory=list)

    def add(self, label: str, sentence: str, second: str | None = None) -> None:
        """Append one."""
        self.labels.append(label)
        self.sentences.append(sentence)
        if second is not None:
            self.seconds.append(second)

    @property
    def texts(self) -> int:
        """How many there are to embed."""
        return len(self.sentences) + len(self.seconds)


def read_tasks(folders: Sequence[Path], kfold: int) -> dict[str, dict[str, Examples]]:
    """The splits of all tasks that the folders have the train part of, or all; a warning names the others.
    There must be a task, and of each enough examples for so many folds."""
    for folder in folders:
        require_folder(folder, LAYOUTS)
    tasks = {task: read_task(task, folders) for task in TASKS}
    found = {task: splits for task, splits in tasks.items() if splits.keys() & {"all", "train"}}
    if not found:
        raise MexmaError(f"{' '.join(map(str, folders))}: none of SentEval's files is there", LAYOUTS)
    if missing := [task for task in TASKS if task not in found]:
        log.warning("no files of %s: left out (--help names the files)", ", ".join(missing))
    for task, splits in found.items():
        check_classes(task, splits, kfold)
    return found


def read_task(task: str, folders: Sequence[Path]) -> dict[str, Examples]:
    """The splits of a task that the folders have, none where there is no file of it; `all` for a task that is
    validated by folds alone. Refused: a damaged line (file and line), a split without examples or with one
    class."""
    found = {}
    for split in SPLITS.get(task, ("all",)):
        for folder in folders:
            examples = _read_split(task, split, folder)
            if examples is not None:
                found[split] = examples
                break
    return found


def _read_split(task: str, split: str, folder: Path) -> Examples | None:
    """One split from one folder, or None where it has none."""
    if task in _BY_CLASS:
        files = [plain_or_compressed(folder / name) for name in _BY_CLASS[task]]
        if any(files):
            return _by_class([folder / name for name in _BY_CLASS[task]], files)
    elif path := plain_or_compressed(folder / _OWN_FILES[task, split]):
        # One letter of TREC is not UTF-8, and SentEval reads Latin-1.
        lines = read_latin_lines(path) if task == "TREC" else read_lines(path)
        return _read_labelled(path, lines, _OWN_LAYOUTS[task])
    for path in _tables(task, split, folder):
        return _read_labelled(path, read_lines(path), _PAIR_TABLE if task == "MRPC" else _TABLE)
    return None


def _tables(task: str, split: str, folder: Path) -> Iterator[Path]:
    names = [f"{task}.tsv"] if split == "all" else [f"{task}.{split}.tsv", f"{task.lower()}/{split}.tsv"]
    if split != "all" and folder.name.lower() == task.lower():
        names.append(f"{split}.tsv")
    yield from filter(None, (plain_or_compressed(folder / name) for name in names))


def _by_class(named: Sequence[Path], files: Sequence[Path | None]) -> Examples:
    examples = Examples()
    for label, (name, path) in enumerate(zip(named, files, strict=True)):
        if path is None:
            raise MexmaError(f"{name}: no such file, though the other class is there", LAYOUTS)
        for _, line in filled_lines(path):
            examples.add(str(label), line)
        if str(label) not in examples.labels[-1:]:
            raise MexmaError(f"{path} is empty", LAYOUTS)
    return examples


def _read_labelled(path: Path, lines: Iterable[str], layout: str) -> Examples:
    examples = Examples()
    for number, line in enumerate(lines, start=1):
        if is_blank(line) or (number == 1 and line.startswith("Quality\t")):
            continue
        found = re.fullmatch(layout, line)
        if found is None:
            raise MexmaError(f"{path}, line {number}: not the layout of this file", LAYOUTS)
        examples.add(**found.groupdict())
    if not examples.labels:
        raise MexmaError(f"{path} is empty", LAYOUTS)
    if len(set(examples.labels)) < 2:
        raise MexmaError(f"{path} has one class only: {examples.labels[0]}", LAYOUTS)
    return examples


SEED = 1111
PENALTIES = tuple(2.0**power for power in range(-2, 4))
PENALTIES_BY_FOLDS = tuple(2.0**power for power in range(-1, 6))
ITERATIONS = 1000
LANGUAGE = "eng_Latn"
EXAMPLES = {"MR": 10662, "SST2": 70042, "TREC": 5952, "CR": 3775, "SUBJ": 10000, "MPQA": 10606, "MRPC": 5801}
"""Examples of all parts, in SentEval's download."""

OnFit = Callable[[], object]
Splits = Mapping[str, Examples]


@dataclass(frozen=True)
class Features:
    """Vectors, float [n, dim], and their classes, int [n]."""

    vectors: np.ndarray
    classes: np.ndarray


def pair_features(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """[abs(u - v), u * v] for classifying pairs (MRPC): [n, 2 dim]."""
    return np.hstack([np.abs(left - right), left * right])


@dataclass(frozen=True)
class Protocol:
    """How a task is validated.

    Attributes:
        name: For people.
        as_published: Whether it is SentEval's for this task, on all its parts.
        fits: Regressions that it takes, for a bar.
    """

    name: str
    as_published: bool
    fits: int


def protocol(task: str, splits: Collection[str], kfold: int) -> Protocol:
    """SentEval's protocol for a task, or the nearest one that needs no more than these splits: `all`, or of
    `train`, `dev`, `test` at least the first."""
    if "test" in splits and "dev" in splits:
        return Protocol("dev, then test", task == "SST2", len(PENALTIES) + 1)
    if "test" in splits or "dev" in splits:
        tested = "test" if "test" in splits else "dev"
        fits = kfold * len(PENALTIES_BY_FOLDS) + 1
        return Protocol(f"folds, then {tested}", tested == "test" and task != "SST2", fits)
    return Protocol("folds in folds", "all" in splits, kfold * (kfold * len(PENALTIES) + 1))


def check_classes(task: str, splits: Splits, kfold: int) -> None:
    """Refuse a task whose protocol's folds cannot be cut: each class must be in every fold, and in every part
    of folds inside folds."""
    steps = protocol(task, splits.keys(), kfold)
    if steps.name == "dev, then test":
        return
    inside = 2 if steps.name == "folds in folds" else 1
    fewest = min(Counter(splits["all" if "all" in splits else "train"].labels).values())
    if fewest < inside * kfold:
        most = fewest // inside
        raise MexmaError(
            f"{task}: a class has {counted(fewest, 'example')}, too few for {kfold} folds",
            f"use --kfold {most} or less" if most > 1 else "give it more examples, or leave its files out",
        )


def run_task(
    task: str, features: Mapping[str, Features], kfold: int, on_fit: OnFit = lambda: None
) -> dict[str, float | None]:
    """`accuracy` by the protocol that `protocol` names for these splits; for MRPC `f1` of class 1.
    Percent."""
    steps = protocol(task, features.keys(), kfold)
    if steps.name == "folds in folds":
        folds = _folds(features.get("all") or features["train"], kfold)
        runs = [(train, test, best_penalty(train, kfold, PENALTIES, on_fit)) for train, test in folds]
    else:
        train, test = features["train"], features.get("test") or features["dev"]
        if steps.name == "dev, then test":
            scores = [_accuracy(train, features["dev"], penalty, on_fit) for penalty in PENALTIES]
            runs = [(train, test, PENALTIES[int(np.argmax(scores))])]
        else:
            runs = [(train, test, best_penalty(train, kfold, PENALTIES_BY_FOLDS, on_fit))]
    accuracies, f1s = [], []
    for train, test, penalty in runs:
        found = _fitted(train, penalty, on_fit).predict(test.vectors)
        accuracies.append(100 * np.mean(found == test.classes))
        f1s.append(_f1(found, test.classes))
    return {"accuracy": float(np.mean(accuracies)), "f1": float(np.mean(f1s)) if task == "MRPC" else None}


def best_penalty(data: Features, kfold: int, penalties: Sequence[float], on_fit: OnFit) -> float:
    """The penalty of the best mean accuracy over k folds."""
    means = [
        np.mean([_accuracy(inside, outside, penalty, on_fit) for inside, outside in _folds(data, kfold)])
        for penalty in penalties
    ]
    # SentEval compares percents of two decimals.
    return penalties[int(np.argmax(np.round(100 * np.array(means), 2)))]


def _f1(found: np.ndarray, classes: np.ndarray) -> float:
    """F1 of class 1, in percent."""
    both = float(np.sum((found == 1) & (classes == 1)))
    either = float(np.sum(found == 1) + np.sum(classes == 1))
    return 200 * both / either if either else 0.0


def _folds(data: Features, kfold: int) -> list[tuple[Features, Features]]:
    from sklearn.model_selection import StratifiedKFold

    splitter = StratifiedKFold(n_splits=kfold, shuffle=True, random_state=SEED)
    return [
        (Features(data.vectors[a], data.classes[a]), Features(data.vectors[b], data.classes[b]))
        for a, b in splitter.split(data.vectors, data.classes)
    ]


def _accuracy(train: Features, test: Features, penalty: float, on_fit: OnFit) -> float:
    return float(np.mean(_fitted(train, penalty, on_fit).predict(test.vectors) == test.classes))


def _fitted(train: Features, penalty: float, on_fit: OnFit) -> Any:
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    solver = "newton-cholesky" if len(np.unique(train.classes)) == 2 else "lbfgs"
    model = LogisticRegression(C=penalty, solver=solver, max_iter=ITERATIONS, random_state=SEED)
    with warnings.catch_warnings():
        # At the last digits, of vectors far from unit size; and where Newton's steps give way to lbfgs.
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.filterwarnings("ignore", "The inner solver of Newton")
        model.fit(train.vectors, train.classes)
    on_fit()
    return model


def embed_splits(splits: Splits, embed: Embed) -> dict[str, Features]:
    """Features and classes; classes are numbered over all splits, in the order of their labels."""
    labels = sorted({label for examples in splits.values() for label in examples.labels})
    features = {}
    for split, examples in splits.items():
        vectors = embed(examples.sentences, LANGUAGE)
        if examples.seconds:
            vectors = pair_features(vectors, embed(examples.seconds, LANGUAGE))
        features[split] = Features(vectors, np.array([labels.index(label) for label in examples.labels]))
    return features


def evaluate(
    tasks: Mapping[str, Mapping[str, Features]],
    folders: Sequence[Path],
    kfold: int,
    encoder: dict[str, Any],
    on_fit: Callable[[str], object],
) -> Result:
    """The accuracy of every task, by the features of its splits. Scores are of the tasks that are whole and
    validated as published, with their mean where these are all; else the mean of what is there. `folders` are
    as they were named; `on_fit` is called after every regression, with the task."""
    rows: list[dict[str, Any]] = []
    for task, splits in tasks.items():
        steps = protocol(task, splits, kfold)
        found = run_task(task, splits, kfold, partial(on_fit, task))
        examples = sum(len(part.classes) for part in splits.values())
        whole = examples >= 0.98 * EXAMPLES[task]  # copies differ by a few
        rows.append(
            {
                "task": task,
                "validation": steps.name,
                "as published": "yes" if steps.as_published and whole else "no",
                "examples": examples,
            }
            | found
        )
    as_published = {row["task"]: row["accuracy"] for row in rows if row["as published"] == "yes"}
    scores = as_published or {"accuracy": fmean(row["accuracy"] for row in rows)}
    if len(as_published) == len(TASKS):
        scores = {"average": sum(scores.values()) / len(scores)} | scores
    named = [str(folder) for folder in folders]
    settings = {"folders": named, "classifier": "logistic regression", "kfold": kfold}
    return Result("senteval", encoder, settings, scores, rows, "senteval")
