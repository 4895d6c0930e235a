"""benchmarks/leakage.py: what two decomposers find among the pairs that they held out."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mexma_cli.settings.training import DecomposeRecipe
from mexma_cli.stages.train.decompose import decompose

ROOT = Path(__file__).parent.parent


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return importlib.import_module("leakage")


@pytest.mark.slow
def test_runs_on_the_pairs_that_they_held_out(
    script: Any,
    tmp_path: Path,
    make_store: Callable[..., Path],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Two languages whose translations are found, and one of another text, of which none can be."""
    for seed, language in enumerate(("deu_Latn", "spa_Latn", "grn_Latn")):
        vectors = np.random.default_rng(seed).normal(size=(60, 8)).astype(np.float32)
        make_store(tmp_path / language / "eng.emb", vectors, "eng_Latn")
        make_store(tmp_path / language / "xx.emb", -vectors if seed == 2 else vectors, language)
    pair = {"source": "{lang}/eng.emb", "target": "{lang}/xx.emb"}
    pair |= {"languages": ["deu_Latn", "spa_Latn", "grn_Latn"]}
    for name, seed in (("one", 1), ("two", 1), ("other", 2)):
        raw = {"kind": "decompose", "name": name, "run": str(tmp_path / name), "objective": {"name": "dream"}}
        raw |= {"data": {"root": str(tmp_path), "pairs": [pair], "validation": 0.5}}
        raw |= {"trainer": {"batch": 16, "epochs": 1, "device": "cpu", "seed": seed}}
        decompose(DecomposeRecipe.model_validate(raw))

    def printed(*runs: str) -> list[list[str]]:
        monkeypatch.setattr(
            "sys.argv", ["leakage", *(str(tmp_path / run) for run in runs), "--unseen", "grn_Latn"]
        )
        script.main()
        return [line.split(" | ") for line in capsys.readouterr().out.splitlines()]

    rows = printed("one", "two")
    assert rows[0][1:4] == ["meaning, all", "meaning, seen", "meaning, unseen"]
    assert rows[2][:4] == ["| vectors", "66.67", "100.00", "0.00"]
    assert [row[0] for row in rows[3:]] == ["| one", "| two"]
    assert rows[3][1:7] == rows[4][1:7] and rows[4][7:] == ["1", "1 |"]  # the same training
    with pytest.raises(SystemExit, match="other holds out other pairs"):
        printed("one", "other")


def test_mcnemars_exact_test(script: Any) -> None:
    """Of 12 sentences that one of the two finds alone, the first finds 10: 2 * 79 / 4096."""
    hits = {"a": np.array([[True] * 10 + [False] * 2 + [True] * 5]), "b": np.zeros((2, 3), bool)}
    other = {"a": np.array([[False] * 10 + [True] * 2 + [True] * 5]), "b": np.zeros((2, 3), bool)}
    assert script.p_value(hits, other) == pytest.approx(158 / 4096)
    assert script.p_value(hits, hits) == 1.0
