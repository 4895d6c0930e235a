"""What is said of mistakes in recipes: in plain words, with keys that the section has."""

from __future__ import annotations

from pathlib import Path

import pytest

from mexma_cli.errors import MexmaError
from mexma_cli.settings.load import load, load_any
from mexma_cli.settings.mistakes import SYNONYMS

SMALL = str(Path(__file__).parent.parent.parent / "examples" / "small.yaml")
MEAT = "systems/meat-oracle"


def said(override: str, recipe: str = SMALL) -> MexmaError:
    with pytest.raises(MexmaError) as caught:
        load_any(recipe, [override])
    return caught.value


@pytest.mark.parametrize(
    ("override", "message"),
    [
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
        (
            "trainer.steps=1.5",
            "steps`: should be a valid integer, got a number with",
        ),
        ("trainer.steps=null", "steps`: should be a valid integer (is null)"),
        ("trainer.steps={a: 1}", "steps`: should be a valid integer (is a section)"),
        ("trainer.warmup=x", "warmup`: should be a valid number, unable to parse"),
        ("trainer.warmup=-1", "warmup`: should be greater than or equal to 0 (is -1)"),
        ("trainer.average=1", "average`: should be less than 1 (is 1)"),
        ("phases.bag.objective.whitening=2", "whitening`: should be less than or equal to 1 (is 2)"),
        ("data.drop_duplicates=maybe", "drop_duplicates`: should be true or false (is 'maybe')"),
        ("data.languages=[no]", "`data.languages.0`: should be text, which may need quotes (is False)"),
        ("name=a b", "`name`: String should match pattern"),
        ("phases.bag.name=Bag", "name`: String should match pattern '^[a-z0-9]"),
        ("phases.bag.objective={}", "`phases.bag.objective`: `name` is missing"),
        ("trainer.steps=abc", "`trainer.steps`: should be a valid integer, unable to parse"),
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
        "small.yaml: `trainer.batch_pairs`: should be greater than or equal to 1 (is 0); "
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
def test_the_nearest_key_is_one_of_its_section(recipe: str, key: str, near: str) -> None:
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


@pytest.mark.parametrize("pairs", ["[fra-eng]", "[[fra, eng, deu]]", "[[fra, 3]]", "{fra: eng}", "3"])
def test_pairs_of_a_corpus_are_explained_as_they_are_written(pairs: str) -> None:
    corpus = str(Path(SMALL).with_name("corpus.yaml"))
    assert (
        str(said(f"pairs={pairs}", corpus))
        .split("`pairs`: ")[1]
        .startswith("should be `all`, a language, or")
    )
