"""Recipes: what is right parses, and what is wrong is named by its key."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from mexma_cli.errors import MexmaError
from mexma_cli.languages import codes
from mexma_cli.objectives.mexma.settings import MexmaSettings
from mexma_cli.settings.corpus import CorpusFilter, CorpusRecipe
from mexma_cli.settings.load import SYNONYMS, explained, load, load_any, load_corpus, shipped
from mexma_cli.settings.section import Empty, Section, kinds_of
from mexma_cli.settings.training import DecomposeRecipe, Recipe
from mexma_cli.training.optimisers import rate

ROOT = Path(__file__).parent.parent.parent
SMALL = ROOT / "examples" / "small.yaml"
RECIPES = sorted((ROOT / "recipes").rglob("*.yaml"))

Raw = dict[str, Any]
ALTERNATIVES = [
    *("mask_share", "koleo_normalise", "koleo_global", "heads", "ffn", "layer_norm_eps", "warmup"),
    *("weight_decay", "precision", "max_length_ratio", "max_chars", "exclude"),
]
CORPUS = SMALL.with_name("corpus.yaml")
MEAT = "systems/meat-oracle"


def written(folder: Path, raw: Raw) -> Path:
    path = folder / "recipe.yaml"
    path.write_text(yaml.safe_dump(raw), encoding="utf-8")
    return path


@pytest.fixture
def raw() -> Raw:
    return yaml.safe_load(SMALL.read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", [*RECIPES, SMALL], ids=lambda path: path.stem)
def test_every_recipe_parses_and_is_read_again_the_same(path: Path, tmp_path: Path) -> None:
    recipe = load_any(path)
    again = tmp_path / "resolved.yaml"
    again.write_text(recipe.to_yaml(), encoding="utf-8")
    assert load_any(again) == recipe


def test_shipped_recipes_are_found_by_name() -> None:
    assert {"mini", "81langs", "base", "ablations/no-koleo", "ablations/masking-90"} < set(shipped())
    assert list(shipped().values()) == RECIPES
    assert load("mini") == load(ROOT / "recipes" / "mini.yaml")
    assert load("ablations/no-koleo").name == "no-koleo"


def test_unknown_key_where_the_phase_is_implied(raw: Raw, tmp_path: Path) -> None:
    phase = raw.pop("phases")[1]
    raw |= {"objective": phase["objective"], "trainer": phase["trainer"] | {"stps": 5}}
    with pytest.raises(MexmaError, match=r"unknown key `trainer\.stps`"):
        load(written(tmp_path, raw))


def test_missing_key(raw: Raw, tmp_path: Path) -> None:
    del raw["phases"][0]["trainer"]["steps"], raw["data"]["store"]
    with pytest.raises(MexmaError) as caught:
        load(written(tmp_path, raw))
    assert "`phases.bag.trainer.steps` is missing" in caught.value.message
    assert "`data.store` is missing" in caught.value.message


@pytest.mark.parametrize(
    ("override", "message", "hint"),
    [
        ("trainer.steps", "expected key=value", "--set trainer.steps=1000"),
        ("=3", "expected key=value", "--set trainer.steps=1000"),
        ("trainer.stps=3", "unknown key `trainer.stps`", "`steps`"),
        ("phases.trian.trainer.steps=3", "no phase 'trian'", "did you mean train? Phases: bag, train"),
        ("objective.alpha=1", "which phase", "NAME one of: bag, train"),
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
            "phases.bag.trainer.learning_rate=1e-4",
            "run=elsewhere",
            "encoder.new.layers=1",
        ],
    )
    assert [phase.trainer.steps for phase in recipe.phases] == [7, 7]
    assert [phase.trainer.learning_rate for phase in recipe.phases] == [1e-4, 0.0005]
    assert recipe.run == "elsewhere"
    assert recipe.encoder.new is not None and recipe.encoder.new.layers == 1


def test_set_for_one_of_two_phases_that_share_a_section(raw: Raw, tmp_path: Path) -> None:
    first, second = raw["phases"]
    raw["phases"] = [first, {**second, "name": "one"}, {**second, "name": "other"}]
    path = written(tmp_path, raw)
    assert "objective: &id" in path.read_text()  # YAML's dumper writes it once, and an alias
    recipe = load(path, ["phases.one.objective.alpha=7"])
    assert [phase.objective.alpha for phase in recipe.phases[1:]] == [7.0, 1.0]


def test_the_later_override_wins() -> None:
    recipe = load(SMALL, ["trainer.steps=7", "phases.train.trainer.steps=9"])
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
    assert caught.value.hint == "did you mean mini? `mexma recipes` lists them"
    with pytest.raises(MexmaError, match="no recipe 'unlike-any'") as caught:
        load("unlike-any")
    assert caught.value.hint == "`mexma recipes` lists them"
    with pytest.raises(MexmaError, match="is a folder, not a recipe"):
        load(tmp_path)


@pytest.mark.parametrize(
    ("source", "near"),
    [
        ("nosuch.yaml", None),
        ("of/mine/own.yml", None),
        ("recipes/ablations/no-kolleo.yaml", "ablations/no-koleo"),
        ("ablations/no-kolleo", "ablations/no-koleo"),
    ],
)
def test_no_such_file(source: str, near: str | None) -> None:
    with pytest.raises(MexmaError) as caught:
        load(source)
    hint = caught.value.hint
    assert caught.value.message == f"{source}: no such file"
    assert hint is None if near is None else hint is not None and hint.startswith(f"did you mean {near}")
    assert len(hint or "") < 150, "a few names"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"name: x\nrun: [1, 2\ndata: 3\n", r"line 3, column 5: not valid YAML"),
        (b"- a\n- b\n", "this file is a list"),
        (b"", "this file is empty"),
        (b"just words\n", "this file has none"),
        (
            b"name: x\nrun: y\ndata:\n  store: a\n  root: b\n  store: c\n",
            "line 6, column 3: .*`store` is there already, in line 4",
        ),
        (b"name: caf\xe9\n", r"not UTF-8 \(byte 9\)"),
        (b"? [a, b]\n: 1\n", r"line 1, column 3: not valid YAML: found unhashable key"),
        (b"name: \0\n", "not valid YAML: unacceptable character"),
        (b"name: " + b"x" * 2_000_000, "is no recipe: it has over 524,288 bytes"),
        (b"".join(b"k%d: 1\n" % i for i in range(200)), r"(?m)unknown key `k13`; and more, 207 in all$"),
    ],
)
def test_a_file_that_is_no_recipe(content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "recipe.yaml"
    path.write_bytes(content)
    with pytest.raises(MexmaError, match=message) as caught:
        load(path)
    assert str(path) in caught.value.message
    assert "not valid YAML" not in caught.value.message or "no tabs" in (caught.value.hint or "")


@pytest.mark.parametrize(
    "data", [{"format": "tsv", "path": []}, {"format": "tsv", "path": ""}, {"format": "aligned"}]
)
def test_a_corpus_needs_the_paths_of_its_format(data: Raw, raw: Raw, tmp_path: Path) -> None:
    raw["data"]["corpora"][0] |= data
    with pytest.raises(MexmaError, match=r"`data.corpora.0`: corpus 'tatoeba': format \w+ needs"):
        load(written(tmp_path, raw))


@pytest.mark.parametrize(
    ("phases", "overrides"),
    [
        ("x", ["trainer.steps=3"]),
        (["x"], ["trainer.steps=3"]),
        (["x"], ["phases.bag.trainer.steps=3"]),
        ([{"name": "bag", "trainer": "x", "objective": {"name": "bag"}}], []),
        ([{"name": "bag", "trainer": {"steps": 3}}], []),
        ([], []),
    ],
)
def test_phases_that_are_none(phases: Any, overrides: list[str], raw: Raw, tmp_path: Path) -> None:
    with pytest.raises(MexmaError, match="phase"):
        load(written(tmp_path, raw | {"phases": phases, "trainer": {"seed": 1}}), overrides)


def chain(folder: Path, **recipes: Raw) -> None:
    for name, content in recipes.items():
        (folder / f"{name}.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")


def test_a_recipe_extends_another_key_by_key(raw: Raw, tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    chain(
        tmp_path,
        first=raw,
        second={
            "extends": "first.yaml",
            "name": "second",
            "encoder": {"new": {"layers": 1}},
            "phases": [{"name": "train", "trainer": {"steps": 9}}],
        },
    )
    third = {
        "extends": "../second.yaml",
        "run": "runs/third",
        "data": {"exclude": ["x"]},
        "trainer": {"seed": 7},
    }
    chain(tmp_path / "deep", third=third)
    base, recipe = load(tmp_path / "first.yaml"), load(tmp_path / "deep" / "third.yaml", ["trainer.clip=3"])
    assert (recipe.name, recipe.run) == ("second", "runs/third")
    assert recipe.data == base.data.model_copy(update={"exclude": ("x",)})
    assert recipe.encoder.new is not None and base.encoder.new is not None
    assert recipe.encoder.new == base.encoder.new.model_copy(update={"layers": 1})
    assert [phase.name for phase in recipe.phases] == ["bag", "train"]
    assert [phase.trainer.steps for phase in recipe.phases] == [base.phases[0].trainer.steps, 9]
    assert [(phase.trainer.seed, phase.trainer.clip) for phase in recipe.phases] == [(7, 3.0)] * 2
    assert [phase.objective for phase in recipe.phases] == [phase.objective for phase in base.phases]


def test_what_replaces_and_what_is_added(raw: Raw, tmp_path: Path) -> None:
    corpus = {"name": "other", "format": "tsv", "path": "x", "languages": ["fra"]}
    later = {"name": "later", "objective": {"name": "mexma"}, "trainer": {"steps": 5}}
    chain(tmp_path, base=raw, own={"extends": "base.yaml", "data": {"corpora": [corpus]}, "phases": [later]})
    recipe = load(tmp_path / "own.yaml")
    assert [corpus.name for corpus in recipe.data.corpora] == ["other"], "lists are not merged"
    assert [phase.name for phase in recipe.phases] == ["bag", "train", "later"]


def test_an_objective_of_another_name_takes_nothing_over() -> None:
    inherited, own = (load(name).phases[0].objective for name in ("81langs", "ablations/contrastive"))
    assert (inherited.name, own.name) == ("mexma", "contrastive")
    koleo = load("ablations/no-koleo").phases[0].objective
    assert koleo.model_dump() == inherited.model_dump() | {"gamma": 0.0}


def test_circles_are_shown(tmp_path: Path) -> None:
    chain(tmp_path, a={"extends": "b.yaml"}, b={"extends": "c.yaml"}, c={"extends": "b.yaml"})
    with pytest.raises(
        MexmaError, match=r"circle: .*a\.yaml extends .*b\.yaml extends .*c\.yaml extends .*b\.yaml"
    ):
        load(tmp_path / "a.yaml")


@pytest.mark.parametrize(
    ("own", "message"),
    [
        ({"extends": "minni"}, r"own\.yaml: `extends`: no recipe 'minni'"),
        ({"extends": 3}, "`extends` is a recipe's name or path, this is 3"),
        ({"extends": "base.yaml", "objective": {"alpha": 2}}, "`objective`: of which phase"),
        (
            {"extends": "base.yaml", "data": {"stor": 1}},
            r"own\.yaml extends .*base\.yaml: unknown key `data\.stor`",
        ),
        ({"extends": "base.yaml", "phases": "x"}, "`phases`"),
        (
            {"extends": "base.yaml", "phases": [{"name": "bag", "trainer": {"steps": "x"}}]},
            "bag.trainer.steps",
        ),
        ({"extends": "81langs", "objective": {"gamma": "x"}}, r"`objective\.gamma`: .* \(is 'x'\)"),
        ({"extends": "81langs", "data": {"codes": {"deu_Latn": "de"}}}, r"`data\.codes\.deu_Latn`"),
        ({"extends": "81langs", "data": {"cap_per_language": 10}}, "is above `cap_per_language`"),
        ({"extends": "81langs", "data": {"corpora": []}}, "`data.corpora`"),
    ],
)
def test_mistakes_in_a_recipe_that_extends(own: Raw, message: str, raw: Raw, tmp_path: Path) -> None:
    chain(tmp_path, base=raw, own=own)
    with pytest.raises(MexmaError, match=message):
        load(tmp_path / "own.yaml")


def test_languages_of_all_corpora_that_list_none(raw: Raw, tmp_path: Path) -> None:
    listed = {"name": "b", "format": "opus", "path": "b", "languages": ["deu"]}
    raw["data"] |= {
        "languages": ["fra", "spa"],
        "corpora": [{"name": "a", "format": "opus", "path": "a"}, listed],
    }
    a, b = load(written(tmp_path, raw)).data.corpora
    assert (a.languages, a.optional) == (("fra", "spa"), True)
    assert (b.languages, b.optional) == (("deu",), False)


def test_published_recipes_are_narrowed() -> None:
    data = load("systems/dap", ["data.languages=[fra,deu_Latn,swh]"]).data
    taken = {corpus.name: data.taken(corpus) for corpus in data.corpora}
    assert taken.pop("CCMatrix") == ("swh_Latn",), "which lists its own"
    assert len(taken) == 5 and set(taken.values()) == {("fra", "deu_Latn", "swh")}
    data = load("mini", ["data.languages=[bos_Latn,fra_Latn]"]).data
    assert {corpus.name: data.taken(corpus) for corpus in data.corpora} == {
        "tatoeba": ("fra_Latn",),
        "tatoeba_hbs": ("bos_Latn",),
        "tico": ("fra_Latn",),
        "stories": ("fra_Latn",),
        "bible": ("fra_Latn",),
    }


def test_the_top_up_is_switched_off(raw: Raw, tmp_path: Path) -> None:
    data = load("81langs", ["data.minimum_per_language=0"]).data
    assert [corpus.name for corpus in data.corpora if not data.taken(corpus)] == ["NLLB"]
    raw["data"]["corpora"][0]["top_up"] = True  # and no minimum: forgotten
    with pytest.raises(MexmaError, match=r"needs `data\.minimum_per_language`"):
        load(written(tmp_path, raw))


@pytest.mark.parametrize(("name", "languages"), [("81langs", 80), ("90langs", 89)])
def test_the_papers_settings(name: str, languages: int) -> None:
    """Sections 3.1 and 7; Tables 13 to 15."""
    recipe = load(name)
    data, (phase,) = recipe.data, recipe.phases
    assert len(set(data.languages)) == languages, "each with English"
    assert "eng_Latn" not in data.languages
    assert set(data.languages) <= set(codes())
    assert {corpus.languages for corpus in data.corpora} == {data.languages}
    assert (len(data.corpora), [corpus.name for corpus in data.corpora if corpus.top_up]) == (16, ["NLLB"])
    assert (data.minimum_per_language, data.cap_per_language, data.max_tokens) == (
        15_000_000,
        25_000_000,
        200,
    )
    trainer, objective = phase.trainer, phase.objective
    assert (trainer.batch_pairs * 8, trainer.batch_pairs * 8 * trainer.accumulate) == (1200, 2400)
    assert (trainer.steps, trainer.precision) == (300_000, "auto")
    assert isinstance(objective, MexmaSettings)
    assert (objective.alpha, objective.beta, objective.gamma) == (1, 1 / 2, 0.01 / 2)
    assert (objective.masking, objective.head.layers) == (0.4, 6)
    assert rate(0, trainer) == pytest.approx(1e-5)


def test_what_differs_between_an_ablation_and_the_paper_is_what_it_is_named_after() -> None:
    base = load("81langs")
    for name in shipped():
        if name.startswith("ablations/") and not name.startswith("ablations/small/"):
            recipe = load(name)
            same = {"data": base.data, "encoder": base.encoder, "dev": base.dev}
            assert {key: getattr(recipe, key) for key in same} == same
            assert recipe.run == f"runs/{name}"
            batch = 1200 if "contrastive" in name else 2400
            trainer = recipe.phases[0].trainer
            assert trainer.batch_pairs * trainer.accumulate * 8 == batch
            assert trainer.model_copy(update={"accumulate": 2}) == base.phases[0].trainer


def test_a_small_ablation_changes_what_the_large_one_changes() -> None:
    def changes(name: str, base: str) -> dict[str, object]:
        own, other = (load(one).phases[-1].objective.model_dump() for one in (name, base))
        return {key: value for key, value in own.items() if value != other.get(key, value)}

    small = [name for name in shipped() if name.startswith("ablations/small/")]
    assert len(small) > 10
    for name in small:
        if name != "ablations/small/mexma":
            large = name.replace("small/", "")
            assert changes(name, "ablations/small/mexma") == changes(large, "81langs") != {}
            recipe, start = load(name), load("ablations/small/mexma")
            assert (recipe.data, recipe.encoder, recipe.phases[0]) == (
                start.data,
                start.encoder,
                start.phases[0],
            )
            assert recipe.phases[1].trainer == start.phases[1].trainer
            assert recipe.run == f"runs/{name}"


@pytest.mark.parametrize("key", ALTERNATIVES)
def test_the_other_choice_is_one_commented_key_away(key: str, tmp_path: Path) -> None:
    text = (ROOT / "recipes" / "81langs.yaml").read_text(encoding="utf-8")
    others = re.findall(rf"^( +)# ({key}: .*)$", text, re.MULTILINE)
    assert others
    for indent, line in others:
        without = re.sub(rf"^ +{key}: .*\n", "", text, flags=re.MULTILINE)
        path = tmp_path / "r.yaml"
        path.write_text(without.replace(f"{indent}# {line}\n", f"{indent}{line}\n"), encoding="utf-8")
        assert load(path) != load("81langs")


def test_each_text_is_looked_for_beside_the_recipe_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each for itself: what is found of one says nothing about the next."""
    monkeypatch.chdir(tmp_path)
    raw = (
        "kind: corpus\nname: a\nrun: runs/a\nroot: texts\nlanguages: {fra: {input: [fra*, here.txt]}, eng: "
        f"{{input: [here.txt, both.txt]}}, deu: {{input: [none, {tmp_path}/x, s3://b/c]}}}}\n"
    )
    for name in ("own/texts/fra.txt", "own/texts/both.txt", "texts/both.txt", "texts/here.txt"):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).touch()
    Path("own/recipe.yaml").write_text(raw)
    recipe = load_corpus("own/recipe.yaml")
    assert (recipe.root, recipe.run) == (".", "runs/a")
    assert {code[:3]: text.input for code, text in recipe.languages.items()} == {
        "fra": ("own/texts/fra*", "texts/here.txt"),
        "eng": ("texts/here.txt", "own/texts/both.txt"),
        "deu": ("texts/none", f"{tmp_path}/x", "s3://b/c"),
    }
    for root in (f"{tmp_path}/texts", "s3://b"):
        recipe = load_corpus("own/recipe.yaml", [f"root={root}"])
        assert recipe.root == root and recipe.languages["fra_Latn"].input == ("fra*", "here.txt")


def said(override: str, recipe: str | Path = SMALL) -> MexmaError:
    with pytest.raises(MexmaError) as caught:
        load_any(recipe, [override])
    return caught.value


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("trainer.learning_rate=true", "`trainer.learning_rate`: should be a number (is True)"),
        ("trainer.loggers=wandb", "`trainer.loggers`: should be a list (is 'wandb')"),
        ("trainer.loggers=[x]", "loggers.0`: should be 'tensorboard' or 'wandb' (is 'x')"),
        ("phases=3", "`phases`: should be a list (is 3)"),
        ("phases.bag.objective.ngrams=3", "ngrams`: should be a list (is 3)"),
        ("data.codes={tha: th}", "`data.codes.tha`: should be a list (is 'th')"),
        ("data.corpora=[]", "`data.corpora`: should have at least 1 entries"),
        ("data.corpora=[1]", "`data.corpora.0`: should be a section, with `key: value` lines (is 1)"),
        ("data.codes=[1]", "`data.codes`: should be a section, with `key: value` lines (is a list)"),
        ("phases.bag.objective=3", "`phases.bag.objective`: should be a section, with"),
        ("trainer.betas=[1]", "betas.1` is missing"),
        ("trainer.betas=[1, 2, 3]", "betas`: should have at most 2 entries (is a list)"),
        ("trainer.betas=[0.9, 1]", "betas.1`: should be less than 1 (is 1)"),
        ("trainer.betas=[-0.9, 0.99]", "betas.0`: should be greater than or equal to 0 (is -0.9)"),
        ("trainer.seed=-1", "seed`: should be greater than or equal to 0 (is -1)"),
        ("trainer.steps=1.5", "steps`: should be a whole number (is 1.5)"),
        ("trainer.steps=null", "steps`: should be a whole number (is null)"),
        ("trainer.steps={a: 1}", "steps`: should be a whole number (is a section)"),
        ("trainer.warmup=x", "warmup`: should be a number (is 'x')"),
        ("trainer.warmup=-1", "warmup`: should be greater than or equal to 0 (is -1)"),
        ("trainer.average=1", "average`: should be less than 1 (is 1)"),
        ("phases.bag.objective.whitening=2", "whitening`: should be less than or equal to 1 (is 2)"),
        ("data.drop_duplicates=maybe", "drop_duplicates`: should be true or false (is 'maybe')"),
        ("data.languages=[no]", "`data.languages.0`: should be text, which may need quotes (is False)"),
        ("name=a b", "`name`: should be of A to Z, a to z, digits, `.`, `_` and `-`, with"),
        ("phases.bag.name=Bag", "name`: should be of a to z, digits, `_` and `-`, with a letter"),
        ("phases.bag.objective={}", "`phases.bag.objective`: `name` is missing"),
        ("trainer.steps=abc", "`trainer.steps`: should be a whole number (is 'abc')"),
        ("trainer.learning_rate=0", "learning_rate`: should be greater than 0"),
        ("trainer.learning_rate=.inf", "learning_rate`: should be a finite number"),
        ("trainer.precision=fp8", "precision`: should be 'auto', 'fp32', 'bf16' or 'fp16'"),
        ("trainer.weight_decay=-0.1", "trainer.weight_decay`: should be greater than or equal to 0"),
        ("trainer=1", "trainer`: should be a section, with `key: value` lines (is 1)"),
        (
            "phases.bag.trainer=x",
            "`phases.bag.trainer`: should be a section, with `key: value` lines (is 'x')",
        ),
        ("phases=x", "`phases`: should be a list (is 'x')"),
        ("phases.train.name=bag", "two phases have the name 'bag'"),
        ("phases.train.name=encoder", "a phase cannot be named 'encoder'"),
        ("phases.train.objective.name=mexmaa", "phases.train.objective`: `name` is 'mexmaa', none of"),
        ("phases.train.objective.mask_share=2", "mask_share`: should be less than or equal to 1"),
        ("phases.train.objective.mask_share=0.95", "mask_share` 0.95 and `random_share` 0.1 are above 1"),
        ("phases.bag.objective.keep_ngrams=true", "`keep_ngrams` needs `ngrams`"),
        (
            "phases.bag.objective.hard_negatives=0.5",
            "phase bag: `hard_negatives` needs `data.negatives`, which",
        ),
        ("data.negatives=2", "`data.negatives` is for `hard_negatives`, which no phase's objective has"),
        (
            "phases.train.objective.hard_negatives=0.5",
            "`hard_negatives` is a share of `contrastive`, which is 0",
        ),
        ("data.min_chars=-1", "`data.min_chars`: should be greater than or equal to 0"),
        ("dev={path: a, target_path: b, languages: [fra, spa]}", "`dev`: there are several `languages`, but"),
        ("kind=decomposee", "`kind`: should be 'decompose'"),
        ("encoder.new.heads=0", "`encoder.new.heads`: should be greater than or equal to 1 (is 0)"),
        ("encoder.from=mini", "`encoder`: encoder needs either `from`"),
        ("encoder.tokenizer=null", "a new encoder needs `tokenizer`"),
        (
            "encoder={from: mini, tokenizer: {vocabulary: 8000}}",
            "`encoder`: `tokenizer` is for a `new` encoder: one that is there (`from`) has its own",
        ),
        (
            "phases.bag.objective={name: mlm}",
            "`phases.bag.objective`: `name` is 'mlm', none of bag, clft, contrastive, dap, mexma, "
            "or an objective of a --plugin FILE",
        ),
    ],
)
def test_mistakes_in_plain_words(override: str, message: str) -> None:
    error = said(override)
    assert message in error.message
    assert not any(word in error.message.lower() for word in ("input", "tuple", "dictionary"))


def test_a_mistake_in_what_all_phases_share_is_said_once() -> None:
    error = said("trainer={lr: 0.1, batch_pairs: 0, steps: 3}")
    assert error.message.endswith(
        "small.yaml --set trainer={lr: 0.1, batch_pairs: 0, steps: 3}: "
        "`trainer.batch_pairs`: should be greater than or equal to 1 (is 0); "
        "unknown key `trainer.lr`"
    )
    assert said("phases.bag.trainer.lr=1").message.endswith(": unknown key `phases.bag.trainer.lr`")


@pytest.mark.parametrize(
    ("recipe", "key", "near"),
    [
        (SMALL, "encodr", "encoder"),
        (SMALL, "data.max_token", "max_tokens"),
        (SMALL, "phases.train.trainer.step", "steps"),
        (SMALL, "phases.train.objective.head.layer", "layers"),
        (SMALL, "phases.train.trainer.lr", "learning_rate"),
        (SMALL, "trainer.batch_size", "batch_pairs"),
        (SMALL, "trainer.epochs", "steps"),
        (SMALL, "data.max_length", "max_tokens"),
        (SMALL, "encoder.new.hidden_size", "width"),
        (SMALL, "encoder.new.layer", "layers"),
        (SMALL, "phases.bag.objective.tempratur", "temperature"),
        (SMALL, "extend", "extends"),
        ("systems/dap", "objective.rtll", "rtl"),
        ("systems/dap", "objective.rtl.layer", "layers"),
        ("systems/tr", "objective.tlmm", "tlm"),
        (MEAT, "trainer.batch_size", "batch"),
        (MEAT, "trainer.lr", "learning_rate"),
    ],
)
def test_the_nearest_key_is_one_of_its_section(recipe: str | Path, key: str, near: str) -> None:
    error = said(f"{key}=1", recipe)
    assert f"unknown key `{key}`" in error.message
    assert error.hint == f"did you mean `{near}`?"


def test_an_unknown_key_in_a_list() -> None:
    error = said("data.corpora=[{formt: tsv}]")
    assert "unknown key `data.corpora.0.formt`" in error.message
    assert error.hint == "did you mean `format`?"


@pytest.mark.parametrize(
    ("key", "near"),
    [
        ("seed", "trainer.seed"),
        ("epochs", "trainer.steps"),
        ("device", "trainer.device"),
        ("languages", "data.languages"),
        ("data.path", "data.corpora.path"),
        ("encoder.vocabulary", "encoder.tokenizer.vocabulary"),
        ("phases.train.steps", "trainer.steps"),
        ("phases.train.layers", "encoder.new.layers"),
        ("phases.bag.objective.layers", "encoder.new.layers"),
        ("data.lr", "trainer.learning_rate"),
        ("train.steps", "phases.train"),
    ],
)
def test_a_key_of_another_section_is_named_with_it(key: str, near: str) -> None:
    assert said(f"{key}=1").hint == f"did you mean `{near}`?"


def test_shares_that_are_more_than_the_whole() -> None:
    assert "`objective.tlm`: `mask_share`" in said("objective.tlm.random_share=0.3", "systems/tr-tlm").message
    for shares in ("mask_share: 0.7, random_share: 0.3", "mask_share: 1"):  # all masked
        assert load("systems/tr-tlm", [f"objective.tlm={{{shares}}}"])


@pytest.mark.parametrize(
    ("key", "there"),
    [
        ("phases.bag.objective.lay", "name, "),
        ("data.lrr", "root, store, "),
        ("phases.train.trainer.fn", "steps, "),
    ],
)
def test_a_key_that_is_like_none(key: str, there: str) -> None:
    hint = said(f"{key}=1").hint
    assert hint is not None and hint.startswith("known there: ") and there in hint


def test_synonyms_stand_for_keys() -> None:
    page = (Path(__file__).parent.parent.parent / "docs/recipes.md").read_text(encoding="utf-8")
    for key, meant in SYNONYMS.items():
        for name in meant:
            assert f"- `{name}` " in page, key


def test_a_language_is_one_key_however_it_is_written(tmp_path: Path) -> None:
    text = "kind: corpus\nname: a\nrun: run\nlanguages:\n  fr: {input: fr.txt}\n  eng: {input: eng.txt}\n"
    (tmp_path / "base.yaml").write_text(text, encoding="utf-8")
    (tmp_path / "own.yaml").write_text(
        "extends: base.yaml\nlanguages: {fra: {split: {}}}\n", encoding="utf-8"
    )
    recipe = load_corpus(tmp_path / "own.yaml", ["languages.fra_Latn.split.document=file"])
    assert list(recipe.languages) == ["fra_Latn", "eng_Latn"]
    french = recipe.languages["fra_Latn"]
    assert french.input == ("fr.txt",) and french.split and french.split.document == "file"
    every = ["languages={fr: {input: a}, en: {input: b}}", "languages.fra.input=c"]
    texts = load_corpus(tmp_path / "own.yaml", every).languages
    assert {code: text.input for code, text in texts.items()} == {"fra_Latn": ("c",), "eng_Latn": ("b",)}
    (tmp_path / "twice.yaml").write_text(text + "  fra: {input: a.txt}\n", encoding="utf-8")
    with pytest.raises(MexmaError, match="`languages`: fr and fra are one language, fra_Latn"):
        load_corpus(tmp_path / "twice.yaml")
    (tmp_path / "again.yaml").write_text(text + "pairs: [[fr, en], [en, fra]]\n", encoding="utf-8")
    with pytest.raises(MexmaError, match="pairs: fra_Latn-eng_Latn is there twice"):
        load_corpus(tmp_path / "again.yaml")


@pytest.mark.parametrize("pairs", ["[fra-eng]", "[[fra, eng, deu]]", "[[fra, 3]]", "{fra: eng}", "3"])
def test_pairs_of_a_corpus_are_explained_as_they_are_written(pairs: str) -> None:
    corpus = str(SMALL.with_name("corpus.yaml"))
    assert (
        str(said(f"pairs={pairs}", corpus))
        .split("`pairs`: ")[1]
        .startswith("should be `all`, a language, or")
    )


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("languages: {fra: {input: a}}", "`kind` is missing", "`kind: corpus` mines the texts"),
        ("{kind: corpus, name: a, languages: {fra: {input: a}}}", "`run` is missing", "`run`: Folder of all"),
    ],
)
def test_a_key_that_is_missing_is_explained(text: str, message: str, hint: str, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(text)
    with pytest.raises(MexmaError, match=message) as caught:
        load_corpus(tmp_path / "a.yaml")
    assert (caught.value.hint or "").startswith(hint)


def _sections(model: type[Section]) -> Iterator[type[Section]]:
    """A section, and all that may stand in it."""
    yield model
    for field in model.model_fields.values():
        for inner in kinds_of(field.annotation).values():
            yield from _sections(inner)


_INTERNAL = re.compile(
    r"function-|\w\[|[<>]|\b(input|type|literal|tuple|dict|int|str|float|bool|none\w*|union|instance"
    r"|constrained|nullable|valid|parse|pydantic|\w+(settings|section|recipe))\b",
    re.IGNORECASE,
)
"""Words of Python's and of pydantic's."""


@pytest.mark.parametrize("recipe", [CorpusRecipe, Recipe, DecomposeRecipe])
def test_no_mistake_is_told_in_words_of_python(recipe: type[Section]) -> None:
    told = 0
    for section in dict.fromkeys(_sections(recipe)):
        for name, field in section.model_fields.items():
            key = field.alias or name
            for value in ("a wrong one", -7, 2.5, True, None, [None], [[3]], {"wrong": 1}, Empty()):
                try:
                    section.model_validate({key: value})
                except ValidationError as error:
                    said = explained("file", section, {key: value}, error).message.removeprefix("file: ")
                    places = re.findall(r"(?:^|; )`([\w.]+)`: ", said)
                    assert len(places) == len(set(places)), "a mistake for each place"
                    for one in said.split("; "):
                        words = re.sub(r"`[\w.]+`|'\w+'|\(is .*", "", one)
                        assert not _INTERNAL.search(words), (section, key, value, one)
                        told += 1
    assert told > 500


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("mine.threshold=high", "`mine.threshold`: should be a number or 'auto' (is 'high')"),
        ("mine.threshold=.nan", "`mine.threshold`: no score is above or below nan"),
        (
            "encoder.max_tokens=2",
            "`encoder.max_tokens`: should be greater than or equal to 3 or 'encoder' (is 2)",
        ),
        ("encoder.max_tokens=all", "`encoder.max_tokens`: should be a whole number or 'encoder' (is 'all')"),
        (
            "mine.precision=95",
            "`mine.precision`: should be less than or equal to 1 (is 95); did you mean 0.95?",
        ),
        ("languages.spa_Latn.input=3", "`languages.spa_Latn.input`: should be a list (is 3)"),
    ],
)
def test_mistakes_in_values_of_several_types(override: str, message: str) -> None:
    error = said(override, CORPUS).message
    assert f"--set {override}: `{override.partition('=')[0]}`: " in error and error.endswith(message)


def test_nothing_is_null_or_an_empty_text() -> None:
    nothing = ["output.compression=", "mine.threshold= ", "filter=", "filter.off=[long]", "encoder.revision="]
    recipe = load_corpus(CORPUS, ["output.compression=gz", "filter={lid: none}", *nothing])
    assert (recipe.output.compression, recipe.mine.threshold, recipe.encoder.revision) == ("", None, None)
    assert recipe.filter == CorpusFilter(off=("long",))
    assert load_corpus(CORPUS, ["filter={}", "filter="]).filter is None
    assert load(SMALL, ["dev="]).dev is None
    for override, message in (
        ("units.lines=", "`units.lines`: should be a whole number (is '')"),
        ("name=", "`name`: should be of A to Z, "),
        ("languages=", "`languages`: should be a section, with `key: value` lines (is '')"),
    ):
        assert f"--set {override}: {message}" in said(override, CORPUS).message
