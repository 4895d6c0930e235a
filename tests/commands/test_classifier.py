"""`mexma classifier train`, and what takes its weights."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from mexma_cli.classifier import training
from mexma_cli.classifier.features import FEATURES
from mexma_cli.classifier.model import WEIGHTS
from mexma_cli.stages.run.run import run_corpus
from tests.command import fails, ok, run, write
from tests.corpora import InThisProcess, corpus
from tests.examples import demo_pairs


def test_a_classifier_is_trained_and_used(tmp_path: Path, tiny_encoder: Path) -> None:
    pairs = write(tmp_path / "pairs.tsv", *demo_pairs(120))
    command = "classifier", "train", pairs, "--model", tiny_encoder, "--source-lang", "spa"
    done = ok(run(*command, "-o", tmp_path / "own.json", "--json"))
    found = json.loads(done.stdout)
    assert found["f1"]["margin"] < 10 and "are these translations of each other" in done.stderr
    assert (found["pairs"], found["held_out"], found["translations"]) == (84, 36, 15)
    assert "these figures are rough" in done.stderr and "on only 15 translations among few" in done.stderr
    assert set(found["f1"]) == {"margin", "bundled", "trained"}
    weights = json.loads((tmp_path / "own.json").read_text())
    assert weights["dim"] == 32 and set(weights["classifiers"]) == {"text", "words"}
    own = ("--classifier", tmp_path / "own.json", "--model", tiny_encoder)
    sides = [
        write(tmp_path / f"{side}.txt", *(p.split("\t")[side] for p in demo_pairs(40))) for side in (0, 1)
    ]
    mined = ok(run("mine", *sides, *own))
    assert "words are not compared" not in mined.stderr
    assert all(0 <= float(line.split("\t")[0]) <= 1 for line in mined.stdout.splitlines())
    scored = ok(run("score", *sides, *own)).stdout.splitlines()
    assert len(scored) == 40 and all(len(line.split("\t")) == 4 for line in scored)
    assert json.loads(ok(run("tune", *sides, *own, "--json")).stdout)["threshold"] < 1


def test_what_differs_is_said(tmp_path: Path) -> None:
    sides = [
        write(tmp_path / f"{side}.txt", *(p.split("\t")[side] for p in demo_pairs(60))) for side in (0, 1)
    ]
    done = ok(run("mine", *sides, "--model", "mini", "--dim", "160"))
    assert "these are of mini with 160 dimensions, not 320: words are not compared" in done.stderr


def test_bad_input(tmp_path: Path) -> None:
    few, file = write(tmp_path / "few.tsv", *demo_pairs(50)), tmp_path / "w.json"
    fails(run("classifier", "train", few, "-o", file, "--model", "mini"), 1, "50 different pairs are too few")
    fails(run("classifier", "train", few, "-o", few), 2, "is an input")
    fails(run("score", few, "--classifier", few, "--model", "mini"), 1, "few.tsv is damaged: not JSON")


PLUGIN = Path(__file__).parents[2] / "examples/my_feature.py"


@pytest.fixture
def own_features() -> Iterator[None]:
    """What a test registers is gone after it."""
    known = dict(FEATURES)
    yield
    FEATURES.clear()
    FEATURES.update(known)


@pytest.mark.usefixtures("own_features")
def test_a_feature_of_ones_own_is_trained_with_and_used(
    tmp_path: Path, tiny_encoder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(training, "ENOUGH", training.FEWEST)
    pairs, own = write(tmp_path / "pairs.tsv", *demo_pairs(130)), tmp_path / "own.json"
    languages = ("--model", tiny_encoder, "--source-lang", "spa", "--target-lang", "eng")
    ok(run("classifier", "train", pairs, *languages, "--plugin", PLUGIN, "-o", own))
    assert '"glossary"' in own.read_text()
    few = write(tmp_path / "few.tsv", *demo_pairs(60))
    with_it = ok(run("score", few, *languages, "--classifier", own, "--plugin", PLUGIN)).stdout
    del FEATURES["glossary"]
    fails(run("score", few, *languages, "--classifier", own), 1, "--plugin FILE")
    assert len(with_it.splitlines()) == 60


@pytest.mark.usefixtures("own_features")
def test_a_feature_of_ones_own_is_a_value_of_score(tmp_path: Path) -> None:
    pairs = write(tmp_path / "pairs.tsv", "El agua es azul.\tThe water is blue.", "Mi agua .\tMy dog .")
    languages = ("--model", "mini", "--source-lang", "spa", "--target-lang", "eng")
    done = ok(run("score", pairs, *languages, "--plugin", PLUGIN, "--json"))
    assert [json.loads(line)["glossary"] for line in done.stdout.splitlines()] == [0, 2]
    ok(run("score", pairs, *languages, "--plugin", PLUGIN, "-o", tmp_path / "out.csv"))
    names = (tmp_path / "out.csv").read_text().partition("\n")[0]
    assert names == "score,source,target,glossary"
    fails(run("score", pairs, *languages, "--plugin", PLUGIN), 2, "by name: -o FILE.csv")
    fails(run("mine", pairs, pairs, "--model", "mini", "--plugin", PLUGIN), 1, "without a classifier")
    few = ("classifier", "train", write(tmp_path / "few.tsv", *demo_pairs(120)), "--model", "mini")
    fails(run(*few, "--plugin", PLUGIN, "-o", tmp_path / "o.json"), 1, "120 pairs are too few to learn")
    del FEATURES["glossary"]
    broken = write(tmp_path / "broken.py", PLUGIN.read_text().replace("return found", "return 1 / 0"))
    fails(run("score", pairs, *languages, "--plugin", broken, "--json"), 1, "(broken.py, line 25): ")


@pytest.mark.usefixtures("own_features")
def test_a_run_mines_with_a_feature_of_ones_own(tmp_path: Path, tiny_encoder: Path) -> None:
    plugin = write(
        tmp_path / "odd.py",
        "from mexma_cli.classifier.features import pair_feature",
        '@pair_feature("odd", "whether the line is odd")',
        "def odd(sources, targets, languages):",
        '    assert languages == ("fra_Latn", "eng_Latn")',
        "    return [int(source.split()[-1]) % 2 for source in sources]",
    )
    weights = json.loads(WEIGHTS.read_text())
    odd = {"name": "odd", "mean": 0, "scale": 1, "coefficient": -30}
    weights["classifiers"]["text"]["features"].append(odd)
    mine = {"classifier": str(write(tmp_path / "own.json", json.dumps(weights))), "threshold": 1e-6}
    mine["plugin"] = str(plugin)
    recipe = corpus(tmp_path, tiny_encoder, pairs=[["fra", "eng"]], mine=mine, units={"lines": 24})
    run_corpus(recipe, InThisProcess)
    found = (tmp_path / "run/bitext/fra_Latn-eng_Latn/fra_Latn-eng_Latn.tsv").read_text().splitlines()
    assert found and not any(int(line.split("\t")[1].split()[-1]) % 2 for line in found)
