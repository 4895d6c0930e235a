"""A store that is made anew while a stage reads it is not mixed with the one before."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from mexma_cli.errors import MexmaError
from mexma_cli.settings.stages import ConvertSettings, KnnSettings
from mexma_cli.stages.convert import store_to_raw
from mexma_cli.stages.knn.knn import find_neighbours
from mexma_cli.stages.score import score
from mexma_cli.stages.search import find_hits
from mexma_cli.store.embeddings import StorePair
from tests.stores import make_store, mine

Stage = Callable[[StorePair, Path, Callable[[int, int], None]], object]
STAGES: dict[str, Stage] = {
    "convert": lambda stores, out, tell: store_to_raw(stores[1], out, ConvertSettings(), on_progress=tell),
    "knn": lambda stores, out, tell: find_neighbours(stores, out, KnnSettings(k=4), on_progress=tell),
    "mine": lambda stores, out, tell: mine(*stores, on_progress=tell),
    "score": lambda stores, out, tell: score(*stores, on_progress=tell),
    "search": lambda stores, out, tell: find_hits(*stores, on_progress=tell),
}


@pytest.mark.parametrize("stage", STAGES)
def test_a_store_that_is_made_anew_meanwhile_is_refused(stage: str, tmp_path: Path) -> None:
    numbers = np.random.default_rng(0).standard_normal((3, 20, 8)).astype(np.float32)
    source, target = (
        make_store(tmp_path / f"{name}.emb", [f"{name}{row}" for row in range(20)], vectors)
        for name, vectors in zip("st", numbers, strict=False)
    )

    def overwrite(done: int, total: int) -> None:
        shutil.rmtree(target.path)
        make_store(target.path, ["other"] * 20, numbers[2])

    with pytest.raises(MexmaError, match=r"t\.emb was made anew while it was read"):
        STAGES[stage]((source, target), tmp_path / "out", overwrite)
    assert not (tmp_path / "out").exists()
