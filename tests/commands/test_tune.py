from __future__ import annotations

import builtins
import gzip
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from mexma_cli.main import cli


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli, [str(argument) for argument in arguments])


def write(path: Path, *lines: str) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


@pytest.fixture
def candidates(tmp_path: Path) -> Path:
    return write(tmp_path / "c.tsv", "1.3\ta\tA", "1.2\tb\tB", "1.1\tx\tY", "1.05\tc\tC", "1.0\tz\tZ")


@pytest.fixture
def gold(tmp_path: Path) -> Path:
    return write(tmp_path / "gold.tsv", "a\tA", "b\tB", "c\tC")


def test_numbers_as_laser_bucc(shared: Path, tmp_path: Path) -> None:
    folder = shared / "fixtures" / "laser"
    id_of = {}
    for side in ("src", "tgt"):
        ids, text = ((folder / name).read_text().splitlines() for name in (f"ids.{side}.txt", f"{side}.txt"))
        lines = "".join(f"{i}\t{sentence}\n" for i, sentence in zip(ids, text, strict=True))
        id_of |= dict(zip(text, ids, strict=True))
        (tmp_path / f"{side}.gz").write_bytes(gzip.compress(lines.encode()))
    pattern = r"(\w+) k=(\d+) - best threshold=(\S+): precision=(\S+), recall=(\S+), F1=(\S+)"
    cases = re.findall(pattern, (folder / "bucc.thresholds.txt").read_text())
    assert len(cases) == 6
    for margin, k, threshold, precision, recall, f1 in cases:
        mined = folder / f"mine.max.{margin}.k{k}.tsv"
        with_ids = run(
            "tune", mined, "--gold", folder / "gold.ids.tsv",
            "--source", tmp_path / "src.gz", "--target", tmp_path / "tgt.gz", "-o", tmp_path / "kept.tsv",
        )  # fmt: skip
        with_text = run("tune", mined, "--gold", folder / "gold.tsv")
        for result in (with_ids, with_text):
            assert result.exit_code == 0, result.output
            found = dict(line.split()[:2] for line in result.stdout.splitlines())
            assert (found["threshold"], found["precision"], found["recall"], found["F1"]) == (
                threshold, precision, recall, f1,
            )  # fmt: skip
        extracted = (folder / f"bucc.max.{margin}.k{k}.ids.tsv").read_text().splitlines()
        kept = [line.split("\t") for line in (tmp_path / "kept.tsv").read_text().splitlines()]
        assert {f"{id_of[source]}\t{id_of[target]}" for _, source, target in kept} == set(extracted)
        assert len(kept) == len(extracted)


def test_prints_and_writes_what_is_above(tmp_path: Path, candidates: Path, gold: Path) -> None:
    kept = tmp_path / "kept.tsv.gz"
    result = run("tune", candidates, "--gold", gold, "--json", "-o", kept)
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert set(found.pop("intervals")) == {"threshold", "precision", "recall", "f1"}
    held_out = found.pop("held_out")
    assert held_out["gold"] == 1 and held_out["f1"] == 2 * held_out["correct"] / (held_out["pairs"] + 1)
    assert found == pytest.approx(
        {
            "threshold": 1.025, "precision": 0.75, "recall": 1.0, "f1": 6 / 7,
            "pairs": 4, "correct": 3, "gold": 3, "candidates": 5,
        }
    )  # fmt: skip
    assert "5 candidate pairs, 3 gold pairs" in result.stderr
    assert gzip.decompress(kept.read_bytes()).decode().split("\n")[0] == "1.3\ta\tA"
    assert len(gzip.decompress(kept.read_bytes()).splitlines()) == 4


def test_a_sentence_with_two_ids_is_left_out(tmp_path: Path) -> None:
    candidates = write(tmp_path / "c.tsv", "1.3\ta\tA", "1.2\tb\tB", "1.1\tno\tB", "1.15\tb\tB")
    source = write(tmp_path / "s.tsv", "s1\ta", "s2\tb", "s3\ta")
    target = write(tmp_path / "t.tsv", "t1\tA", "t2\tB")
    gold = write(tmp_path / "g.tsv", "s1\tt1", "s2\tt2")
    result = run("tune", candidates, "--gold", gold, "--source", source, "--target", target, "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert (found["candidates"], found["precision"], found["recall"]) == (1, 1.0, 0.5)
    assert "1 lines left out: a sentence has more than one id" in result.stderr
    assert "1 lines left out: a sentence has no id" in result.stderr
    assert "1 lines repeat a pair" in result.stderr


def test_the_picture(tmp_path: Path, candidates: Path, gold: Path) -> None:
    pytest.importorskip("matplotlib")
    for name in ("scores.png", "scores.svg"):
        assert run("tune", candidates, "--gold", gold, "--plot", tmp_path / name).exit_code == 0
        assert (tmp_path / name).stat().st_size > 5000
    result = run("tune", candidates, "--gold", gold, "--plot", tmp_path / "scores.doc")
    assert result.exit_code == 1 and ".png, .svg or .pdf" in result.stderr


def test_a_picture_without_matplotlib_names_the_extra(
    tmp_path: Path, candidates: Path, gold: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = builtins.__import__

    def no_matplotlib(name: str, *rest: Any, **more: Any) -> Any:
        if name.partition(".")[0] == "matplotlib":
            raise ImportError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", no_matplotlib)
    result = run("tune", candidates, "--gold", gold, "--plot", tmp_path / "scores.png")
    assert result.exit_code == 1 and "pip install 'mexma-cli[plot]'" in result.stderr


class TestBadInput:
    def fails(self, message: str, *arguments: str | Path) -> None:
        result = run("tune", *arguments)
        assert result.exit_code == 1, result.output
        assert message in result.stderr, result.stderr

    def test_candidates(self, tmp_path: Path, gold: Path) -> None:
        self.fails("c.tsv: no such file", tmp_path / "c.tsv", "--gold", gold)
        self.fails("has no candidates", write(tmp_path / "c.tsv"), "--gold", gold)
        self.fails("c.tsv, line 2: 1 tab", write(tmp_path / "c.tsv", "1\ta\tA", "x"), "--gold", gold)
        self.fails("c.tsv, line 1: the score 'x'", write(tmp_path / "c.tsv", "x\ta\tA"), "--gold", gold)

    def test_gold(self, tmp_path: Path, candidates: Path) -> None:
        self.fails("g.tsv is empty", candidates, "--gold", write(tmp_path / "g.tsv"))
        self.fails("g.tsv, line 1: 1 tab", candidates, "--gold", write(tmp_path / "g.tsv", "a"))
        self.fails("none of its 1 pairs", candidates, "--gold", write(tmp_path / "g.tsv", "a\tB"))

    def test_ids(self, tmp_path: Path, candidates: Path) -> None:
        source, target = write(tmp_path / "s.tsv", "s1\ta"), write(tmp_path / "t.tsv", "t1\tA")
        sides = ("--source", source, "--target", target)
        self.fails(
            "line 2: the id 's9'", candidates, "--gold", write(tmp_path / "g", "s1\tt1", "s9\tt1"), *sides
        )
        self.fails("swap --source", candidates, "--gold", write(tmp_path / "g", "t1\ts1"), *sides)
        good = write(tmp_path / "g", "s1\tt1")
        other = ("--source", write(tmp_path / "u.tsv", "s1\tq"), "--target", target)
        self.fails("no candidate has both its sentences", candidates, "--gold", good, *other)
        broken = ("--source", write(tmp_path / "v.tsv", "s1\ta", "s2"), "--target", target)
        self.fails("v.tsv, line 2: no tab", candidates, "--gold", good, *broken)
        twice = ("--source", write(tmp_path / "w.tsv", "s1\ta", "s1\tb"), "--target", target)
        self.fails("w.tsv, line 2: the id 's1' occurs twice", candidates, "--gold", good, *twice)
        assert run("tune", candidates, "--gold", good, "--source", source).exit_code == 2


def test_the_threshold_given_to_mine_keeps_the_same_pairs(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    vectors = rng.standard_normal((60, 8)).astype(np.float32)
    noisy = vectors + 0.3 * rng.standard_normal((60, 8)).astype(np.float32)
    for name, rows in (("s", vectors), ("t", noisy)):
        (tmp_path / f"{name}.f32").write_bytes(rows.tobytes())
        text = write(tmp_path / f"{name}.txt", *(f"{name}{i}" for i in range(60)))
        raw = run(
            "convert", tmp_path / f"{name}.f32", "--dim", "8", "--text", text, "-o", tmp_path / f"{name}.emb"
        )
        assert raw.exit_code == 0, raw.output
    stores = tmp_path / "s.emb", tmp_path / "t.emb"
    assert run("mine", *stores, "-o", tmp_path / "all.tsv").exit_code == 0
    gold = write(tmp_path / "gold.tsv", *(f"s{i}\tt{i}" for i in range(60)))
    tuned = run("tune", tmp_path / "all.tsv", "--gold", gold, "--json", "-o", tmp_path / "kept.tsv")
    threshold = json.loads(tuned.stdout)["threshold"]
    again = run("mine", *stores, "--threshold", str(threshold))
    assert again.stdout == (tmp_path / "kept.tsv").read_text()
    assert len(again.stdout.splitlines()) == json.loads(tuned.stdout)["pairs"]
