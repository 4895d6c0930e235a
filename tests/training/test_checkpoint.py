"""Checkpoints are whole or not there, and a damaged one is refused by the name of its file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import SafetensorError

from mexma_cli.errors import MexmaError
from mexma_cli.files import checksum_file
from mexma_cli.training import checkpoint
from mexma_cli.training.checkpoint import State
from mexma_cli.training.distributed import load_optimiser


def state(step: int, average: bool = True) -> State:
    torch.manual_seed(step)
    weights = {"a": torch.randn(4, 3), "b.c": torch.randn(5).to(torch.bfloat16)}
    parameter = torch.nn.Parameter(torch.randn(3))
    optimiser = torch.optim.AdamW([parameter])
    parameter.sum().backward()
    optimiser.step()
    return State(
        step,
        step * 10,
        weights,
        {"a": torch.randn(4, 3)} if average else {},
        {"players": [optimiser.state_dict()], "scaler": {"scale": 65536.0}},
    )


def equal(one: State, two: State) -> None:
    assert (one.step, one.position) == (two.step, two.position)
    for here, there in ((one.objective, two.objective), (one.average, two.average)):
        assert list(here) == list(there)
        assert all(torch.equal(here[name], there[name]) for name in here)
        assert all(here[name].dtype == there[name].dtype for name in here)
    mine, other = one.optimisers["players"][0]["state"][0], two.optimisers["players"][0]["state"][0]
    assert all(torch.equal(mine[name], other[name]) for name in ("step", "exp_avg", "exp_avg_sq"))
    assert one.optimisers["scaler"] == two.optimisers["scaler"]


@pytest.mark.parametrize("average", [True, False])
def test_what_is_saved_is_loaded(average: bool, tmp_path: Path) -> None:
    path = checkpoint.save(tmp_path / "checkpoints", state(3, average), keep=2)
    assert path.name == "step-00000003"
    assert checkpoint.verify(path).position == 30
    equal(checkpoint.load(path), state(3, average))


def test_what_a_gpu_saved_is_loaded_without_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.serialization, "location_tag", lambda storage: "cuda:0")
    path = checkpoint.save(tmp_path, state(3), keep=2)
    equal(checkpoint.load(path), state(3))


def test_the_last_ones_are_kept(tmp_path: Path) -> None:
    for step in (2, 4, 10, 100):
        checkpoint.save(tmp_path, state(step), keep=2)
    assert [path.name for path in checkpoint.found(tmp_path)] == ["step-00000010", "step-00000100"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step-00000010", "step-00000100"]


def test_a_step_saved_twice_is_replaced(tmp_path: Path) -> None:
    checkpoint.save(tmp_path, state(3, average=True), keep=2)
    path = checkpoint.save(tmp_path, state(3, average=False), keep=2)
    assert [entry.name for entry in tmp_path.iterdir()] == ["step-00000003"]
    equal(checkpoint.load(path), state(3, average=False))


def test_what_a_killed_run_was_writing_is_removed(tmp_path: Path) -> None:
    for name in ("step-00000004.partial", "best.partial"):
        (tmp_path / name).mkdir()
        (tmp_path / name / ".mexma").touch()
    checkpoint.save(tmp_path, state(3), keep=2)
    assert [path.name for path in tmp_path.iterdir()] == ["step-00000003"]


def test_nothing_there(tmp_path: Path) -> None:
    assert checkpoint.found(tmp_path / "nosuch") == []
    (tmp_path / "step-00000007.partial").mkdir()  # of a killed run
    (tmp_path / "other").mkdir()
    assert checkpoint.found(tmp_path) == []


@pytest.mark.parametrize("name", ["objective.safetensors", "average.safetensors", "optimisers.pt"])
@pytest.mark.parametrize("how", ["cut", "flipped", "missing"])
def test_a_damaged_file_is_named(name: str, how: str, tmp_path: Path) -> None:
    path = checkpoint.save(tmp_path, state(3), keep=2)
    content = bytearray((path / name).read_bytes())
    if how == "missing":
        (path / name).unlink()
    else:
        content[len(content) // 2] ^= 1
        (path / name).write_bytes(content if how == "flipped" else content[:-1])
    with pytest.raises(MexmaError, match=f"{name} is (missing|damaged)") as caught:
        checkpoint.load(path)
    assert caught.value.hint is not None and "--resume" in caught.value.hint


def test_a_damaged_manifest_is_named(tmp_path: Path) -> None:
    path = checkpoint.save(tmp_path, state(3), keep=2)
    whole = (path / "checkpoint.json").read_bytes()
    other_values = (
        whole.replace(old, new)
        for old, new in (
            (b"optimisers.pt", b"../optimisers.pt"),
            (b'"position": 30', b'"position": 31'),
            (b'"position": 30', b'"position": -30'),
            (b'"step": 3', b'"step": "x"'),
        )
    )
    for content in (b"{", b"[]", b"{}", b'{"files": {}}', *other_values):
        assert content != whole
        (path / "checkpoint.json").write_bytes(content)
        with pytest.raises(MexmaError, match=r"checkpoint\.json"):
            checkpoint.load(path)


def test_another_format_is_named(tmp_path: Path) -> None:
    manifest = checkpoint.save(tmp_path, state(3), keep=2) / "checkpoint.json"
    manifest.write_text(manifest.read_text().replace('"format_version": 1', '"format_version": 2'))
    with pytest.raises(
        MexmaError, match=r"checkpoint\.json has format version 2, this program knows up to 1"
    ):
        checkpoint.load(manifest.parent)


FULL: list[tuple[str, Exception]] = [
    (
        "save_file",
        SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)"),
    ),
    ("save_file", OSError(28, "No space left on device")),
    ("torch.save", RuntimeError("[enforce fail at inline_container.cc:672] . unexpected pos 768 vs 662")),
    ("files.write_json_atomic", OSError(28, "No space left on device")),
]
"""What each writer raises on a full disk."""


@pytest.mark.parametrize(("writer", "error"), FULL)
def test_a_full_disk_leaves_nothing_half_written(
    writer: str, error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = checkpoint.save(tmp_path, state(3), keep=1)

    def full(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(f"mexma_cli.training.checkpoint.{writer}", full)
    with pytest.raises(MexmaError) as caught:
        checkpoint.save(tmp_path, state(6), keep=1)
    assert "step-00000006" in caught.value.message and caught.value.hint
    monkeypatch.undo()
    assert list(tmp_path.iterdir()) == [before]
    equal(checkpoint.load(before), state(3))


def test_the_best_one_stays_when_it_is_no_longer_one_of_the_last(tmp_path: Path) -> None:
    for step in (1, 2, 3, 4):
        checkpoint.save(tmp_path, state(step), keep=1, best=step in (1, 2))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["best", "step-00000004"]
    equal(checkpoint.load(tmp_path / checkpoint.BEST), state(2))
    assert [path.name for path in checkpoint.found(tmp_path)] == ["step-00000004"]


def test_the_best_one_takes_no_room_of_its_own(tmp_path: Path) -> None:
    path = checkpoint.save(tmp_path, state(1), keep=1, best=True)
    for file in path.iterdir():
        assert file.samefile(tmp_path / checkpoint.BEST / file.name)


def test_the_best_one_without_hard_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise OSError(1, "Operation not permitted")

    monkeypatch.setattr("mexma_cli.training.checkpoint.os.link", refused)
    checkpoint.save(tmp_path, state(1), keep=1, best=True)
    equal(checkpoint.load(tmp_path / checkpoint.BEST), state(1))


def test_a_full_disk_leaves_the_best_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoint.save(tmp_path, state(3), keep=1, best=True)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("mexma_cli.training.checkpoint.os.link", full)
    monkeypatch.setattr("mexma_cli.training.checkpoint.shutil.copyfile", full)
    with pytest.raises(MexmaError, match="no space left"):
        checkpoint.save(tmp_path, state(6), keep=1, best=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["best", "step-00000003"]
    equal(checkpoint.load(tmp_path / checkpoint.BEST), state(3))


@pytest.mark.parametrize(
    ("saved", "message"),
    [
        ({"a": torch.zeros(4, 3), "b": torch.zeros(2)}, r"b is \[2\] there, and \[5\] in this run"),
        ({"a": torch.zeros(4, 3)}, r"b is absent there, and \[5\] in this run"),
        (
            {"a": torch.zeros(4, 3), "b": torch.zeros(5), "c": torch.zeros(1)},
            r"c is \[1\] there, and absent in this run",
        ),
    ],
)
def test_another_shape_is_named(saved: dict[str, torch.Tensor], message: str) -> None:
    wanted = {"a": torch.zeros(4, 3), "b": torch.zeros(5)}
    checkpoint.same_shapes(Path("x"), wanted, wanted)
    with pytest.raises(MexmaError, match=message):
        checkpoint.same_shapes(Path("x"), saved, wanted)


def moments(**shapes: tuple[int, ...]) -> dict[str, torch.Tensor]:
    wanted = {"step": (), "exp_avg": (4, 3), "exp_avg_sq": (4, 3)} | shapes
    return {name: torch.ones(shape) for name, shape in wanted.items()}


SAVED: dict[str, tuple[Any, str]] = {
    "no dictionary": ([], ""),
    "no state": ({}, "'state'"),
    "one of another parameter": ({"state": {9: moments()}}, "index out of range"),
    "another shape": ({"state": {0: moments(exp_avg=(3,))}}, r"exp_avg of parameter 0 has the shape \[3\]"),
    "a step of many": ({"state": {0: moments(step=(4, 3))}}, "step of parameter 0"),
    "a part missing": ({"state": {0: {"step": torch.ones(())}}}, "it keeps step of parameter 0"),
    "no numbers": ({"state": {0: moments() | {"step": "x"}}}, ""),
}


@pytest.mark.parametrize("case", SAVED)
def test_the_state_of_other_optimisers_is_refused(case: str, tmp_path: Path) -> None:
    """With right checksums: a compiled loop would read beyond a tensor that is too small."""
    saved, message = SAVED[case]
    kept = state(3)
    kept.optimisers = {"players": [saved]}
    path = checkpoint.save(tmp_path, kept, keep=2)
    optimiser = torch.optim.AdamW([torch.nn.Parameter(torch.ones(4, 3))])
    (found,) = checkpoint.load(path).optimisers["players"]
    refused = rf"optimisers\.pt is not of this run's optimisers: .*{message}"
    with pytest.raises(MexmaError, match=refused), checkpoint.fitting(path):
        load_optimiser(optimiser, found)
    load_optimiser(optimiser, {"state": {0: moments()}})
    assert torch.equal(optimiser.state_dict()["state"][0]["exp_avg"], torch.ones(4, 3))


@pytest.mark.parametrize("name", ["optimisers.pt", "objective.safetensors", "average.safetensors"])
@pytest.mark.parametrize("content", [b"", b"garbage" * 9, b"\x80\x02h\xff."])
def test_damage_with_a_right_checksum_is_a_message(name: str, content: bytes, tmp_path: Path) -> None:
    path = checkpoint.save(tmp_path, state(3), keep=2)
    (path / name).write_bytes(content)
    manifest = json.loads((path / "checkpoint.json").read_text())
    manifest["files"][name] = checksum_file(path / name)
    sealed = checkpoint.CheckpointManifest.model_validate(manifest).sealed()
    (path / "checkpoint.json").write_text(sealed.model_dump_json())
    checkpoint.verify(path)
    with pytest.raises(MexmaError, match=rf"{name}(:| cannot be read:) "):
        checkpoint.load(path)
