from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mexma_cli.errors import MexmaError
from mexma_cli.executors.ray import RayExecutor
from mexma_cli.settings.corpus import RaySettings
from mexma_cli.stages.run.run import run_corpus
from mexma_cli.stages.run.scheduler import Progress
from tests.command import fails, run
from tests.corpora import InThisProcess, corpus
from tests.stages.run.test_run import files


@pytest.fixture
def cluster() -> Iterator[Any]:
    """Two nodes on this machine, of which the second has two cores and what is called a GPU."""
    ray = pytest.importorskip("ray", reason="needs the extra ray")
    from ray.cluster_utils import Cluster

    found = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    found.add_node(num_cpus=2, num_gpus=1)
    ray.init(address=found.address, log_to_driver=False)
    yield found
    ray.shutdown()
    found.shutdown()


@pytest.mark.slow
def test_a_node_that_is_killed_leaves_the_same_bytes(
    cluster: Any, tmp_path: Path, tiny_encoder: Path
) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir()
    two.mkdir()
    wanted, recipe = corpus(one, tiny_encoder), corpus(two, tiny_encoder)
    run_corpus(wanted, InThisProcess)
    killed: list[Any] = []

    def kill(progress: Progress) -> None:
        """When some tiles are done, the node that has most of the cores goes."""
        if not killed and sum("/tile/" in name for name in progress.done) > 3:
            killed.extend(cluster.worker_nodes)
            cluster.remove_node(killed[0], allow_graceful=False)

    run_corpus(recipe, lambda folder: RayExecutor(folder, RaySettings(gpus=1)), on_change=kill)
    assert killed and files(recipe) == files(wanted)


def test_without_ray_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MexmaError, match="--executor ray needs ray, which is not installed"):
        RayExecutor(tmp_path, RaySettings())
    fails(run("run", "any.yaml", "--executor", "ray", "--jobs", "4"), 2, "--jobs is for this machine")


def test_without_a_cluster_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def init(**how: Any) -> None:
        raise ConnectionError("Could not find any running Ray instance.")

    monkeypatch.setattr("mexma_cli.executors.ray.require", lambda *what: None)
    monkeypatch.setitem(sys.modules, "ray", SimpleNamespace(init=init, is_initialized=lambda: False))
    with pytest.raises(MexmaError, match=r"no Ray cluster at `ray\.address: auto` \(Could not") as caught:
        RayExecutor(tmp_path, RaySettings(address="auto"))
    assert "ray start --head" in str(caught.value.hint)


def test_it_says_where_logs_and_the_dashboard_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    found = SimpleNamespace(address_info={"session_dir": "/tmp/ray/session"}, dashboard_url="host:8265")
    nodes = [{"Alive": True, "Resources": {"CPU": 2.0}}, {"Alive": False, "Resources": {"CPU": 8.0}}]
    ray = SimpleNamespace(
        init=lambda **how: found,
        is_initialized=lambda: False,
        remote=lambda **how: lambda function: function,
        nodes=lambda: nodes,
    )
    monkeypatch.setattr("mexma_cli.executors.ray.require", lambda *what: None)
    monkeypatch.setitem(sys.modules, "ray", ray)
    with caplog.at_level("INFO"):
        RayExecutor(tmp_path, RaySettings(cpus=2))
    assert caplog.messages == ["Ray: logs in /tmp/ray/session/logs", "Ray: dashboard at http://host:8265"]
    RayExecutor(tmp_path, RaySettings(cpus=3))
    assert (
        caplog.messages[-1]
        == "Ray: no node has 3 cores, so that nothing is done until one joins (`ray.cpus`)"
    )
