"""Recipes: what is right parses, and what is wrong is named by its key."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from mexma_cli.errors import MexmaError
from mexma_cli.recipe import load, shipped

ROOT = Path(__file__).parent.parent.parent
SMALL = ROOT / "examples" / "small.yaml"
RECIPES = sorted((ROOT / "recipes").glob("*.yaml"))

Raw = dict[str, Any]


def written(folder: Path, raw: Raw) -> Path:
    path = folder / "recipe.yaml"
    path.write_text(yaml.safe_dump(raw), encoding="utf-8")
    return path


@pytest.fixture
def raw() -> Raw:
    return yaml.safe_load(SMALL.read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", [*RECIPES, SMALL], ids=lambda path: path.stem)
def test_every_recipe_parses_and_is_read_again_the_same(path: Path, tmp_path: Path) -> None:
    recipe = load(path)
    again = tmp_path / "resolved.yaml"
    again.write_text(recipe.to_yaml(), encoding="utf-8")
    assert load(again) == recipe
    assert load(again).to_yaml() == recipe.to_yaml()


def test_shipped_recipes_are_found_by_name() -> None:
    assert set(shipped()) == {path.stem for path in RECIPES}
    assert load("mini") == load(ROOT / "recipes" / "mini.yaml")


@pytest.mark.parametrize(
    ("place", "key", "where", "near"),
    [
        ([], "encodr", "encodr", "encoder"),
        (["data"], "max_token", "data.max_token", "max_tokens"),
        (["data", "corpora", 0], "formt", "data.corpora.0.formt", "format"),
        (["encoder", "new"], "layer", "encoder.new.layer", "layers"),
        (["phases", 1, "trainer"], "step", "phases.mexma.trainer.step", "steps"),
        (["phases", 1, "objective", "head"], "layer", "phases.mexma.objective.head.layer", "layers"),
    ],
)
def test_unknown_key(place: list[Any], key: str, where: str, near: str, raw: Raw, tmp_path: Path) -> None:
    node: Any = raw
    for step in place:
        node = node[step]
    node[key] = 1
    with pytest.raises(MexmaError) as caught:
        load(written(tmp_path, raw))
    assert f"unknown key `{where}`" in caught.value.message
    assert caught.value.hint == f"did you mean `{near}`?"


def test_unknown_key_where_the_phase_is_implied(raw: Raw, tmp_path: Path) -> None:
    phase = raw.pop("phases")[1]
    raw |= {"objective": phase["objective"], "trainer": phase["trainer"] | {"stps": 5}}
    with pytest.raises(MexmaError, match=r"unknown key `trainer\.stps`"):
        load(written(tmp_path, raw))


def test_missing_key(raw: Raw, tmp_path: Path) -> None:
    del raw["phases"][0]["trainer"]["steps"], raw["data"]["store"]
    with pytest.raises(MexmaError) as caught:
        load(written(tmp_path, raw))
    assert "`phases.words.trainer.steps` is missing" in caught.value.message
    assert "`data.store` is missing" in caught.value.message


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("trainer.steps=abc", r"`phases.words.trainer.steps`: .*integer.* \(is 'abc'\)"),
        ("trainer.learning_rate=0", "learning_rate`: .*greater than 0"),
        ("trainer.precision=fp8", "precision`: .*'fp32', 'bf16' or 'fp16'"),
        ("phases.mexma.objective.name=mexmaa", "phases.mexma.objective`.*mexmaa"),
        ("encoder.from=mini", "`encoder`: encoder needs either `from`"),
        ("encoder.tokenizer=null", "a new encoder needs `tokenizer`"),
        ("trainer.learning_rate=.inf", "learning_rate`: .*finite number"),
        ("phases=x", "`phases`"),
        ("phases.words.trainer=x", r"`phases.words.trainer`: .* \(is 'x'\)"),
        ("phases.mexma.name=words", "two phases have the name 'words'"),
        ("phases.mexma.name=encoder", "a phase cannot be named 'encoder'"),
        ("encoder.new.heads=0", r"`encoder.new.heads`: .* \(is 0\)"),
        ("trainer=1", r"trainer`: .* \(is 1\)"),
    ],
)
def test_a_wrong_value_is_named(override: str, message: str) -> None:
    with pytest.raises(MexmaError, match=message):
        load(SMALL, [override])


@pytest.mark.parametrize(
    ("override", "message", "hint"),
    [
        ("trainer.steps", "expected key=value", "--set trainer.steps=1000"),
        ("=3", "expected key=value", "--set trainer.steps=1000"),
        ("trainer.stps=3", "unknown key `phases.words.trainer.stps`", "`steps`"),
        ("phases.mexmaa.trainer.steps=3", "no phase 'mexmaa'", "phases: words, mexma"),
        ("objective.alpha=1", "which phase", "NAME one of: words, mexma"),
        ("name.x=1", "'x' is not inside a section", None),
        ("data.corpora.0.cap=1", "'0' is not inside a section", None),
    ],
)
def test_a_wrong_override(override: str, message: str, hint: str | None) -> None:
    with pytest.raises(MexmaError) as caught:
        load(SMALL, [override])
    assert message in caught.value.message
    assert (hint is None) == (caught.value.hint is None)
    assert hint is None or hint in str(caught.value.hint)


def test_set_for_all_phases_and_for_one() -> None:
    recipe = load(
        SMALL,
        [
            "trainer.steps=7",
            "phases.words.trainer.learning_rate=1e-4",
            "run=elsewhere",
            "encoder.new.layers=1",
        ],
    )
    assert [phase.trainer.steps for phase in recipe.phases] == [7, 7]
    assert [phase.trainer.learning_rate for phase in recipe.phases] == [1e-4, 0.0005]
    assert recipe.run == "elsewhere"
    assert recipe.encoder.new is not None and recipe.encoder.new.layers == 1


def test_the_later_override_wins() -> None:
    recipe = load(SMALL, ["trainer.steps=7", "phases.mexma.trainer.steps=9"])
    assert [phase.trainer.steps for phase in recipe.phases] == [7, 9]


def test_a_shared_trainer_stands_behind_the_phases(raw: Raw, tmp_path: Path) -> None:
    raw["trainer"] = {"seed": 7, "batch_pairs": 3}
    phases = load(written(tmp_path, raw)).phases
    assert [phase.trainer.seed for phase in phases] == [7, 7]
    assert [phase.trainer.batch_pairs for phase in phases] == [128, 16]  # a phase's own comes first


def test_settings_are_frozen() -> None:
    with pytest.raises(ValueError, match="frozen"):
        load(SMALL).run = "elsewhere"  # type: ignore[misc]


def test_no_such_recipe(tmp_path: Path) -> None:
    with pytest.raises(MexmaError, match="no recipe 'minni'") as caught:
        load("minni")
    assert caught.value.hint is not None and caught.value.hint.startswith("did you mean mini?")
    with pytest.raises(MexmaError, match="is a folder, not a recipe"):
        load(tmp_path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"name: x\nrun: [1, 2\ndata: 3\n", r"line 3, column 5: not valid YAML"),
        (b"- a\n- b\n", "this is list"),
        (b"", "this is NoneType"),
        (b"name: caf\xe9\n", r"not UTF-8 \(byte 9\)"),
    ],
)
def test_a_file_that_is_no_recipe(content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "recipe.yaml"
    path.write_bytes(content)
    with pytest.raises(MexmaError, match=message) as caught:
        load(path)
    assert str(path) in caught.value.message


@pytest.mark.parametrize("data", [{"format": "tsv", "path": None}, {"format": "aligned"}])
def test_a_corpus_needs_the_paths_of_its_format(data: Raw, raw: Raw, tmp_path: Path) -> None:
    raw["data"]["corpora"][0] |= data
    with pytest.raises(MexmaError, match=r"`data.corpora.0`: corpus 'tatoeba': format \w+ needs"):
        load(written(tmp_path, raw))


@pytest.mark.parametrize(
    ("phases", "overrides"),
    [
        ("x", ["trainer.steps=3"]),
        (["x"], ["trainer.steps=3"]),
        (["x"], ["phases.words.trainer.steps=3"]),
        ([{"name": "words", "trainer": "x", "objective": {"name": "words"}}], []),
        ([{"name": "words", "trainer": {"steps": 3}}], []),
        ([], []),
    ],
)
def test_phases_that_are_none(phases: Any, overrides: list[str], raw: Raw, tmp_path: Path) -> None:
    with pytest.raises(MexmaError, match="phase"):
        load(written(tmp_path, raw | {"phases": phases, "trainer": {"seed": 1}}), overrides)
