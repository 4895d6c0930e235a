"""Which run may go on in a folder: the same recipe and the same pairs, wherever they are now."""

from __future__ import annotations

import itertools
import re
import shutil
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from mexma_cli.errors import MexmaError
from mexma_cli.main import cli
from mexma_cli.settings.load import load
from mexma_cli.stages.prepare.prepare import prepare
from mexma_cli.stages.train.run_folder import HARMLESS, PLACES, check_run, write_beginning
from mexma_cli.stages.train.train import has_its_text, train
from tests.examples import tiny_recipe
from tests.stages.train.training import ROOT, log_of, weights


@pytest.fixture
def recipe(tmp_path: Path, sentences: dict[str, list[str]]) -> Path:
    """A recipe with a folder of its own, in two phases of two steps."""
    folder = tmp_path / "here"
    folder.mkdir()
    keys = {
        "phases": [
            {"name": "bag", "objective": {"name": "bag"}},
            {"name": "contrast", "objective": {"name": "contrastive"}},
        ],
        "trainer": {"steps": 2, "batch_pairs": 4, "accumulate": 1, "device": "cpu", "log_every": 1},
        "dev": None,
    }
    return tiny_recipe(folder, sentences, keys)


def ends_after_one_step(recipe: Path) -> None:
    settings = load(recipe)
    prepare(settings)
    assert train(settings, stopped=lambda: True) is None


def finished(recipe: Path, *overrides: str) -> tuple[list[object], bytes]:
    """What a run leaves that is resumed by the command."""
    arguments = [part for override in overrides for part in ("--set", override)]
    result = CliRunner().invoke(cli, ["train", str(recipe), "--resume", *arguments])
    assert result.exit_code == 0, result.stderr
    run = Path(load(recipe, overrides).run)
    return list(log_of(run)), weights(run)


@pytest.fixture
def whole(recipe: Path) -> tuple[list[object], bytes]:
    """What the run leaves if nothing stops it."""
    copy = f"run={recipe.parent / 'whole'}"
    settings = load(recipe, [copy])
    prepare(settings)
    assert train(settings) is not None
    return list(log_of(Path(settings.run))), weights(Path(settings.run))


def test_text_that_changes_meanwhile_changes_nothing(recipe: Path, whole: object) -> None:
    """The pairs that the run was started with are there, and the tokens of its half-trained encoder."""
    ends_after_one_step(recipe)
    text = recipe.parent / "pairs.tsv"
    text.write_text("".join(text.read_text().splitlines(keepends=True)[:5]).lower())
    assert finished(recipe) == whole


def test_pairs_that_were_prepared_anew_are_refused(recipe: Path) -> None:
    ends_after_one_step(recipe)
    assert has_its_text(load(recipe))
    text = recipe.parent / "pairs.tsv"
    text.write_text("".join(text.read_text().splitlines(keepends=True)[:5]).lower())
    prepare(load(recipe))
    assert not has_its_text(load(recipe))
    with pytest.raises(MexmaError, match="was started with other text: own/fra_Latn, tokeniser"):
        train(load(recipe), resume=True)


@pytest.mark.parametrize("changed", ["fra", "fr"])
def test_stores_of_one_name_and_language_are_told_apart(
    changed: str, recipe: Path, tiny_encoder: Path
) -> None:
    """The recipe may spell a language in several ways, with a file for each."""
    corpus = {"name": "own", "format": "tsv", "path": "{lang}.tsv", "languages": ["fra", "fr"]}
    content = yaml.safe_load(recipe.read_text())
    content["data"] |= {"corpora": [corpus], "max_tokens": 64}
    del content["phases"][0]  # for new encoders alone
    recipe.write_text(yaml.safe_dump(content | {"encoder": {"from": str(tiny_encoder)}}))
    for name in ("fra", "fr"):
        shutil.copy(recipe.parent / "pairs.tsv", recipe.parent / f"{name}.tsv")
    ends_after_one_step(recipe)
    assert has_its_text(load(recipe))
    text = recipe.parent / f"{changed}.tsv"
    text.write_text("".join(text.read_text().splitlines(keepends=True)[:5]))
    prepare(load(recipe))
    assert not has_its_text(load(recipe))


def test_a_run_that_was_moved_goes_on(recipe: Path, whole: object) -> None:
    ends_after_one_step(recipe)
    shutil.move(recipe.parent, recipe.parent.parent / "there")
    there = recipe.parent.parent / "there"
    moved = (f"run={there / 'run'}", f"data.root={there}", f"data.store={there / 'data'}")
    assert finished(there / "recipe.yaml", *moved) == whole


def test_the_batches_of_a_finished_phase_do_not_matter(recipe: Path) -> None:
    settings = load(recipe)
    prepare(settings)
    steps = itertools.count(1)
    assert train(settings, stopped=lambda: next(steps) == 3) is None  # the second phase's first
    more = load(recipe, ["phases.bag.trainer.batch_pairs=8"])
    assert train(more, resume=True) is not None
    shutil.rmtree(Path(settings.run) / "contrast" / "encoder")
    with pytest.raises(MexmaError, match="pairs a step in phase contrast"):
        train(load(recipe, ["phases.contrast.trainer.batch_pairs=8"]), resume=True)


def test_a_run_whose_recipe_is_gone_is_not_taken_for_another(recipe: Path, whole: object) -> None:
    """Its encoders would be the other one's phases."""
    run = recipe.parent / "whole"
    (run / "recipe.yaml").unlink()
    for resume in (False, True):
        with pytest.raises(MexmaError, match=r"bag/checkpoints is of a run whose recipe\.yaml is gone"):
            train(load(recipe, [f"run={run}", "trainer.steps=3"]), resume=resume)
    (run / "bag" / "checkpoints").rename(run / "bag" / "moved")
    with pytest.raises(MexmaError, match=r"bag/encoder is of a run"):
        train(load(recipe, [f"run={run}", "trainer.steps=3"]))


def test_what_the_user_changed_in_a_finished_run_stays(recipe: Path, whole: object) -> None:
    run = recipe.parent / "whole"
    for name in ("README.md", "notes.txt"):
        (run / "encoder" / name).write_text("my own")
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    finished(recipe, f"run={run}")
    assert before == {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}


@pytest.mark.parametrize("name", ["text.json", "pairs_per_step.json", "log.jsonl", "encoder"])
def test_a_file_of_the_users_in_the_runs_folder_stays(name: str, recipe: Path) -> None:
    settings = load(recipe)
    prepare(settings)
    theirs = Path(settings.run) / name
    theirs.parent.mkdir()
    theirs.write_text('{"my": "own"}')
    with pytest.raises(MexmaError, match=f"{name} is (not of this run|of a run whose)"):
        train(settings)
    assert theirs.read_text() == '{"my": "own"}'


def test_another_start_is_named_by_its_key(recipe: Path, tmp_path: Path) -> None:
    write_beginning(tmp_path, load(recipe), {}, here=False)
    with pytest.raises(MexmaError, match=r"another recipe: encoder\.from \(None, now mini\), encoder\.new"):
        check_run(tmp_path, load(recipe, ["encoder={from: mini}"]), resume=True, processes=1)


def test_the_page_on_training_has_the_keys_that_may_differ() -> None:
    page = (ROOT / "docs/how-to/train.md").read_text(encoding="utf-8")
    (listed,) = re.findall(r"You may change where things are(.*) Other changed keys are refused\.", page)
    assert set(re.findall("`([a-z_.]+)`", listed)) - {"trainer"} == HARMLESS | PLACES


@pytest.mark.parametrize(
    ("name", "content"),
    [("text.json", "[1]"), ("text.json", '{"tokeniser": {}}'), ("pairs_per_step.json", '{"bag": "x"}')]
    + [("pairs_per_step.json", content) for content in ("null", "{}", '{"bag": 4}')],
)
def test_a_damaged_file_of_a_run_is_named(recipe: Path, name: str, content: str) -> None:
    ends_after_one_step(recipe)
    settings = load(recipe)
    (Path(settings.run) / name).write_text(content)
    with pytest.raises(MexmaError, match=rf"{name} is damaged"):
        train(settings, resume=True)
