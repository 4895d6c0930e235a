"""Every recipe of an encoder takes steps in the small, and what it cannot train on is refused by name.

The recipes of decomposers are in test_decompose.py.
"""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml

from mexma_cli.encoder.encoder import SentenceEncoder
from mexma_cli.encoder.model.pooling import Dense, Normalize
from mexma_cli.errors import MexmaError
from mexma_cli.settings.load import load, shipped
from mexma_cli.settings.training import Recipe
from mexma_cli.stages.prepare.prepare import prepare
from mexma_cli.stages.train.train import build_objective, train
from mexma_cli.store.pairs import TokenisedPairs
from tests.examples import demo_pairs, trains_decomposer

ALL = [name for name in shipped() if not trains_decomposer(name)]
RECIPES = [name for name in ALL if name.startswith("systems/")]
OFTEN = [
    f"systems/small/{name}" for name in ("tr", "tr-tlm", "dap", "clft")
]  # the others with: pytest -m slow
TERMS = {
    "contrastive": {"contrastive"},
    "dap": {"contrastive", "rtl"},
    "clft": {"anchor", "cross"},
    "bag": {"contrastive"},
    "mexma": {"unmask_source", "unmask_target"},
}
WEIGHTS = {"alpha": "alignment", "gamma": "koleo", "contrastive": "contrastive", "tlm": "tlm"}
"""Keys of an objective, and the term that is there if the key has a value."""


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with 40 pairs of two languages each, and the prepared stores beside them."""
    folder = tmp_path_factory.mktemp("systems")
    lines = demo_pairs(80)
    for language, part in (("spa_Latn", lines[:40]), ("fra_Latn", lines[40:80])):
        (folder / f"{language}.tsv").write_text("\n".join(part) + "\n", encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def starts(masked_lms: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Small encoders for the recipes' hub names."""
    e5 = tmp_path_factory.mktemp("e5") / "e5"
    encoder = SentenceEncoder.load(str(masked_lms["bert"]), "cpu", pooling="mean")
    encoder.modules = torch.nn.Sequential(Normalize())
    encoder.save(e5)
    return {
        "FacebookAI/xlm-roberta-base": masked_lms["xlm-roberta"],
        "FacebookAI/xlm-roberta-large": masked_lms["xlm-roberta"],
        "mini": masked_lms["xlm-roberta"],
        "google-bert/bert-base-multilingual-cased": masked_lms["bert"],
        "intfloat/e5-base-v2": e5,
    }


Raw = dict[str, Any]
Small = Callable[..., Raw]


@pytest.fixture
def small(pairs: Path, starts: dict[str, Path], tmp_path: Path) -> Small:
    """A recipe's keys with little text, three steps a phase, and a small encoder: its own, or `start`."""

    def shrunk(name: str, start: Path | None = None, run: str = "run") -> Raw:
        recipe = load(name)
        raw: Raw = yaml.safe_load(recipe.to_yaml())
        if start is None and recipe.encoder.start is not None:
            start = starts[recipe.encoder.start]
        languages = ["spa_Latn", "fra_Latn"]
        corpus = {"name": "pairs", "format": "tsv", "path": "{lang}.tsv", "languages": languages}
        words, negatives = getattr(recipe.encoder.tokenizer, "words", 0), recipe.data.negatives
        of = ("data", start.name if start else "new", words, negatives, recipe.teacher or "none")
        store = pairs / "-".join(map(str, of))
        data = {"root": str(pairs), "store": str(store), "max_tokens": 32, "corpora": [corpus]}
        data["negatives"] = negatives
        raw |= {"run": str(tmp_path / run), "data": data, "dev": None}
        if start is None:
            raw["encoder"]["new"] |= {"layers": 1, "width": 32, "heads": 2, "ffn": 32}
            raw["encoder"]["tokenizer"] |= {"vocabulary": 400, "words": min(words, 150)}
        else:
            raw["encoder"]["from"] = str(start)
        for phase in raw["phases"]:
            phase["trainer"] |= {"steps": 3, "batch_pairs": 6, "log_every": 1, "device": "cpu"}
        return raw

    return shrunk


def prepared(raw: Raw) -> Recipe:
    """The recipe, read from a file, with its text prepared."""
    path = Path(raw["run"]).with_name("recipe.yaml")
    path.write_text(yaml.safe_dump(raw), encoding="utf-8")
    recipe = load(path)
    if not Path(recipe.data.store).exists():
        prepare(recipe)
    return recipe


def records(run: Path) -> list[Raw]:
    return [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=() if name in OFTEN else pytest.mark.slow) for name in ALL],
)
def test_every_recipe_takes_three_steps(name: str, small: Small, tmp_path: Path) -> None:
    recipe = prepared(small(name))
    assert train(recipe) == tmp_path / "run" / "encoder"
    log = records(tmp_path / "run")
    assert [(r["phase"], r["step"]) for r in log] == [
        (phase.name, step) for phase in recipe.phases for step in (1, 2, 3)
    ]
    for record in log:
        (phase,) = (phase for phase in recipe.phases if phase.name == record["phase"])
        weights = phase.objective.model_dump()
        expected = TERMS[phase.objective.name] | {term for key, term in WEIGHTS.items() if weights.get(key)}
        expected |= {"hard_negatives"} if weights.get("hard_negatives") else set()
        assert set(record["terms"]) == expected
        assert math.isfinite(record["loss"]) and record["gradient_norm"] > 0
    encoder = SentenceEncoder.load(str(tmp_path / "run"), "cpu")
    if recipe.encoder.start is not None:
        before = SentenceEncoder.load(recipe.encoder.start, "cpu")
        assert (encoder.pooling, str(encoder.modules)) == (before.pooling, str(before.modules))
        assert not np.allclose(encoder.embed(["Hola"]), before.embed(["Hola"]))


def test_there_is_a_small_recipe_for_each() -> None:
    small = {name.removeprefix("systems/small/") for name in RECIPES if name.startswith("systems/small/")}
    ablations = {name.removeprefix("systems/ablations/") for name in RECIPES if "/ablations/" in name}
    assert small == ablations | {"tr", "tr-tlm", "dap", "clft"}
    assert small - ablations <= {name.removeprefix("systems/") for name in RECIPES}


@pytest.mark.parametrize("name", [pytest.param("systems/dap", marks=pytest.mark.slow), "systems/clft"])
def test_stopped_and_resumed_is_the_run_that_would_have_been(name: str, small: Small, tmp_path: Path) -> None:
    """A head that comes from a checkpoint, and a teacher that is in none, are what they were."""
    logs = []
    for run, stops in (("whole", False), ("stopped", True)):
        recipe = prepared(small(name, run=run))
        while train(recipe, resume=True, stopped=lambda stops=stops: stops) is None:
            torch.manual_seed(999)  # another process has another state
        logs.append([(r["step"], r["loss"], r["gradient_norm"]) for r in records(tmp_path / run)])
    assert logs[0] == logs[1] and len(logs[0]) == 3


@pytest.mark.parametrize(
    "name",
    [pytest.param(f"systems/{one}", marks=pytest.mark.slow) for one in ("dap", "tr-tlm", "clft")],
)
def test_bf16_and_forgotten_activations_give_about_the_same(name: str, small: Small, tmp_path: Path) -> None:
    losses = []
    for precision, forgotten in (("fp32", False), ("fp32", True), ("bf16", True)):
        run = f"{precision}-{forgotten}"
        raw = small(name, run=run)
        raw["phases"][0]["trainer"] |= {"precision": precision, "activation_checkpointing": forgotten}
        assert train(prepared(raw)) is not None
        losses.append([record["loss"] for record in records(tmp_path / run)])
    assert losses[1] == pytest.approx(losses[0], rel=1e-4)
    assert losses[2] == pytest.approx(losses[0], rel=0.05)


def refused(raw: Raw) -> MexmaError:
    recipe = prepared(raw)
    with pytest.raises(MexmaError) as caught:
        train(recipe)
    assert not Path(recipe.run).exists()  # before anything is written
    return caught.value


def test_a_checkpoint_with_fewer_layers(small: Small) -> None:
    raw = small("systems/dap")
    raw["phases"][0]["objective"]["rtl"]["layers"] = 9
    error = refused(raw)
    assert "objective.rtl.layers is 9" in error.message and "has 4 layers" in error.message


@pytest.mark.slow
def test_another_teacher(small: Small, tmp_path: Path) -> None:
    raw = small("systems/clft")
    other = SentenceEncoder.load(raw["encoder"]["from"], "cpu")
    with torch.no_grad():
        other.model.get_input_embeddings().weight.mul_(1.5)
    other.save(tmp_path / "other")
    raw["phases"][0]["objective"]["teacher"] = str(tmp_path / "other")
    recipe = prepared(raw)
    assert not any((Path(recipe.data.store) / "pairs.fra_Latn").glob("teacher.*"))  # it has the same tokens
    assert train(recipe) is not None
    assert (
        records(tmp_path / "run")[0]["terms"]["anchor"] > 0.01
    )  # the copy of the encoder itself would give next to nothing


@pytest.mark.slow
def test_a_teacher_of_another_tokeniser_and_width(small: Small, tmp_path: Path) -> None:
    raw = small("systems/clft")
    raw["phases"][0]["objective"]["teacher"] = "mini"
    raw["data"]["store"] = str(tmp_path / "data")
    recipe = prepared(raw)
    teacher, store = (
        SentenceEncoder.load("mini", "cpu"),
        TokenisedPairs.open(tmp_path / "data/pairs.fra_Latn"),
    )
    text = [
        line.split("\t")[1] for line in (Path(raw["data"]["root"]) / "fra_Latn.tsv").read_text().splitlines()
    ]
    wanted = [ids[1:-1].tolist()[:30] for ids in teacher.tokenize(text)]
    assert [store.extra("teacher", row)[0].tolist() for row in range(len(store))] == wanted
    assert train(recipe) is not None
    assert all(0.1 < record["terms"]["anchor"] < 2 for record in records(tmp_path / "run"))
    assert SentenceEncoder.load(str(tmp_path / "run"), "cpu").dim == 32
    raw["phases"].append(raw["phases"][0] | {"name": "again", "objective": {"name": "clft", "teacher": "x"}})
    with pytest.raises(MexmaError, match="a recipe has one `teacher`, and not several: mini, x"):
        prepared(raw)


@pytest.mark.slow
def test_a_tokeniser_without_mask(small: Small, masked_lms: dict[str, Path], tmp_path: Path) -> None:
    folder = tmp_path / "without"
    shutil.copytree(masked_lms["bert"], folder)
    for name in ("tokenizer_config.json", "special_tokens_map.json"):
        if (folder / name).exists():
            settings = json.loads((folder / name).read_text())
            settings.pop("mask_token", None)
            (folder / name).write_text(json.dumps(settings))
    for name in ("dap", "tr-tlm"):
        error = refused(small(f"systems/{name}", folder))
        assert "has no mask token" in error.message and str(folder) in error.message
    for name in ("tr", "clft"):  # these mask nothing
        assert train(prepared(small(f"systems/{name}", folder, name)))


@pytest.fixture
def folders(masked_lms: dict[str, Path], tmp_path: Path) -> dict[str, Path]:
    """Encoders whose vectors are more than the first token's state."""
    found = {}
    for kind in ("mean", "dense", "prefix"):
        encoder = SentenceEncoder.load(
            str(masked_lms["bert"]), "cpu", pooling="mean" if kind == "mean" else "cls"
        )
        if kind == "dense":
            torch.manual_seed(0)
            encoder.modules = torch.nn.Sequential(Dense(torch.nn.Linear(32, 32), torch.nn.Tanh()))
        encoder.prefix = "query: " if kind == "prefix" else ""
        found[kind] = tmp_path / kind
        encoder.save(found[kind])
    return found


WRONG_KINDS = {"mean": "has mean pooling", "dense": "has a Dense(32, 32, Tanh)", "prefix": "puts 'query: '"}


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("systems/tr", "mean"),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in (("systems/dap", "dense"), ("base", "prefix"))
        ),
        *(pytest.param("systems/tr", kind, marks=pytest.mark.slow) for kind in ("dense", "prefix")),
        *(pytest.param("systems/dap", kind, marks=pytest.mark.slow) for kind in ("mean", "prefix")),
        *(pytest.param("base", kind, marks=pytest.mark.slow) for kind in ("mean", "dense")),
    ],
)
def test_objectives_of_the_first_token_refuse_other_vectors(
    name: str, kind: str, small: Small, folders: dict[str, Path], tmp_path: Path
) -> None:
    raw = small(name, folders[kind])
    if name == "base":
        raw["phases"][0]["objective"]["head"] = {"layers": 1, "heads": 2, "ffn": 32}
    error = refused(raw)
    assert WRONG_KINDS[kind] in error.message and str(folders[kind]) in error.message
    assert error.hint is not None and "encoder.pooling: cls" in error.hint
    raw["encoder"]["pooling"] = "cls"
    assert train(prepared(raw)) is not None
    encoder = SentenceEncoder.load(str(tmp_path / "run"), "cpu")
    assert (encoder.pooling, len(encoder.modules), encoder.prefix) == ("cls", 0, "")


@pytest.mark.slow
def test_clft_takes_any_vectors_but_no_prefix(small: Small, folders: dict[str, Path], tmp_path: Path) -> None:
    for kind in ("mean", "dense"):
        assert train(prepared(small("systems/clft", folders[kind], f"run-{kind}"))) is not None
        before, after = (
            SentenceEncoder.load(str(path), "cpu") for path in (folders[kind], tmp_path / f"run-{kind}")
        )
        assert (before.pooling, str(before.modules)) == (after.pooling, str(after.modules))
        if kind == "dense":
            assert not torch.equal(before.modules[0].linear.weight, after.modules[0].linear.weight)
    assert "puts 'query: '" in refused(small("systems/clft", folders["prefix"])).message


def test_a_new_encoder_with_mean_pooling(small: Small, tmp_path: Path) -> None:
    raw = small("systems/small/clft")
    raw["encoder"]["pooling"] = "mean"
    assert "has mean pooling, and the objective `bag`" in refused(raw).message
    raw["phases"] = raw["phases"][1:]
    assert train(prepared(raw)) is not None
    assert SentenceEncoder.load(str(tmp_path / "run"), "cpu").pooling == "mean"


def test_sentences_longer_than_the_encoder_takes(small: Small, tmp_path: Path) -> None:
    raw = small("systems/tr")
    start = raw["encoder"]["from"]
    limit = SentenceEncoder.load(start, "cpu").max_tokens
    raw["data"] |= {"store": str(tmp_path / "data"), "max_tokens": limit + 1}
    error = refused(raw)
    assert error.message == f"data.max_tokens is {limit + 1}, and {start} takes {limit} tokens at most"
    assert error.hint == f"set data.max_tokens to {limit} or less"


@pytest.mark.slow
def test_an_encoder_takes_sentences_as_long_as_it_was_trained_on(small: Small, tmp_path: Path) -> None:
    raw = small("systems/small/clft")
    raw["data"] |= {"store": str(tmp_path / "data"), "max_tokens": 300}
    assert train(prepared(raw)) is not None
    again = raw | {"run": str(tmp_path / "again"), "encoder": {"from": str(tmp_path / "run")}}
    again["phases"] = raw["phases"][1:]
    assert train(prepared(again)) is not None
    for run in ("run", "again"):
        assert SentenceEncoder.load(str(tmp_path / run), "cpu", max_tokens=300).max_tokens == 300


@pytest.mark.parametrize("share", [0.0, 0.1])
def test_attention_dropout_is_the_recipes(share: float, small: Small) -> None:
    raw = small("systems/dap")
    assert raw["encoder"]["attention_dropout"] == 0.1  # as in the program
    raw["encoder"]["attention_dropout"] = share
    recipe = prepared(raw)
    encoder = SentenceEncoder.load(raw["encoder"]["from"], "cpu")
    encoder.max_tokens = recipe.data.max_tokens
    assert encoder.model.config.attention_probs_dropout_prob == 0.1  # variable-length attention has none
    objective = build_objective(recipe, recipe.phases[0], encoder, 2)
    shares = {
        name.startswith("model."): part.dropout.p
        for name, part in objective.named_modules()
        if name.endswith(".self")
    }
    assert shares == {True: share, False: share}  # the encoder's, and those of the head beside it


@pytest.mark.slow
def test_vectors_that_do_not_fill_the_encoder(small: Small) -> None:
    raw = small("systems/small/clft")
    room = raw["encoder"]["new"]["width"] - 2
    raw["phases"][0]["objective"]["width"] = room - 1
    error = refused(raw)
    assert f"objective.width is {room - 1}, less than the {room} numbers" in error.message
    raw["phases"][0]["objective"]["width"] = room
    assert train(prepared(raw)) is not None
