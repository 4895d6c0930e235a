"""The outputs of one command change together or, when the disk is full at the last of them, not at all."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from mexma_cli import MexmaError, split
from tests.command import fails, ok, run, write
from tests.examples import demo_pairs
from tests.stores import full_disk

COMMANDS = {
    "split": "split spa.txt --lang spa --workers 1 -o o.txt --rejects r.tsv",
    "filter": "filter pairs.tsv -o o.tsv --rejects r.tsv --report r.json",
    "tune": "tune pairs.tsv --gold gold.tsv -o o.tsv --plot p.svg",
    "mine": "mine spa.emb eng.emb --margin absolute -o o.tsv --report r.json",
    "align": "align spa.txt eng.txt --model {} -o o.tsv --unaligned rest --plot p.svg --report r.json",
}
FILES = {"split": 4, "filter": 3, "tune": 2, "mine": 2, "align": 8}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    pairs = [pair.split("\t") for pair in demo_pairs(12)]
    for name, side in (("spa.txt", 0), ("eng.txt", 1)):
        write(tmp_path / "in" / name, *(pair[side] for pair in pairs))
    write(tmp_path / "in" / "gold.tsv", *("\t".join(pair[:2]) for pair in pairs))
    scored = [f"{1.5 - number / 20}\t{pair[0]}\t{pair[1]}" for number, pair in enumerate(pairs)]
    write(tmp_path / "in" / "pairs.tsv", *scored, "0.1\tOtra casa.\tSomething else.")
    monkeypatch.chdir(tmp_path / "in")
    return tmp_path / "in"


@pytest.mark.parametrize(
    "command",
    [pytest.param(name, marks=pytest.mark.slow if name == "tune" else ()) for name in COMMANDS],  # as align
)
def test_outputs_change_together(
    command: str, folder: Path, tiny_encoder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "--plot" in COMMANDS[command]:
        pytest.importorskip("matplotlib")
    words = COMMANDS[command].format(tiny_encoder).split()
    _embed(words, tiny_encoder)
    before = everything(folder)
    ok(run(*words))
    made = {name: content for name, content in everything(folder).items() if name not in before}
    assert len(made) == FILES[command]
    write(folder / "spa.txt", "Otra frase que es nueva.", *(folder / "spa.txt").read_text().splitlines())
    write(folder / "eng.txt", "Another sentence, a new one.", *(folder / "eng.txt").read_text().splitlines())
    write(folder / "pairs.tsv", *(folder / "pairs.tsv").read_text().splitlines()[1:])
    _embed(words, tiny_encoder)
    read = set(everything(folder)) - set(made)
    sync, left = os.fsync, [0]

    def until_full(file: int) -> None:
        if not left[0]:
            full_disk()
        left[0] -= 1
        sync(file)

    monkeypatch.setattr(os, "fsync", until_full)
    for syncs in range(60):
        left[0] = syncs
        done = run(*words)
        now = {name: content for name, content in everything(folder).items() if name not in read}
        if done.exit_code == 0:
            break
        assert now == made, syncs
    assert done.exit_code == 0, done.output
    assert syncs > FILES[command] and set(now) == set(made) and now != made


def _embed(words: list[str], encoder: Path) -> None:
    """Make the stores that a command reads."""
    for side in ("spa", "eng"):
        if f"{side}.emb" in words:
            ok(run("embed", f"{side}.txt", "--model", encoder, "--overwrite", "-o", f"{side}.emb"))


def everything(folder: Path) -> dict[str, bytes]:
    """All files, but those of workplaces."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and ".partial" not in str(path.relative_to(folder))
    }


@pytest.mark.parametrize("name", ["o.docs", "o.report.json"])
@pytest.mark.parametrize("content", ["mine\n", '{"kind": "split report"}', '{"kind": "thesis"}'])
def test_files_beside_the_sentences_that_split_did_not_make_stay(
    name: str, content: str, folder: Path
) -> None:
    words = ("split", "spa.txt", "--lang", "spa", "--workers", "1", "-o", "o.txt")
    (folder / name).write_text(content)
    fails(run(*words), 1, f"{name} would be replaced", "move it away")
    assert (folder / name).read_text() == content and not (folder / "o.txt").exists()
    (folder / name).unlink()
    for _ in range(2):
        ok(run(*words))
    assert json.loads((folder / "o.report.json").read_text())["output"]["files"] == ["o.txt", "o.docs"]


def test_sentences_to_no_file_are_refused(folder: Path) -> None:
    words = ("split", "spa.txt", "--lang", "spa", "--workers", "1", "-o", "/dev/null")
    fails(run(*words), 1, "/dev/null is no file", "name a file for the output")


@pytest.mark.parametrize(
    ("option", "command"),
    [
        ("--rejects", "split spa.txt --lang spa -o o.txt"),
        ("-o", "split spa.txt --lang spa"),
        ("--unaligned", "align spa.txt eng.txt -o o.tsv"),
        ("--plot", "align spa.txt eng.txt -o o.tsv"),
        ("-o", "tune pairs.tsv --gold gold.tsv"),
        ("--plot", "tune pairs.tsv --gold gold.tsv"),
        ("--save-threshold", "tune spa.txt eng.txt --source-lang spa --target-lang eng"),
        ("--labels", "tune spa.txt eng.txt --label 2"),
        ("-o", "embed spa.txt"),
        ("-o", "merge spa.emb eng.emb"),
        ("-o", "knn spa.emb eng.emb"),
        ("-o", "project spa.emb --with run"),
        ("-o", "classifier train pairs.tsv"),
        ("-o", "new-language sm pairs.tsv"),
        ("-o", "augment spa.txt"),
        ("-o", "export mini"),
        ("-o", "report o.json"),
        ("-o", "eval xsim ."),
        ("--plot", "eval tatoeba ."),
        ("--picture", "eval tokens ."),
        ("--log-file", "langid spa.txt"),
        ("", "demo"),
    ],
)
def test_what_cannot_go_to_stdout_is_refused(option: str, command: str, folder: Path) -> None:
    before = everything(folder)
    done = fails(run(*command.split(), *filter(None, [option]), "-"), 2, "This does not go to stdout (-)")
    assert not done.stdout and everything(folder) == before


@pytest.mark.parametrize(
    ("command", "named"),
    [
        ("filter pairs.tsv --rejects -", "-o and --rejects"),
        ("filter pairs.tsv -o - --report -", "-o and --report"),
        ("filter pairs.tsv -o o.tsv --rejects - --report -", "--rejects and --report"),
        ("align spa.txt eng.txt --report -", "-o and --report"),
    ],
)
def test_one_output_at_most_goes_to_stdout(command: str, named: str, folder: Path) -> None:
    fails(run(*command.split()), 2, f"{named} go to stdout: name a file for all but one.")


def test_rejects_and_reports_may_go_to_stdout(folder: Path) -> None:
    rules = ("filter", "pairs.tsv", "-o", "o.tsv", "--off", "all", "--on", "short=12")
    assert ok(run(*rules, "--rejects", "-")).stdout.startswith("short\t")
    assert json.loads(ok(run(*rules, "--report", "-")).stdout)["dropped"]["short"] > 0


def test_split_in_python_refuses_stdout(folder: Path) -> None:
    for output, rejects in (("-", None), ("o.txt", "-")):
        with pytest.raises(MexmaError, match=r"^- is no file"):
            split("spa.txt", output, lang="spa", rejects=rejects)
    assert not (folder / "-").exists()
