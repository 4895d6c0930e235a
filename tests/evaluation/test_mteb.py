"""The encoder in mteb's hands, on a task whose data is made here; and the paper's lists of tasks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from mexma_cli.encoder.encoder import SentenceEncoder
from mexma_cli.errors import MexmaError
from mexma_cli.evaluation.mteb_tasks import GROUPS, TABLES, Task, choose
from mexma_cli.evaluation.sts import score_pairs
from mexma_cli.main import cli


def test_lists_of_tasks_by_the_tables_number() -> None:
    assert choose(["table30"]).tasks == (
        Task("CDSC-R"), Task("SICK-R-PL"), Task("STS22", "pl"), Task("STSBenchmarkMultilingualSTS", "pl")
    )  # fmt: skip
    table4 = choose(["table4"])
    assert table4.benchmark == "mteb-table4"
    assert list(table4.means) == ["eng", "zh", "fr", "pl"]
    assert len(table4.tasks) == 11 + 7 + 3 + 4
    assert set(TABLES) == {16, *range(18, 31)} and set(GROUPS) == {2, 3, 4}
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
    done = CliRunner().invoke(cli, ["eval", "mteb", "--tasks", "table4"])
    assert done.exit_code == 1
    assert "pip install 'mexma-cli[mteb]'" in done.stderr


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


def test_mteb_scores_what_the_encoder_embeds(
    local_task: type,
    tiny_encoder: Path,
    sentences: dict[str, list[str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import mteb

    monkeypatch.setattr(mteb, "get_task", lambda name, **_: local_task())
    arguments = [
        "eval",
        "mteb",
        "--tasks",
        "LocalSTS",
        "--model",
        str(tiny_encoder),
        "--dtype",
        "fp32",
        "--json",
    ]
    done = CliRunner().invoke(cli, [*arguments, "--cache", "none"])
    assert done.exit_code == 0, done.output
    (row,) = json.loads(done.stdout)["rows"]
    encoder = SentenceEncoder.load(str(tiny_encoder))
    expected = score_pairs(
        encoder.embed(sentences["eng"]),
        encoder.embed(sentences["fra"]),
        np.array([5, 4, 0, 3, 1, 2, 2.5, 0.5]),
    )
    assert row.pop("score") == pytest.approx(expected["spearman"], abs=1e-3)
    assert row == {"task": "LocalSTS", "split": "test", "measure": "cosine_spearman"}

    twice = ["LocalSTS,LocalSTS:default" if word == "LocalSTS" else word for word in arguments]
    done_twice = CliRunner().invoke(cli, [*twice, "--cache", "none"])
    assert json.loads(done_twice.stdout)["rows"] == json.loads(done.stdout)["rows"]

    first = CliRunner().invoke(cli, [*arguments, "--cache", str(tmp_path)])
    monkeypatch.setattr(local_task, "load_data", lambda self: pytest.fail("the result was kept"))
    again = CliRunner().invoke(cli, [*arguments, "--cache", str(tmp_path)])
    assert again.exit_code == 0, again.output
    assert json.loads(first.stdout) == json.loads(again.stdout) == json.loads(done.stdout)


def test_names_of_the_tables_are_mtebs() -> None:
    pytest.importorskip("mteb", reason="needs the extra mteb")
    from mexma_cli.evaluation.mteb import get_tasks

    for tasks in TABLES.values():
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
    arguments = ["eval", "mteb", "--tasks", "table29", "--cache", "none", "--model", str(tiny_encoder)]
    done = CliRunner().invoke(cli, arguments)
    assert done.exit_code == 1
    assert "warning: the data of SICKFr cannot be loaded" in done.stderr
    assert "error: the data of STSBenchmarkMultilingualSTS cannot be loaded" in done.stderr
    assert "from huggingface.co and keeps it in HF_HOME" in done.stderr
