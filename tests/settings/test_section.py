"""Settings: their fields are options, keys and keywords, and are explained once."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest

import mexma_cli.settings
from mexma_cli.errors import MexmaError
from mexma_cli.mining.margin import MARGINS
from mexma_cli.mining.retrieval import RETRIEVALS
from mexma_cli.numerics.precisions import SHORT_NAMES
from mexma_cli.settings.corpus import CorpusEncoder, CorpusFilter, CorpusMining, LanguageText
from mexma_cli.settings.load import load_corpus
from mexma_cli.settings.section import Section, explanation, naming_keys, option_of, with_keys
from mexma_cli.settings.stages import (
    AlignSettings,
    Dtype,
    MarginName,
    MineSettings,
    Retrieval,
    SearchSettings,
)

CORPUS = Path(__file__).parent.parent.parent / "examples" / "corpus.yaml"


def models() -> Iterator[type[Section]]:
    for module in pkgutil.iter_modules(mexma_cli.settings.__path__):
        for found in vars(importlib.import_module(f"mexma_cli.settings.{module.name}")).values():
            if isinstance(found, type) and issubclass(found, Section):
                yield found


def test_every_option_is_explained() -> None:
    options = [(model, name) for model in models() for name in model.model_fields if option_of(model, name)]
    assert len(options) > 20
    assert [where for where in options if not explanation(*where).endswith(".")] == []


def test_names_are_those_of_the_registries() -> None:
    assert list(get_args(MarginName)) == list(MARGINS)
    assert [*get_args(Retrieval), "all"] == list(RETRIEVALS)
    assert get_args(Dtype) == ("auto", *SHORT_NAMES)


def test_keywords_of_python() -> None:
    found = MineSettings.of({"threshold": float("-inf"), "memory": "8G", "margin": "distance"})
    assert (found.threshold, found.memory, found.margin, found.k) == (float("-inf"), 8 * 10**9, "distance", 4)
    with pytest.raises(TypeError, match=r"unknown setting 'treshold'; there are: .*, threshold,"):
        MineSettings.of({"treshold": 1})
    with pytest.raises(TypeError, match="unknown setting 'model': in Python it is `encoder`"):
        MineSettings.of({"model": "mini"})
    for name, value in (
        ("margin", "cosine"),
        ("k", 0),
        ("recall", 1.5),
        ("threshold", float("nan")),
        ("memory", "lots"),
    ):
        with pytest.raises(MexmaError, match=f"`{name}`: "):
            MineSettings.of({name: value})


def test_a_recipe_has_no_keys_that_only_a_command_has_or_python() -> None:
    for key in ("encoder.trust_remote_code=true", "mine.memory=8G"):
        with pytest.raises(MexmaError, match=f"unknown key `{key.partition('=')[0]}`"):
            load_corpus(CORPUS, [key])
    with pytest.raises(MexmaError, match=r"`mine.retrieval`: should be .* \(is 'all'\)"):
        load_corpus(CORPUS, ["mine.retrieval=all"])
    recipe = load_corpus(CORPUS, ["mine.k=7"])
    again = MineSettings.model_validate(recipe.mine.model_dump(mode="json", exclude={"precision", "within"}))
    assert (again.k, again.memory) == (7, None)
    assert isinstance(recipe.mine, SearchSettings) and recipe.encoder.model == "mini"


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (
            "--threshold 0.3 --min-aligned 0.6 drops most",
            "`align.threshold: 0.3` and `align.min_aligned: 0.6` drops most",
        ),
        (
            "name one, such as --threshold 0.5; --keep 1-1 drops some",
            "name one, such as `align.threshold: 0.5`; `align.keep: 1-1` drops some",
        ),
        ("leave out --pooling", "leave out `encoder.pooling`"),
        ("use --pooling cls or mean", "use `encoder.pooling: cls` or mean"),
        ("such as --on long=60", "such as `filter.on: [long=60]`"),
        (
            "--document-pairs names those; `mexma align --find-documents` finds them",
            "`mexma align --find-documents` finds them",
        ),
        ("read that code, then give --trust-remote-code", None),
        ("state the right one with --encoding", "state the right one with --encoding"),
        ("raise it with `ulimit -n`, or `--set x`", "raise it with `ulimit -n`, or `--set x`"),
        (None, None),
    ],
)
def test_hints_name_keys_of_recipes(said: str | None, told: str | None) -> None:
    sections = {"align": AlignSettings, "encoder": CorpusEncoder, "filter": CorpusFilter}
    with pytest.raises(MexmaError) as caught, naming_keys(sections):
        raise MexmaError("--keep is wrong, --docs too", said)
    assert (caught.value.message, caught.value.hint) == ("`align.keep` is wrong, --docs too", told)
    assert str(caught.value) == "\nhint: ".join(filter(None, ("`align.keep` is wrong, --docs too", told)))


def test_flags_and_commands_are_keys() -> None:
    assert (
        with_keys("--drop-copies drops them", {"mine": CorpusMining}) == "`mine.drop_copies: true` drops them"
    )
    said = with_keys("`mexma split a.txt` or `mexma info a.txt`", {"languages.fra": LanguageText})
    assert said == "`languages.fra.split: {}` or `mexma info a.txt`"
