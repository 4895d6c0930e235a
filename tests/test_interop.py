"""Other programs with ours: where they are installed they are run, as docs/interop.md says."""

from __future__ import annotations

import json
import math
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.command import ok, run, write
from tests.processes import MEXMA, Program

ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "examples" / "interop"


@pytest.fixture
def bitext(tmp_path: Path) -> Path:
    lines = (ROOT / "examples" / "spa-eng" / "gold.tsv").read_text(encoding="utf-8").splitlines()
    return write(tmp_path / "in.tsv", *("\t".join(line.split("\t")[:2]) for line in lines[:60]))


def other(program: str, *arguments: str | Path, folder: Path, stdin: Path | None = None) -> str:
    """What a program of somebody else's printed; it finds this checkout's `mexma` in front of all others."""
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")
    command = write(folder / "mexma", "#!/bin/sh", f'exec {sys.executable} -m mexma_cli "$@"')
    command.chmod(0o755)
    environment = {
        **os.environ,
        "PATH": f"{folder}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
    }
    done = subprocess.run(
        [program, *map(str, arguments)],
        cwd=folder,
        env=environment,
        stdin=stdin.open() if stdin else subprocess.DEVNULL,
        text=True,
        capture_output=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_number_for_each_line_in_order(bitext: Path, tiny_encoder: Path) -> None:
    pairs = bitext.read_text(encoding="utf-8").splitlines()
    pairs[3:3] = ["\tonly English", pairs[0]]
    scored = ok(run("score", "-", "--model", tiny_encoder, stdin="\n".join(pairs))).stdout.splitlines()
    only = ok(run("score", "--scores-only", "-", "--model", tiny_encoder, stdin="\n".join(pairs))).stdout
    numbers = only.splitlines()
    assert [f"{number}\t{pair}" for number, pair in zip(numbers, pairs, strict=True)] == scored
    assert [math.isnan(float(number)) for number in numbers] == [row == 3 for row in range(len(pairs))]


PIPED = f"""
import os, sys
for number, name in enumerate((sys.argv.pop(1), sys.argv.pop(1))):
    os.dup2(os.open(name, (os.O_RDONLY, os.O_WRONLY)[number]), number)
sys.stdin, sys.stdout = open(0), open(1, "w")
{MEXMA}
"""


def test_each_line_is_answered_before_the_next_one_is_written(
    bitext: Path, tiny_encoder: Path, tmp_path: Path
) -> None:
    options = ("--scores-only", "--margin", "absolute", "--model", str(tiny_encoder), "-")
    pairs = [*bitext.read_text(encoding="utf-8").splitlines()[:5], "\tonly English"]
    wanted = ok(run("score", *options[1:], stdin="\n".join(pairs))).stdout.splitlines()
    pipes = [tmp_path / "stdin", tmp_path / "stdout"]
    for pipe in pipes:
        os.mkfifo(pipe)
    process = Program(PIPED, *pipes, "-q", "score", *options)
    with pipes[0].open("w") as stdin, pipes[1].open() as stdout:
        for pair, line in zip(pairs, wanted, strict=True):
            stdin.write(f"{pair}\n")
            stdin.flush()
            assert float(stdout.readline()) == pytest.approx(float(line.split("\t")[0]), nan_ok=True)
        stdin.close()
        assert stdout.read() == ""
    assert process.wait() == 0


def test_opuscleaner(bitext: Path, tmp_path: Path) -> None:
    rules = {"SOURCE": "spa", "TARGET": "eng", "RULES": "--off numbers"}
    score = {"THRESHOLD": 1.0, "MODEL": "mini", "BACKGROUND": ""}
    steps = [
        {"filter": "mexma_filter", "language": None, "parameters": rules},
        {"filter": "mexma_score", "language": None, "parameters": score},
    ]
    pipeline = tmp_path / "p.json"
    pipeline.write_text(json.dumps({"version": 1, "files": [], "filters": steps}))
    broken = write(tmp_path / "more.tsv", *bitext.read_text().splitlines(), "<b>Hola a todos</b>\tHello all")
    kept = other(
        "opuscleaner-clean",
        "-f",
        EXAMPLES / "*.json",
        "-i",
        "-",
        pipeline,
        "es",
        "en",
        folder=tmp_path,
        stdin=broken,
    ).splitlines()
    assert len(kept) > 50 and set(kept) <= set(bitext.read_text(encoding="utf-8").splitlines())


def test_mtdata(bitext: Path, tmp_path: Path) -> None:
    rows = [line.split("\t") for line in bitext.read_text(encoding="utf-8").splitlines()]
    sides = [
        write(tmp_path / name, *(row[side] for row in rows)) for side, name in enumerate(("x.es", "x.en"))
    ]
    listed = write(tmp_path / "list", f"{sides[0]} {sides[1]} {tmp_path / 'scores'}")
    other("mtdata-map", "-c", "mexma -q score --scores-only -", "-i", listed, folder=tmp_path)
    found = [float(line) for line in (tmp_path / "scores").read_text().splitlines()]
    assert len(found) == len(rows) and sum(score > 1.0 for score in found) > 50


def test_opusfilter(bitext: Path, tmp_path: Path) -> None:
    rows = [f"1.{number:03}\t{line}" for number, line in enumerate(bitext.read_text().splitlines())]
    write(tmp_path / "pairs.tsv", *rows)
    shutil.copy(EXAMPLES / "opusfilter.yaml", tmp_path)
    other("opusfilter", "--overwrite", "opusfilter.yaml", folder=tmp_path)
    assert (tmp_path / "sorted.src").read_text().splitlines() == [row.split("\t")[1] for row in rows[::-1]]
    assert 50 < len((tmp_path / "clean.trg").read_text().splitlines()) <= len(rows)
