"""`mexma train` with a recipe of `kind: decompose`."""

from __future__ import annotations

import logging
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mexma_cli.commands.progress import progress

if TYPE_CHECKING:
    from mexma_cli.settings.decompose import DecomposeRecipe
    from mexma_cli.training.decomposing import DecomposerTraining

log = logging.getLogger(__name__)


def train_decomposer(settings: DecomposeRecipe, resume: bool, stop: list[int]) -> Path:
    """Train.

    Args:
        stop: Has a signal's number when the run is to be left.

    Returns:
        The run's folder.
    """
    from mexma_cli.stages.train.decompose import decompose

    with progress(unit="epoch", leave=True) as bar:

        def on_start(training: DecomposerTraining) -> None:
            log.info(
                "%s: %s pairs in %s languages, %s more held out; %s steps an epoch%s on %s",
                settings.objective.name,
                f"{training.pairs.trained:,}",
                len(training.pairs.languages),
                f"{training.pairs.held_out:,}",
                f"{training.steps_per_epoch:,}",
                f", going on after epoch {training.epoch:,}" * bool(training.step),
                training.device,
            )
            bar.update(training.epoch)
            begun.append(training)

        def on_epoch(record: dict[str, Any]) -> None:
            bar.update()
            bar.set_postfix_str(_line(record), refresh=False)
            last.update(record)

        begun: list[DecomposerTraining] = []
        last: dict[str, Any] = {}
        finished = decompose(settings, resume, on_start, on_epoch, lambda: bool(stop))
    if finished is None:
        log.info("stopped; the checkpoint is in %s, --resume goes on from there", settings.run)
        sys.exit(128 + (stop[0] if stop else signal.SIGTERM))
    if last:
        log.info("ended after epoch %s: %s", f"{last['epoch']:,}", _line(last))
    if not begun:
        log.info("%s is finished already: nothing to do", settings.run)
    return finished


def _line(record: dict[str, Any]) -> str:
    """The live line: validation loss, training loss and its terms."""
    parts = [f"validation {record['validation_loss']:.4f}", f"loss {record['loss']:.4f}"]
    return "  ".join(parts + [f"{name} {value:.3f}" for name, value in record["terms"].items()])
