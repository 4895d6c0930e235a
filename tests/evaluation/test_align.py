"""Alignments against gold ones: the numbers of Vecalign's score.py, and its files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mexma_cli.evaluation.align import percent, read_both
from tests.command import fails, ok, run, write

CASES = json.loads((Path(__file__).parent.parent / "fixtures/vecalign_score.json").read_text())


def by_number(documents: list[list[list[list[int]]]]) -> dict[str, Any]:
    return {
        str(number): [(tuple(source), tuple(target)) for source, target in beads]
        for number, beads in enumerate(documents)
    }


@pytest.mark.parametrize("case", CASES, ids=map(str, range(len(CASES))))
def test_as_score_py_counts(case: dict[str, Any]) -> None:
    ours = percent(by_number(case["gold"]), by_number(case["out"]))
    names = {
        f"{kind} {name}": f"{name}_{kind}"
        for kind in ("strict", "lax")
        for name in ("precision", "recall", "f1")
    }
    assert ours == {name: 100 * case["scores"][theirs] for name, theirs in names.items()}


def test_command(tmp_path: Path) -> None:
    gold = write(tmp_path / "gold", "[0]:[0]", "[1, 2]:[1]", "(3,):()", " [] : [2] ")
    out = write(tmp_path / "out", "[0]:[0]:0.5", "[1]:[1]:0.25", "[2]:[]:0.0", "[3]:[]:0.0:a:b", "[]:[2]:0")
    done = fails(run("eval", "align", gold, out), 1, "a:b", "has not")
    assert not done.stdout
    write(out, "[0]:[0]:0.5", "[1]:[1]:0.25", "[2]:[]:0.0", "[3]:[]:0.0", "[]:[2]:0")
    table = ok(run("eval", "align", gold, out)).stdout.splitlines()
    assert [line.split() for line in table] == [
        ["strict", "lax"],
        ["precision", "60.00", "80.00"],
        ["recall", "50.00", "100.00"],
        ["f1", "54.55", "88.89"],
    ]
    scores = json.loads(ok(run("eval", "align", gold, out, "--json")).stdout)
    assert scores["lax precision"] == 80


def test_documents_are_judged_by_themselves(tmp_path: Path) -> None:
    gold = write(tmp_path / "gold", "[0]:[0]:1:a:b", "[0]:[1]:1:c:d")
    out = write(tmp_path / "out", "[0]:[1]:1:a:b", "[0]:[1]:1:c:d")
    assert percent(*read_both(gold, out))["strict precision"] == 50
    write(out, "[0]:[0]:1:a:b")
    fails(run("eval", "align", gold, out), 1, "document 'c:d'", "has not")
    assert percent(*read_both(write(gold, "[0]:[0]"), out))["strict f1"] == 100


@pytest.mark.parametrize(
    "line", ["", "[0]", "0:1", "[0]:[a]", "[-1]:[0]", "[0]:[0", "[true]:[0]", "[0.5]:[0]", "[[0]]:[0]"]
)
def test_other_lines_are_refused(tmp_path: Path, line: str) -> None:
    gold, out = write(tmp_path / "gold", "[0]:[0]"), write(tmp_path / "out", "[0]:[0]", line)
    fails(run("eval", "align", gold, out), 1, "line 2", "is not an alignment")
