"""Runs that differ in the seed: means and intervals."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from mexma_cli.reporting.seeds import SeedMean, quantile
from tests.command import ok, run
from tests.reporting.test_curves import record, write


def finished(folder: Path, seed: int, last: float, rate: float = 1e-3, **data: str) -> Path:
    write(folder, train=[record(1, 9.0), record(2, last)])
    recipe = {
        "name": "own",
        "run": str(folder),
        "data": {
            "store": "s",
            "corpora": [{"name": "a", "format": "tsv", "path": "a", "languages": ["fra"]}],
        },
        "encoder": {"from": "mini"},
        "objective": {"name": "contrastive"},
        "trainer": {"steps": 2, "seed": seed, "learning_rate": rate},
    }
    recipe["data"] |= data  # type: ignore[operator]
    (folder / "recipe.yaml").write_text(yaml.safe_dump(recipe))
    return folder


def test_the_interval_is_students() -> None:
    from scipy import stats  # a second to import

    values = [4.0, 5.0, 9.0]
    low, high = stats.t.interval(0.95, 2, 6.0, stats.sem(values))
    found = SeedMean.of(values)
    assert (found.mean - found.half, found.mean + found.half) == pytest.approx((low, high), abs=1e-3)
    assert [quantile(n) for n in range(1, 41)] == pytest.approx(
        [stats.t.ppf(0.975, n) for n in range(1, 41)], abs=3e-3
    )


def test_runs_with_other_seeds_are_one_row(tmp_path: Path) -> None:
    """Another place is no other recipe; another rate is, and a run alone has no mean."""
    folders = [finished(tmp_path / f"s{seed}", seed, last) for seed, last in ((1, 4.0), (2, 5.0))]
    folders += [finished(tmp_path / "moved", 3, 9.0, root="elsewhere", store="other")]
    folders += [finished(tmp_path / "fast", 4, 1.0, rate=0.1)]
    folders += [write(tmp_path / "bare", train=[record(1, 2.0)])]
    said = ok(run("report", *folders)).stdout
    assert "mean over seeds, with the 95% interval of Student's t" in said
    (row,) = (line.split() for line in said.partition("Student's t")[2].splitlines() if "loss" in line)
    assert " ".join(row) == "own train loss 3 6 ± 6.6 6 ± 6.6"
    found = json.loads(ok(run("report", *folders, "--json")).stdout)
    (group,) = found["seeds"]
    assert group["runs"] == ["s1", "s2", "moved"] and len(found["runs"]) == 5
    assert group["curves"][0]["curve"] == "loss"
    assert group["curves"][0]["last"]["half"] == pytest.approx(6.572, abs=1e-3)
    assert "Student" not in ok(run("report", folders[0], folders[3])).stdout
