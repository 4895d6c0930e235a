"""A recipe over stores to a run's maps; what does not go together is named."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from mexma_cli.encoder.encoder import SentenceEncoder
from mexma_cli.errors import MexmaError
from mexma_cli.settings.load import load, load_any, shipped
from mexma_cli.settings.stages import EmbedSettings
from mexma_cli.settings.training import DecomposeRecipe
from mexma_cli.stages.embed.embed import EmbedOptions, embed_file
from mexma_cli.stages.info import inspect
from mexma_cli.stages.train.decompose import TrainedDecomposer, decompose, open_store_pairs
from mexma_cli.store.embeddings import EmbeddingStore
from tests.encoder.conftest import change_json
from tests.examples import trains_decomposer
from tests.stores import flip

DIM = 6
Make = Callable[..., Path]
SYSTEMS = [name for name in shipped() if trains_decomposer(name)]


def random(rows: int, seed: int, dim: int = DIM) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(rows, dim)).astype(np.float32)


def recipe(folder: Path, **other: Any) -> DecomposeRecipe:
    raw = {
        "kind": "decompose",
        "name": "own",
        "run": str(folder / "run"),
        "data": {"root": str(folder), "pairs": [{"source": "eng.emb", "target": "fra.emb"}]},
        "objective": {"name": "meat", "intra_class": 1.0, "inter_class": 1.0},
        "trainer": {"batch": 8, "epochs": 3, "learning_rate": 0.001, "device": "cpu"},
    }
    return DecomposeRecipe.model_validate(raw | other)


@pytest.fixture
def pair(tmp_path: Path, make_store: Make) -> Path:
    make_store(tmp_path / "eng.emb", random(30, 1), "eng_Latn")
    make_store(tmp_path / "fra.emb", random(30, 2), "fra_Latn")
    return tmp_path


def test_a_run_leaves_its_maps(pair: Path) -> None:
    run = decompose(recipe(pair))
    assert run == pair / "run"
    trained = TrainedDecomposer.open(run)
    assert trained.manifest.languages == ("eng_Latn", "fra_Latn")
    assert trained.manifest.encoder_fingerprint == "f" * 32 and not trained.manifest.exported
    assert trained.manifest.fingerprints["meaning"] != trained.manifest.fingerprints["language"]
    linear = trained.maps["meaning"].linear
    wanted = random(5, 3) @ linear.weight.detach().numpy().T + linear.bias.detach().numpy()
    np.testing.assert_allclose(trained.part(random(5, 3), "meaning"), wanted, atol=1e-6)
    best = torch.load(run / "checkpoints/best/optimisers.pt", weights_only=True)
    assert len(best["players"]) == 2
    assert [json.loads(line)["epoch"] for line in (run / "log.jsonl").read_text().splitlines()] == [1, 2, 3]
    info = inspect(run)
    assert info.kind == "decomposer" and info.all_problems() == [] and info.facts["finished"]


def test_another_bit_in_a_finished_run_is_noticed(pair: Path) -> None:
    """It would change every projected vector, or the name under which they go."""
    run = decompose(recipe(pair))
    assert run is not None
    names = [
        f"{part}/{name}" for part in ("meaning", "language") for name in ("config.json", "model.safetensors")
    ]
    for name in [*names, "decomposer.json"]:
        middle = (run / name).stat().st_size // 2
        flip(run / name, middle)
        with pytest.raises(MexmaError, match=f"{run / name} is damaged"):
            TrainedDecomposer.open(run)
        flip(run / name, middle)
    for checksums in run.glob("*/checksums.json"):  # an earlier version wrote none
        checksums.unlink()
    change_json("decomposer.json", checksum="")(run)
    TrainedDecomposer.open(run)


@pytest.mark.parametrize("name", SYSTEMS)
def test_every_shipped_recipe_trains(name: str, tmp_path: Path, make_store: Make) -> None:
    """Three epochs of two steps, on two of its languages."""
    pairs = "[{source: '{lang}/eng.emb', target: '{lang}/{lang}.emb', languages: [deu_Latn, spa_Latn]}]"
    for seed, language in enumerate(("deu_Latn", "spa_Latn")):
        make_store(tmp_path / language / "eng.emb", random(9, seed), "eng_Latn")
        make_store(tmp_path / language / f"{language}.emb", random(9, seed + 9), language)
    overrides = [
        f"data.pairs={pairs}",
        *(f"run={tmp_path / 'run'}", f"data.root={tmp_path}", "encoder=null"),
        *("trainer.batch=8", "trainer.epochs=3", "trainer.device=cpu", "trainer.learning_rate=0.01"),
    ]
    small = load_any(name, overrides)
    assert isinstance(small, DecomposeRecipe)
    assert decompose(small) == tmp_path / "run"
    records = [json.loads(line) for line in (tmp_path / "run/log.jsonl").read_text().splitlines()]
    assert records[-1]["step"] >= 3 and records[-1]["loss"] < records[0]["loss"]


def test_the_shipped_recipes_are_the_systems() -> None:
    assert {f"systems/{name}" for name in ("dream", "meat", "dream-oracle", "meat-oracle", "oracle")} < set(
        SYSTEMS
    )
    published = load_any("systems/meat-oracle")
    assert isinstance(published, DecomposeRecipe)
    assert len(published.data.paths()) == 12 and published.data.rows == 500_000
    trainer = published.trainer
    assert (trainer.batch, trainer.learning_rate, trainer.patience) == (512, 1e-5, 10)
    with pytest.raises(MexmaError, match="trains on stored vectors"):
        load("systems/meat-oracle")


def test_the_export_embeds_what_projecting_makes(
    tiny_encoder: Path, sentences: dict[str, list[str]], tmp_path: Path
) -> None:
    encoder = SentenceEncoder.load(str(tiny_encoder), "cpu")
    encoder.prefix = "query: "
    for language, lines in sentences.items():
        (tmp_path / f"{language}.txt").write_text("\n".join(lines * 2) + "\n")
        options = EmbedOptions(f"{language}_Latn", EmbedSettings(store_dtype="float32"))
        embed_file(encoder, tmp_path / f"{language}.txt", tmp_path / f"{language}.emb", options)
    data = {"root": str(tmp_path), "pairs": [{"source": "eng.emb", "target": "fra.emb"}], "validation": 0.2}
    run = decompose(recipe(tmp_path, encoder=str(tiny_encoder), data=data))
    assert run is not None
    trained = TrainedDecomposer.open(run)
    both = SentenceEncoder.load(str(run), "cpu")
    assert trained.manifest.exported
    assert trained.manifest.fingerprints["meaning"] == both.fingerprint
    assert both.prefix == "query: " and both.dim == encoder.dim
    store = EmbeddingStore.open(tmp_path / "fra.emb")
    wanted = trained.part(store.vectors(0, store.rows), "meaning")
    np.testing.assert_allclose(both.embed(sentences["fra"] * 2), wanted, atol=1e-5)
    import sentence_transformers

    outside = sentence_transformers.SentenceTransformer(str(run / "encoder"), device="cpu")
    found = outside.encode(sentences["fra"] * 2)
    np.testing.assert_allclose(found, wanted, atol=1e-4)


def test_an_encoder_that_did_not_make_the_stores(pair: Path, tiny_encoder: Path) -> None:
    with pytest.raises(MexmaError, match=r"did not make .*eng.emb: that was some encoder"):
        decompose(recipe(pair, encoder=str(tiny_encoder)))
    assert not (pair / "run").exists()


def test_a_second_run_and_another_recipe(pair: Path) -> None:
    decompose(recipe(pair))
    with pytest.raises(MexmaError, match="holds a training run already"):
        decompose(recipe(pair))
    before = (pair / "run" / "meaning" / "model.safetensors").read_bytes()
    assert decompose(recipe(pair), resume=True) == pair / "run"
    assert (pair / "run" / "meaning" / "model.safetensors").read_bytes() == before
    with pytest.raises(MexmaError, match=r"started with another recipe: objective\.name"):
        other = {"name": "oracle", "intra_class": 1.0, "inter_class": 1.0}
        decompose(recipe(pair, objective=other), resume=True)


def test_stopped_and_gone_on_with_to_the_same_maps(pair: Path) -> None:
    decompose(recipe(pair))
    steps = iter(range(100))
    cut = recipe(pair, run=str(pair / "cut"))
    assert decompose(cut, stopped=lambda: next(steps) == 4) is None
    with pytest.raises(MexmaError, match="no finished run of a decomposer") as caught:
        TrainedDecomposer.open(pair / "cut")
    assert caught.value.hint is not None and "--resume" in caught.value.hint
    (pair / "cut" / "encoder.partial").mkdir()
    (pair / "cut" / "encoder.partial" / ".mexma").touch()  # as a killed run leaves it
    decompose(cut, resume=True)
    assert not (pair / "cut" / "encoder.partial").exists()
    maps = [(pair / run / "meaning" / "model.safetensors").read_bytes() for run in ("run", "cut")]
    assert maps[0] == maps[1]


def test_stores_that_were_made_anew_are_refused(pair: Path, make_store: Make) -> None:
    assert decompose(recipe(pair), stopped=lambda: True) is None
    shutil.rmtree(pair / "fra.emb")
    make_store(pair / "fra.emb", random(30, 3), "fra_Latn")
    with pytest.raises(MexmaError, match=r"(?m)was started with other text: \S+fra\.emb$"):
        decompose(recipe(pair), resume=True)
    shutil.rmtree(pair / "fra.emb")
    make_store(pair / "fra.emb", random(30, 2), "fra_Latn")
    assert decompose(recipe(pair), resume=True) is not None


def test_a_pair_of_stores_that_is_there_twice(pair: Path) -> None:
    both = [{"source": "eng.emb", "target": "fra.emb"}, {"source": "fra.emb", "target": "./eng.emb"}]
    with pytest.raises(MexmaError, match=r"fra\.emb and \S+eng\.emb are in data\.pairs twice"):
        open_store_pairs(recipe(pair, data={"root": str(pair), "pairs": both}))


def test_the_hint_for_another_folder_names_a_recipe_that_there_is(tmp_path: Path) -> None:
    with pytest.raises(MexmaError, match="no finished run of a decomposer") as caught:
        TrainedDecomposer.open(tmp_path)
    assert (caught.value.hint or "").split("`")[1].removeprefix("mexma train ") in shipped()


def test_other_row_counts(pair: Path, make_store: Make) -> None:
    make_store(pair / "fra.emb", random(29, 2), "fra_Latn", overwrite=True)
    with pytest.raises(MexmaError, match=r"eng.emb has 30 rows, .*fra.emb has 29"):
        open_store_pairs(recipe(pair))


def test_a_pair_without_rows(pair: Path, make_store: Make) -> None:
    for name in ("eng", "deu"):  # as a part of a short text may be
        make_store(pair / f"none.{name}.emb", random(0, 1), f"{name}_Latn")
    both = [{"source": "eng.emb", "target": "fra.emb"}, {"source": "none.eng.emb", "target": "none.deu.emb"}]
    with pytest.raises(MexmaError, match=r"none\.eng\.emb and \S+none\.deu\.emb have no rows"):
        open_store_pairs(recipe(pair, data={"root": str(pair), "pairs": both}))


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ({"fingerprint": "e" * 32}, r"encoders: some encoder .*some encoder \(eeeeeeeeeeee"),
        ({"prefix": "query: "}, "prompts: .*'query: '"),
        ({"encoder": "another", "fingerprint": "a" * 32}, "encoders: some encoder .*another"),
    ],
)
def test_mixed_encoders(other: dict[str, str], said: str, pair: Path, make_store: Make) -> None:
    make_store(pair / "fra.emb", random(30, 2), "fra_Latn", overwrite=True, **other)
    with pytest.raises(MexmaError, match=f"different {said}.*fra.emb"):
        open_store_pairs(recipe(pair))


def test_mixed_encoders_in_different_pairs(pair: Path, make_store: Make) -> None:
    for language in ("eng", "deu"):
        path = pair / f"{language}2.emb"
        make_store(path, random(9, 1, 8), f"{language}_Latn", fingerprint="e" * 32)
    pairs = [{"source": "eng.emb", "target": "fra.emb"}, {"source": "eng2.emb", "target": "deu2.emb"}]
    with pytest.raises(MexmaError, match=r"different dimensions: .*eng.emb has 6.*eng2.emb has 8"):
        open_store_pairs(recipe(pair, data={"root": str(pair), "pairs": pairs}))


def test_a_language_on_one_side_only(pair: Path) -> None:
    pairs = [{"source": "eng.emb", "target": "{lang}.emb", "languages": ["fra", "deu"]}]
    with pytest.raises(MexmaError, match=r"one side only: .*eng.emb is there, .*deu.emb is not"):
        open_store_pairs(recipe(pair, data={"root": str(pair), "pairs": pairs}))
    both = [{"source": "x.emb", "target": "y.emb"}]
    with pytest.raises(MexmaError, match=r"x.emb: no such file"):
        open_store_pairs(recipe(pair, data={"root": str(pair), "pairs": both}))


def test_languages_that_are_not_stated_or_equal(pair: Path, make_store: Make) -> None:
    make_store(pair / "fra.emb", random(30, 2), "und", overwrite=True)
    with pytest.raises(MexmaError, match=r"fra.emb does not say what language"):
        open_store_pairs(recipe(pair))
    make_store(pair / "fra.emb", random(30, 2), "eng_Latn", overwrite=True)
    with pytest.raises(MexmaError, match="are both eng_Latn"):
        open_store_pairs(recipe(pair))


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("objective.intra_clas=1", "unknown key `objective.intra_clas`"),
        ("trainer.batch=1", "`trainer.batch`: .*equal to 4"),
        ("objective={name: oracle}", "`objective`: oracle needs a weight for `intra_class` or `inter_class`"),
        ("objective.is_mode=both", "`objective.is_mode`: .*'meaning_language'"),
        ("phases.x=1", "phases"),
        ("data.pairs=[{source: '{lang}.emb', target: y.emb}]", "`data.pairs.0`: .*`languages` is missing"),
        ("data.pairs=[{source: x.emb, target: y.emb, languages: [fra]}]", "lang} in one of the paths"),
    ],
)
def test_a_recipe_that_is_wrong(override: str, message: str) -> None:
    with pytest.raises(MexmaError, match=message):
        load_any("systems/meat-oracle", [override])
