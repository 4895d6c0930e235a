"""The tasks and analyses of `mexma eval` at the command line."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import Result

from mexma_cli.encoder.encoder import SentenceEncoder
from mexma_cli.evaluation import xnli
from mexma_cli.evaluation.aligned import language_list
from mexma_cli.evaluation.tokens import CLASSES
from tests import command
from tests.command import fails, ok
from tests.evaluation.given import put


def run(*arguments: str | Path) -> Result:
    return command.run("eval", *map(str, arguments), "--cache", "none")


def measured(*arguments: str | Path) -> tuple[Any, str]:
    """The result that a command prints, and what it says on stderr."""
    done = ok(run(*arguments, "--json"))
    return json.loads(done.stdout), done.stderr


def test_sts_prints_what_scipy_finds(
    tiny_encoder: Path,
    tmp_path: Path,
    sentences: dict[str, list[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stats = pytest.importorskip("scipy.stats")
    gold = [5, 4.2, 0, 3, 1, 2, 2.5, 0.3]
    left, right = sentences["eng"], sentences["fra"]
    rows = [f"{g}\t{a}\t{b}\tx{n % 2}" for n, (g, a, b) in enumerate(zip(gold, left, right, strict=True))]
    (tmp_path / "STS12.tsv").write_text("\n".join(rows), encoding="utf-8")
    result, said = measured("sts", tmp_path, "--model", tiny_encoder, "--dtype", "fp32")
    encoder = SentenceEncoder.load(str(tiny_encoder))
    a, b = encoder.embed(left), encoder.embed(right)
    similar = np.sum(a * b, axis=1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)
    assert result["scores"]["spearman"] == pytest.approx(100 * stats.spearmanr(similar, gold).statistic)
    assert result["scores"]["pearson"] == pytest.approx(
        100 * stats.pearsonr(similar, gold).statistic, abs=1e-3
    )
    assert [(row["part"], row["pairs"]) for row in result["rows"]] == [("x0", 4), ("x1", 4), ("all", 8)]
    assert {row["data set"] for row in result["rows"]} == {"STS12 (part)"}
    assert "STS12 has 8 pairs here and 3,108 where it is published: not compared" in said

    monkeypatch.setattr("mexma_cli.evaluation.sts.PUBLISHED", {"STS12": 8})
    table = run("sts", tmp_path, "--model", tiny_encoder, "-o", tmp_path / "kept.json")
    assert "MEXMA paper, Table 27" in table.stdout and "67.32" in table.stdout
    assert json.loads((tmp_path / "kept.json").read_text())["task"] == "sts"


def test_equal_cosines_have_no_correlation(tiny_encoder: Path, tmp_path: Path) -> None:
    (tmp_path / "same.tsv").write_text("5\ta\ta\n4\ta\ta\n1\ta\ta\n")
    result, said = measured("sts", tmp_path / "same.tsv", "--model", tiny_encoder)
    assert "all cosines are equal" in said
    assert result["rows"][0]["spearman"] is result["rows"][0]["pearson"] is None
    assert result["scores"] == {}


def test_senteval_on_the_files_that_are_there(
    tiny_encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("sklearn")
    words = ["good", "fine", "bad", "poor"]
    for name, count in (("MR.tsv", 24), ("TREC.train.tsv", 24), ("TREC.test.tsv", 8), ("SST2.train.tsv", 24)):
        rows = [f"{n % 4 // 2}\t{words[n % 4]} film {n}" for n in range(count)]
        (tmp_path / name).write_text("\n".join(rows), encoding="utf-8")
    pairs = [f"{n % 2}\t{words[n % 4]}\tfilm {n}" for n in range(24)]
    put(tmp_path, {"mrpc/train.tsv": "\n".join(pairs)})
    sizes = {"MR": 24, "TREC": 32, "SST2": 24, "MRPC": 5801}
    monkeypatch.setattr("mexma_cli.evaluation.senteval.EXAMPLES", sizes)
    result, said = measured("senteval", tmp_path, "--model", tiny_encoder, "--kfold", 3)
    assert {row["task"]: (row["validation"], row["as published"]) for row in result["rows"]} == {
        "MR": ("folds in folds", "yes"),
        "SST2": ("folds in folds", "no"),
        "TREC": ("folds, then test", "yes"),
        "MRPC": ("folds in folds", "no"),
    }
    assert result["scores"].keys() == {"MR", "TREC"}  # no mean of a part of the tasks
    assert [row["f1"] is None for row in result["rows"]] == [True, True, True, False]
    assert "no files of CR, SUBJ, MPQA: left out" in said


def test_folds_that_cannot_be_cut_are_found_before_the_work(tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    for name, count in (("MR.tsv", 40), ("MPQA.tsv", 12), ("SST2.train.tsv", 4), ("SST2.dev.tsv", 4)):
        rows = [f"{n % 2}\tfilm {n}" for n in range(count)]
        (tmp_path / name).write_text("\n".join(rows), encoding="utf-8")
    fails(
        run("senteval", tmp_path, "--model", tmp_path / "no encoder", "--kfold", 4),
        1,
        "SST2: a class has 2 examples, too few for 4 folds",
    )
    (tmp_path / "SST2.test.tsv").write_text("0\ta\n1\tb\n")  # dev, then test: no folds
    done = run("senteval", tmp_path, "--model", tmp_path / "no encoder", "--kfold", 4)
    assert "MPQA: a class has 6 examples, too few for 4 folds" in done.stderr
    assert "use --kfold 3 or less" in done.stderr


@pytest.fixture
def aligned(tmp_path: Path, sentences: dict[str, list[str]]) -> Path:
    """Line-aligned files; English has an empty line."""
    files = {f"{code}.txt": "\n".join([*lines, "", ""]) for code, lines in sentences.items()}
    return put(tmp_path / "aligned", files)


def test_tokens(tiny_encoder: Path, aligned: Path) -> None:
    result, _ = measured("tokens", aligned, "--model", tiny_encoder)
    assert [row["nearest"] for row in result["rows"]] == ["top-1", "top-5"]
    for row in result["rows"]:
        assert sum(row[name] for name in CLASSES) == pytest.approx(100)
        assert row["queries"] == 24 and row["tokens"] > 100
    # These depend on the encoder's tokeniser: the page compares results of equal settings.
    assert not result["settings"].keys() & {"queries", "tokens"}
    assert result["benchmark"] is None  # not FLORES-200: nothing published beside it
    fails(run("tokens", aligned, "--langs", "deu", "--model", tiny_encoder), 1, "deu")


def test_tokens_with_a_picture(tiny_encoder: Path, aligned: Path) -> None:
    pytest.importorskip("matplotlib")
    picture = aligned.parent / "nearest.svg"
    measured("tokens", aligned, "--model", tiny_encoder, "--picture", picture)
    drawn = re.findall(">([^<>]+)</text>", picture.read_text(encoding="utf-8"))
    assert sum(text.startswith("query  eng_Latn, line ") for text in drawn) == 6
    assert sum(bool(re.match(r"-?\d\.\d\d  ", text)) for text in drawn) == 18


def test_tokens_of_nothing(tiny_encoder: Path, tmp_path: Path) -> None:
    put(tmp_path, {"eng.txt": "\n\n", "fra.txt": "\n\n"})
    fails(run("tokens", tmp_path, "--model", tiny_encoder), 1, "no token to look for")


@pytest.mark.parametrize("command", ["tokens", "attention"])
def test_pooling_has_no_part_in_tokens_and_attention(command: str, aligned: Path) -> None:
    fails(run(command, aligned, "--pooling", "mean"), 2, "--pooling is for sentence vectors")


def test_attention_with_a_picture(tiny_encoder: Path, aligned: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    picture = tmp_path / "picture.png"
    result, _ = measured("attention", aligned, "--model", tiny_encoder, "--picture", picture)
    assert [(row["language"], row["sentences"]) for row in result["rows"]] == [
        ("eng_Latn", 8),
        ("fra_Latn", 8),
    ]
    mean = sum(row["entropy"] for row in result["rows"]) / 2
    assert result["scores"]["entropy"] == pytest.approx(mean)
    assert picture.stat().st_size > 5000

    fails(
        run("attention", aligned, "--model", tiny_encoder, "--picture", picture, "--sentence", ""),
        1,
        "has no token",
    )
    fails(
        run("attention", aligned, "--model", tiny_encoder, "--picture", tmp_path / "a.bmp"),
        1,
        "a picture can be",
    )
    assert run("attention", aligned, "--sentence", "A cat.").exit_code == 2


def test_the_picture_of_attention_comes_first(
    tiny_encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is wrong with it is known before the measurement; its sentences are not empty lines."""
    pytest.importorskip("matplotlib")
    put(tmp_path, {"deu.txt": "\n", "eng.txt": "\nA cat.\n", "fra.txt": "Un chat.\nOui.\n"})
    options = ("attention", tmp_path, "--model", tiny_encoder, "--picture", tmp_path / "a.png")
    done = run(*options, "--json")
    assert done.exit_code == 0 and (tmp_path / "a.png").exists(), done.output
    assert "deu_Latn is left out" in done.stderr
    monkeypatch.setattr("mexma_cli.evaluation.attention.evaluate", lambda *_: pytest.fail("measured"))
    assert "has no token" in run(*options, "--sentence", "").stderr


@pytest.mark.parametrize("command", ["tokens", "attention"])
def test_sentences_that_are_cut_are_counted(command: str, tiny_encoder: Path, aligned: Path) -> None:
    assert (
        "16 sentences were cut to 4 tokens"
        in ok(run(command, aligned, "--model", tiny_encoder, "--max-tokens", "4")).stderr
    )


def test_attention_is_compared_over_the_papers_languages(tiny_encoder: Path, tmp_path: Path) -> None:
    put(tmp_path / "devtest", {f"{code}.devtest": "A cat.\n" for code in [*language_list("81"), "eng_Latn"]})
    found = [
        measured("attention", tmp_path, *options, "--model", tiny_encoder)[0]["benchmark"]
        for options in (("--langs", "81"), ("--langs", "o"))
    ]
    assert found == [None, "attention"]


@pytest.fixture
def scored(tmp_path: Path, sentences: dict[str, list[str]]) -> Path:
    """A file of eight scored pairs."""
    pairs = zip([5, 4.5, 4, 3, 2, 1, 0.5, 0], sentences["eng"], sentences["fra"], strict=True)
    put(tmp_path, {"pairs.tsv": "\n".join(f"{g}\t{a}\t{b}" for g, a, b in pairs)})
    return tmp_path / "pairs.tsv"


def test_pooling_is_xsim_and_sts_by_either(tiny_encoder: Path, aligned: Path, scored: Path) -> None:
    model = ("--model", tiny_encoder, "--dtype", "fp32")
    result, said = measured("pooling", "--xsim", aligned, "--sts", scored, *model)
    assert next(iter(result["settings"])) == "data"  # what the page says that the first score is of
    rows = {row["measure"]: row for row in result["rows"]}
    assert "without xsim++" in said and rows.keys() == {"xsim", "STS"}
    for kind, pooling in (("CLS", "cls"), ("uniform", "mean")):
        alone, _ = measured("sts", scored, *model, "--pooling", pooling)
        assert rows["STS"][kind] == alone["scores"]["spearman"]
        alone, _ = measured("xsim", aligned, *model, "--pooling", pooling)
        assert rows["xsim"][kind] == alone["scores"]["xsim"]
    for row in rows.values():  # of an untrained encoder: the correlation may be 0
        expected = 100 * (row["CLS"] - row["uniform"]) / row["CLS"] if row["CLS"] else None
        assert row["change"] == pytest.approx(expected)
    assert run("pooling", *model).exit_code == 2
    assert run("pooling", "--sts", scored, "--langs", "fra", *model).exit_code == 2
    assert run("pooling", "--xsim", aligned, "--pooling", "mean", *model).exit_code == 2


def test_pooling_leaves_out_sets_whose_cosines_are_equal(
    tiny_encoder: Path, tmp_path: Path, scored: Path
) -> None:
    (tmp_path / "same.tsv").write_text("5\ta\ta\n4\ta\ta\n1\ta\ta\n")
    named = ("--sts", tmp_path / "same.tsv", "--model", tiny_encoder, "--dtype", "fp32")
    result, said = measured("pooling", *named)
    assert "1 set is left out, where all cosines are equal" in said
    assert result["rows"] == [{"measure": "STS", "CLS": None, "uniform": None, "change": None}]
    assert result["scores"] == {}
    both, _ = measured("pooling", *named, "--sts", scored)
    other, _ = measured("pooling", "--sts", scored, *named[2:])
    assert both["rows"] == other["rows"]


def test_xnli(tiny_encoder: Path, tmp_path: Path) -> None:
    classes = ("entailment", "neutral", "contradictory")
    rows = [f"It rains {n}.\t{classes[n % 3]} it is\t{classes[n % 3]}" for n in range(30)]
    put(tmp_path, {"XNLI-MT-1.0/multinli.train.en.tsv": "\n".join(["premise\thypo\tlabel", *rows])})
    model = ("--model", tiny_encoder)
    fails(run("xnli", tmp_path, *model), 1, "no xnli.test.tsv or xnli.test.jsonl")
    for ignored in (("--max-tokens", 64), ("--pooling", "mean"), ("--prompt", "query: ")):
        refused = run("xnli", tmp_path, *model, *ignored)
        assert refused.exit_code == 2 and f"{ignored[0]} is for sentences" in refused.stderr
    assert run("xnli", tmp_path, *model, "--seed", -1).exit_code == 2
    tests = [f"{lang}\tneutral\tA {n}.\tB." for lang in ("en", "sw") for n in range(4)]
    header = "language\tgold_label\tsentence1\tsentence2"
    (tmp_path / "xnli.test.tsv").write_text("\n".join([header, *tests, "sw\t-\ta\tb"]) + "\n")
    result, said = measured("xnli", tmp_path, *model, "--batch", 8, "--epochs", 1)
    assert [(row["language"], row["pairs"]) for row in result["rows"]] == [("en", 4), ("sw", 4)]
    accuracies = [row["accuracy"] for row in result["rows"]]
    assert all(value in (0, 25, 50, 75, 100) for value in accuracies)
    assert result["scores"]["accuracy"] == sum(accuracies) / 2
    assert "left out, since people did not agree on a class: 1 pair\n" in said
    assert result["encoder"]["precision"] == "float32"
    low, _ = measured("xnli", tmp_path, *model, "--epochs", 1, "--dtype", "bf16")
    assert low["encoder"]["precision"] == "bfloat16"
    assert (result["settings"]["max_tokens"], result["benchmark"]) == (128, None)
    again, _ = measured("xnli", tmp_path, *model, "--batch", 8, "--epochs", 1)
    assert again == result


def test_xnli_is_compared_where_it_is_the_papers(
    tiny_encoder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Fewer train pairs, or fewer epochs, are another task."""
    rows = [{"language": f"l{n}", "pairs": 5010, "accuracy": 50.0} for n in range(15)]
    monkeypatch.setattr(xnli, "measure", lambda *_: rows)
    monkeypatch.setattr(xnli, "TRAIN_PAIRS", xnli.TRAIN_PAIRS - 392_690)  # twelve stand for all
    (tmp_path / "xnli.test.tsv").write_text("language\tgold_label\tsentence1\tsentence2\nen\tneutral\ta\tb\n")
    train = tmp_path / "multinli.train.en.tsv"
    found = []
    for pairs, options in ((8, ()), (12, ("--learning-rate", 3e-5)), (12, ("--epochs", 1))):
        train.write_text("premise\thypo\tlabel\n" + "a\tb\tneutral\n" * pairs)
        found.append(measured("xnli", tmp_path, "--model", tiny_encoder, *options)[0]["benchmark"])
    assert found == [None, "xnli", None]


XNLI_COLUMNS = """language gold_label sentence1_binary_parse sentence2_binary_parse sentence1_parse
sentence2_parse sentence1 sentence2 promptID pairID genre label1 label2 label3 label4 label5
sentence1_tokenized sentence2_tokenized match"""
"""Of XNLI-1.0's xnli.test.tsv."""
ENDINGS = {
    "entailment": ("It rains.", "Il pleut."),
    "neutral": ("My brother works.", "Mon frère travaille."),
    "contradiction": ("Where is the station?", "Où est la gare ?"),
}
"""By class, English and French hypotheses: the hypothesis alone tells the class."""


def xnli_line(language: str, label: str, premise: str, hypothesis: str) -> str:
    cells = dict.fromkeys(XNLI_COLUMNS.split(), "x")
    cells |= {"language": language, "gold_label": label, "sentence1": premise, "sentence2": hypothesis}
    return "\t".join(cells.values())


@pytest.mark.slow
def test_xnli_learns_and_its_accuracy_is_what_the_model_says(tiny_encoder: Path, tmp_path: Path) -> None:
    """The published layout; accuracies against predictions of a model fine-tuned here, one pair at a time."""
    import csv

    import torch

    from mexma_cli.evaluation.xnli import CLASSES, Inference, PairClassifier, fine_tune
    from mexma_cli.settings.stages import FineTuning

    labels = list(ENDINGS)
    train = [f"The river is rising {n}.\t{ENDINGS[labels[n % 3]][0]}" for n in range(90)]
    names = ["contradictory" if labels[n % 3] == "contradiction" else labels[n % 3] for n in range(90)]
    rows = [f"{pair}\t{name}" for pair, name in zip(train, names, strict=True)]
    (tmp_path / "multinli.train.en.tsv").write_text("\n".join(["premise\thypo\tlabel", *rows]) + "\n")
    tests = [
        xnli_line(code, label, f"The river is rising {n}.", ENDINGS[label][place])
        for place, code in enumerate(("en", "fr"))
        for n in range(4)
        for label in labels
    ]
    path = tmp_path / "xnli.test.tsv"
    path.write_text("\n".join(["\t".join(XNLI_COLUMNS.split()), *tests]) + "\n", encoding="utf-8")
    options = ("--batch", 16, "--epochs", 6, "--learning-rate", 3e-3)
    result, _ = measured("xnli", tmp_path, "--model", tiny_encoder, "--dtype", "fp32", *options)
    found = {row["language"]: row["accuracy"] for row in result["rows"]}
    assert found["en"] > 90  # a third by chance

    torch.manual_seed(42)
    model = PairClassifier(SentenceEncoder.load(str(tiny_encoder), dtype="float32"), 128)
    premises, hypotheses = zip(*(line.split("\t") for line in train), strict=True)
    pairs = Inference(premises, hypotheses, np.array([labels.index(labels[n % 3]) for n in range(90)]))
    fine_tune(model, pairs, FineTuning(epochs=6, batch=16, learning_rate=3e-3))
    right: dict[str, list[bool]] = {"en": [], "fr": []}
    with path.open(encoding="utf-8", newline="") as file, torch.inference_mode():
        for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE):
            one = model.eval().sequences(Inference([row["sentence1"]], [row["sentence2"]], np.zeros(1)))
            guess = CLASSES[int(model(one, np.arange(1))[0].argmax())]
            right[row["language"]].append(guess == row["gold_label"])
    assert found == pytest.approx({code: 100 * sum(ones) / 12 for code, ones in right.items()})
