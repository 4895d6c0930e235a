"""benchmarks/reproduction.py on a few lines of every corpus: it trains, measures, goes on and compares."""

from __future__ import annotations

import gzip
import importlib
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
LANGUAGES = ("fra_Latn", "deu_Latn", "spa_Latn", "ita_Latn", "por_Latn", "nld_Latn", "rus_Cyrl")
LINES = 120
SMALL = (
    "encoder.tokenizer.vocabulary=600",
    "trainer.device=cpu",
    "phases.bag.trainer.steps=3",
    "phases.bag.trainer.batch_pairs=16",
    "phases.train.trainer.steps=2",
    "phases.train.trainer.batch_pairs=8",
)


@pytest.fixture(scope="module")
def data(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The first lines of each file that the program reads, and a mining set that is all pairs."""
    folder = tmp_path_factory.mktemp("data")
    wanted = [*(shared / "data" / "ntrex128").glob("*_*.txt.gz")]
    for language in LANGUAGES:
        wanted += (shared / "data").glob(f"t*/*{language}-eng.tsv.gz")
        wanted += (shared / "data" / "tatoeba").glob(f"tatoeba.{language[:3]}-eng.*")
    for path in wanted:
        opener = gzip.open if path.suffix == ".gz" else open
        copy = folder / path.relative_to(shared / "data")
        copy.parent.mkdir(exist_ok=True)
        with opener(path, "rt", encoding="utf-8") as source, opener(copy, "wt", encoding="utf-8") as target:
            target.writelines(line for line, _ in zip(source, range(LINES), strict=False))
    mining = folder / "mining" / "fra-eng"
    mining.mkdir(parents=True)
    for side, name in (("fra", "fra_Latn"), ("eng", "eng_Latn")):
        with gzip.open(folder / "ntrex128" / f"{name}.txt.gz", "rt", encoding="utf-8") as file:
            lines = file.read().splitlines()
        with gzip.open(mining / f"fra-eng.{side}.tsv.gz", "wt", encoding="utf-8") as file:
            file.writelines(f"{side}-{number}\t{line}\n" for number, line in enumerate(lines))
    with gzip.open(mining / "fra-eng.gold.tsv.gz", "wt", encoding="utf-8") as file:
        file.writelines(f"fra-{number}\teng-{number}\n" for number in range(LINES))
    return folder


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return importlib.import_module("reproduction")


@pytest.mark.slow
def test_recipes_are_trained_from_one_start_and_measured_once(
    script: Any, data: Path, tmp_path: Path
) -> None:
    runs = script.Runs(data, tmp_path, list(SMALL))
    names = ("bag", "ablations/small/contrastive", "ablations/small/mexma")
    found = {name: runs.result(name, 1) for name in names}
    assert [found[name]["steps"] for name in names] == [3, 2, 2]
    for one in found.values():
        assert set(one["by language"]["xsim"]) == set(LANGUAGES)
        assert all(0 <= one[measure] <= 100 for measure in script.MEASURES)
    starts = {os.path.realpath(tmp_path / "seed-1" / name.replace("/", "-") / "bag") for name in names[1:]}
    assert starts == {str(tmp_path / "seed-1" / "bag" / "bag")}
    shutil.rmtree(tmp_path / "seed-1")
    assert runs.result(names[2], 1) == found[names[2]]
    assert not (tmp_path / "seed-1").exists()


@pytest.mark.slow
def test_decomposers_are_trained_on_the_stores_that_it_makes(script: Any, data: Path, tmp_path: Path) -> None:
    found = script.Runs(data, tmp_path, list(SMALL)).result("systems/small/meat-oracle", 1)
    assert all(0 <= found[measure] <= 100 for measure in script.PART_MEASURES)
    assert found["meaning xx->eng"] > 50 and found["epochs"] > 1


def test_a_difference_is_taken_seed_by_seed(script: Any, tmp_path: Path) -> None:
    """Two recipes whose seeds differ by 10 and who differ by 1 to 2: the seeds' spread is not in it."""
    runs = script.Runs(tmp_path, tmp_path, [])
    (tmp_path / "results").mkdir()
    for name, values in (("one", (10.0, 20.0, 30.0)), ("two", (11.0, 21.5, 32.0)), ("three", (0.0,))):
        for seed, value in enumerate(values, start=1):
            runs.path(name, seed).write_text(json.dumps({"name": name, "seed": seed, "xsim": value}))
    lines = script.table(runs, "A title", ("one", "two", "three", "four"), {"xsim": "error"}).splitlines()
    assert lines[2] == "| recipe | seeds | error | Δ error |"
    assert lines[4:] == [  # 4.303 = 97.5% point of Student's t with two degrees of freedom
        "| `one` | 3 | 20.00 ± 24.84 |  |",
        "| `two` | 3 | 21.50 ± 26.08 | 1.50 ± 1.24 |",
        "| `three` | 1 | 0.00 | -10.00 |",
        "| `four` | 0 |  |  |",
    ]
