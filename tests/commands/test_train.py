"""`mexma train`: what is printed where, and the exit codes."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import mexma_cli
from mexma_cli.numerics import devices
from mexma_cli.settings.load import load
from tests.command import fails, ok, run, write
from tests.examples import tiny_recipe


@pytest.fixture
def recipe(tmp_path: Path, sentences: dict[str, list[str]]) -> Path:
    keys = {
        "objective": {"name": "bag"},
        "trainer": {"steps": 3, "batch_pairs": 4, "device": "cpu"},
    }
    return tiny_recipe(tmp_path, sentences, keys)


def test_the_encoders_folder_goes_to_stdout(recipe: Path) -> None:
    result = ok(run("train", recipe))
    folder = recipe.parent / "run" / "encoder"
    assert result.stdout == f"{folder}\n"
    assert (folder / "config.json").is_file()
    assert "3 steps on cpu" in result.stderr
    assert "dev xsim error" in result.stderr and "tokens/s" in result.stderr


def test_starting_again_and_resuming_a_finished_run(recipe: Path) -> None:
    first = ok(run("train", recipe, "--resume"))
    assert f"nothing to resume in {recipe.parent / 'run'}: training begins there" in first.stderr
    weights = recipe.parent / "run" / "encoder" / "model.safetensors"
    before = weights.read_bytes()
    again = fails(run("train", recipe), 1, "holds a training run already", "--resume")
    assert again.stdout == ""
    resumed = ok(run("train", recipe, "--resume", "--json"))
    made = json.loads(resumed.stdout)
    assert made["folder"] == str(weights.parent) and made["phases"][0]["steps"] == 3
    assert "nothing to resume" not in resumed.stderr
    assert resumed.stderr.endswith("run is finished already: nothing to do\n")
    assert weights.read_bytes() == before
    assert np.finfo(np.float64).tiny / 2 > 0  # this process counts with denormal numbers as before
    other = run("train", recipe, "--resume", "--set", "trainer.steps=4")
    fails(other, 1, "phases.train.trainer.steps (3, now 4)")


def test_resuming_takes_the_changes_that_the_run_was_started_with(recipe: Path, tmp_path: Path) -> None:
    """Those that are given now are above them; a run's own recipe has them already."""
    steps, elsewhere = ("--set", "trainer.steps=2"), ("--set", f"run={tmp_path / 'else where'}")
    for place in ((), elsewhere):
        ok(run("train", recipe, *steps, *place))
        again = ok(run("train", recipe, "--resume", *place))
        assert " goes on with --set trainer.steps=2, as it was started\n" in again.stderr
        assert again.stderr.endswith(" is finished already: nothing to do\n")
    ok(run("train", recipe, "--resume", "--set", "trainer.log_every=7"))
    other = run("train", recipe, "--resume", "--set", "trainer.steps=4")
    fails(other, 1, "phases.train.trainer.steps (2, now 4)")
    for arguments in ([recipe, *steps], [recipe.parent / "run" / "recipe.yaml"]):
        assert "goes on with" not in ok(run("train", *arguments, "--resume")).stderr
    assert mexma_cli.train(recipe, resume=True) == recipe.parent / "run" / "encoder"


def test_a_resumed_run_says_how_many_steps_are_done(recipe: Path) -> None:
    arguments = ["train", recipe, "--set", "dev=null", "--set", "trainer.checkpoint_every=1"]
    ok(run(*arguments))
    for finished in ("encoder", "train/encoder", "train/checkpoints/step-00000003"):
        shutil.rmtree(recipe.parent / "run" / finished)
    assert "train: 3 steps, 2 of them done, on cpu" in ok(run(*arguments, "--resume")).stderr


def test_a_step_that_takes_more_pairs_than_there_are(recipe: Path) -> None:
    result = ok(run("train", recipe, "--set", "trainer.batch_pairs=9"))
    assert "phase train takes 18 pairs a step, and there are only 8" in result.stderr


@pytest.mark.parametrize("fast", [True, False])
def test_auto_is_bf16_only_where_it_is_fast(
    fast: bool, recipe: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(devices, "computes_bf16", lambda: fast)
    result = ok(run("train", recipe, "--set", "trainer.precision=auto"))
    assert f"3 steps on cpu in {'bfloat16' if fast else 'float32'}" in result.stderr
    assert "emulates" not in result.stderr


@pytest.mark.parametrize("fast", [True, False])
def test_a_precision_that_is_emulated_is_warned_of(
    fast: bool, recipe: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(devices, "computes_bf16", lambda: fast)
    result = ok(run("train", recipe, "--set", "trainer.precision=bf16"))
    assert "3 steps on cpu in bfloat16" in result.stderr
    warned = "this processor has no instructions for trainer.precision=bf16 and emulates it"
    assert (warned in result.stderr) is not fast


@pytest.mark.parametrize("processes", [[], ["--nproc-per-node", "2"]])
def test_a_refused_run_leaves_the_prepared_text_alone(recipe: Path, processes: list[str]) -> None:
    ok(run("train", recipe))
    store = recipe.parent / "data"
    before = {path: path.read_bytes() for path in store.rglob("*") if path.is_file()}
    change = ["--set", "data.max_chars=40", "--set", "encoder.tokenizer.vocabulary=400", *processes]
    for arguments in ([], ["--resume"]):
        refused = fails(run("train", recipe, *change, *arguments), 1)
    assert "data.max_chars" in refused.stderr and "now 40)" in refused.stderr
    assert "elastic" not in refused.stderr
    assert before == {path: path.read_bytes() for path in store.rglob("*") if path.is_file()}


def test_without_a_terminal_there_is_a_line_now_and_then(
    recipe: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mexma_cli.commands.progress.LINE_SECONDS", 0)
    arguments = ["train", recipe, "--set", "dev=null"]
    result = ok(run(*arguments))
    lines = [line for line in result.stderr.splitlines() if line.startswith("train: ") and " of 3 [" in line]
    assert {f"train: {step} of 3" for step in (1, 2, 3)} <= {line.partition(" [")[0] for line in lines}
    assert "loss" in lines[-1] and "step/s" in lines[-1]
    assert "8 of 8 pairs" in result.stderr
    quiet = ok(run("-q", *arguments, "--set", f"run={recipe.parent / 'other'}"))
    assert "loss" not in quiet.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--set", "trainer.stps=1"], "unknown key `trainer.stps`"),
        (["--set", "trainer.device=gpu"], "unknown device 'gpu'"),
        (["--set", "trainer.device=cuda:99"], "no device 'cuda:99'"),
        (["--set", "encoder.attention=varlen"], "needs a CUDA device"),
        (["--set", "dev.path=nosuch"], "nosuch"),
        (["--set", "dev.path=recipe.yaml"], "dev set: "),
        (["--set", "data.min_chars=1000", "--set", "data.max_chars=2000"], "error: "),
        (["--set", "data.root=nosuch"], "nosuch"),
        (["--set", "encoder.new.heads=5"], "5 heads do not divide a width of 16"),
        (["--set", "objective={name: mexma, head: {heads: 5}}"], "head.heads is 5"),
        (["--set", "encoder={from: nosuch}"], "no encoder 'nosuch'"),
    ],
)
def test_a_mistake_is_a_message(arguments: list[str], message: str, recipe: Path) -> None:
    result = fails(run("train", recipe, *arguments), 1, message)
    assert result.stdout == "" and "Traceback" not in result.stderr
    assert not (recipe.parent / "run" / "encoder").exists()


@pytest.mark.parametrize(
    "override",
    ["trainer.device=gpu", "trainer.device=cuda:99", "encoder.attention=varlen", "dev.path=nosuch"],
)
def test_a_mistake_can_be_put_right(override: str, recipe: Path) -> None:
    """A run that never began does not stand in the way of the one that does."""
    fails(run("train", recipe, "--set", override), 1)
    ok(run("train", recipe))


def test_token_embeddings_do_not_overwrite_an_encoder(recipe: Path, tiny_encoder: Path) -> None:
    result = run("train", recipe, "--set", f"encoder={{from: {tiny_encoder}}}")
    fails(result, 1, "`bag` overwrites all of an encoder's weights")
    assert not (recipe.parent / "run").exists()


def test_no_recipe_is_wrong_usage() -> None:
    fails(run("train"), 2, "RECIPE")


def test_a_dry_run_prints_the_recipe_and_what_it_takes(recipe: Path, tmp_path: Path) -> None:
    keys = ["--set", "objective={name: contrastive}", "--set", "trainer.accumulate=1"]
    said = ok(run("train", recipe, *keys, "--nproc-per-node", "3", "--dry-run"))
    assert "phase train" in said.stdout and "steps      3 of 12 pairs: 36 pairs" in said.stdout
    assert "tokens a sentence: 32.0, assumed" in said.stdout
    assert not (tmp_path / "run").exists() and not (tmp_path / "data").exists()
    again = write(tmp_path / "again.yaml", said.stdout)  # what it takes is a comment
    numbers = json.loads(ok(run("train", again, "--dry-run", "--json")).stdout)
    assert numbers["recipe"] == load(again).model_dump(mode="json", by_alias=True)
    assert numbers["estimate"]["phases"][0]["pairs"] == 12
    ok(run("prepare", again))
    measured = json.loads(ok(run("train", again, "--dry-run", "--json")).stdout)["estimate"]
    assert measured["prepared"] == 8 and measured["measured"] and 3 < measured["length"] < 32
    (tmp_path / "pairs.tsv").unlink()
    ok(run("train", again, "--dry-run"))
    bag = ok(run("train", again, "--set", "objective={name: bag}", "--dry-run"))
    assert "phase train: its objective is not counted" in bag.stdout


def test_missing_text_is_said_before_torch_is_loaded(recipe: Path) -> None:
    """It took 40 seconds where the libraries came first."""
    code = (
        "import sys\n"
        "from mexma_cli.main import cli\n"
        "try:\n"
        "    cli(sys.argv[1:])\n"
        "finally:\n"
        "    assert not {'torch', 'transformers'} & set(sys.modules)\n"
    )
    for flags in ([], ["--nproc-per-node", "2"]):
        arguments = ["train", str(recipe), "--set", "data.root=/no/such/folder", *flags]
        done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True)
        assert done.returncode == 1 and "Assertion" not in done.stderr, done.stderr
        assert "/no/such/folder" in done.stderr
