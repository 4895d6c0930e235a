"""The training loop.

    for each step:  draw pairs -> build views -> forward, weigh, backward (accumulated) -> clip -> step

The trainer knows no loss: the objective says which views it needs, which terms it has and which
parameters there are. Everything random in step n comes from (seed, n), so a resumed run is the run that
would have been.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch

from mexma_cli.encoder.encoder import SentenceEncoder
from mexma_cli.errors import MexmaError
from mexma_cli.objectives.base import Objective
from mexma_cli.recipe import Trainer as Settings
from mexma_cli.training import checkpoint
from mexma_cli.training.log import TrainingLog
from mexma_cli.training.masking import Vocabulary, build_views
from mexma_cli.training.schedule import rate_factor

Pairs = Callable[[int, int], Sequence[tuple[np.ndarray, np.ndarray]]]
"""(start, count) -> the pairs at these positions of the run, as token ids without <s> and </s>."""
DevScore = Callable[[SentenceEncoder], dict[str, float]]
PRECISIONS = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


class Trainer:
    """One phase of training.

    Args:
        objective: On its device already.
        pairs: Where pairs come from.
        vocabulary: Ids for building batches.
        settings: The recipe's `trainer` section.
        folder: Of this phase; checkpoints go below it.
        dev_score: Scores the encoder, at `dev_every` and at the end.
    """

    def __init__(
        self,
        objective: Objective,
        pairs: Pairs,
        vocabulary: Vocabulary,
        settings: Settings,
        folder: Path,
        dev_score: DevScore | None = None,
    ) -> None:
        self.objective = objective
        self.pairs = pairs
        self.vocabulary = vocabulary
        self.settings = settings
        self.checkpoints = folder / "checkpoints"
        self.dev_score = dev_score
        self.device = next(objective.parameters()).device
        self.step = 0
        self.seconds = 0.0
        self.optimisers = [self._optimiser(groups) for groups in objective.players()]
        self.scaler = torch.amp.GradScaler(self.device.type, enabled=settings.precision == "fp16")
        self.average: dict[str, torch.Tensor] = {}
        if settings.average:
            self.average = {name: p.detach().clone() for name, p in self._trained()}

    def run(
        self,
        log: TrainingLog,
        on_step: Callable[[dict[str, Any]], object] = lambda record: None,
        stopped: Callable[[], bool] = lambda: False,
    ) -> bool:
        """Train up to the last step.

        Args:
            log: Takes a record every `log_every` steps and with every dev score.
            on_step: Gets every step's record, for a live line.
            stopped: Asked after every step; on True a checkpoint is written and the loop left.

        Returns:
            Whether the last step was reached.

        Raises:
            MexmaError: The loss is not a number any more.
        """
        with _denormals_flushed():
            return self._loop(log, on_step, stopped)

    def _loop(
        self, log: TrainingLog, on_step: Callable[[dict[str, Any]], object], stopped: Callable[[], bool]
    ) -> bool:
        settings = self.settings
        while self.step < settings.steps:
            began = time.perf_counter()
            terms, tokens, norm = self._one_step()
            self.step += 1
            seconds = time.perf_counter() - began
            self.seconds += seconds
            record = self._record(terms, norm) | {"tokens_per_second": round(tokens / seconds)}
            last = self.step == settings.steps
            scored = self.dev_score is not None and (
                last or (settings.dev_every and self.step % settings.dev_every == 0)
            )
            if scored:
                record |= {"dev": self.score()}
            if scored or last or self.step % settings.log_every == 0:
                log.write(record)
            on_step(record)
            if last or self.step % settings.checkpoint_every == 0:
                self.save()
            elif stopped():
                self.save()
                return False
        return True

    def _one_step(self) -> tuple[dict[str, float], int, float]:
        """Forward and backward over the accumulated micro-batches, then one step of every player."""
        settings = self.settings
        torch.manual_seed(_mix(settings.seed, self.step))  # dropout
        self._set_rates()
        self.objective.train()
        sums: dict[str, float] = {}
        tokens = 0
        for micro in range(settings.accumulate):
            index = self.step * settings.accumulate + micro
            start = index * settings.batch_pairs
            pairs = self.pairs(start, settings.batch_pairs)
            masking = self.objective.views()
            views = build_views(pairs, masking, self.vocabulary, settings.seed, start).to(self.device)
            tokens += len(views.batch.input_ids)
            with torch.autocast(
                self.device.type, PRECISIONS[settings.precision], enabled=settings.precision != "fp32"
            ):
                terms = self.objective(views)
                loss = sum(self.objective.weights[name] * term for name, term in terms.items())
            assert isinstance(loss, torch.Tensor)
            self.scaler.scale(loss / settings.accumulate).backward()
            for name, term in [*terms.items(), ("loss", loss)]:
                sums[name] = sums.get(name, 0.0) + float(term.detach()) / settings.accumulate
        if not math.isfinite(sums["loss"]):
            raise MexmaError(
                f"the loss is {sums['loss']} at step {self.step + 1}",
                "lower trainer.learning_rate, or train in bf16 or fp32; checkpoints are kept",
            )
        return sums, tokens, self._update()

    def _update(self) -> float:
        """Clip, step, forget the gradients, move the running mean. Returns the norm before clipping."""
        for optimiser in self.optimisers:
            self.scaler.unscale_(optimiser)
        parameters = [p for _, p in self._trained()]
        norm = torch.nn.utils.clip_grad_norm_(parameters, self.settings.clip or math.inf)
        for optimiser in self.optimisers:
            self.scaler.step(optimiser)
            optimiser.zero_grad(set_to_none=True)
        self.scaler.update()
        if self.average:
            decay = min(self.settings.average, (1 + self.step) / (10 + self.step))
            means = list(self.average.values())
            torch._foreach_lerp_(means, [p.detach() for _, p in self._trained()], 1 - decay)
        return float(norm)

    def score(self) -> dict[str, float]:
        """The dev score of the encoder as it would be exported now."""
        assert self.dev_score is not None
        with self.exported() as encoder:
            return self.dev_score(encoder)

    @contextmanager
    def exported(self) -> Iterator[SentenceEncoder]:
        """The encoder with the mean weights (where a mean is kept), in evaluation mode."""
        held = {name: p.detach().clone() for name, p in self._trained() if name in self.average}
        try:
            self._put(self.average)
            self.objective.eval()
            encoder = self.objective.export()
            encoder.model.eval()
            yield encoder
        finally:
            self._put(held)

    def save(self) -> Path:
        """Write a checkpoint of this moment."""
        optimisers = {
            "players": [o.state_dict() for o in self.optimisers],
            "scaler": self.scaler.state_dict(),
        }
        position = self.step * self.settings.accumulate * self.settings.batch_pairs
        state = checkpoint.State(
            self.step, position, self.objective.state_dict(), self.average, optimisers, self.seconds
        )
        return checkpoint.save(self.checkpoints, state, self.settings.keep)

    def resume(self) -> int:
        """Go back to the last checkpoint, if there is one. Returns the step."""
        there = checkpoint.found(self.checkpoints)
        if there:
            state = checkpoint.load(there[-1])
            self.step, self.seconds = state.step, state.seconds
            self.objective.load_state_dict(state.objective)
            for optimiser, saved in zip(self.optimisers, state.optimisers["players"], strict=True):
                optimiser.load_state_dict(saved)
            self.scaler.load_state_dict(state.optimisers["scaler"])
            self.average = {name: state.average[name].to(self.device) for name in self.average}
        return self.step

    def _put(self, values: dict[str, torch.Tensor]) -> None:
        parameters = dict(self._trained())
        for name, value in values.items():
            parameters[name].data.copy_(value)

    def _trained(self) -> list[tuple[str, torch.nn.Parameter]]:
        return [(name, p) for name, p in self.objective.named_parameters() if p.requires_grad]

    def _optimiser(self, groups: dict[str, list[torch.nn.Parameter]]) -> torch.optim.Optimizer:
        """AdamW; only matrices decay, and the word embeddings have their own share of the rate."""
        settings = self.settings
        chosen = []
        for name, parameters in groups.items():
            share = settings.embedding_rate if name == "embeddings" else 1.0
            if share == 0:
                for parameter in parameters:
                    parameter.requires_grad_(False)
                continue
            for decays in (True, False):
                members = [p for p in parameters if (p.dim() >= 2) == decays]
                decay = settings.weight_decay if decays else 0.0
                chosen.append({"params": members, "share": share, "weight_decay": decay})
        return torch.optim.AdamW(
            [group for group in chosen if group["params"]],
            lr=settings.learning_rate,
            betas=settings.betas,
            eps=settings.eps,
            fused=True,
        )

    def _rate(self, step: int) -> float:
        settings = self.settings
        factor = rate_factor(step, settings.steps, settings.warmup, settings.schedule)
        return settings.learning_rate * factor

    def _set_rates(self) -> None:
        for optimiser in self.optimisers:
            for group in optimiser.param_groups:
                group["lr"] = self._rate(self.step) * group["share"]

    def _record(self, terms: dict[str, float], norm: float) -> dict[str, Any]:
        per_step = self.settings.batch_pairs * self.settings.accumulate
        return {
            "step": self.step,
            "loss": terms["loss"],
            "terms": {name: value for name, value in terms.items() if name != "loss"},
            "learning_rate": self._rate(self.step - 1),
            "gradient_norm": norm,
            "pairs": self.step * per_step,
            "seconds": round(self.seconds, 1),
        }


@contextmanager
def _denormals_flushed() -> Iterator[None]:
    """Squared gradients of branches that start at zero are denormal numbers, 20 times slower on a CPU."""
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)


def _mix(seed: int, number: int) -> int:
    """A seed for one step: different for every (seed, number), below 2**62."""
    return int(np.random.SeedSequence([seed, number]).generate_state(1, np.uint64)[0]) >> 2
