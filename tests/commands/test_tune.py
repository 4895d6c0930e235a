from __future__ import annotations

import gzip
import json
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from mexma_cli.formats.csv import row_lines
from mexma_cli.mining.resampling import bootstrap
from mexma_cli.text.writing import write_chunks
from tests.command import fails, ok, run, write
from tests.reference import laser, laser_mined, laser_printed, laser_text


@pytest.fixture(autouse=True)
def few_resamples(monkeypatch: pytest.MonkeyPatch) -> None:
    """tests/mining/test_resampling.py counts how good intervals are."""
    monkeypatch.setattr(bootstrap, "__defaults__", (None, 50))


@pytest.fixture
def candidates(tmp_path: Path) -> Path:
    return write(tmp_path / "c.tsv", "1.3\ta\tA", "1.2\tb\tB", "1.1\tx\tY", "1.05\tc\tC", "1.0\tz\tZ")


@pytest.fixture
def gold(tmp_path: Path) -> Path:
    return write(tmp_path / "gold.tsv", "a\tA", "b\tB", "c\tC")


def test_numbers_as_laser_bucc(tmp_path: Path) -> None:
    """Gold pairs of ids, which may be other than the sentences are called here, and of sentences."""
    for side in ("src", "tgt"):
        lines = "".join(f"id-{text}\t{text}\n" for text in laser_text(side))
        (tmp_path / f"{side}.gz").write_bytes(gzip.compress(lines.encode()))
    gold = [(f"s-{i}", f"t-{j}") for i, j in laser()["gold"]]
    text = write(tmp_path / "gold.tsv", *(f"{source}\t{target}" for source, target in gold))
    ids = write(tmp_path / "gold.ids.tsv", *(f"id-{source}\tid-{target}" for source, target in gold))
    for (margin, k), printed in laser_printed("bucc").items():
        pairs = laser_mined("max", margin, k).items()
        mined = write(tmp_path / "mined.tsv", *(f"{score!r}\ts-{i}\tt-{j}" for (i, j), score in pairs))
        with_ids = run(
            "tune", mined, "--gold", ids,
            "--source", tmp_path / "src.gz", "--target", tmp_path / "tgt.gz", "-o", tmp_path / "kept.tsv",
        )  # fmt: skip
        with_text = run("tune", mined, "--gold", text)
        for result in (with_ids, with_text):
            assert result.exit_code == 0, result.output
            found = dict(line.split()[:2] for line in result.stdout.splitlines())
            assert [found[name] for name in ("threshold", "precision", "recall", "F1")] == printed
        kept = [line.split("\t")[1:] for line in (tmp_path / "kept.tsv").read_text().splitlines()]
        assert sorted(kept) == sorted([f"s-{i}", f"t-{j}"] for i, j in laser()[f"bucc.{margin}.k{k}.rows"])


def test_prints_and_writes_what_is_above(tmp_path: Path, candidates: Path, gold: Path) -> None:
    kept = tmp_path / "kept.tsv.gz"
    result = ok(run("tune", candidates, "--gold", gold, "--json", "-o", kept))
    found = json.loads(result.stdout)
    assert set(found.pop("intervals")) == {"threshold", "precision", "recall", "f1"}
    held_out = found.pop("held_out")
    assert found.pop("all") == {"precision": 0.6, "recall": 1.0, "f1": 0.75}
    printed = ok(run("tune", candidates, "--gold", gold)).stdout
    assert "all pairs  F1 75.00, precision 60.00, recall 100.00, without a threshold\n" in printed
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


def test_gold_pairs_by_line_numbers(tmp_path: Path, candidates: Path) -> None:
    gold = write(tmp_path / "lines.tsv", "1\t2", "3\t1")
    said = "numbers of lines go with --source and --target: `nl -ba -w1 TEXT`"
    fails(run("tune", candidates, "--gold", gold), 1, said)
    plain = write(tmp_path / "s.txt", "a", "x", "b"), write(tmp_path / "t.txt", "B", "A", "Y")
    sides = ("--source", plain[0], "--target", plain[1])
    fails(run("tune", candidates, "--gold", gold, *sides), 1, "hint: `nl -ba -w1 TEXT` writes a text")
    for path in plain:
        numbered = subprocess.run(["nl", "-ba", "-w1", path], capture_output=True, check=True).stdout
        path.write_bytes(numbered)
    assert "2 of 2 gold pairs" in ok(run("tune", candidates, "--gold", gold, *sides)).stdout


def test_inputs_are_not_written_over(tmp_path: Path, candidates: Path, gold: Path) -> None:
    write(tmp_path / "fra.tsv", "1.3\ta\tA")
    for output, *arguments in (
        (candidates, candidates, "--gold", gold),
        (gold, candidates, "--gold", gold),
        (tmp_path / "." / "fra.tsv", tmp_path / "{lang}.tsv", "--gold", tmp_path / "{lang}.tsv"),
    ):
        before, languages = output.read_text(), "{lang}" in str(arguments[0])
        more = ("-o", tmp_path / "{lang}.tsv", "--languages", "fra") if languages else ("-o", output)
        fails(run("tune", *arguments, *more), 2, f"{output} is an input: name another output.")
        assert output.read_text() == before


def test_outputs_that_would_be_lost_in_each_other(tmp_path: Path, candidates: Path, gold: Path) -> None:
    picture = tmp_path / "out.svg"
    both = ("-o", picture, "--plot", tmp_path / "new" / ".." / "out.svg")
    fails(run("tune", candidates, "--gold", gold, *both), 1, "pairs are not written as .svg")
    fails(run("tune", candidates, "--gold", gold, "-o", "-"), 2, "'--output': This does not go to stdout (-)")
    other = ("-o", tmp_path / "out.tmx")
    fails(run("tune", candidates, "--gold", gold, *other), 1, "pairs are not written as .tmx")
    assert not picture.exists()


def test_stdin_is_called_so_and_is_one_input_only(candidates: Path, gold: Path) -> None:
    fails(run("tune", "-", "--gold", "-"), 2, "Only one of the inputs can be stdin")
    for arguments in (("-", "--gold", gold), (candidates, "--gold", "-")):
        fails(run("tune", *arguments, stdin="a\n"), 1, "error: stdin, line 1: 1 tab-separated field")


def test_swapped_sides_are_called_so(tmp_path: Path) -> None:
    mined = write(tmp_path / "c.tsv", "1.3\tA\ta", "1.2\tB\tb")
    gold, ids = write(tmp_path / "g.tsv", "a\tA"), write(tmp_path / "ids.tsv", "s1\tt1")
    sides = write(tmp_path / "s.tsv", "s1\ta", "s2\tb"), write(tmp_path / "t.tsv", "t1\tA", "t2\tB")
    for options in (["--gold", gold], ["--gold", ids, "--source", sides[0], "--target", sides[1]]):
        fails(run("tune", mined, *options), 1, "hint: they are there with the sides swapped")


def test_other_formats_get_a_hint(tmp_path: Path, gold: Path) -> None:
    fails(
        run("tune", write(tmp_path / "c.html", "<html>"), "--gold", gold),
        1,
        "hint: it looks like XML; TSV is read, as `mexma mine",
    )
    text = run("tune", write(tmp_path / "c.txt", "one sentence"), "--gold", gold)
    fails(text, 1, "hint: `mexma mine SOURCE TARGET -o pairs.tsv` writes the candidates")


def test_what_mine_writes_is_read(tmp_path: Path, sentences: dict[str, list[str]]) -> None:
    """TSV, with ids and packed, and JSONL: the same threshold, and the same scores of its lines."""
    texts = [write(tmp_path / f"{side}.txt", *lines) for side, lines in sentences.items()]
    gold = write(tmp_path / "gold.tsv", *map("\t".join, zip(*sentences.values(), strict=True)))
    tuned, scored = set(), set()
    for name in ("packed.tsv.gz", "ids.tsv", "pairs.jsonl"):
        pairs = tmp_path / name
        ok(run("mine", *texts, "-o", pairs, *(["--with-ids"] if name == "ids.tsv" else [])))
        for found, *command in ((tuned, "tune", pairs, "--gold", gold, "--json"), (scored, "score", pairs)):
            done = ok(run(*command))
            found.add(done.stdout)
    assert len(tuned) == len(scored) == 1 and len(scored.pop().splitlines()) > 3


def test_a_sentence_with_two_ids_is_left_out(tmp_path: Path) -> None:
    candidates = write(tmp_path / "c.tsv", "1.3\ta\tA", "1.2\tb\tB", "1.1\tno\tB", "1.15\tb\tB")
    source = write(tmp_path / "s.tsv", "s1\ta", "s2\tb", "s3\ta")
    target = write(tmp_path / "t.tsv", "t1\tA", "t2\tB")
    gold = write(tmp_path / "g.tsv", "s1\tt1", "s2\tt2")
    result = ok(run("tune", candidates, "--gold", gold, "--source", source, "--target", target, "--json"))
    found = json.loads(result.stdout)
    assert (found["candidates"], found["precision"], found["recall"]) == (1, 1.0, 0.5)
    assert "1 line left out: a sentence has more than one id" in result.stderr
    assert "1 line left out: a sentence has no id" in result.stderr
    assert "1 line with a pair that was there before" in result.stderr


def test_the_picture(tmp_path: Path, candidates: Path, gold: Path) -> None:
    pytest.importorskip("matplotlib")
    for name in ("scores.png", "scores.svg"):
        ok(run("tune", candidates, "--gold", gold, "--plot", tmp_path / name))
        assert (tmp_path / name).stat().st_size > 5000
    fails(run("tune", candidates, "--gold", gold, "--plot", tmp_path / "scores.doc"), 1, ".png, .svg or .pdf")


def test_a_picture_without_matplotlib_names_the_extra(
    tmp_path: Path, candidates: Path, gold: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    fails(
        run("tune", candidates, "--gold", gold, "--plot", tmp_path / "scores.png"),
        1,
        "pip install 'matplotlib>=",
    )


@pytest.mark.parametrize("kind", ["tsv", "csv", "jsonl"])
def test_pairs_without_a_score_are_left_out(kind: str, tmp_path: Path, candidates: Path, gold: Path) -> None:
    """As `mexma score` writes them, for pairs with an empty side."""
    wanted = ok(run("tune", candidates, "--gold", gold))
    rows = [(float(score), *texts) for score, *texts in map(str.split, candidates.read_text().splitlines())]
    rows[2:2] = [(math.nan, "", "D"), (math.nan, "c", "C")]
    path = tmp_path / f"nan.{kind}"
    write_chunks([path], row_lines(rows, ("score", "source", "target"), kind))
    done = ok(run("tune", path, "--gold", gold))
    assert done.stdout == wanted.stdout
    assert "nan.{kind}: left out: 2 pairs without a score".replace("{kind}", kind) in done.stderr
    assert "5 candidate pairs, 3 gold pairs" in done.stderr


class TestBadInput:
    def fails(self, message: str, *arguments: str | Path) -> None:
        fails(run("tune", *arguments), 1, message)

    def test_candidates(self, tmp_path: Path, gold: Path) -> None:
        self.fails("c.tsv: no such file", tmp_path / "c.tsv", "--gold", gold)
        self.fails("has no candidates", write(tmp_path / "c.tsv"), "--gold", gold)
        self.fails("c.tsv, line 2: 1 tab", write(tmp_path / "c.tsv", "1\ta\tA", "x"), "--gold", gold)
        self.fails(
            "c.tsv, line 1: 3 tab-separated fields, expected 2",
            write(tmp_path / "c.tsv", "x\ta\tA"),
            "--gold",
            gold,
        )
        broken = write(tmp_path / "c.tsv", "1\ta\tA", "inf\tb\tB")
        self.fails("c.tsv, pair 2: the score is no finite number", broken, "--gold", gold)
        for line in ("nan\ta\tA", "a\tA"):
            self.fails("c.tsv: no pair has a score", write(tmp_path / "c.tsv", line), "--gold", gold)

    def test_gold(self, tmp_path: Path, candidates: Path) -> None:
        self.fails("g.tsv is empty", candidates, "--gold", write(tmp_path / "g.tsv"))
        self.fails("g.tsv, line 1: 1 tab", candidates, "--gold", write(tmp_path / "g.tsv", "a"))
        self.fails("none of its 1 pair is", candidates, "--gold", write(tmp_path / "g.tsv", "a\tB"))

    def test_labels_in_place_of_gold(self, tmp_path: Path, candidates: Path) -> None:
        labels = write(tmp_path / "l.tsv", "y\t0\t0\ta\tA", "n\t0\t0\tb\tA")
        sides = ("--source", write(tmp_path / "s.tsv", "1\ta"), "--target", write(tmp_path / "t.tsv", "2\tA"))
        for more in ((), sides):
            done = fails(
                run("tune", candidates, "--gold", labels, *more), 1, "l.tsv, line 1: 5 tab-separated"
            )
            hint = "this is a file of labels, which `mexma tune SOURCE TARGET --labels FILE` reads"
            assert hint in done.stderr and "cut -f" not in done.stderr

    def test_header_of_gold(self, tmp_path: Path, candidates: Path, gold: Path) -> None:
        with_header = write(tmp_path / "h.tsv", "source\ttarget", *gold.read_text().splitlines())
        wanted = run("tune", candidates, "--gold", gold).stdout
        done = run("tune", candidates, "--gold", with_header)
        assert done.stdout == wanted and "left out: header line (1)" in done.stderr
        sides = ("--source", write(tmp_path / "s.tsv", "1\ta"), "--target", write(tmp_path / "t.tsv", "2\tA"))
        done = run("tune", candidates, "--gold", write(tmp_path / "i.tsv", "src\ttrg", "1\t2"), *sides)
        assert done.exit_code == 0 and "left out: header line (1)" in done.stderr

    def test_ids(self, tmp_path: Path, candidates: Path) -> None:
        source, target = write(tmp_path / "s.tsv", "s1\ta"), write(tmp_path / "t.tsv", "t1\tA")
        sides = ("--source", source, "--target", target)
        self.fails(
            "line 2: the id 's9'", candidates, "--gold", write(tmp_path / "g", "s1\tt1", "s9\tt1"), *sides
        )
        self.fails(
            "t.tsv: the two sides are the other way round",
            candidates,
            "--gold",
            write(tmp_path / "g", "t1\ts1"),
            *sides,
        )
        good = write(tmp_path / "g", "s1\tt1")
        other = ("--source", write(tmp_path / "u.tsv", "s1\tq"), "--target", target)
        self.fails("no candidate has both its sentences", candidates, "--gold", good, *other)
        broken = ("--source", write(tmp_path / "v.tsv", "s1\ta", "s2"), "--target", target)
        self.fails("v.tsv, line 2: no tab", candidates, "--gold", good, *broken)
        twice = ("--source", write(tmp_path / "w.tsv", "s1\ta", "s1\tb"), "--target", target)
        self.fails("w.tsv, line 2: the id 's1' occurs twice", candidates, "--gold", good, *twice)
        assert run("tune", candidates, "--gold", good, "--source", source).exit_code == 2


def test_a_threshold_near_nothing_is_printed_as_it_is(tmp_path: Path) -> None:
    candidates = write(tmp_path / "pairs.tsv", "1.2e-06\ta\tA", "1.1e-06\tb\tC")
    gold = write(tmp_path / "gold.tsv", "a\tA")
    assert run("tune", candidates, "--gold", gold).stdout.startswith("threshold  1.15e-06  (")


def test_the_threshold_given_to_mine_keeps_the_same_pairs(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    vectors = rng.standard_normal((60, 8)).astype(np.float32)
    noisy = vectors + 0.3 * rng.standard_normal((60, 8)).astype(np.float32)
    for name, rows in (("s", vectors), ("t", noisy)):
        (tmp_path / f"{name}.f32").write_bytes(rows.tobytes())
        text = write(tmp_path / f"{name}.txt", *(f"{name}{i}" for i in range(60)))
        ok(
            run(
                "convert",
                tmp_path / f"{name}.f32",
                "--dim",
                "8",
                "--text",
                text,
                "-o",
                tmp_path / f"{name}.emb",
            )
        )
    stores = tmp_path / "s.emb", tmp_path / "t.emb"
    ok(run("mine", *stores, "-o", tmp_path / "all.tsv"))
    gold = write(tmp_path / "gold.tsv", *(f"s{i}\tt{i}" for i in range(60)))
    tuned = run("tune", tmp_path / "all.tsv", "--gold", gold, "--json", "-o", tmp_path / "kept.tsv")
    threshold = json.loads(tuned.stdout)["threshold"]
    again = run("mine", *stores, "--threshold", str(threshold))
    assert again.stdout == (tmp_path / "kept.tsv").read_text()
    assert len(again.stdout.splitlines()) == json.loads(tuned.stdout)["pairs"]


class TestPrecision:
    def test_the_loosest_threshold(self, candidates: Path, gold: Path) -> None:
        for wanted, pairs, correct in (("0.75", 4, 3), ("0.76", 2, 2), ("1", 2, 2), ("0.6", 5, 3)):
            result = ok(run("tune", candidates, "--gold", gold, "--precision", wanted, "--json"))
            found = json.loads(result.stdout)
            assert (found["pairs"], found["correct"]) == (pairs, correct)

    def test_out_of_reach(self, tmp_path: Path, gold: Path) -> None:
        candidates = write(tmp_path / "c.tsv", "1.3\tx\tA", "1.2\tb\tB", "1.2\tc\tC", "1.0\ty\tC")
        result = run("tune", candidates, "--gold", gold, "--precision", "0.95")
        assert result.exit_code == 1 and result.stdout == ""
        wanted = (
            "c.tsv: no threshold has a precision of 95.00 %: the highest is 66.67 %, above 1.1 (2 of 3 pairs)"
        )
        assert wanted in result.stderr
        assert "hint: ask for less, such as a precision of 0.66" in result.stderr

    def test_no_precision(self, candidates: Path, gold: Path) -> None:
        for wanted in ("0", "-1", "1.01", "95", "nan", "high"):
            fails(run("tune", candidates, "--gold", gold, "--precision", wanted), 2, "'--precision'")


def many(folder: Path, name: str = "", seed: int = 0) -> tuple[Path, Path]:
    """400 candidates, 250 of them right, and 300 gold pairs."""
    rng = np.random.default_rng(seed)
    rows = [(float(rng.normal(1.1 if row < 250 else 1.0, 0.05)), f"s{row}", f"t{row}") for row in range(400)]
    lines = [f"{score}\t{source}\t{target}" for score, source, target in rows]
    gold = [f"s{row}\tt{row}" for row in (*range(250), *range(900, 950))]
    return write(folder / f"{name}c.tsv", *lines), write(folder / f"{name}g.tsv", *gold)


def test_intervals_and_the_other_half_are_printed(tmp_path: Path) -> None:
    candidates, gold = many(tmp_path)
    result = run("tune", candidates, "--gold", gold)
    record = json.loads(run("tune", candidates, "--gold", gold, "--json").stdout)
    lines = result.stdout.splitlines()
    assert [line[:11].strip() for line in lines] == [
        "threshold", "precision", "recall", "F1", "pairs", "all pairs", "held out",
    ]  # fmt: skip
    low, high = record["intervals"]["f1"]
    assert low < record["f1"] < high
    assert lines[3] == f"F1         {100 * record['f1']:.2f}  ({100 * low:.1f} to {100 * high:.1f})"
    low, high = record["intervals"]["threshold"]
    assert lines[0] == f"threshold  {record['threshold']:.6f}  ({low:.4f} to {high:.4f})"
    held = record["held_out"]
    assert held["gold"] == 150 and held["threshold"] != record["threshold"]
    assert lines[6].startswith(f"held out   F1 {100 * held['f1']:.2f}, precision ")
    assert lines[6].endswith(f"on 150 gold pairs; threshold {held['threshold']:.6f} from the others")
    shuffled = write(tmp_path / "shuffled.tsv", *reversed(candidates.read_text().splitlines()))
    assert json.loads(run("tune", shuffled, "--gold", gold, "--json").stdout) == record


def test_no_halves_is_said(tmp_path: Path) -> None:
    candidates = write(tmp_path / "c.tsv", "1.3\ta\tA", "1.2\tb\tA", "1.1\tb\tB")
    result = run("tune", candidates, "--gold", write(tmp_path / "g.tsv", "a\tA", "b\tB"))
    assert result.exit_code == 0 and "held out" not in result.stdout
    assert "no held-out figures: the pairs do not fall into two halves" in result.stderr


class TestLanguages:
    def pattern(self, folder: Path) -> tuple[str | Path, ...]:
        for seed, language in enumerate(("fr", "deu")):
            many(folder, f"{language}.", seed)
        return folder / "{lang}.c.tsv", "--gold", folder / "{lang}.g.tsv", "--languages", "fr,deu"

    def test_a_row_for_each(self, tmp_path: Path) -> None:
        arguments = self.pattern(tmp_path)
        result = ok(run("tune", *arguments, "-o", tmp_path / "{lang}.kept.tsv.gz"))
        header, *rows = [line.split() for line in result.stdout.splitlines()]
        assert header[:5] == ["language", "threshold", "precision", "recall", "F1"]
        records = json.loads(run("tune", *arguments, "--json").stdout)
        assert [record["language"] for record in records] == ["fr", "deu"] == [row[0] for row in rows]
        assert [record["code"] for record in records] == ["fra_Latn", "deu_Latn"]
        for record, row in zip(records, rows, strict=True):
            name = record.pop("language")
            del record["code"]
            files = tmp_path / f"{name}.c.tsv", "--gold", tmp_path / f"{name}.g.tsv"
            assert json.loads(run("tune", *files, "--json").stdout) == record
            assert (row[1], row[-1]) == (f"{record['threshold']:.6f}", str(record["pairs"]))
            assert row[2:5] == [f"{100 * record[key]:.2f}" for key in ("precision", "recall", "f1")]
            kept = gzip.decompress((tmp_path / f"{name}.kept.tsv.gz").read_bytes())
            assert len(kept.splitlines()) == record["pairs"]

    def test_a_missing_file_is_named_before_any_work(self, tmp_path: Path) -> None:
        arguments = self.pattern(tmp_path)
        (tmp_path / "deu.g.tsv").unlink()
        fails(
            run("tune", *arguments, "-o", tmp_path / "{lang}.kept.tsv"),
            1,
            f"language deu: there is no {tmp_path / 'deu.g.tsv'}",
        )
        assert not list(tmp_path.glob("*kept*"))

    def test_bad_input(self, tmp_path: Path) -> None:
        pairs, gold, *_ = self.pattern(tmp_path)[0], self.pattern(tmp_path)[2]
        for code, message, languages, *more in (
            (1, "unknown language code 'xx'", "fr,xx"),
            (1, "fr and fra are the same language", "fr,fra"),
            (2, "--langs 'fr,,deu' has an empty code", "fr,,deu"),
            (2, "-o needs {lang}", "fr,deu", "-o", tmp_path / "kept.tsv"),
            (2, "--source needs {lang}", "fr,deu", "--source", tmp_path / "s", "--target", tmp_path / "t"),
        ):
            fails(run("tune", pairs, "--gold", gold, "--languages", languages, *more), code, message)
        fails(
            run("tune", tmp_path / "c.tsv", "--gold", gold, "--languages", "fr"), 2, "CANDIDATES needs {lang}"
        )
