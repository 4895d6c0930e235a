"""The loop that trains a decomposer: players in turn, epochs, and an end when validation gets no better.

    for each step:  read vectors -> each player: forward, weigh, backward, step its own parameters

It is not the loop of `trainer`: that one draws tokens, moves all players by one loss at a time and ends at a
step; here each player has a loss of its own, the second one's after the first one has moved, and the
validation loss says when it is over. Log, checkpoints and resuming are the same.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch

from mexma_cli.errors import MexmaError
from mexma_cli.objectives.decompose.loss import Decomposer, VectorPairs
from mexma_cli.settings.training import DecomposeTrainerSettings
from mexma_cli.store.embeddings import StorePair
from mexma_cli.training import checkpoint
from mexma_cli.training.distributed import load_optimiser
from mexma_cli.training.log import Log
from mexma_cli.training.sampler import permute

_HELD_OUT = 1 << 40  # apart from all seeds of epochs and stores


class StoredPairs:
    """Pairs of stores, each cut at random into what is trained on and what is held out.

    Rows are read one by one from the stores' files when their turn comes; nothing of the stores is kept.

    Args:
        stores: Source and target, row n of one the translation of row n of the other.
        rows: Of each the first so many (0: all).
        validation: Share of each that is held out, at least one pair.
        seed: Of the cut and of the order.

    Attributes:
        languages: All of both sides, sorted: a number in a batch is a place here.
        trained, held_out: How many pairs there are of either kind.
        dim: Numbers in a vector.
    """

    def __init__(self, stores: Sequence[StorePair], rows: int, validation: float, seed: int) -> None:
        self._stores, self._seed = stores, seed
        self.dim = stores[0][0].dim
        self.languages = sorted({store.manifest.language for pair in stores for store in pair})
        number = {language: place for place, language in enumerate(self.languages)}
        self._codes = [tuple(number[store.manifest.language] for store in pair) for pair in stores]
        self._sizes = np.array([min(source.rows, rows or source.rows) for source, _ in stores])
        held = np.clip(np.round(self._sizes * validation).astype(np.int64), 1, None)
        self._held_ends, self._trained_ends = np.cumsum(held), np.cumsum(self._sizes - held)
        self._first_held = self._sizes - held

    @property
    def trained(self) -> int:
        """Pairs to train on."""
        return int(self._trained_ends[-1])

    @property
    def held_out(self) -> int:
        """Pairs to validate on."""
        return int(self._held_ends[-1])

    def training(self, epoch: int, start: int, stop: int) -> VectorPairs:
        """Pairs `start` to `stop` of an epoch, from 0, in its own order over all stores."""
        order = permute(np.arange(start, stop), self.trained, self._seed + 2 * epoch)
        pair = np.searchsorted(self._trained_ends, order, side="right")
        return self._read(pair, order - np.concatenate([[0], self._trained_ends])[pair])

    def validation(self, start: int, stop: int) -> VectorPairs:
        """Pairs `start` to `stop` of what is held out, always in the same order over all stores."""
        order = permute(np.arange(start, stop), self.held_out, self._seed + _HELD_OUT)
        pair = np.searchsorted(self._held_ends, order, side="right")
        places = order - np.concatenate([[0], self._held_ends])[pair]
        return self._read(pair, places + self._first_held[pair])

    def _read(self, pair: np.ndarray, places: np.ndarray) -> VectorPairs:
        """Pairs by the number of their stores and their place in the order of these, int64 [B] both."""
        vectors = np.empty((2, len(pair), self.dim), dtype=np.float32)
        codes = np.empty((2, len(pair)), dtype=np.int64)
        for index in np.unique(pair):
            here = pair == index
            rows = permute(places[here], int(self._sizes[index]), self._seed + 2 * int(index) + 1)
            for side in (0, 1):
                vectors[side, here] = self._stores[index][side].take(rows)
                codes[side, here] = self._codes[index][side]
        return VectorPairs(*map(torch.from_numpy, (*vectors, *codes)))


_LOWER_RATE = "start anew (--set run=FOLDER) with a lower trainer.learning_rate"


class DecomposerTraining:
    """One run. Everything in step n comes from the seed and n, so a resumed run is the run that would be. The
    objective is moved to the device; fewer pairs than one step takes are refused."""

    def __init__(
        self,
        objective: Decomposer,
        pairs: StoredPairs,
        settings: DecomposeTrainerSettings,
        checkpoints: Path,
        device: torch.device,
    ) -> None:
        self.objective, self.pairs, self.settings = objective.to(device), pairs, settings
        self.checkpoints, self.device = checkpoints, device
        self.steps_per_epoch = pairs.trained // settings.batch
        if not self.steps_per_epoch or pairs.held_out < 2:
            raise MexmaError(
                f"{pairs.trained:,} pairs to train on and {pairs.held_out:,} held out are too few for "
                f"steps of {settings.batch:,}",
                "a smaller trainer.batch, or more text; at least 2 have to be held out",
            )
        self.players = objective.players()
        self.optimisers = [
            torch.optim.Adam(player.parameters, lr=settings.learning_rate) for player in self.players
        ]
        self.step = 0
        self.seconds = 0.0
        self.best: float | None = None
        self.waited = 0
        """Epochs since the best one."""
        self._sums: dict[str, float] = {}

    @property
    def epoch(self) -> int:
        """Whole epochs done."""
        return self.step // self.steps_per_epoch

    @property
    def over(self) -> bool:
        """Whether all epochs are done, or too many were no better."""
        return self.epoch >= self.settings.epochs or self.waited >= self.settings.patience

    def run(
        self,
        log: Log,
        on_epoch: Callable[[dict[str, Any]], object] = lambda record: None,
        stopped: Callable[[], bool] = lambda: False,
    ) -> bool:
        """Train to the end, and return whether it was reached; the best state is then in `checkpoints`/best.
        A loss that is not a number any more is refused.

        Args:
            log: Takes a record every `log_every` epochs.
            on_epoch: Gets every epoch's record.
            stopped: Asked after every step; on True a checkpoint is written and the loop left.
        """
        settings = self.settings
        while not self.over:
            began = time.perf_counter()
            self._one_step()
            if ended := self.step % self.steps_per_epoch == 0:
                record = self._validated()
            self.seconds += time.perf_counter() - began
            if ended:
                record["seconds"] = round(self.seconds, 1)
                if self.over or self.epoch % settings.log_every == 0:
                    log.write(record)
                on_epoch(record)
                if self.over or self.waited == 0 or self.epoch % settings.checkpoint_every == 0:
                    self.save(best=self.waited == 0)
            if stopped() and not self.over:
                self.save()
                return False
        return True

    def _one_step(self) -> None:
        """Every player's turn with one batch."""
        epoch, batch = divmod(self.step, self.steps_per_epoch)
        start = batch * self.settings.batch
        pairs = self.pairs.training(epoch, start, start + self.settings.batch).to(self.device)
        for player, optimiser in zip(self.players, self.optimisers, strict=True):
            terms = player.terms(pairs)
            loss = self.objective.loss(terms)
            if not torch.isfinite(loss):
                raise MexmaError(
                    f"the loss of the {player.name} is {loss.item()} at step {self.step + 1:,}", _LOWER_RATE
                )
            # Only this player's: another's parameters in the same terms get no gradient.
            gradients = torch.autograd.grad(loss, player.parameters, allow_unused=True)
            for parameter, gradient in zip(player.parameters, gradients, strict=True):
                parameter.grad = gradient
            optimiser.step()
            optimiser.zero_grad(set_to_none=True)
            for name, term in terms.items():
                self._sums[name] = self._sums.get(name, 0.0) + term.item()
        self._sums["loss"] = self._sums.get("loss", 0.0) + loss.item()  # the last player's, the maps'
        self.step += 1

    def _validated(self) -> dict[str, Any]:
        """The record of an epoch that has just ended."""
        means = {name: total / self.steps_per_epoch for name, total in self._sums.items()}
        self._sums = {}
        validation = self.validation_loss()
        if not math.isfinite(validation):  # nothing is better or worse than that
            raise MexmaError(
                f"the loss of what is held out is {validation} after step {self.step:,}", _LOWER_RATE
            )
        if self.best is None or validation < self.best:
            self.best, self.waited = validation, 0
        else:
            self.waited += 1
        return {
            "step": self.step,
            "epoch": self.epoch,
            "loss": means.pop("loss"),
            "terms": means,
            "validation_loss": validation,
            "learning_rate": self.settings.learning_rate,
        }

    @torch.no_grad()
    def validation_loss(self) -> float:
        """The maps' loss of what is held out: the mean over its rows, in batches of nearly equal size."""
        count = self.pairs.held_out
        parts = math.ceil(count / self.settings.batch)
        ends = np.linspace(0, count, parts + 1).astype(np.int64).tolist()
        total = 0.0
        for start, stop in pairwise(ends):
            pairs = self.pairs.validation(start, stop).to(self.device)
            total += self.objective.loss(self.objective(pairs)).item() * (stop - start)
        return total / count

    def save(self, best: bool = False) -> None:
        """Write a checkpoint of this moment."""
        progress = {"waited": self.waited, "sums": self._sums}
        state = checkpoint.State(
            step=self.step,
            position=self.step * self.settings.batch,
            objective=self.objective.state_dict(),
            average={},
            optimisers={"players": [one.state_dict() for one in self.optimisers], **progress},
            seconds=self.seconds,
            best=self.best,
        )
        checkpoint.save(self.checkpoints, state, self.settings.keep, best)

    def resume(self) -> int:
        """Go back to the last checkpoint, if there is one. Returns the step."""
        checkpoint.prune(self.checkpoints, self.settings.keep)
        for last in checkpoint.found(self.checkpoints)[-1:]:
            state = self._load(last)
            with checkpoint.fitting(last):
                for optimiser, saved in zip(self.optimisers, state.optimisers["players"], strict=True):
                    load_optimiser(optimiser, saved)
                self.waited = int(state.optimisers["waited"])
                self._sums = {name: float(total) for name, total in state.optimisers["sums"].items()}
            self.step, self.seconds, self.best = state.step, state.seconds, state.best
        return self.step

    def go_to_best(self) -> Decomposer:
        """The objective with the weights of the best epoch."""
        self._load(self.checkpoints / checkpoint.BEST)
        return self.objective

    def _load(self, path: Path) -> checkpoint.State:
        state = checkpoint.load(path)
        checkpoint.same_shapes(path, state.objective, self.objective.state_dict())
        self.objective.load_state_dict(state.objective)
        return state
