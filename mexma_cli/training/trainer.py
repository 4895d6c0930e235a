"""The training loop.

    for each step:  draw pairs -> batch -> forward, weigh, backward (accumulated) -> clip -> step

The trainer knows no loss: the objective says how its batch is made, which terms it has and which
parameters there are. Everything random in step n comes from (seed, n), so a resumed run is the run that
would have been. With several processes each takes its share of every batch; `distributed` has the rest.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from mexma_cli.encoder.encoder import SentenceEncoder
from mexma_cli.errors import MexmaError
from mexma_cli.files import write_json_atomic
from mexma_cli.numerics.devices import pick_precision
from mexma_cli.numerics.precisions import SHORT_NAMES
from mexma_cli.numerics.torch_private import move_all, multiply_all
from mexma_cli.objectives.base import Objective
from mexma_cli.settings.training import TrainerSettings
from mexma_cli.training import checkpoint, distributed
from mexma_cli.training.distributed import Processes, Shared
from mexma_cli.training.log import Log
from mexma_cli.training.optimisers import adamw, freeze, rate, set_rates
from mexma_cli.training.processor import KeptMemory, denormals_flushed, use_fast_dropout, use_fast_layers
from mexma_cli.training.sampler import Batches, SampledPairs

DevScore = Callable[[SentenceEncoder], dict[str, float]]
"""Scores an encoder; the smallest `xsim` is the best."""
PATIENCE = 2.0
"""Seconds that a step may take once the run is to stop."""
SMALLEST_SCALE = 1e-4
"""The smallest scale of the loss in fp16: gradients that overflow even with it do so for another reason."""


def precision_in(settings: TrainerSettings, device: torch.device) -> torch.dtype:
    """The dtype that a recipe's `trainer.precision` stands for on a device."""
    return pick_precision(SHORT_NAMES.get(settings.precision, settings.precision), device)


class Trainer:
    """One phase of training, as one of its processes runs it.

    Args:
        objective: With its encoder; it is moved to its device.
        pairs: Where pairs come from.
        settings: The recipe's `trainer` section.
        folder: Of this phase; checkpoints go below it.
        dev_score: Scores the encoder, at `dev_every` and at the end.
        processes: Who else is in this run.
    """

    def __init__(
        self,
        objective: Objective,
        pairs: SampledPairs,
        settings: TrainerSettings,
        folder: Path,
        dev_score: DevScore | None,
        processes: Processes,
    ) -> None:
        self.objective = objective
        self.pairs = pairs
        self.batches = Batches(pairs, objective.batch, settings.seed, settings.batch_pairs, objective.takes)
        self.settings = settings
        self.folder = folder
        self.checkpoints = folder / "checkpoints"
        self.dev_score = dev_score
        self.processes = processes
        self.device = processes.device(settings.device)
        self.precision = precision_in(settings, self.device)
        self.step = 0
        self.seconds = 0.0
        self.best: float | None = None
        if self.device.type == "cpu":
            use_fast_dropout(objective)
            if self.precision != torch.float16:  # which no processor here has products of
                use_fast_layers(objective)
        if settings.activation_checkpointing:
            distributed.save_activations(objective)
        freeze(objective, settings)
        self.shared = Shared(objective, processes, self.device, settings.sharding == "full")
        self.optimiser = adamw(objective, settings)
        self.scaler = torch.amp.GradScaler(self.device.type, enabled=self.precision == torch.float16)
        self.average: dict[str, torch.Tensor] = {}
        if settings.average:
            self.average = {name: p.detach().clone() for name, p in self._trained()}

    @property
    def pairs_per_step(self) -> int:
        """Pairs of all processes and micro-batches together."""
        return self.settings.batch_pairs * self.settings.accumulate * self.processes.size

    @denormals_flushed()
    def run(
        self,
        log: Log,
        on_step: Callable[[dict[str, Any]], object] = lambda record: None,
        stopped: Callable[[], bool] = lambda: False,
    ) -> bool:
        """Train up to the last step, and return whether it was reached. A loss or a gradient that is not a
        number any more is refused.

        Args:
            log: Takes a record every `log_every` steps and with every dev score.
            on_step: Gets every step's record, for a live line.
            stopped: Asked after every step; on True in any process a checkpoint is written and the loop left
                by all. A process that trains alone gives up a step that takes longer than `PATIENCE`.
        """
        settings = self.settings
        memory = KeptMemory() if self.device.type == "cpu" else None
        while self.step < settings.steps:
            began = time.perf_counter()
            record = self._one_step(partial(self._gives_up, began, stopped))
            if record is None:
                self.save()
                return False
            if memory:
                memory.bound()
            seconds = time.perf_counter() - began
            self.seconds += seconds
            speed = round(record.pop("tokens") / seconds)
            record |= {"seconds": round(self.seconds, 1), "tokens_per_second": speed}
            last = self.step == settings.steps
            scored = self.dev_score is not None and (
                last or (settings.dev_every and self.step % settings.dev_every == 0)
            )
            if scored:
                record |= {"dev": self.score()}
            if scored or last or self.step % settings.log_every == 0:
                log.write(record)
            on_step(record)
            stop = self.processes.any(stopped())
            improved = bool(scored) and (self.best is None or record["dev"]["xsim"] < self.best)
            if improved:
                self.best = record["dev"]["xsim"]
            if last or stop or improved or self.step % settings.checkpoint_every == 0:
                self.save(best=improved)
            if stop and not last:
                return False
        return True

    def _gives_up(self, began: float, stopped: Callable[[], bool]) -> bool:
        """Whether a step that began then is to be given up."""
        return self.processes.size == 1 and time.perf_counter() - began > PATIENCE and stopped()

    def _one_step(self, given_up: Callable[[], bool]) -> dict[str, Any] | None:
        """Forward and backward over the accumulated micro-batches, then one step. `given_up` is asked between
        them; on True all is as it was before the step, and there is no record."""
        settings = self.settings
        before = [buffer.clone() for buffer in self.objective.buffers()]
        numbers = np.random.SeedSequence((settings.seed, self.step, self.processes.rank))
        torch.manual_seed(int(numbers.generate_state(1, np.uint64)[0]) >> 2)  # for dropout
        set_rates(self.optimiser, self.step, settings)
        self.objective.train()
        losses, tokens = [], 0
        for micro in range(settings.accumulate):
            start, following = (self._position(micro + n, self.processes.rank) for n in (0, 1))
            # On a processor all cores have work already.
            views = self.batches.at(start, following if self.device.type != "cpu" else None)
            tokens += len(views.batch.input_ids)
            with self.shared.accumulating(last=micro == settings.accumulate - 1):
                with torch.autocast(
                    self.device.type, self.precision, enabled=self.precision != torch.float32
                ):
                    terms = self.shared.model(views.to(self.device))
                    loss = self._weighed(terms)
                stop = given_up()
                if not stop:
                    self.scaler.scale(loss / settings.accumulate).backward()
            if stop or given_up():
                self.optimiser.zero_grad(set_to_none=True)
                for buffer, value in zip(self.objective.buffers(), before, strict=True):
                    buffer.copy_(value)
                return None
            losses.append(torch.stack([*terms.values(), loss]).detach())
        norm = self._gradient_norm()  # first, since reading the losses waits for all that a GPU has to do
        own = torch.stack(losses).double().cpu()
        total = self.processes.sum(torch.cat([own.mean(dim=0), torch.tensor([float(tokens)])]))
        *means, loss_mean = (total[:-1] / self.processes.size).tolist()
        # In fp16 a lower scale may make a gradient a number, so the step is left out.
        left_out = self.scaler.is_enabled() and self.scaler.get_scale() > SMALLEST_SCALE
        if not math.isfinite(loss_mean) or not (math.isfinite(norm) or left_out):
            self._not_a_number(loss_mean, norm, own[:, -1])
        self._update()
        self.step += 1
        return {
            "step": self.step,
            "loss": loss_mean,
            "terms": dict(zip(terms, means, strict=True)),
            "learning_rate": rate(self.step - 1, settings),
            "gradient_norm": norm,
            "pairs": self.step * self.pairs_per_step,
            "tokens": int(total[-1]),
        }

    def _weighed(self, terms: dict[str, torch.Tensor]) -> torch.Tensor:
        """The loss: all terms times their weights; terms without weight, and no scalars, are refused."""
        weights = getattr(self.objective, "weights", {})
        scalars = isinstance(terms, dict) and all(
            isinstance(term, torch.Tensor) and not term.ndim for term in terms.values()
        )
        if not (scalars and terms and terms.keys() <= weights.keys()):
            found = ", ".join(terms) if scalars else "something else"
            what = f"{type(self.objective).__name__}.forward returns {found or 'no term'}"
            raise MexmaError(
                f"{what}; its `weights` are of {', '.join(weights) or 'no term'}",
                "it returns a dict of terms, each a tensor without dimensions; `weights` has one for each",
            )
        loss = sum(weights[name] * term for name, term in terms.items())
        assert isinstance(loss, torch.Tensor)
        return loss

    def _position(self, micro: int, rank: int) -> int:
        """Where in the run a micro-batch of this step begins, or of the next ones if there are not so many.

        Ranks stand side by side, and one micro-batch after the other.
        """
        blocks = (self.step * self.settings.accumulate + micro) * self.processes.size + rank
        return blocks * self.settings.batch_pairs

    def _gradient_norm(self) -> float:
        """Clip the gradients to the largest norm; the norm before that."""
        self.scaler.unscale_(self.optimiser)
        gradients = []
        for _, parameter in self._trained():
            if parameter.grad is not None and parameter.grad.is_sparse:
                parameter.grad = parameter.grad.coalesce()
                gradients.append(parameter.grad.values())
            elif parameter.grad is not None:
                gradients.append(parameter.grad)
        norm = torch.nn.utils.get_total_norm(gradients)
        if self.settings.clip and gradients:
            multiply_all(gradients, (self.settings.clip / (norm + 1e-6)).clamp(max=1))
        return float(distributed.whole(norm))

    def _update(self) -> None:
        """Step, forget the gradients, move the running mean."""
        self.scaler.step(self.optimiser)
        self.optimiser.zero_grad(set_to_none=True)
        self.scaler.update()
        if self.average:
            decay = min(self.settings.average, (1 + self.step) / (10 + self.step))
            means = list(self.average.values())
            move_all(means, [p.detach() for _, p in self._trained()], 1 - decay)

    def _not_a_number(self, loss: float, norm: float, own: torch.Tensor) -> None:
        """Keep the state before this step and the names of the pairs that did it, and stop."""
        what = f"the loss is {loss}" if not math.isfinite(loss) else f"the gradient's norm is {norm}"
        bad = [micro for micro, value in enumerate(own.tolist()) if not math.isfinite(value)]
        found = [(rank, micro) for rank, each in enumerate(self.processes.gather(bad)) for micro in each]
        everywhere = [(r, m) for r in range(self.processes.size) for m in range(self.settings.accumulate)]
        batches: list[dict[str, Any]] = [
            {
                "process": rank,
                "micro_batch": micro,
                "pairs": self.pairs.names(self._position(micro, rank), self.settings.batch_pairs),
            }
            for rank, micro in found or everywhere
        ]
        kept = self.save()
        path = self.folder / "not-a-number.json"
        if self.processes.first:
            write_json_atomic(path, {"what": what, "step": self.step + 1, "batches": batches})
        process, micro, pairs = batches[0].values()
        raise MexmaError(
            f"{what} at step {self.step + 1}, micro-batch {micro + 1} of process {process + 1}; "
            f"the pairs begin with {', '.join(pairs[:3])}, all of them are in {path}",
            f"{kept} is the state before that step; look at the pairs, or start anew (--set run=FOLDER) with "
            "a lower trainer.learning_rate, or in bf16 or fp32",
        )

    def score(self) -> dict[str, float]:
        """The dev score of the encoder as it would be exported now; the first process works it out."""
        assert self.dev_score is not None
        with self.exported() as encoder:
            scores = self.dev_score(encoder) if encoder is not None else {}
        return self.processes.gather(scores)[0]

    @contextmanager
    def exported(self) -> Iterator[SentenceEncoder | None]:
        """The encoder with the mean weights (where a mean is kept), in evaluation mode; in rank 0 alone."""
        held = {name: p.detach().clone() for name, p in self._trained() if name in self.average}
        try:
            self._put(self.average)
            with self.shared.exportable() as objective:
                encoder = objective.export() if objective is not None else None
                if encoder is not None:
                    encoder.model.eval()
                yield encoder
        finally:
            self._put(held)

    def save(self, best: bool = False) -> Path:
        """Write a checkpoint of this moment, whoever holds which part of it."""
        players = [self.optimiser.state_dict()]
        whole = partial(distributed.whole, kept=self.processes.first)
        state = checkpoint.State(
            self.step,
            self.step * self.pairs_per_step,
            whole(self.objective.state_dict()),
            whole(self.average),
            whole({"players": players, "scaler": self.scaler.state_dict()}),
            self.seconds,
            self.best,
        )
        if self.processes.first:
            checkpoint.save(self.checkpoints, state, self.settings.keep, best)
        self.processes.wait()
        return checkpoint.path_of(self.checkpoints, self.step)

    def resume(self) -> int:
        """Go back to the last checkpoint, if there is one. Returns the step."""
        if self.processes.first:
            checkpoint.prune(self.checkpoints, self.settings.keep)
        for last in checkpoint.found(self.checkpoints)[-1:]:
            self.go_to(last)
        return self.step

    def go_to(self, path: Path) -> None:
        """Take the state of a checkpoint; a damaged one, and one of an objective of another shape, is
        refused."""
        state = checkpoint.load(path)
        here = self.objective.state_dict()
        checkpoint.same_shapes(path, state.objective, here)
        if self.average:
            checkpoint.same_shapes(path, state.average, self.average)
        self.step, self.seconds, self.best = state.step, state.seconds, state.best
        self.objective.load_state_dict(
            {name: distributed.part_of(value, here[name]) for name, value in state.objective.items()}
        )
        with checkpoint.fitting(path):
            (saved,) = state.optimisers["players"]
            distributed.load_optimiser(self.optimiser, saved)
            if state.optimisers["scaler"]:  # of a run in fp16
                self.scaler.load_state_dict(state.optimisers["scaler"])
        self.average = {
            name: distributed.part_of(state.average[name], value) for name, value in self.average.items()
        }

    def _put(self, values: dict[str, torch.Tensor]) -> None:
        parameters = dict(self._trained())
        with torch.no_grad():  # not through .data: that the weights changed must be seen
            for name, value in values.items():
                parameters[name].copy_(value)

    def _trained(self) -> list[tuple[str, torch.nn.Parameter]]:
        return [(name, p) for name, p in self.objective.named_parameters() if p.requires_grad]
