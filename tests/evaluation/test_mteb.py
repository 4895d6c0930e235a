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
from mexma_cli.evaluation.mteb_tasks import CLFT_LANGUAGES, GROUPS, TABLES, Task, chosen_tasks
from mexma_cli.evaluation.sts import score_pairs
from mexma_cli.reporting.tables import published_rows
from tests.command import fails, ok, run


def test_lists_of_tasks_by_the_tables_number() -> None:
    assert chosen_tasks(["table30"]).tasks == (
        Task("CDSC-R"), Task("SICK-R-PL"), Task("STS22", "pl"), Task("STSBenchmarkMultilingualSTS", "pl")
    )  # fmt: skip
    table4 = chosen_tasks(["table4"])
    assert table4.benchmark == "mteb-table4"
    assert list(table4.means) == ["eng", "zh", "fr", "pl"]
    assert len(table4.tasks) == 11 + 7 + 3 + 4
    assert set(TABLES) == {16, *range(18, 31)} and set(GROUPS) == {2, 3, 4}
    both = chosen_tasks(["table27", "STS12", "STS22:fr"])
    assert both.benchmark is None
    assert both.tasks[-1] == Task("STS22", "fr") and len(both.tasks) == 12  # STS12 once


def test_clfts_table_by_language_and_of_all() -> None:
    every = chosen_tasks(["clft"])
    assert (every.benchmark, len(every.tasks), len(every.means)) == ("mteb-clft", 44, 7)
    for code in CLFT_LANGUAGES:
        one = chosen_tasks([f"clft-{code}"])
        assert one.benchmark == f"mteb-clft-{code}" and set(one.tasks) < set(every.tasks)
        published = published_rows(one.benchmark)
        assert [row.encoder for row in published] == ["e5-base-v2", "multilingual-e5-base", "CLFT"]
        for row in published:  # the post's mean of Swahili is with 0 for the set that there is not
            assert row.scores.keys() - {"score"} == one.means.keys()
            mean = fmean(row.scores[column] for column in one.means)
            assert row.scores.get("score", mean) == pytest.approx(mean, abs=0.1)
    assert "sts" not in chosen_tasks(["clft-sw"]).means
    with pytest.raises(MexmaError, match="no such list of tasks"):
        chosen_tasks(["table5"])


@pytest.mark.parametrize("word", ["table17", "table5", "table", "tables4"])
def test_tables_that_are_no_lists(word: str) -> None:
    with pytest.raises(MexmaError) as caught:
        chosen_tasks([word])
    assert ("senteval" in str(caught.value.hint)) == (word == "table17")


def test_no_task() -> None:
    with pytest.raises(MexmaError, match="--tasks names no task"):
        chosen_tasks([])


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

    for tasks in (*TABLES.values(), chosen_tasks(["clft"]).tasks):
        for task, found in zip(tasks, get_tasks(tasks), strict=True):
            assert found.metadata.name == task.name
            assert all(split.startswith("test") for split in found.eval_splits) or len(found.eval_splits) == 1


@pytest.mark.slow
def test_clfts_own_tasks_on_data_in_the_form_that_they_have(
    tiny_encoder: Path, sentences: dict[str, list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every right answer is the same text as its question, so that any encoder has all of them right."""
    pytest.importorskip("mteb", reason="needs the extra mteb")
    from datasets import Dataset

    from mexma_cli.evaluation import mteb_clft

    eng, fra = sentences["eng"][:4], sentences["fra"][:4]
    twice = {"sentences": [[*eng[:2] * 3]], "labels": [[0, 1] * 3]}
    summaries = {"text": ["a"], "human_summaries": [eng[:1]], "machine_summaries": [[eng[0], fra[0]]]}
    data = {
        "sproos/summeval-{0}": summaries | {"relevance": [[5.0, 0.0]]},
        "willhath/{1}-reddit-clustering": twice,
        "willhath/{1}-twentynewsgroups-clustering": twice,
        "sproos/twitter-pairclass-{0}": {
            "sent1": [eng * 2],
            "sent2": [[*eng, *fra]],
            "labels": [[1] * 4 + [0] * 4],
        },
        "sproos/mindsmall-{0}": {"query": eng, "positive": [[one] for one in eng], "negative": [fra] * 4},
    }
    known = {}
    for name, (score, path) in mteb_clft.TASKS.items():
        if path in data:
            split = "train" if name in mteb_clft.IN_TRAIN else "test"
            folder = tmp_path / name
            folder.mkdir()
            Dataset.from_dict(data[path]).to_json(folder / f"{split}.jsonl")
            known[name] = (score, str(folder))
        elif name == "SciFact":
            known[name] = (score, path)
    toolkit = tmp_path / "mmteb-toolkit" / "scifact_es"
    (toolkit / "qrels").mkdir(parents=True)
    rows = [{"_id": str(n), "title": "", "text": text} for n, text in enumerate(eng)]
    for name in ("corpus", "queries"):
        (toolkit / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (toolkit / "qrels/test.tsv").write_text("query-id\tcorpus-id\tscore\n0\t0\t1\n2\t2\t1\n")
    monkeypatch.setattr(mteb_clft, "TASKS", known)
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "cache")
    monkeypatch.chdir(tmp_path)
    tasks = ",".join(f"CLFT-{name}-es" for name in known)
    options = ("--model", tiny_encoder, "--dtype", "fp32", "--json", "--cache", "none")
    found = json.loads(ok(run("eval", "mteb", "--tasks", tasks, *options)).stdout)
    assert {row["task"]: (row["measure"], row["score"]) for row in found["rows"]} == {
        f"CLFT-{name}-es": (score, pytest.approx(100, abs=0.01)) for name, (score, _) in known.items()
    }
    monkeypatch.chdir(tmp_path / "cache")
    fails(run("eval", "mteb", "--tasks", "CLFT-SciFact-es", *options), 1, "clone github.com/mtybadger")


@pytest.mark.slow
def test_unknown_tasks_and_subsets() -> None:
    pytest.importorskip("mteb", reason="needs the extra mteb")
    from mexma_cli.evaluation.mteb import get_tasks

    with pytest.raises(MexmaError, match="'STS1' not found"):
        get_tasks([Task("STS1")])
    with pytest.raises(MexmaError, match="'CLFT-SummEval-it' not found"):
        get_tasks([Task("CLFT-SummEval-it")])
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
