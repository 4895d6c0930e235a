"""`mexma eval` and `mexma augment`: real files, a real encoder, and what is wrong said with file and line."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.command import fails, ok, run, write


@pytest.fixture
def folder(tmp_path: Path, sentences: dict[str, list[str]]) -> Path:
    """A FLORES-like folder of French and English."""
    for code in ("fra", "eng"):
        write(tmp_path / f"flores/devtest/{code}_Latn.devtest", *sentences[code])
    return tmp_path / "flores"


@pytest.fixture
def options(tiny_encoder: Path, tmp_path: Path) -> list[str]:
    return ["--model", str(tiny_encoder), "--device", "cpu", "--cache", str(tmp_path / "cache")]


def test_group() -> None:
    shown = run("eval", "--help")
    assert shown.exit_code == 0 and "xsimpp" in shown.stdout and "tatoeba" in shown.stdout
    fails(run("eval", "xsimm", "x"), 2, "Did you mean xsim?")


def test_xsim(folder: Path, options: list[str], tmp_path: Path) -> None:
    kept = tmp_path / "xsim.json"
    first = ok(run("eval", "xsim", folder, *options, "-o", kept))
    assert re.search(r"^fra_Latn +French +8 +\d +[\d.]+$", first.stdout, re.MULTILINE)
    again = run("eval", "xsim", folder, *options, "--json")
    assert json.loads(again.stdout) == json.loads(kept.read_text())
    assert len(list((tmp_path / "cache").iterdir())) == 2
    assert json.loads(kept.read_text())["settings"]["languages"] == "all"


def test_mini_finds_translations(folder: Path) -> None:
    found = json.loads(run("eval", "xsim", folder, "--cache", "none", "--json").stdout)
    assert found["encoder"]["name"] == "mini" and found["scores"]["xsim"] == 0


def test_duplicates_and_empty_lines(
    folder: Path, options: list[str], sentences: dict[str, list[str]]
) -> None:
    english, french = sentences["eng"], sentences["fra"]
    write(folder / "devtest/eng_Latn.devtest", *english, *english, "Nobody has this.")
    write(folder / "devtest/fra_Latn.devtest", *french, *french, "")
    found = json.loads(run("eval", "xsim", folder, "--cache", "none", "--json").stdout)
    assert found["scores"]["xsim"] == 0 < found["scores"]["xsim by row"]
    assert found["rows"][0]["sentences"] == 16 and found["rows"][0]["errors by row"] == 8


def test_augment_replaces_both_files_or_neither(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("It was 12 years ago.\n")
    ok(run("augment", tmp_path / "a.txt", "-o", tmp_path / "out"))
    kinds = tmp_path / "out/a_errtype.txt.json"
    before = kinds.read_bytes()
    (tmp_path / "out/a_augmented.txt").unlink()
    (tmp_path / "out/a_augmented.txt/x").mkdir(parents=True)
    (tmp_path / "a.txt").write_text("There were 12 ships.\n")
    fails(
        run("augment", tmp_path / "a.txt", "-o", tmp_path / "out"),
        1,
        "a_augmented.txt is a folder, not a file",
    )
    assert kinds.read_bytes() == before


def test_augment_then_xsimpp(folder: Path, options: list[str], tmp_path: Path) -> None:
    made = ok(
        run("augment", folder / "devtest/eng_Latn.devtest", "-o", folder / "devtest_augmented", "--json")
    )
    counts = json.loads(made.stdout)
    assert counts.keys() == {"number", "entity", "causality"} and counts["causality"]["made"] > 0
    shown = ok(run("eval", "xsimpp", folder, *options))
    assert re.search(r"^language .*xsim\+\+ .*causality .*misaligned$", shown.stdout, re.MULTILINE)
    before = (folder / "devtest_augmented/eng_Latn_augmented.devtest").read_bytes()
    run("augment", folder / "devtest/eng_Latn.devtest", "-o", folder / "devtest_augmented")
    assert (folder / "devtest_augmented/eng_Latn_augmented.devtest").read_bytes() == before


def test_nothing_to_change(tmp_path: Path) -> None:
    write(tmp_path / "a.txt", "It rains.")
    fails(run("augment", tmp_path / "a.txt", "-o", tmp_path / "out"), 1, "a.txt: no sentence has")
    assert not (tmp_path / "out").exists()


def test_tatoeba(tmp_path: Path, sentences: dict[str, list[str]]) -> None:
    pytest.importorskip("matplotlib")
    write(tmp_path / "t/tatoeba.fra-eng.fra", *sentences["fra"])
    write(tmp_path / "t/tatoeba.fra-eng.eng", *sentences["eng"])
    picture = tmp_path / "clouds.svg"
    shown = run("eval", "tatoeba", tmp_path / "t", "--cache", "none", "--plot", picture)
    drawn = picture.read_text(encoding="utf-8")
    assert ">fra</text>" in drawn and ">fra, tokens</text>" in drawn and ">vectors, English</text>" in drawn
    assert re.search(r"^fra +8 +100.00 +100.00$", shown.stdout, re.MULTILINE)
    assert "DAP paper" not in shown.stdout  # LASER's French set has 1,000 pairs
    assert "not compared: fra" in shown.stderr


def test_pictures_of_two_encoders(
    tmp_path: Path, sentences: dict[str, list[str]], tiny_encoder: Path
) -> None:
    pytest.importorskip("matplotlib")
    write(tmp_path / "t/tatoeba.fra-eng.fra", *sentences["fra"])
    write(tmp_path / "t/tatoeba.fra-eng.eng", *sentences["eng"])
    options = ["eval", "tatoeba", tmp_path / "t", "--cache", "none", "--beside", tiny_encoder]
    fails(run(*options), 2, "--beside is for the picture of --plot")
    ok(run(*options, "--plot", tmp_path / "two.svg"))
    drawn = (tmp_path / "two.svg").read_text(encoding="utf-8")
    assert drawn.count(">mini</") == drawn.count(f">{tiny_encoder}</") == 2  # sentences, and tokens


def test_bucc(tmp_path: Path, sentences: dict[str, list[str]]) -> None:
    for code in ("fra", "eng"):
        lines = [f"{code}-{row}\t{text}" for row, text in enumerate(sentences[code])]
        write(tmp_path / f"fra-eng.{code}.tsv", *lines)
    write(tmp_path / "fra-eng.gold.tsv", *(f"fra-{row}\teng-{row}" for row in range(6)))
    found = json.loads(run("eval", "bucc", tmp_path, "--cache", "none", "--json").stdout)
    assert found["scores"]["cosine f1"] == 100 and found["rows"][0]["gold"] == 6
    assert found["benchmark"] is None


def test_mistakes(folder: Path, tmp_path: Path) -> None:
    fails(run("eval", "xsim", tmp_path / "nowhere"), 1, "nowhere: no such folder")
    (tmp_path / "file").write_text("")
    fails(
        run("eval", "xsim", folder, "-o", tmp_path / "file/folder.json"), 1, "file: the folder cannot be made"
    )
    text = folder / "devtest/fra_Latn.devtest"  # a forgotten name: what follows is a text
    before = text.read_bytes()
    fails(run("eval", "xsim", "-o", text, folder), 2, "fra_Latn.devtest is not named .json")
    assert text.read_bytes() == before


def test_report(folder: Path, options: list[str], tmp_path: Path) -> None:
    kept = tmp_path / "new" / "xsim.json"
    run("eval", "xsim", folder, *options, "-o", kept)
    shown = ok(run("report", kept, "-o", tmp_path / "page.html"))
    assert shown.stdout.startswith(f"xsim ({kept})") and "fra_Latn" in shown.stdout
    assert "fra_Latn" in (tmp_path / "page.html").read_text()
    again = tmp_path / "again.json"
    again.write_bytes(kept.read_bytes())
    listed = json.loads(run("report", kept, again, "--json").stdout)
    assert [one["task"] for one in listed["results"]] == ["xsim", "xsim"]
    score = listed["results"][0]["scores"]["xsim"]
    both = run("report", kept, again, "-o", tmp_path / "scores.csv").stdout.splitlines()
    assert both[-3].split() == ["task", "data", "encoder", "xsim"] and both[-1].endswith(f"{score:.2f}")
    assert (tmp_path / "scores.csv").read_text().splitlines()[1].endswith(f",{score:.2f}")
    assert run("report", kept, "-o", tmp_path / "page.png").exit_code == 1
    fails(run("report", kept, tmp_path), 1, "report on runs alone, or on results alone")
    (tmp_path / "other.json").write_text("{}")
    fails(run("report", tmp_path / "other.json"), 1, "other.json is no result")
