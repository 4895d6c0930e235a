"""SentEval: logistic regression on frozen sentence vectors, validated as SentEval validates it.

Protocols and seeds are those of SentEval's `validation.py` (nhid 0): stratified folds shuffled with seed
1111; the inverse strength of the L2 penalty is the best of `PENALTIES`, of `PENALTIES_BY_FOLDS` for a task
with a test part and no dev part (the first of equals). The solvers are scikit-learn's Newton (two classes: a
few steps, ten times faster) and lbfgs (more), run until they converge, where SentEval's time had liblinear.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from mexma_cli.errors import MexmaError
from mexma_cli.evaluation.embedder import Embed
from mexma_cli.evaluation.readers.senteval import TASKS, Examples
from mexma_cli.reporting.result import Result
from mexma_cli.text.amounts import counted

SEED = 1111
PENALTIES = tuple(2.0**power for power in range(-2, 4))
PENALTIES_BY_FOLDS = tuple(2.0**power for power in range(-1, 6))
ITERATIONS = 1000
LANGUAGE = "eng_Latn"
EXAMPLES = {
    "MR": 10662,
    "SST2": 70042,
    "TREC": 5952,
    "CR": 3775,
    "SUBJ": 10000,
    "MPQA": 10606,
    "MRPC": 5801,
}
"""Of all parts, in SentEval's download."""

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
    """SentEval's protocol for a task, or the nearest one that needs no more than these splits.

    Args:
        splits: `all`, or of `train`, `dev`, `test`: at least the first of them.
    """
    if "test" in splits and "dev" in splits:
        return Protocol("dev, then test", task == "SST2", len(PENALTIES) + 1)
    if "test" in splits or "dev" in splits:
        tested = "test" if "test" in splits else "dev"
        fits = kfold * len(PENALTIES_BY_FOLDS) + 1
        return Protocol(f"folds, then {tested}", tested == "test" and task != "SST2", fits)
    return Protocol("folds in folds", "all" in splits, kfold * (kfold * len(PENALTIES) + 1))


def check_classes(task: str, classes: Mapping[str, Collection[Any]], kfold: int) -> None:
    """Find out before the work whether the folds of a task's protocol can be cut.

    Each class must be in every fold, and in every part of folds inside folds.

    Args:
        classes: Of the examples of each split, under any names.

    Raises:
        MexmaError: A class has too few examples for so many folds.
    """
    steps = protocol(task, classes.keys(), kfold)
    if steps.name == "dev, then test":
        return
    inside = 2 if steps.name == "folds in folds" else 1
    fewest = min(Counter(classes["all"] if "all" in classes else classes["train"]).values())
    if fewest < inside * kfold:
        most = fewest // inside
        raise MexmaError(
            f"{task}: a class has {counted(fewest, 'example')}, too few for {kfold} folds",
            f"use --kfold {most} or less" if most > 1 else "give it more examples, or leave its files out",
        )


def run_task(
    task: str, features: Mapping[str, Features], kfold: int, on_fit: OnFit = lambda: None
) -> dict[str, float | None]:
    """`accuracy` by the protocol that `protocol` names for these splits; for MRPC `f1` of class 1. Percent.

    Raises:
        MexmaError: A class has too few examples for so many folds.
    """
    steps = protocol(task, features.keys(), kfold)
    check_classes(task, {split: part.classes for split, part in features.items()}, kfold)
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
    """The accuracy of every task. Scores are of the tasks that are whole and validated as published, with
    their mean where these are all; else the mean of what is there.

    Args:
        tasks: By name, the features of their splits.
        folders: As they were named.
        on_fit: Called after every regression, with the task.
    """
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
