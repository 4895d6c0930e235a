"""The run's log: one JSON object a line, the same after a resume; and TensorBoard and Weights & Biases."""

from __future__ import annotations

import importlib
import json
import logging
import math
import os
import secrets
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

from mexma_cli.errors import MexmaError, installed_by
from mexma_cli.files import fsync_file, whole_file

log = logging.getLogger(__name__)


class Log(Protocol):
    """A logger: it takes the records of a run."""

    def write(self, record: dict[str, Any]) -> None:
        """Take the record of a step."""

    def close(self) -> None:
        """Nothing comes any more."""


def read_record(line: bytes) -> dict[str, Any] | None:
    """A line of a log; None if it is no record."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    known = isinstance(record, dict) and isinstance(record.get("phase"), str)
    return record if known and isinstance(record.get("step"), int) else None


class TrainingLog:
    """Appends records of a phase to a JSONL file, each on the disk before a checkpoint of its step is.
    Records of the phase above `from_step` are from a run that was killed; they are dropped."""

    def __init__(self, path: Path, phase: str, from_step: int) -> None:
        self.phase = phase
        # The last piece is empty, or was cut off by a kill.
        lines = path.read_bytes().split(b"\n")[:-1] if path.exists() else []
        records = [(line, read_record(line)) for line in lines]
        if damaged := [number for number, (_, record) in enumerate(records, 1) if record is None]:
            log.warning("%s, line %s: damaged, and left out", path, ", ".join(map(str, damaged)))
        with whole_file(path) as file:
            for line, record in records:
                if record and (record["phase"] != phase or record["step"] <= from_step):
                    file.write(line + b"\n")
        self._file = path.open("a", encoding="utf-8")

    def write(self, record: dict[str, Any]) -> None:
        """Append one record; a number that is none (fp16's gradient norm where it overflowed) is null."""
        kept = {
            key: None if isinstance(value, float) and not math.isfinite(value) else value
            for key, value in record.items()
        }
        self._file.write(json.dumps({"phase": self.phase} | kept, allow_nan=False) + "\n")
        fsync_file(self._file)

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class Logs:
    """Several logs as one, or none at all."""

    def __init__(self, logs: Sequence[Log]) -> None:
        self._logs = logs

    def write(self, record: dict[str, Any]) -> None:
        """Pass a record on."""
        for log in self._logs:
            log.write(record)

    def close(self) -> None:
        """Close all."""
        for log in self._logs:
            log.close()


class TensorBoard:
    """Scalars for `tensorboard --logdir RUN/tensorboard`, a subfolder a phase. Points after `from_step` are
    from a run that was killed, and are hidden."""

    def __init__(self, run: Path, phase: str, from_step: int) -> None:
        _needs("tensorboard")
        from torch.utils.tensorboard import SummaryWriter

        folder = run / "tensorboard" / phase
        self._writer: Any = SummaryWriter(str(folder), purge_step=from_step + 1)

    def write(self, record: dict[str, Any]) -> None:
        """Add every number of a record at its step."""
        for name, value in scalars(record).items():
            self._writer.add_scalar(name, value, record["step"])
        self._writer.flush()

    def close(self) -> None:
        """Close the files."""
        self._writer.close()


class Wandb:
    """A run a phase, in the project WANDB_PROJECT or `mexma`; a resumed phase goes on in its run.

    Which one that is stands in the run's folder, `wandb/PHASE.id`: another run may have the same path, on
    another machine, or here when this one is gone.
    """

    def __init__(self, run: Path, phase: str, from_step: int) -> None:
        wandb = _needs("wandb")
        kept = run / "wandb" / f"{phase}.id"
        if not kept.is_file():
            kept.parent.mkdir(parents=True, exist_ok=True)
            with whole_file(kept) as file:
                file.write(secrets.token_hex(8).encode())
        self._run = wandb.init(
            project=None if "WANDB_PROJECT" in os.environ else "mexma",
            name=f"{run.name}-{phase}",
            id=kept.read_text(),
            resume="allow",
            dir=run,
        )

    def write(self, record: dict[str, Any]) -> None:
        """Log every number of a record at its step."""
        self._run.log(scalars(record), step=record["step"])

    def close(self) -> None:
        """Finish the run."""
        self._run.finish()


LOGGERS: dict[str, Callable[[Path, str, int], Log]] = {"tensorboard": TensorBoard, "wandb": Wandb}
"""By their name in `trainer.loggers`: (run folder, phase, step that it begins at) -> log."""


def scalars(record: dict[str, Any], prefix: str = "") -> dict[str, float]:
    """The numbers of a record by their path, such as `terms/koleo`; not the step."""
    found: dict[str, float] = {}
    for name, value in record.items():
        if isinstance(value, dict):
            found |= scalars(value, f"{prefix}{name}/")
        elif isinstance(value, int | float) and name != "step":
            found[prefix + name] = value
    return found


def check_loggers(names: Sequence[str]) -> None:
    """Refuse loggers whose package is not installed; the hint names the extra."""
    for name in names:
        _needs(name)


def _needs(package: str) -> Any:
    try:
        return importlib.import_module(package)
    except ImportError:
        raise MexmaError(f"trainer.loggers: {package} is not installed", installed_by(package)) from None
