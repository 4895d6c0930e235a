"""Vectors by a transformer, over sentences without padding."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch

from mexma_cli.encoder.model.attention import Backend, run_packed
from mexma_cli.encoder.model.engine import Engine
from mexma_cli.encoder.model.families import FIRST_ONLY, Pooling
from mexma_cli.encoder.model.packing import by_token_budget, pack
from mexma_cli.encoder.model.pooling import pool
from mexma_cli.encoder.model.transformer import Sentences, Weights
from mexma_cli.numerics.devices import precision_of
from mexma_cli.numerics.threads import one_thread_each, threads

TOKENS_PER_BATCH = 2048
"""On a processor: small batches stay in its cache."""
GPU_TOKENS_PER_BATCH = 65536


@dataclass
class TransformerEncoder:
    """By the engine where it fits the transformer and the precision, else by transformers' model.

    Attributes:
        precision: `float32`, `bfloat16` or `float16`.
        modules: What comes after the pooling, on the transformer's device.
        backend: Attention of transformers' model.
        most: Sentences in a batch, at most; None: a budget of tokens decides.
    """

    transformer: Weights
    precision: str
    pooling: Pooling
    modules: Sequence[torch.nn.Module]
    backend: Backend = "bucketed"
    most: int | None = None

    def __post_init__(self) -> None:
        self.on_cpu = self.transformer.device.type == "cpu"
        self._engine: Engine | None = None
        if self.precision != "float16" and self.transformer.fits_engine:
            self._engine = self.transformer.made(Engine, precision_of(self.precision))
        else:
            self.transformer.model.eval()

    def embed(self, some: Sentences) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Rows and vectors (`EmbedBatch`) in batches; one without tokens has that of an empty mean."""
        lengths = np.array([len(ids) for ids in some.tokens], dtype=np.int64)
        there, empty = np.flatnonzero(lengths), np.flatnonzero(lengths == 0)
        if len(empty):
            nothing = torch.zeros(len(empty), self.transformer.config.hidden_size)
            yield empty, self._finished(nothing.to(self.transformer.device)).cpu().numpy()
        budget = TOKENS_PER_BATCH if self.on_cpu else GPU_TOKENS_PER_BATCH
        batches = [there[rows] for rows in by_token_budget(lengths[there], budget)]
        most = self.most or max(1, len(lengths))
        batches = [rows[at : at + most] for rows in batches for at in range(0, len(rows), most)]
        parts = ([some.tokens[row] for row in rows] for rows in batches)
        # on the device once for all batches
        extra = None if some.extra is None else torch.from_numpy(some.extra).to(self.transformer.device)
        with one_thread_each(threads() if self.on_cpu else 1) as in_order:
            vectors = in_order(partial(self.batch, extra=extra), parts)
            for rows, found in zip(batches, vectors if self.on_cpu else _one_later(vectors), strict=True):
                yield rows, found.cpu().numpy()

    @torch.inference_mode()
    def batch(self, tokens: Sequence[np.ndarray], extra: torch.Tensor | None = None) -> torch.Tensor:
        """Vectors of sentences, none of them empty, all at once: float32 [N, dim], on the device."""
        packed = pack(tokens, self.transformer.first_position, extra).to(self.transformer.device)
        if self._engine is None:
            low = self.on_cpu and self.precision == "bfloat16"  # the weights are float32 there
            with torch.autocast("cpu", torch.bfloat16, enabled=low):
                states = run_packed(self.transformer.model, packed, self.backend)
            return self._finished(pool(states.float(), packed, self.pooling))
        first_only = self.pooling in FIRST_ONLY
        states = self._engine.hidden(packed, first_only)
        return self._finished(states if first_only else pool(states, packed, self.pooling))

    @torch.inference_mode()
    def _finished(self, pooled: torch.Tensor) -> torch.Tensor:
        for module in self.modules:
            pooled = module(pooled)
        return pooled


def _one_later(vectors: Iterator[torch.Tensor]) -> Iterator[torch.Tensor]:
    """Yield each result only after the work for the next is with the device: whoever takes it waits for the
    device."""
    before = next(vectors, None)
    for following in vectors:
        assert before is not None
        yield before
        before = following
    if before is not None:
        yield before
