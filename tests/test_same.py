"""benchmarks/same.py: a changed byte of a result is found, and another layout of the same result is none."""

from __future__ import annotations

import gzip
import importlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zstandard

ROOT = Path(__file__).parent.parent
VECTORS = np.arange(12, dtype=np.float16).reshape(4, 3)
LINES = ["uno", "dos", "tres", "cuatro"]
LOG = {"step": 1, "loss": 0.5, "seconds": 3.1}


@pytest.fixture
def same(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return importlib.import_module("same")


def outputs(folder: Path, cut: int = 4, level: int = 1, **manifest: Any) -> Path:
    """What a command may write: a store in shards of `cut` rows, pairs, a log, and a page."""
    store = folder / "a.emb"
    store.mkdir(parents=True)
    for start in range(0, 4, cut):
        np.save(store / f"vectors-{start}.npy", VECTORS[start : start + cut])
        text = "".join(f"{line}\n" for line in LINES[start : start + cut]).encode()
        (store / f"lines-{start}.txt.zst").write_bytes(zstandard.compress(text, level))
    (store / "manifest.json").write_text(json.dumps({"rows": 4, "dim": 3} | manifest))
    (folder / "pairs.tsv.gz").write_bytes(gzip.compress(b"1.5\tuno\tone\n", level))
    (folder / "log.jsonl").write_text(json.dumps(LOG) + "\n")
    (folder / "page.html").write_text(f"{level}")
    return folder


def facts(same: Any, folder: Path) -> Any:
    return same.facts_of(folder, [path for path in folder.rglob("*") if path.is_file()])


def test_another_layout_of_the_same_is_no_difference(same: Any, tmp_path: Path) -> None:
    one = outputs(tmp_path / "one", version=1)
    other = outputs(tmp_path / "other", cut=2, level=9, version=2, settings={"k": 7})
    (other / "log.jsonl").write_text(json.dumps(LOG | {"seconds": 9.9}) + "\n")
    (other / "x.tsv.partial").mkdir()
    (other / "x.tsv.partial" / "progress.json").write_text("{}")
    assert same.differing(facts(same, one), facts(same, other)) == []


@pytest.mark.parametrize("changed", ["vectors", "text", "rows", "pairs", "loss", "gone"])
def test_a_changed_byte_is_found(same: Any, tmp_path: Path, changed: str) -> None:
    one, other = outputs(tmp_path / "one"), outputs(tmp_path / "other")
    store = other / "a.emb"
    if changed == "vectors":
        vectors = VECTORS.copy()
        vectors.view(np.uint8)[1, 2] ^= 1
        np.save(store / "vectors-0.npy", vectors)
    elif changed == "text":
        (store / "lines-0.txt.zst").write_bytes(zstandard.compress(b"uno\ndos\ntres\ncuatra\n"))
    elif changed == "rows":
        (store / "manifest.json").write_text(json.dumps({"rows": 5, "dim": 3}))
    elif changed == "pairs":
        (other / "pairs.tsv.gz").write_bytes(gzip.compress(b"1.5\tuno\tOne\n"))
    elif changed == "loss":
        (other / "log.jsonl").write_text(json.dumps(LOG | {"loss": 0.51}) + "\n")
    else:
        (other / "pairs.tsv.gz").unlink()
    names = {"pairs": "pairs.tsv.gz", "gone": "pairs.tsv.gz", "loss": "log.jsonl"}
    assert same.differing(facts(same, one), facts(same, other)) == [names.get(changed, "a.emb")]


def test_cases_run_after_those_whose_files_they_name(same: Any) -> None:
    order = same.chosen_cases(["tune-texts"])
    assert order[-1] == "tune-texts" and "embed" in order and "train-mexma" not in order
    every = same.chosen_cases([])
    assert {*every} == {*same.CASES}
    assert all(every.index(other) < every.index(case) for case in every for other in same.needs(case))
