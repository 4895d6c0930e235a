from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mexma_cli.executors import Forecast, RecipeExecutor, executors
from mexma_cli.settings.corpus import CorpusRecipe
from tests.command import ok, run
from tests.corpora import InThisProcess, corpus


def test_the_help_names_all_and_waits_for_none() -> None:
    shown = " ".join(ok(run("run", "--help")).stdout.split())
    assert f"[{'|'.join(executors())}] Where units run: on this machine, on Ray, in Slurm's job" in shown
    code = "import sys, mexma_cli.commands.run as run; assert 'slurm' in run.executors(); print(*sys.modules)"
    loaded = subprocess.check_output([sys.executable, "-c", code], text=True).split()
    assert "mexma_cli.executors.ray" in loaded
    assert not {"torch", "ray", "mexma_cli.stages.run.work", "mexma_cli.stages.run.plan"} & set(loaded)


def test_the_command_takes_all_that_it_does_from_the_class(
    tmp_path: Path, tiny_encoder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Elsewhere(InThisProcess, RecipeExecutor):
        name, about = "slurm", "elsewhere"

        @classmethod
        def from_recipe(cls, recipe: CorpusRecipe, folder: Path, jobs: int) -> Elsewhere:
            return cls(folder)

        @classmethod
        def forecast(cls, recipe: CorpusRecipe, work: Any) -> Forecast:
            return Forecast({"own": 7}, [("own", f"{work.left['cut']} texts")], ["too few"])

    monkeypatch.setattr("mexma_cli.commands.run.executors", lambda: {"slurm": Elsewhere})
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(corpus(tmp_path, tiny_encoder, pairs=[["fra", "eng"]]).to_yaml())
    typed = ("run", str(recipe), "--executor", "slurm")
    dry = ok(run(*typed, "--dry-run"))
    assert "own                      2 texts\n" in dry.stdout and "warning: too few\n" in dry.stderr
    assert "on this machine alone\n" in dry.stdout
    assert '"own": 7' in ok(run(*typed, "--dry-run", "--json")).stdout
    assert ok(run(*typed)).stdout == f"{tmp_path}/run/bitext/fra_Latn-eng_Latn\n"
