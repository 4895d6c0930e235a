"""Runs that differ in the seed alone: the mean of a number over them, and how sure it is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from mexma_cli.errors import MexmaError
from mexma_cli.reporting.curves import RunCurves, names, shown_point, title
from mexma_cli.settings.load import load_any

RECIPE = "recipe.yaml"
_QUANTILES = (12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622, 2.2281)
"""Student's t at 97.5%, with 1 to 10 degrees of freedom."""
_NORMAL = 1.959964


@dataclass(frozen=True)
class SeedMean:
    """A number over seeds: its mean, and half the width of the 95% interval of Student's t."""

    mean: float
    half: float

    @classmethod
    def of(cls, values: Sequence[float]) -> SeedMean:
        """The mean and interval of two values or more."""
        half = quantile(len(values) - 1) * stdev(values) / math.sqrt(len(values))
        return cls(fmean(values), half)


def quantile(freedom: int) -> float:
    """Student's t at 97.5%; from 11 degrees of freedom on to two decimals (Cornish and Fisher)."""
    if freedom <= len(_QUANTILES):
        return _QUANTILES[freedom - 1]
    z = _NORMAL
    return z + (z**3 + z) / (4 * freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)


@dataclass(frozen=True)
class SeedGroup:
    """Runs of one recipe with different seeds, and numbers by phase and curve, of curves that all of the runs
    have: the best value and the last one; of a curve without a better and worse the last alone."""

    name: str
    runs: list[str]
    numbers: dict[tuple[str, str], dict[str, SeedMean]]


def by_seed(paths: Sequence[Path], runs: Sequence[RunCurves]) -> list[SeedGroup]:
    """The groups among some runs, in these folders or with these logs; a run of which there is no other seed
    is in none."""
    found: dict[str, dict[str, RunCurves]] = {}
    titles: dict[str, str] = {}
    for path, run in zip(paths, runs, strict=True):
        with suppress(MexmaError):  # no recipe, or one of another version
            raw = load_any((path if path.is_dir() else path.parent) / RECIPE).model_dump(mode="json")
            key, seeds = _without_seeds(raw)
            titles[key] = raw["name"]
            found.setdefault(key, {}).setdefault(seeds, run)
    return [
        SeedGroup(titles[key], [run.name for run in group.values()], _numbers(list(group.values())))
        for key, group in found.items()
        if len(group) > 1
    ]


def _without_seeds(raw: dict[str, Any]) -> tuple[str, str]:
    """A recipe without seeds and places, which runs of one recipe share, as text; and the seeds."""
    kept = {key: value for key, value in raw.items() if key not in ("run", "name", "data")}
    places = {"root": "", "store": ""}
    seeds = []
    trainers = [phase["trainer"] for phase in raw["phases"]] if "phases" in raw else [raw["trainer"]]
    for trainer in trainers:
        seeds.append(trainer.pop("seed"))
    return repr([kept, raw["data"] | places]), repr(seeds)


def _numbers(runs: Sequence[RunCurves]) -> dict[tuple[str, str], dict[str, SeedMean]]:
    found = {}
    for phase in runs[0].phases:
        for name in names(runs):
            curves = [
                one.curves[name] for run in runs for one in run.phases
                if one.name == phase.name and name in one.curves
            ]  # fmt: skip
            if len(curves) == len(runs):
                best = [value[0] for curve in curves if (value := curve.best(name)) is not None]
                own = {"best": SeedMean.of(best)} if best else {}
                found[phase.name, name] = own | {"last": SeedMean.of([curve.values[-1] for curve in curves])}
    return found


def table(groups: Sequence[SeedGroup]) -> list[list[str]]:
    """A header, and a row for each group, phase and curve."""
    rows = [["recipe", "phase", "curve", "seeds", "best", "last"]]
    for group in groups:
        for (phase, name), numbers in group.numbers.items():
            cells = [_shown(name, numbers[key]) if key in numbers else "" for key in ("best", "last")]
            rows.append([group.name, phase, title(name), str(len(group.runs)), *cells])
    return rows


def _shown(name: str, value: SeedMean) -> str:
    return f"{shown_point(name, value.mean)} ± {value.half:.2g}"


def summary(group: SeedGroup) -> dict[str, Any]:
    """The table's numbers for programs."""
    curves = [
        {"phase": phase, "curve": name} | {key: vars(value) for key, value in numbers.items()}
        for (phase, name), numbers in group.numbers.items()
    ]
    return {"recipe": group.name, "runs": group.runs, "curves": curves}
