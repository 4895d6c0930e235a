"""The log in other programs: TensorBoard and Weights & Biases. Their packages are extras."""

from __future__ import annotations

import importlib
import os
import secrets
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from mexma_cli.errors import MexmaError, installed_by
from mexma_cli.files import whole_file
from mexma_cli.training.log import Log


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
    """Scalars for `tensorboard --logdir RUN/tensorboard`, a subfolder a phase.

    Args:
        from_step: Points after it are from a run that was killed, and are hidden.
    """

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


def check(names: Sequence[str]) -> None:
    """Make sure that loggers can be used.

    Raises:
        MexmaError: A package is not installed; the hint names the extra.
    """
    for name in names:
        _needs(name)


def _needs(package: str) -> Any:
    try:
        return importlib.import_module(package)
    except ImportError:
        raise MexmaError(f"trainer.loggers: {package} is not installed", installed_by(package)) from None
