"""The first token against the mean: the means that are compared."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mexma_cli.encoder.encoder import SentenceEncoder
from mexma_cli.evaluation.embedder import Embedder
from mexma_cli.evaluation.mteb_tasks import Choice, chosen_tasks
from mexma_cli.evaluation.pooling import PoolingData, measure, pooling_result
from mexma_cli.evaluation.senteval import TASKS, Examples
from mexma_cli.evaluation.sts import means_of_known
from mexma_cli.reporting.tables import published_scores


def test_means_are_over_what_both_have_a_number_for(caplog: pytest.LogCaptureFixture) -> None:
    assert means_of_known([50.0, 60.0], [40.0, 20.0]) == (55.0, 30.0)
    assert means_of_known([50.0, None, 70.0], [40.0, 20.0, None]) == (50.0, 40.0)
    assert means_of_known([None], [1.0]) is None
    data = PoolingData(None, None, [], [Path("sts")])
    assert pooling_result(data, {"STS": [50.0]}, {"STS": [40.0]}, {}).rows[0]["change"] == 20.0
    assert not caplog.messages
    found = pooling_result(data, {"STS": [50.0, None, 70.0]}, {"STS": [40.0, 20.0, None]}, {"name": "x"})
    assert found.scores == {"STS CLS": 50.0, "STS uniform": 40.0}
    assert caplog.messages == ["STS: 2 sets are left out, where all cosines are equal"]


def test_classification_is_the_mean_of_table_2(
    tiny_encoder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """SentEval's average and mteb's six languages; a number without all of them stands beside none."""
    scores = dict(
        zip(("en", "zh", "fr", "da", "nb", "pol"), (60.0, 50.0, 40.0, 30.0, 20.0, 10.0), strict=True)
    )
    asked = []

    def evaluate(encoder: Embedder, tasks: Any, chosen: Choice, *_: Any) -> SimpleNamespace:
        asked.append((encoder.encoder.pooling, tasks, list(chosen.means)))
        return SimpleNamespace(scores=scores)

    mteb = SimpleNamespace(MtebEncoder=Embedder, evaluate=evaluate, get_tasks=len)
    monkeypatch.setitem(sys.modules, "mexma_cli.evaluation.mteb", mteb)
    ran = {task: {"accuracy": 80.0, "f1": None} for task in TASKS}
    monkeypatch.setattr("mexma_cli.evaluation.senteval.run_task", lambda task, *_: ran[task])
    monkeypatch.setattr("mexma_cli.evaluation.senteval.EXAMPLES", dict.fromkeys(TASKS, 2))
    one, pair = Examples(["0", "1"], ["a", "b"]), Examples(["0", "1"], ["a", "b"], ["c", "d"])
    parts = {"SST2": ("train", "dev", "test"), "TREC": ("train", "test"), "MRPC": ("train", "test")}
    tasks = {
        task: dict.fromkeys(parts.get(task, ("all",)), pair if task == "MRPC" else one) for task in TASKS
    }
    data = PoolingData(None, None, [], [], tasks)
    found = measure(data, Embedder(SentenceEncoder.load(str(tiny_encoder), pooling="mean")))
    assert found == {"classification": [80.0, *scores.values()]}
    assert asked == [("mean", len(chosen_tasks(["table2"]).tasks), list(scores))]
    result = pooling_result(data, found, {"classification": [20.0] * 7}, {"name": "x"})
    assert result.scores == {"classification CLS": 290 / 7, "classification uniform": 20.0}
    assert published_scores(result)[1].scores == {
        "classification uniform": 56.98,
        "classification CLS": 65.35,
    }
    scores.pop("pol")
    lacking = pooling_result(
        data, measure(data, Embedder(SentenceEncoder.load(str(tiny_encoder)))), found, {}
    )
    assert lacking.benchmark is None and lacking.scores["classification CLS"] == 280 / 6
    assert "classification: 1 set is left out, for lack of data" in caplog.messages
