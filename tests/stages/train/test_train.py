"""Training end to end on a few dozen real pairs: it learns, and what is wrong is named."""

from __future__ import annotations

import shutil
from itertools import count
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml

from mexma_cli.encoder.encoder import SentenceEncoder
from mexma_cli.encoder.loading.card import Trained
from mexma_cli.errors import MexmaError
from mexma_cli.settings.load import load
from mexma_cli.stages.prepare.prepare import prepare
from mexma_cli.stages.train.train import train
from tests.stages.train.training import BAG_STEPS, MEXMA_STEPS, log_of, settings, weights


def test_a_run_leaves_its_log_recipe_and_encoder(finished: dict[str, Path], recipe_file: Path) -> None:
    run = finished["fp32"]
    expected = [("bag", step) for step in range(1, BAG_STEPS + 1)]
    expected += [("mexma", step) for step in range(1, MEXMA_STEPS + 1)]
    records = log_of(run)
    assert [(record["phase"], record["step"]) for record in records] == expected
    assert set(records[-1]["terms"]) == {
        "unmask_source",
        "unmask_target",
        "alignment",
        "koleo",
        "contrastive",
    }
    assert records[-1]["pairs"] == MEXMA_STEPS * 8 * 2
    rates = [record["learning_rate"] for record in records if record["phase"] == "mexma"]
    assert rates[0] == pytest.approx(0.0003) and max(rates) <= 0.003 and rates[-1] < 0.0003
    assert (run / "recipe.yaml").read_text() == settings(recipe_file, run, "trainer.precision=fp32").to_yaml()
    assert not [path for path in run.rglob("*") if ".partial" in path.name]
    checkpoints = sorted(path.name for path in (run / "mexma" / "checkpoints").iterdir())
    assert checkpoints == ["step-00000010", "step-00000012"]
    for encoder in (run, run / "bag" / "encoder"):  # each has a card
        assert SentenceEncoder.load(str(encoder), "cpu").languages == ("eng_Latn", "spa_Latn")
    assert SentenceEncoder.load(str(run), "cpu").trained["spa_Latn"] == Trained(pairs=60, dev_error=None)


@pytest.mark.slow
def test_an_unfinished_runs_encoder_is_that_of_its_last_finished_phase(
    recipe_file: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """And with `keep: 0` the finished phase has no checkpoints any more."""
    run, done = tmp_path / "run", count(1)
    recipe = settings(recipe_file, run, "trainer.keep=0", "trainer.checkpoint_every=1")
    assert train(recipe, stopped=lambda: next(done) == BAG_STEPS + 2) is None
    assert not (run / "bag" / "checkpoints").exists()
    assert [path.name for path in (run / "mexma" / "checkpoints").iterdir()] == ["step-00000002"]
    with caplog.at_level("INFO"):
        found = SentenceEncoder.load(str(run), "cpu").fingerprint
    assert f"{run} is not finished: taking the encoder of its phase `bag`" in caplog.text
    assert found == SentenceEncoder.load(str(run / "bag" / "encoder"), "cpu").fingerprint


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_the_loss_falls(precision: str, finished: dict[str, Path]) -> None:
    losses = [record["loss"] for record in log_of(finished[precision]) if record["phase"] == "mexma"]
    assert np.mean(losses[-4:]) < np.mean(losses[:4])
    bag = [record["loss"] for record in log_of(finished[precision]) if record["phase"] == "bag"]
    assert np.mean(bag[-3:]) < np.mean(bag[:3])


def test_the_log_has_the_weighted_sum(finished: dict[str, Path]) -> None:
    beside = {"unmask_source": 0.5, "unmask_target": 0.5, "alignment": 1.0, "koleo": 0.01, "contrastive": 0.5}
    for record in log_of(finished["fp32"])[BAG_STEPS:]:
        total = sum(beside[name] * value for name, value in record["terms"].items())
        assert record["loss"] == pytest.approx(total, rel=1e-5)


def test_the_same_again_is_the_same(finished: dict[str, Path], recipe_file: Path, tmp_path: Path) -> None:
    train(settings(recipe_file, tmp_path / "run"))
    assert log_of(tmp_path / "run") == log_of(finished["fp32"])
    assert weights(tmp_path / "run") == weights(finished["fp32"])


@pytest.mark.slow
def test_another_seed_is_another_run(finished: dict[str, Path], recipe_file: Path, tmp_path: Path) -> None:
    train(settings(recipe_file, tmp_path / "run", "trainer.seed=7"))
    assert log_of(tmp_path / "run")[0]["loss"] != log_of(finished["fp32"])[0]["loss"]


def test_a_damaged_checkpoint_stops_the_resume(recipe_file: Path, tmp_path: Path) -> None:
    recipe = settings(recipe_file, tmp_path / "run")
    assert train(recipe, stopped=lambda: True) is None
    (checkpoint,) = (tmp_path / "run" / "bag" / "checkpoints").iterdir()
    (checkpoint / "objective.safetensors").write_bytes(b"x")
    with pytest.raises(MexmaError, match=r"objective\.safetensors is damaged"):
        train(recipe, resume=True)


@pytest.mark.parametrize(
    ("override", "key"),
    [
        ("phases.mexma.trainer.learning_rate=0.1", "phases.mexma.trainer.learning_rate (0.003, now 0.1)"),
        ("phases.mexma.objective.alpha=2", "phases.mexma.objective.alpha (1.0, now 2.0)"),
        ("data.max_tokens=30", "data.max_tokens (40, now 30)"),
        ("encoder.new.layers=2", "encoder.new.layers (1, now 2)"),
    ],
)
def test_resuming_with_another_recipe_names_what_differs(
    override: str, key: str, finished: dict[str, Path], recipe_file: Path
) -> None:
    with pytest.raises(MexmaError, match="was started with another recipe") as caught:
        train(settings(recipe_file, finished["fp32"], override), resume=True)
    assert caught.value.message.endswith(f": {key}")
    kept = finished["fp32"] / "recipe.yaml"
    assert f"`mexma train {kept} --resume`" in str(caught.value.hint)
    train(load(kept), resume=True)  # its own settings


def test_which_lines_are_kept_is_part_of_the_recipe(
    finished: dict[str, Path], recipe_file: Path, tmp_path: Path
) -> None:
    raw = yaml.safe_load(recipe_file.read_text())
    raw["data"]["corpora"][0]["keep"] = {"path": "split.txt", "value": "train"}
    (tmp_path / "recipe.yaml").write_text(yaml.safe_dump(raw))
    with pytest.raises(MexmaError, match=r"data\.corpora\.\w+\.keep"):
        train(settings(tmp_path / "recipe.yaml", finished["fp32"]), resume=True)


@pytest.mark.slow
def test_how_often_it_is_written_down_may_differ(recipe_file: Path, tmp_path: Path) -> None:
    recipe = settings(recipe_file, tmp_path / "run")
    assert train(recipe, stopped=lambda: True) is None
    other = settings(recipe_file, tmp_path / "run", "trainer.log_every=4", "trainer.keep=1")
    assert train(other, resume=True) is not None


def test_pairs_that_were_not_prepared(recipe_file: Path, tmp_path: Path) -> None:
    with pytest.raises(MexmaError):
        train(settings(recipe_file, tmp_path / "run", f"data.store={tmp_path / 'data'}"))


def test_the_encoder_loads_everywhere(finished: dict[str, Path], sentences: dict[str, list[str]]) -> None:
    from transformers import AutoModel, AutoTokenizer

    folder = finished["fp32"] / "encoder"
    ours = SentenceEncoder.load(str(folder), "cpu").embed(sentences["eng"])
    tokens = AutoTokenizer.from_pretrained(folder)(
        sentences["eng"], padding=True, truncation=True, return_tensors="pt"
    )
    with torch.no_grad():
        model = AutoModel.from_pretrained(folder, add_pooling_layer=False).eval()
        states = model(tokens["input_ids"], attention_mask=tokens["attention_mask"]).last_hidden_state
    assert np.abs(ours - states[:, 0].numpy()).max() < 1e-5
    sentence_transformers = pytest.importorskip("sentence_transformers")
    theirs = sentence_transformers.SentenceTransformer(str(folder), device="cpu")
    assert np.abs(ours - theirs.encode(sentences["eng"], show_progress_bar=False)).max() < 1e-5


def test_training_goes_on_from_an_encoders_folder(
    finished: dict[str, Path], recipe_file: Path, tmp_path: Path
) -> None:
    raw = yaml.safe_load(recipe_file.read_text())
    raw["encoder"] = {"from": str(finished["fp32"])}
    raw["data"]["store"] = str(tmp_path / "data")
    raw["phases"] = raw["phases"][1:]
    raw["phases"][0]["trainer"] |= {"steps": 2, "embedding_rate": 0.0, "average": 0.0}
    (tmp_path / "recipe.yaml").write_text(yaml.safe_dump(raw))
    recipe = settings(tmp_path / "recipe.yaml", tmp_path / "run")
    prepare(recipe)
    train(recipe)
    before, after = (
        SentenceEncoder.load(str(run), "cpu").model.state_dict()
        for run in (finished["fp32"], tmp_path / "run")
    )
    words = "embeddings.word_embeddings.weight"
    assert torch.equal(before[words], after[words])  # frozen
    trained = SentenceEncoder.load(str(tmp_path / "run"), "cpu")
    assert trained.languages == SentenceEncoder.load(str(finished["fp32"]), "cpu").languages
    assert not torch.equal(
        before["encoder.layer.0.output.dense.weight"], after["encoder.layer.0.output.dense.weight"]
    )


def test_dev_scores_come_when_they_should(
    finished: dict[str, Path], recipe_file: Path, tmp_path: Path
) -> None:
    seen: list[bool] = []

    def score(encoder: SentenceEncoder) -> dict[str, float]:
        seen.append(encoder.model.training)
        return {"xsim": float(np.linalg.norm(encoder.embed(["Hola"])))}

    run = tmp_path / "run"
    train(settings(recipe_file, run, "trainer.dev_every=5"), dev_score=score)
    scored = [(r["phase"], r["step"]) for r in log_of(run) if "dev" in r]
    assert scored == [("bag", 5), ("bag", 7), ("mexma", 5), ("mexma", 10), ("mexma", 12)]
    assert not any(seen)
    # Scoring changes nothing in what is trained, running means of the weights included.
    assert weights(run) == weights(finished["fp32"])


@pytest.mark.slow
def test_how_often_a_corpus_is_seen_does_not_depend_on_its_name(
    recipe_file: Path, tmp_path: Path, tiny_encoder: Path, sentences: dict[str, list[str]]
) -> None:
    """Corpora of two languages may have one name."""
    pairs = ["\t".join(pair) for pair in zip(sentences["fra"], sentences["eng"], strict=True)]
    (tmp_path / "pairs.tsv").write_text("\n".join(pairs) + "\n", encoding="utf-8")
    raw = yaml.safe_load(recipe_file.read_text()) | {"encoder": {"from": str(tiny_encoder)}}
    raw["phases"] = raw["phases"][1:]
    (spanish,) = raw["data"]["corpora"]
    spanish["path"] = str(recipe_file.parent / "pairs.tsv")
    for name in ("own", "other"):
        french = spanish | {"name": name, "path": "pairs.tsv", "languages": ["fra_Latn"], "repeat": 8}
        raw["data"] |= {"root": str(tmp_path), "store": str(tmp_path / name), "corpora": [spanish, french]}
        (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump(raw))
        recipe = settings(tmp_path / f"{name}.yaml", tmp_path / "runs" / name, "trainer.steps=3")
        prepare(recipe)
        train(recipe)
    assert log_of(tmp_path / "runs" / "own") == log_of(tmp_path / "runs" / "other")


@pytest.mark.slow
def test_fp16_scales_its_loss_and_takes_steps(recipe_file: Path, tmp_path: Path) -> None:
    try:
        with torch.autocast("cpu", torch.float16):
            torch.nn.functional.linear(torch.ones(2, 2), torch.ones(2, 2))
        torch.amp.GradScaler("cpu")
    except (RuntimeError, TypeError) as error:
        pytest.skip(f"this torch has no fp16 autocast or loss scaling on a processor: {error}")
    run = tmp_path / "run"
    train(settings(recipe_file, run, "trainer.precision=fp16", "trainer.checkpoint_every=100"))
    losses = [record["loss"] for record in log_of(run) if record["phase"] == "mexma"]
    assert np.isfinite(losses).all()
    assert np.mean(losses[-4:]) < np.mean(losses[:4])
    (last,) = (run / "mexma" / "checkpoints").iterdir()
    state = torch.load(last / "optimisers.pt", weights_only=True)
    assert state["scaler"]["scale"] > 1
    steps = {float(entry["step"]) for entry in state["players"][0]["state"].values()}
    assert max(steps) >= MEXMA_STEPS / 2  # the first ones may overflow and be skipped while the scale falls


def test_a_run_keeps_the_ngrams_of_its_first_phase(recipe_file: Path, tmp_path: Path) -> None:
    """Through the phase after it, and through one that is resumed."""
    kept = ("phases.bag.objective.ngrams=[2, 3]", "phases.bag.objective.keep_ngrams=true")
    recipe = settings(recipe_file, tmp_path / "run", *kept)
    train(recipe)
    whole = SentenceEncoder.load(str(tmp_path / "run"), "cpu")
    assert whole.ngrams is not None
    assert not np.allclose(whole.embed(["casarillo"]), _in_pieces(whole).embed(["casarillo"]), atol=0.1)
    shutil.rmtree(tmp_path / "run" / "mexma")
    shutil.rmtree(tmp_path / "run" / "encoder")
    train(recipe, resume=True)
    assert SentenceEncoder.load(str(tmp_path / "run"), "cpu").fingerprint == whole.fingerprint


def _in_pieces(encoder: SentenceEncoder) -> SentenceEncoder:
    return SentenceEncoder("", encoder.model, encoder.tokenizer)
