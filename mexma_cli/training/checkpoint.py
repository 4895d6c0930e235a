"""Checkpoints: whole or not there, checked when read, the last few kept.

A checkpoint is a folder `step-00000500/` with the objective's weights (`objective.safetensors`), their
running mean if there is one (`average.safetensors`), the optimisers' state (`optimisers.pt`, loaded
with weights_only) and `checkpoint.json`: step, position of the sampler, and each file's checksum.
`best/` is the one with the best dev score so far. Weights are whole, however many processes share them.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from pydantic import NonNegativeInt
from safetensors import SafetensorError
from safetensors.torch import save_file

from mexma_cli import files
from mexma_cli.encoder.loading.weights import read_pickled, read_tensors, reason
from mexma_cli.errors import MexmaError, is_out_of_memory
from mexma_cli.store.arrays import check_content

BEST = "best"
FORMAT_VERSION = 1
_DAMAGED = "delete this checkpoint; --resume takes the one before"
_NEEDED = ("objective.safetensors", "optimisers.pt")
_FILES = (*_NEEDED, "average.safetensors")
_OWN = {files.CHECKPOINT, *_FILES}
_NAME = re.compile(r"step-(\d{8})$")


class CheckpointManifest(files.Sealed):
    """The content of ``checkpoint.json``."""

    format_version: int = FORMAT_VERSION
    step: NonNegativeInt
    position: NonNegativeInt
    seconds: float
    best: float | None
    files: dict[str, str]
    """Name -> xxh3_128."""


@dataclass
class State:
    """Everything that a run needs to go on as if it had never stopped.

    Attributes:
        step: Optimiser steps done.
        position: Pairs drawn from the sampler.
        objective: The objective's state dict.
        average: Running mean of its parameters, or empty.
        optimisers: State dicts of the optimisers and of the loss scaler.
        seconds: Time in steps so far.
        best: Best dev score so far.
    """

    step: int
    position: int
    objective: dict[str, torch.Tensor]
    average: dict[str, torch.Tensor]
    optimisers: dict[str, Any]
    seconds: float = 0.0
    best: float | None = None


def path_of(folder: Path, step: int) -> Path:
    """The checkpoint of a step."""
    return folder / f"step-{step:08d}"


def save(folder: Path, state: State, keep: int, best: bool = False) -> Path:
    """Write `state` under `folder` and drop all but the last `keep` checkpoints, which stay if the disk is
    full. The `best` is kept as `best/` as well, in place of the one before; its files are hard links."""
    final = path_of(folder, state.step)
    try:
        files.make_folder(folder)
        with files.no_space_as_message(final), files.workplace(final) as part:
            part.mkdir()
            with files.full_disk_as_os_error(part):
                _write(part, state)
            if best:  # before the checkpoint itself: a run that is killed in between comes here again
                _link(part, folder / BEST)
            files.commit(final, own=_OWN)
    except (SafetensorError, RuntimeError) as error:  # how the writers of tensors pass on a full disk
        raise MexmaError(
            f"{final} could not be written: {str(error).splitlines()[0]}",
            "is the disk full? The checkpoints before it are kept, --resume goes on from the last",
        ) from error
    prune(folder, keep)
    return final


def prune(folder: Path, keep: int) -> None:
    """Drop all but the last `keep` checkpoints, of a run too that was killed before it had done so.

    One that holds other files than its own stays.
    """
    files.clear_all(folder)
    for old in found(folder)[: -max(1, keep)]:
        if {file.name for file in old.iterdir()} <= _OWN:
            files.remove(old)


def drop_all(folder: Path) -> None:
    """Drop the checkpoints of a phase that has ended, but for those that hold other files than their own."""
    files.clear_all(folder)
    for old in [*found(folder), folder / BEST]:
        if old.is_dir() and {file.name for file in old.iterdir()} <= _OWN:
            files.remove(old)
    if folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()


def _link(path: Path, name: Path) -> None:
    with files.workplace(name) as part:
        part.mkdir()
        for file in path.iterdir():
            try:
                os.link(file, part / file.name)
            except OSError:  # a file system without hard links
                shutil.copyfile(file, part / file.name)
        files.commit(name, own=_OWN)


def _write(part: Path, state: State) -> None:
    save_file(
        {name: tensor.contiguous() for name, tensor in state.objective.items()},
        part / "objective.safetensors",
    )
    if state.average:
        save_file(state.average, part / "average.safetensors")
    torch.save(state.optimisers, part / "optimisers.pt")
    checksums = {}
    for path in sorted(part.iterdir()):
        with path.open("rb") as file:
            os.fsync(file.fileno())
        checksums[path.name] = files.checksum_file(path)
    manifest = CheckpointManifest(
        step=state.step, position=state.position, seconds=state.seconds, best=state.best, files=checksums
    )
    files.write_json_atomic(part / files.CHECKPOINT, manifest.sealed().model_dump(mode="json"))


def load(path: Path) -> State:
    """Read a checkpoint that `verify` finds whole."""
    manifest = verify(path)
    average = path / "average.safetensors"
    return State(
        step=manifest.step,
        position=manifest.position,
        objective=read_tensors(path / "objective.safetensors"),
        average=read_tensors(average) if average.name in manifest.files else {},
        # Not to the GPU that it was saved from: there may be none here, or it is another process's.
        optimisers=read_pickled(path / "optimisers.pt"),
        seconds=manifest.seconds,
        best=manifest.best,
    )


@contextmanager
def fitting(path: Path) -> Iterator[None]:
    """Turn what is raised where the state of optimisers, which may be anything, is taken over into a
    message."""
    try:
        yield
    except Exception as error:
        if isinstance(error, MexmaError) or is_out_of_memory(error):
            raise
        raise MexmaError(
            f"{path / 'optimisers.pt'} is not of this run's optimisers: {reason(error)}", _DAMAGED
        ) from None


def same_shapes(path: Path, saved: dict[str, torch.Tensor], wanted: dict[str, torch.Tensor]) -> None:
    """Refuse a checkpoint whose weights are not those of the objective that is to go on from it; the message
    has the first parameter that differs, and both shapes."""
    for name in [*wanted, *saved]:
        there, here = (
            "absent" if name not in weights else str(list(weights[name].shape)) for weights in (saved, wanted)
        )
        if there != here:
            raise MexmaError(
                f"{path} has another shape: {name} is {there} there, and {here} in this run",
                "go on with the recipe, and the encoder, that it was written with",
            )


def verify(path: Path) -> CheckpointManifest:
    """The manifest of a checkpoint; refused if a file is missing or has another checksum, which the message
    names, or if it is of a later format."""
    manifest = files.read_manifest(path / files.CHECKPOINT, CheckpointManifest, FORMAT_VERSION, _DAMAGED)
    if not manifest.checksum or not {*_NEEDED} <= manifest.files.keys() <= {*_FILES}:
        raise MexmaError(f"{path / files.CHECKPOINT} is damaged", _DAMAGED)
    for name, checksum in manifest.files.items():
        check_content(path / name, checksum, _DAMAGED)
    return manifest


def found(folder: Path) -> list[Path]:
    """The checkpoints in a folder, oldest first."""
    if not folder.is_dir():
        return []
    return sorted(path for path in folder.iterdir() if _NAME.fullmatch(path.name))
