"""`mexma eval sts` and `senteval` at the command line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from mexma_cli.encoder.encoder import SentenceEncoder
from mexma_cli.main import cli


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli, ["eval", *(str(argument) for argument in arguments), "--cache", "none"])


def test_sts_prints_what_scipy_finds(
    tiny_encoder: Path, tmp_path: Path, sentences: dict[str, list[str]]
) -> None:
    stats = pytest.importorskip("scipy.stats")
    gold = [5, 4.2, 0, 3, 1, 2, 2.5, 0.3]
    left, right = sentences["eng"], sentences["fra"]
    rows = [f"{g}\t{a}\t{b}\tx{n % 2}" for n, (g, a, b) in enumerate(zip(gold, left, right, strict=True))]
    (tmp_path / "STS12.tsv").write_text("\n".join(rows), encoding="utf-8")
    done = run("sts", tmp_path, "--model", tiny_encoder, "--dtype", "fp32", "--json")
    assert done.exit_code == 0, done.output
    result = json.loads(done.stdout)
    encoder = SentenceEncoder.load(str(tiny_encoder))
    a, b = encoder.embed(left), encoder.embed(right)
    similar = np.sum(a * b, axis=1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)
    assert result["scores"]["spearman"] == pytest.approx(100 * stats.spearmanr(similar, gold).statistic)
    assert result["scores"]["pearson"] == pytest.approx(
        100 * stats.pearsonr(similar, gold).statistic, abs=1e-3
    )
    assert [(row["part"], row["pairs"]) for row in result["rows"]] == [("x0", 4), ("x1", 4), ("all", 8)]
    assert "STS12 has 8 pairs here, and 3,108 where it is published" in done.stderr

    table = run("sts", tmp_path, "--model", tiny_encoder, "-o", tmp_path / "kept.json")
    assert "MEXMA paper, Table 27" in table.stdout and "67.32" in table.stdout
    assert json.loads((tmp_path / "kept.json").read_text())["task"] == "sts"


def test_senteval_on_the_files_that_are_there(tiny_encoder: Path, tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    words = ["good", "fine", "bad", "poor"]
    for name, count in (("MR.tsv", 24), ("TREC.train.tsv", 24), ("TREC.test.tsv", 8), ("SST2.train.tsv", 24)):
        rows = [f"{n % 4 // 2}\t{words[n % 4]} film {n}" for n in range(count)]
        (tmp_path / name).write_text("\n".join(rows), encoding="utf-8")
    pairs = [f"{n % 2}\t{words[n % 4]}\tfilm {n}" for n in range(24)]
    (tmp_path / "mrpc").mkdir()
    (tmp_path / "mrpc/train.tsv").write_text("\n".join(pairs), encoding="utf-8")
    done = run("senteval", tmp_path, "--model", tiny_encoder, "--kfold", 3, "--json")
    assert done.exit_code == 0, done.output
    result = json.loads(done.stdout)
    assert {row["task"]: (row["validation"], row["as published"]) for row in result["rows"]} == {
        "MR": ("folds in folds", "yes"),
        "SST2": ("folds in folds", "no"),
        "TREC": ("folds, then test", "yes"),
        "MRPC": ("folds in folds", "no"),
    }
    assert result["scores"].keys() == {"MR", "TREC"}  # no mean of a part of the tasks
    assert [row["f1"] is None for row in result["rows"]] == [True, True, True, False]
    assert "no files of CR, SUBJ, MPQA: left out" in done.stderr


def test_what_is_missing_or_wrong(tiny_encoder: Path, tmp_path: Path) -> None:
    model = ("--model", tiny_encoder)
    done = run("senteval", tmp_path, *model)
    assert done.exit_code == 1 and "get_transfer_data.bash" in done.stderr
    done = run("sts", tmp_path, *model)
    assert done.exit_code == 1 and "no file of scored pairs" in done.stderr
    (tmp_path / "x.tsv").write_text("1\ta\tb\n2\tc\n")
    done = run("sts", tmp_path / "x.tsv", *model)
    assert done.exit_code == 1 and "x.tsv, line 2: 2 columns" in done.stderr
