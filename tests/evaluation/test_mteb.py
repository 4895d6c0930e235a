"""The encoder in mteb's hands, on a task whose data is made here; and the paper's lists of tasks."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import pytest

from mexma_cli.encoder.encoder import SentenceEncoder
from mexma_cli.errors import MexmaError
from mexma_cli.evaluation.mteb_tasks import CLFT, GROUPS, TABLES, Task, choose
from mexma_cli.evaluation.sts import score_pairs
from mexma_cli.reporting.tables import published_rows
from tests.command import fails, ok, run


def test_lists_of_tasks_by_the_tables_number() -> None:
    assert choose(["table30"]).tasks == (
        Task("CDSC-R"), Task("SICK-R-PL"), Task("STS22", "pl"), Task("STSBenchmarkMultilingualSTS", "pl")
    )  # fmt: skip
    table4 = choose(["table4"])
    assert table4.benchmark == "mteb-table4"
    assert list(table4.means) == ["eng", "zh", "fr", "pl"]
    assert len(table4.tasks) == 11 + 7 + 3 + 4
    assert set(TABLES) == {16, *range(18, 31)} and set(GROUPS) == {2, 3, 4}
    clft = choose(["clft"])
    assert (clft.benchmark, list(clft.means), len(clft.tasks)) == (
        "mteb-clft",
        ["es", "de", "fr", "tr", "sw"],
        10,
    )
    assert {row.encoder: row.scores["score"] for row in published_rows("mteb-clft")} == {
        row.encoder: pytest.approx(fmean(row.scores[code] for code in clft.means), abs=0.06)
        for row in published_rows("mteb-clft")
    }
    both = choose(["table27", "STS12", "STS22:fr"])
    assert both.benchmark is None
    assert both.tasks[-1] == Task("STS22", "fr") and len(both.tasks) == 12  # STS12 once


@pytest.mark.parametrize("word", ["table17", "table5", "table", "tables4"])
def test_tables_that_are_no_lists(word: str) -> None:
    with pytest.raises(MexmaError) as caught:
        choose([word])
    assert ("senteval" in str(caught.value.hint)) == (word == "table17")


def test_no_task() -> None:
    with pytest.raises(MexmaError, match="--tasks names no task"):
        choose([])


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    fails(run("eval", "mteb", "--tasks", "table4"), 1, "pip install 'mteb>=")


@pytest.fixture(scope="module")
def local_task(sentences: dict[str, list[str]]) -> type:
    """An STS task over sentences of this process."""
    pytest.importorskip("mteb", reason="needs the extra mteb")
    from datasets import Dataset, DatasetDict
    from mteb.abstasks.sts import AbsTaskSTS
    from mteb.abstasks.task_metadata import TaskMetadata

    class LocalSTS(AbsTaskSTS):
        metadata = TaskMetadata(
            name="LocalSTS",
            description="made by a test",
            dataset={"path": "nobody/nothing", "revision": "0"},
            type="STS",
            eval_splits=["test", "validation"],
            eval_langs=["eng-Latn"],
            main_score="cosine_spearman",
        )

        def load_data(self, *_: Any, **__: Any) -> None:
            pairs = {
                "sentence1": sentences["eng"],
                "sentence2": sentences["fra"],
                "score": [5.0, 4.0, 0.0, 3.0, 1.0, 2.0, 2.5, 0.5],
            }
            self.dataset = DatasetDict({"test": Dataset.from_dict(pairs)})
            self.data_loaded = True

    return LocalSTS


@pytest.mark.slow
def test_mteb_scores_what_the_encoder_embeds(
    local_task: type,
    tiny_encoder: Path,
    sentences: dict[str, list[str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import mteb

    monkeypatch.setattr(mteb, "get_task", lambda name, **_: local_task())

    def measured(tasks: str, cache: str | Path) -> Any:
        options = ("--model", tiny_encoder, "--dtype", "fp32", "--json", "--cache", cache)
        return json.loads(ok(run("eval", "mteb", "--tasks", tasks, *options)).stdout)

    found = measured("LocalSTS", "none")
    (row,) = found["rows"]
    score = row.pop("score")
    encoder = SentenceEncoder.load(str(tiny_encoder))
    expected = score_pairs(
        encoder.embed(sentences["eng"]),
        encoder.embed(sentences["fra"]),
        np.array([5, 4, 0, 3, 1, 2, 2.5, 0.5]),
    )
    assert score == pytest.approx(expected["spearman"], abs=1e-3)
    assert row == {"task": "LocalSTS", "split": "test", "measure": "cosine_spearman"}

    row["score"] = score
    assert measured("LocalSTS,LocalSTS:default", "none")["rows"] == found["rows"]
    first = measured("LocalSTS", tmp_path)
    monkeypatch.setattr(local_task, "load_data", lambda self: pytest.fail("the result was kept"))
    assert first == measured("LocalSTS", tmp_path) == found


@pytest.mark.slow
def test_names_of_the_tables_are_mtebs() -> None:
    pytest.importorskip("mteb", reason="needs the extra mteb")
    from mexma_cli.evaluation.mteb import get_tasks

    for tasks in (*TABLES.values(), *CLFT.values()):
        for task, found in zip(tasks, get_tasks(tasks), strict=True):
            assert found.metadata.name == task.name
            assert all(split.startswith("test") for split in found.eval_splits) or len(found.eval_splits) == 1


def test_unknown_tasks_and_subsets() -> None:
    pytest.importorskip("mteb", reason="needs the extra mteb")
    from mexma_cli.evaluation.mteb import get_tasks

    with pytest.raises(MexmaError, match="'STS1' not found"):
        get_tasks([Task("STS1")])
    with pytest.raises(MexmaError, match=r"STS22 of mteb .* has no subset 'xx'"):
        get_tasks([Task("STS22", "xx")])


def test_data_that_cannot_be_fetched(
    tiny_encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("mteb", reason="needs the extra mteb")
    monkeypatch.setattr("datasets.config.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path)
    fails(
        run("eval", "mteb", "--tasks", "table29", "--cache", "none", "--model", tiny_encoder),
        1,
        "warning: the data of SICKFr cannot be loaded",
        "error: the data of STSBenchmarkMultilingualSTS cannot be loaded",
        "from huggingface.co and keeps it in HF_HOME",
    )
