"""`--plugin`: objectives from a file outside the package, the one in docs/how-to/extend.md before all."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import mexma_cli
from mexma_cli.errors import MexmaError
from mexma_cli.main import cli
from mexma_cli.settings.load import load
from mexma_cli.settings.registry import load_plugin, registered
from tests.examples import tiny_recipe

ROOT = Path(__file__).parent.parent.parent
PAGE = (ROOT / "docs/how-to/extend.md").read_text(encoding="utf-8")
(EXAMPLE,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture(autouse=True)
def registry() -> Iterator[None]:
    """What a test registers is gone after it."""
    before = dict(registered())
    yield
    registered().clear()
    registered().update(before)


@pytest.fixture
def plugin(tmp_path: Path) -> str:
    (tmp_path / "my_loss.py").write_text(EXAMPLE, encoding="utf-8")
    return str(tmp_path / "my_loss.py")


@pytest.fixture
def recipe(tmp_path: Path, tiny_encoder: Path, sentences: dict[str, list[str]]) -> str:
    trainer = {"steps": 8, "learning_rate": 0.01, "warmup": 0, "batch_pairs": 8, "accumulate": 1}
    trainer |= {"log_every": 1, "checkpoint_every": 4, "device": "cpu"}
    keys = {"objective": {"name": "triplet", "margin": 1.5}, "trainer": trainer}
    keys |= {"encoder": {"from": str(tiny_encoder)}, "dev": None}
    return str(tiny_recipe(tmp_path, sentences, keys))


def mexma(*words: str) -> Result:
    return CliRunner().invoke(cli, words)


def records(run: Path) -> list[dict[str, float | dict[str, float]]]:
    return [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]


def test_the_example_of_the_page_trains(
    recipe: str, plugin: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its terms are in the log, its margin in the loss, and a stopped run goes on with it."""
    assert mexma("prepare", recipe, "--plugin", plugin).exit_code == 0
    done = mexma("train", recipe, "--plugin", plugin)
    assert done.exit_code == 0, done.output
    run = tmp_path / "run"
    before = records(run)
    assert [set(record["terms"]) for record in before] == [{"triplet"}] * 8
    assert [record["terms"]["triplet"] for record in before] == [record["loss"] for record in before]
    assert before[0]["loss"] == pytest.approx(1.5, abs=0.3), "no sentence is nearer than another yet"
    assert before[-1]["loss"] < before[0]["loss"]
    weights = (run / "encoder/model.safetensors").read_bytes()
    for finished in ("encoder", "train/encoder", "train/checkpoints/step-00000008"):
        shutil.rmtree(run / finished)
    del registered()["triplet"]
    without = mexma("train", recipe, "--resume")
    assert without.exit_code == 1 and "or an objective of a --plugin FILE" in without.stderr
    assert mexma("train", recipe, "--resume", "--plugin", plugin).exit_code == 0
    assert (run / "encoder/model.safetensors").read_bytes() == weights
    monkeypatch.setenv("MEXMA_INFO_PLUGIN", plugin)
    info = mexma("info", str(run))
    assert info.exit_code == 0 and "checked encoder: it loads" in info.stdout


@pytest.mark.slow
def test_each_of_several_processes_has_it(
    recipe: str, plugin: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command that they are started with trains the objective where nobody has loaded it."""

    def launch(arguments: list[str], *_: object) -> int:
        del registered()["triplet"]
        return mexma(*arguments).exit_code

    monkeypatch.setattr("mexma_cli.training.launch.launch", launch)
    done = mexma("train", recipe, "--plugin", plugin, "--nproc-per-node", "2")
    assert done.exit_code == 0, done.output
    assert [set(record["terms"]) for record in records(tmp_path / "run")] == [{"triplet"}] * 8


def test_from_python(recipe: str, plugin: str) -> None:
    encoder = mexma_cli.train(recipe, ["objective.margin=0"], plugin=plugin)
    assert records(encoder.parent)[0]["loss"] == pytest.approx(0, abs=0.3)


def test_its_keys_are_checked(recipe: str, plugin: str) -> None:
    wrong = mexma("train", recipe, "--plugin", plugin, "--set", "objective.margn=1")
    assert wrong.exit_code == 1 and "unknown key `objective.margn`" in wrong.stderr
    assert "did you mean `margin`?" in wrong.stderr


def test_a_file_that_was_changed_is_run_again(recipe: str, plugin: str) -> None:
    load_plugin(plugin)
    Path(plugin).write_text(EXAMPLE.replace('"triplet", Triplet', '"other", Triplet'), encoding="utf-8")
    load_plugin(plugin)
    assert load(recipe, ["objective.name=other"]).phases[0].objective.name == "other"
    with pytest.raises(MexmaError, match=r"`name` is .triplet., none of"):
        load(recipe)


@pytest.mark.parametrize(
    ("now", "message"),
    [
        ('return {"triplet": nearer.nothing}', ", line 25: AttributeError: 'Tensor' object has no attribute"),
        ("return nearer.mean()", "Triplet.forward returns something else; its `weights` are of triplet"),
        ('return {"other": nearer.mean()}', "Triplet.forward returns other; its `weights` are of triplet"),
        ("return {}", "Triplet.forward returns no term"),
    ],
)
def test_what_is_wrong_in_its_loss_is_no_defect_of_mexma(
    now: str, message: str, recipe: str, plugin: str
) -> None:
    before = 'return {"triplet": nearer[~(translations | repeated)].mean()}'
    Path(plugin).write_text(EXAMPLE.replace(before, now), encoding="utf-8")
    done = mexma("train", recipe, "--plugin", plugin)
    assert done.exit_code == 1 and message in done.stderr and "defect" not in done.stderr


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, ": no such file"),
        ("import torch\n", " registers no objective"),
        ("x = 1\n\nx / 0\n", ", line 3: ZeroDivisionError: division by zero"),
        ("x = 1\nx = (\n", ", line 2: SyntaxError: '(' was never closed"),
        ("import nosuch\n", ", line 1: ModuleNotFoundError: No module named 'nosuch'"),
        (
            EXAMPLE.replace("TripletSettings(ObjectiveSettings)", "TripletSettings"),
            ", line 28: TripletSettings is no subclass of ObjectiveSettings or DecomposerSettings",
        ),
        (
            EXAMPLE.replace('"triplet", Triplet', '"mexma", Triplet'),
            ", line 28: there is an objective 'mexma' already (mexma_cli.objectives.mexma.settings)",
        ),
    ],
)
def test_what_is_wrong_with_it_is_one_line(
    text: str | None, message: str, recipe: str, tmp_path: Path
) -> None:
    path = tmp_path / "my_loss.py"
    if text is not None:
        path.write_text(text, encoding="utf-8")
    result = mexma("train", recipe, "--plugin", str(path))
    assert result.exit_code == 1
    error, *hint = result.stderr.splitlines()
    assert error.startswith(f"error: --plugin {path}{message}") and len(hint) <= 1
    assert not (tmp_path / "run").exists()
