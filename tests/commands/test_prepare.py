"""`mexma prepare` prints what became of every corpus."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from click.testing import Result

from tests.command import fails, ok, run


@pytest.fixture
def recipe(tmp_path: Path, tiny_encoder: Path, sentences: dict[str, list[str]]) -> Path:
    rows = [f"{fra}\t{eng}" for fra, eng in zip(sentences["fra"], sentences["eng"], strict=True)]
    (tmp_path / "a.tsv").write_text("\n".join([*rows, rows[0], "\tonly English"]))
    path = tmp_path / "r.yaml"
    path.write_text(
        f"name: r\nrun: {tmp_path}/run\n"
        f"data: {{root: {tmp_path}, store: {tmp_path}/store, max_tokens: 64,\n"
        "  corpora: [{name: a, format: tsv, path: a.tsv, languages: [fra_Latn]}]}\n"
        f"encoder: {{from: {tiny_encoder}}}\nobjective: {{name: mexma}}\ntrainer: {{steps: 1}}\n"
    )
    return path


def prepare(*arguments: str | Path) -> Result:
    return run("prepare", *arguments)


def test_a_table_of_what_was_kept_and_why(recipe: Path) -> None:
    done = ok(prepare(recipe))
    head, row, total = done.stdout.splitlines()[:3]
    assert head.split() == ["corpus", "language", "read", "kept", "missing", "duplicate", "cut", "tokens"]
    assert row.split()[:6] == ["a", "fra_Latn", "10", "8", "1", "1"]
    assert total.split()[:5] == ["all", "10", "8", "1", "1"]
    assert "duplicate: the same sentence or pair came before" in done.stdout
    assert done.stderr == ""
    assert "as before" in prepare(recipe).stdout


def test_hard_negatives_are_counted(recipe: Path) -> None:
    rows = [line.split("\t") for line in (recipe.parent / "a.tsv").read_text().splitlines()]
    text = "\n".join("\t".join([*row, row[1], f"{row[1]} Not so."]) for row in rows[:8])
    (recipe.parent / "a.tsv").write_text(text)
    recipe.write_text(recipe.read_text().replace("path: a.tsv", "path: a.tsv, negatives: columns"))
    objective = "objective={name: contrastive, hard_negatives: 0.5}"
    head, row, *rest = ok(
        prepare(recipe, "--set", "data.negatives=5", "--set", objective)
    ).stdout.splitlines()
    assert head.split()[-1] == "negatives" and row.split()[-1] == "8"
    assert rest[-1] == "negatives: 8 more are left out, which have the tokens of their target"


def test_json_lines(recipe: Path) -> None:
    (line,) = prepare(recipe, "--json").stdout.splitlines()
    assert json.loads(line)["dropped"] == {"missing": 1, "duplicate": 1}


def test_mistakes(recipe: Path) -> None:
    fails(prepare(recipe, "--set", "data.max_charz=3"), 1, "unknown key `data.max_charz`", "max_chars")
    fails(prepare(recipe, "--set", "data.root=/nowhere"), 1, "no such folder")
    assert prepare("no-such-recipe").exit_code == 1
    assert prepare().exit_code == 2


def test_a_dry_run_prints_and_writes_nothing(recipe: Path, tmp_path: Path) -> None:
    done = ok(prepare(recipe, "--dry-run"))
    lines = [line.split() for line in done.stdout.splitlines()]
    assert lines[0] == ["language", "corpora", "files", "pairs", "used", "GB"]
    assert lines[1] == ["fra_Latn", "1", "1", "10", "10", "0.00"]
    assert ["a", "1", "of", "1", "1", "10", "10", "0.00"] in lines
    (row,) = map(json.loads, prepare(recipe, "--dry-run", "--json").stdout.splitlines())
    assert (row["corpus"], row["language"], row["pairs"], row["counted"]) == ("a", "fra_Latn", 10, True)
    assert not (tmp_path / "store").exists()


def test_a_dry_run_lists_all_that_is_missing(recipe: Path, tmp_path: Path) -> None:
    text = recipe.read_text().replace("languages: [fra_Latn]", "languages: [fra_Latn, deu_Latn]")
    recipe.write_text(text.replace("path: a.tsv", "path: '{lang}.tsv'"))
    done = fails(prepare(recipe, "--dry-run"), 1)
    assert "NO DATA" in done.stdout
    assert done.stderr.count("no such file") == 2
    assert "--set data.root=DIR" in done.stderr
    (tmp_path / "fra_Latn.tsv").write_text("a\tb\n")
    assert prepare(recipe, "--dry-run").stderr.count("error:") == 1
    done = prepare(recipe, "--dry-run", "--set", "data.exclude=[test.*]")
    assert done.stderr.count("error:") == 2 and f"no file is called {tmp_path}/test.*" in done.stderr
    fails(prepare(recipe), 1, "deu_Latn.tsv: no such file (corpus 'a', deu_Latn)")
    for how in ([], ["--dry-run"]):  # and not a row of zeros for each of 80 languages
        done = fails(run("prepare", "81langs", "--set", f"data.root={tmp_path / 'opus'}", *how), 1)
        assert done.output.splitlines()[0].startswith(f"error: {tmp_path / 'opus'}: no such folder")


def test_rules_of_filter_by_name(recipe: Path, sentences: dict[str, list[str]]) -> None:
    pairs = list(zip(sentences["fra"], sentences["eng"], strict=True))
    pairs.append(pairs[0])  # as in the recipe's file
    longest = [max(len(side.split()) for side in pair) for pair in pairs]
    long = sum(words > min(longest) for words in longest)
    rules = f"data.rules={{html: true, many-words: {min(longest)}}}"
    row = ok(prepare(recipe, "--json", "--set", rules)).stdout
    assert 0 < long == json.loads(row)["dropped"]["many-words"] < len(pairs)
    fails(
        prepare(recipe, "--set", "data.rules={htm: true}"), 1, "`data.rules`: there is no rule 'htm'", "html"
    )
    fails(prepare(recipe, "--set", "data.rules={short: 3}"), 1, "short has its own key", "data.min_chars")


def test_a_script_downloads_what_opus_lists(tmp_path: Path) -> None:
    """The sums are those of docs/data.md, counted from the same list."""
    said = ok(prepare("81langs", "--set", "data.root=/data/o p", "--script")).stdout
    lines = said.splitlines()
    assert "# DGT: 20 languages, 20 zips, 89,627,776 pairs, 5.11 GB" in lines
    assert any(
        line.startswith("# bible-uedin: 46 languages, ") and "2,719,239 pairs" in line for line in lines
    )
    address = "https://object.pouta.csc.fi/OPUS-DGT/v2019/moses/en-fr.txt.zip"
    assert f"get '/data/o p/DGT' en-fr.zip {address}" in lines
    assert "# NLLB: not in the list, and left out. Of a language that needs it:" in lines
    narrow = ok(prepare("81langs", "--set", "data.languages=[ckb_Arab]", "--script")).stdout
    assert ": 1 language, 3 zips, 14,911 pairs, " in narrow and "en-fr" not in narrow
    script = tmp_path / "download.sh"
    script.write_text(said.replace("/data/o p", str(tmp_path)))
    (tmp_path / "curl").write_text('#!/bin/sh\nwhile [ "$1" != -o ]; do shift; done; echo "$3" > "$2"\n')
    (tmp_path / "curl").chmod(0o755)
    some = [line for line in script.read_text().splitlines() if not line.startswith("get ") or "DGT" in line]
    script.write_text("\n".join(some))
    for _ in range(2):
        subprocess.run(["sh", script], check=True, env={"PATH": f"{tmp_path}:/usr/bin:/bin"})
    assert len(list((tmp_path / "DGT").iterdir())) == 20
    assert (tmp_path / "DGT" / "en-fr.zip").read_text().strip() == address


def test_a_dry_run_says_what_opus_has(tmp_path: Path) -> None:
    keys = ["--set", f"data.root={tmp_path}", "--set", "data.languages=[fra_Latn,mlt_Latn]"]
    corpora = "data.corpora=[{name: DGT, format: opus, path: DGT, languages: [fra_Latn, mlt_Latn]}]"
    limits = ["--set", "data.minimum_per_language=0", "--set", corpora]
    said = fails(prepare("81langs", *keys, *limits, "--dry-run"), 1, "no pair of files for fra_Latn")
    assert "OPUS lists more: 2 languages, 2 zips, " in said.stdout


def test_a_script_is_for_opus(recipe: Path) -> None:
    fails(prepare(recipe, "--script"), 1, "no corpus of the recipe is of format `opus`")
