"""Runs that search with indexes."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from mexma_cli.errors import MexmaError
from mexma_cli.files import remove
from mexma_cli.settings.corpus import CorpusRecipe
from mexma_cli.stages.knn import shards
from mexma_cli.stages.run import search
from mexma_cli.stages.run.plan import read_unit
from mexma_cli.stages.run.run import run_corpus
from mexma_cli.stages.run.scheduler import Progress
from mexma_cli.stages.run.units import RunFolder, Task
from tests.command import ok, run
from tests.corpora import LINES, InThisProcess, corpus
from tests.stores import make_store

PAIR = "fra_Latn-eng_Latn"
INDEX = {"index": "IVF24,Flat", "recall": 0.5}


def indexed(folder: Path, encoder: Path, tile: int, **mine: object) -> CorpusRecipe:
    units, pairs = {"lines": 7, "tile": tile}, [PAIR.split("-")]
    return corpus(folder, encoder, mine=INDEX | mine, units=units, pairs=pairs)


def done(recipe: CorpusRecipe, **how: object) -> Progress:
    return run_corpus(recipe, lambda folder: InThisProcess(folder, **how))  # type: ignore[arg-type]


def mined(recipe: CorpusRecipe) -> bytes:
    return (Path(recipe.run) / "bitext" / PAIR / f"{PAIR}.tsv").read_bytes()


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, tiny_encoder: Path) -> CorpusRecipe:
    """A recipe that was run with one shard and one tile."""
    recipe = indexed(tmp_path_factory.mktemp("whole"), tiny_encoder, tile=1000)
    done(recipe)
    return recipe


def test_the_pairs_are_what_mine_finds_with_the_index(whole: CorpusRecipe, tmp_path: Path) -> None:
    stores = [Path(whole.run) / code / f"{code}.emb" for code in PAIR.split("-")]
    options = ["--index", INDEX["index"], "--recall", INDEX["recall"]]
    ok(run("mine", *stores, "-o", tmp_path / "pairs.tsv", *map(str, options)))
    assert mined(whole) == (tmp_path / "pairs.tsv").read_bytes() != b""
    search = RunFolder(Path(whole.run)).record(f"{PAIR}/pairs").facts["search"]  # type: ignore[union-attr]
    assert search["index"] == INDEX["index"] and 0.4 < search["recall"] < 1
    page = (Path(whole.run) / "report.html").read_text()
    recall = RunFolder(Path(whole.run)).record(f"{PAIR}/effort").facts["recall"]  # type: ignore[union-attr]
    assert f">{INDEX['index']}</td>" in page and sum(recall) / 2 == search["recall"]
    assert all(f">{100 * share:.1f} %</td>" in page for share in recall)


@pytest.mark.parametrize(("tile", "seed"), [pytest.param(10, 1, marks=pytest.mark.slow), (7, 2)])
def test_the_same_pairs_in_other_units_in_any_order(
    whole: CorpusRecipe, tmp_path: Path, tiny_encoder: Path, tile: int, seed: int
) -> None:
    recipe = indexed(tmp_path, tiny_encoder, tile)
    units = done(recipe, seed=seed).units
    assert mined(recipe) == mined(whole)
    shards = -(-24 // tile)
    assert sum(unit.work == "shard" for unit in units.values()) == 2 * shards
    assert sum(unit.work == "search_index" for unit in units.values()) == 2 * shards


def test_an_index_without_lists_is_refused(tmp_path: Path, tiny_encoder: Path) -> None:
    recipe = indexed(tmp_path, tiny_encoder, 10, index="HNSW32,SQ8")
    with pytest.raises(MexmaError, match=r"^`mine.index`: 'HNSW32,SQ8' is neither exact nor auto"):
        done(recipe)


@pytest.mark.parametrize("code", ["fra_Latn", "eng_Latn"])
def test_a_store_that_is_made_anew_while_its_index_is_searched_is_refused(
    tmp_path: Path, tiny_encoder: Path, monkeypatch: pytest.MonkeyPatch, code: str
) -> None:
    recipe = indexed(tmp_path, tiny_encoder, tile=10)
    done(recipe)
    folder, write = RunFolder(Path(recipe.run)), shards.write_found
    unit = read_unit(folder.todo(f"{PAIR}/found/source-00000"))
    search = Task(folder, unit, tmp_path / "found")
    unit.do(search)

    def anew(*of: Any) -> None:
        write(*of)
        store = folder.path / code / f"{code}.emb"
        remove(store)
        make_store(store, ["other"] * LINES, np.ones((LINES, 8), np.float32))

    monkeypatch.setattr(shards, "write_found", anew)
    with pytest.raises(MexmaError, match=rf"{code}\.emb was made anew while it was read"):
        unit.do(search)


def test_an_index_of_more_shards_than_five_digits_begin_with_a_zero_is_whole() -> None:
    asked = list[str]()
    record = SimpleNamespace(facts={"factory": "IVF1,Flat", "rows": 1})
    names = ["source", "source_rows", "source_trained", *(f"source_{place:05d}" for place in range(10_003))]
    task = SimpleNamespace(
        unit=SimpleNamespace(inputs=dict.fromkeys([*names, "target_00000"], "")),
        store=lambda name: name,
        record=lambda name: record,
        input=lambda name: asked.append(name) or Path(name),
    )
    assert len(search._indexed(task, "source").shards) == 10_003  # type: ignore[arg-type]
    assert sorted(asked) == sorted(names[1:])
