"""The log of a training run as curves: a loss, a rate or a score by step, phase by phase."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np

from mexma_cli.errors import MexmaError
from mexma_cli.training.log import read_record

LOG = "log.jsonl"
NAMES = {
    "unmask_source": "unmasking, source",
    "unmask_target": "unmasking, target",
    "koleo": "KoLeo",
    "contrastive": "contrastive (InfoNCE)",
    "hard_negatives": "hard negatives",
    "dev": "dev xsim error (%)",
    "validation_loss": "validation loss",
    "learning_rate": "learning rate",
    "gradient_norm": "gradient norm",
    "tokens_per_second": "tokens/s",
}
"""How curves are called, where their name in the log is not plain English. In the order of a report, after
the loss and the other terms."""
BEST: dict[str, Literal["least", "most", "none"]] = {
    "learning_rate": "none",
    "gradient_norm": "none",
    "tokens_per_second": "most",
}
"""Which value of a curve is its best. For a curve that is not here it is the least."""


@dataclass
class TrainingCurve:
    """A number by step of its phase, from 1. Records that lack it, or have null (an fp16 overflow), are left
    out."""

    steps: list[int] = field(default_factory=list)
    values: list[float] = field(default_factory=list)

    def best(self, name: str) -> tuple[float, int] | None:
        """The best value and its step; None for a curve that has no better and worse."""
        kind = BEST.get(name, "least")
        if kind == "none":
            return None
        place = int(np.argmin(self.values) if kind == "least" else np.argmax(self.values))
        return self.values[place], self.steps[place]

    def smoothed(self) -> np.ndarray:
        """The mean of each value and its neighbours, a fortieth of the curve in all: float64 [n]."""
        width = max(1, len(self.values) // 40)
        window = np.ones(width)
        weights = np.convolve(np.ones(len(self.values)), window, mode="same")
        return np.convolve(self.values, window, mode="same") / weights


@dataclass
class PhaseCurves:
    """One phase of a run, its last logged step, and its curves by name: loss, the terms as the objective
    calls them, dev, learning_rate, gradient_norm, tokens_per_second; those that have a value at all."""

    name: str
    steps: int = 0
    curves: dict[str, TrainingCurve] = field(default_factory=dict)


@dataclass
class RunCurves:
    """A training run's phases, in their order."""

    name: str
    phases: list[PhaseCurves]


def is_run(path: Path) -> bool:
    """Whether a path is a training run's folder, or its log."""
    return (path / LOG).is_file() or (path.is_file() and path.suffix == ".jsonl")


def read_runs(paths: Sequence[Path]) -> list[RunCurves]:
    """Training runs of folders or of files log.jsonl, named after their folders, or by their whole paths
    where two folders have one name. A log that is empty, or has a line that is no record of a training, is
    refused."""
    logs = [path / LOG if path.is_dir() else path for path in paths]
    names = [log.absolute().parent.name if log.name == LOG else log.stem for log in logs]
    unique = len(set(names)) == len(names)
    return [
        RunCurves(name if unique else str(path), _phases(_records(log)))
        for path, log, name in zip(paths, logs, names, strict=True)
    ]


def names(runs: Sequence[RunCurves]) -> list[str]:
    """The names of all curves: the loss, its terms, the dev score, then rates and speed."""
    there = dict.fromkeys(name for run in runs for phase in run.phases for name in phase.curves)
    last = ["dev", "validation_loss", "learning_rate", "gradient_norm", "tokens_per_second"]
    return [name for name in there if name not in last] + [name for name in last if name in there]


def phase_names(runs: Sequence[RunCurves]) -> list[str]:
    """The names of all phases, those of every run in its own order; runs in which the order of two phases
    differs are refused."""
    before: dict[str, set[str]] = {phase.name: set() for run in runs for phase in run.phases}
    for run in runs:
        for earlier, later in pairwise(phase.name for phase in run.phases):
            before[later].add(earlier)
    order: list[str] = []
    while len(order) < len(before):
        found = next((name for name in before if name not in order and before[name] <= {*order}), None)
        if found is None:
            mixed = ", ".join(name for name in before if name not in order)
            raise MexmaError(
                f"the runs do not have the phases {mixed} in one order, so they have no common axis",
                "name each of these runs in a command of its own",
            )
        order.append(found)
    return order


def spans(runs: Sequence[RunCurves]) -> dict[str, tuple[int, int]]:
    """Where each phase begins and ends on an axis that all runs share: phases of one name in one place."""
    longest = dict.fromkeys(phase_names(runs), 0)
    for run in runs:
        for phase in run.phases:
            longest[phase.name] = max(phase.steps, longest[phase.name])
    ends = np.cumsum(list(longest.values())).tolist()
    return {name: (end - longest[name], end) for name, end in zip(longest, ends, strict=True)}


def title(name: str) -> str:
    """A curve's name in plain English."""
    return NAMES.get(name, name.replace("_", " "))


def table(runs: Sequence[RunCurves]) -> list[list[str]]:
    """First, best and last value of every curve: a header and rows; the run's name if there are several."""
    header = ["phase", "curve", "first", "best", "at step", "last", "of steps"]
    rows = []
    for phase, name, run, curve, steps in _listed(runs):
        best = curve.best(name)
        cells = [shown_point(name, curve.values[0])]
        cells += [shown_point(name, best[0]), f"{best[1]:,}"] if best else ["", ""]
        cells += [shown_point(name, curve.values[-1]), f"{steps:,}"]
        rows.append([phase, title(name), *([run] if len(runs) > 1 else []), *cells])
    if len(runs) > 1:
        header.insert(2, "run")
    return [header, *rows]


def shown_point(name: str, value: float) -> str:
    """A value as text, in the digits that matter."""
    if name == "learning_rate":
        return f"{value:.2e}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def summary(run: RunCurves) -> dict[str, Any]:
    """The table's numbers for programs."""
    phases = []
    for phase in run.phases:
        curves = {}
        for name, curve in phase.curves.items():
            best = curve.best(name)
            curves[name] = {
                "first": curve.values[0],
                "best": best[0] if best else None,
                "best_step": best[1] if best else None,
                "last": curve.values[-1],
            }
        phases.append({"phase": phase.name, "steps": phase.steps, "curves": curves})
    return {"run": run.name, "phases": phases}


def _listed(runs: Sequence[RunCurves]) -> Iterator[tuple[str, str, str, TrainingCurve, int]]:
    """Phase, curve's name, run's name, curve, phase's steps. Curves to be compared follow one another."""
    for phase_name in phase_names(runs):
        for name in names(runs):
            for run in runs:
                for phase in run.phases:
                    if phase.name == phase_name and name in phase.curves:
                        yield phase_name, name, run.name, phase.curves[name], phase.steps


def _phases(records: Sequence[dict[str, Any]]) -> list[PhaseCurves]:
    phases: dict[str, PhaseCurves] = {}
    for record in records:
        phase = phases.setdefault(record["phase"], PhaseCurves(record["phase"]))
        phase.steps = record["step"]
        values = {"loss": record["loss"]} | record.get("terms", {})
        values |= {"dev": record.get("dev", {}).get("xsim")}
        values |= {name: record.get(name) for name in NAMES if name in record and name != "dev"}
        for name, value in values.items():
            if isinstance(value, int | float) and math.isfinite(value):
                curve = phase.curves.setdefault(name, TrainingCurve())
                curve.steps.append(record["step"])
                curve.values.append(float(value))
    return list(phases.values())


def _records(log: Path) -> list[dict[str, Any]]:
    """The records of a log; a last line without its end is one that is being written."""
    *lines, _ = log.read_bytes().split(b"\n")
    records = []
    for number, line in enumerate(lines, 1):
        record = read_record(line)
        if record is None or not _is_of_training(record):
            raise MexmaError(
                f"{log}, line {number}: this is no record of a training run",
                "a report is made of the log.jsonl that `mexma train` writes; remove the damaged line",
            )
        records.append(record)
    if not records:
        raise MexmaError(
            f"{log} is empty: nothing has been logged yet",
            "a run writes its first record after `trainer.log_every` steps",
        )
    return records


def _is_of_training(record: dict[str, Any]) -> bool:
    return "loss" in record and all(isinstance(record.get(key, {}), dict) for key in ("terms", "dev"))
