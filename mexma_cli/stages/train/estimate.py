"""The costs of a training, counted from its recipe before anything heavy is loaded.

Operations are exact for the shapes (`Work`), but for the mean length of a sentence, which is known only of
prepared pairs. Memory and hours are estimates.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path

from mexma_cli.errors import MexmaError
from mexma_cli.settings.registry import Shape, Work
from mexma_cli.settings.training import Phase, Recipe, TrainerSettings
from mexma_cli.stages.costs import PEAKS
from mexma_cli.stages.prepare.corpora import store_path
from mexma_cli.store.pairs import TokenisedPairs

EFFICIENCY = 0.35
"""Share of the peak that a training reaches, as assumed: packed batches of transformers get 30 to 50%."""
LENGTH = 32.0
"""Tokens of a sentence, <s> and </s> included, as assumed before text is prepared."""
_SHAPES = {
    "FacebookAI/xlm-roberta-base": Shape(12, 768, 3072, 250_002),
    "FacebookAI/xlm-roberta-large": Shape(24, 1024, 4096, 250_002),
    "google-bert/bert-base-multilingual-cased": Shape(12, 768, 3072, 119_547, 512, 2),
    "intfloat/e5-base-v2": Shape(12, 768, 3072, 30_522, 512, 2),
}
"""Shapes of encoders that shipped recipes begin with, so that they need not be fetched for an estimate."""
_LOGIT_ROWS = 512  # as `objectives.losses.CHUNK_ROWS`, whose module needs torch


@dataclass(frozen=True)
class PhaseEstimate:
    """The costs of a phase.

    Attributes:
        trained, frozen: Parameters.
        pairs: In all steps.
        tokens: That go through the encoder and the heads, in all.
        forward: Operations of a pair's forward passes.
        operations: Of all steps, forward and backward.
        memory: Bytes on each GPU: weights, gradients, Adam, and the activations of a micro-batch.
        gpu_hours: By GPU.
    """

    phase: str
    steps: int
    pairs_per_step: int
    trained: int
    frozen: int
    pairs: int
    tokens: float
    forward: float
    operations: float
    memory: int
    gpu_hours: dict[str, float]


@dataclass(frozen=True)
class TrainingEstimate:
    """The costs of a training.

    Attributes:
        length: Tokens of a sentence.
        measured: `length` is that of the prepared pairs, and not assumed.
        prepared: Pairs that are prepared; 0: not all are.
        uncounted: Phases whose objectives say nothing of their work.
    """

    processes: int
    length: float
    measured: bool
    prepared: int
    phases: list[PhaseEstimate]
    uncounted: list[str]


def estimate_training(recipe: Recipe, processes: int) -> TrainingEstimate:
    """The costs of a recipe in so many processes, with a GPU each. An encoder that is not on this machine, or
    of another kind than BERT, is refused."""
    shape = shape_of(recipe)
    prepared, length = _prepared(recipe)
    measured, length = length is not None, length or min(LENGTH, recipe.data.max_tokens)
    phases, uncounted = [], []
    for phase in recipe.phases:
        work = phase.objective.work(shape)
        if work is None:
            uncounted.append(phase.name)
        else:
            phases.append(_of_phase(phase, shape, work, length, processes))
    return TrainingEstimate(processes, length, measured, prepared, phases, uncounted)


def _of_phase(phase: Phase, shape: Shape, work: Work, length: float, processes: int) -> PhaseEstimate:
    trainer = phase.trainer
    each = trainer.batch_pairs * trainer.accumulate * processes
    pairs = trainer.steps * each
    operations = pairs * work.training(length)
    return PhaseEstimate(
        phase=phase.name,
        steps=trainer.steps,
        pairs_per_step=each,
        trained=shape.parameters + work.heads,
        frozen=work.frozen,
        pairs=pairs,
        tokens=pairs * sum(one.tokens(length) for one in work.passes),
        forward=work.forward(length),
        operations=operations,
        memory=_memory(trainer, shape, work, length, processes),
        gpu_hours={name: operations / (peak * EFFICIENCY) / 3600 for name, peak in PEAKS.items()},
    )


def _memory(trainer: TrainerSettings, shape: Shape, work: Work, length: float, processes: int) -> int:
    """Bytes on a GPU. A weight has 16 (itself, gradient and Adam's means in float32) and 2 of its copy in 16
    bit; a token in a layer of width w and inner width f has 18 w + 4 f (Korthikanti et al. 2022, section 4.1,
    without the matrix of attention, which is never whole), or 2 w with activation_checkpointing."""
    trained = shape.parameters + work.heads
    held = (16 + 4 * bool(trainer.average)) * trained / (processes if trainer.sharding == "full" else 1)
    copies = 2 * trained if trainer.precision != "fp32" else 0
    activations = 0.0
    for one in work.passes:
        if one.trained:
            a_layer = 18 * one.shape.width + 4 * one.shape.ffn
            layers = (
                2 * one.shape.width * one.shape.layers + a_layer
                if trainer.activation_checkpointing
                else a_layer * one.shape.layers
            )
            activations += trainer.batch_pairs * one.tokens(length) * layers
    activations *= 2 if trainer.precision == "fp32" else 1
    logits = 6 * _LOGIT_ROWS * shape.vocabulary if work.guessed else 0
    return round(held + copies + 4 * work.frozen + activations + logits)


def shape_of(recipe: Recipe) -> Shape:
    """The shape of the encoder that a recipe trains; nothing is fetched."""
    start, new = recipe.encoder.start, recipe.encoder.new
    if start is None:
        assert new is not None and recipe.encoder.tokenizer is not None
        words, positions = recipe.encoder.tokenizer.vocabulary, recipe.data.max_tokens + 2
        return Shape(new.layers, new.width, new.ffn, words, positions)
    if start in _SHAPES:
        return _SHAPES[start]
    from mexma_cli.encoder.loading import hub
    from mexma_cli.encoder.loading.folder import locate
    from mexma_cli.encoder.loading.settings import read_settings

    of_hub = hub.is_id(start) and not Path(start).exists()
    where = hub.snapshot(start) if of_hub else locate(start)
    if where is None:
        raise MexmaError(
            f"the encoder {start} is not on this machine, so its shape is not known",
            f"`mexma info {start}` fetches it",
        )
    config = read_settings(where).config
    keys = ("num_hidden_layers", "hidden_size", "intermediate_size", "vocab_size")
    if not all(isinstance(config.get(key), int) for key in keys):
        raise MexmaError(f"{start}: no estimate for a model of type {config.get('model_type')!r}")
    layers, width, ffn, vocabulary = (int(config[key]) for key in keys)
    positions, types = config.get("max_position_embeddings", 0), config.get("type_vocab_size", 0)
    return Shape(layers, width, ffn, vocabulary, positions, types)


def _prepared(recipe: Recipe) -> tuple[int, float | None]:
    """Prepared pairs, and the mean tokens of their sentences; 0 and None where a corpus is not prepared."""
    data, pairs, tokens = recipe.data, 0, 0
    for corpus in data.corpora:
        for language in data.taken(corpus):
            try:
                manifest = TokenisedPairs.open(store_path(data, corpus.name, language)).manifest
            except MexmaError:
                return 0, None
            pairs += manifest.kept
            tokens += sum(manifest.tokens.values())
    return pairs, tokens / (2 * pairs) + 2 if pairs else None


def as_numbers(found: TrainingEstimate) -> dict[str, object]:
    """An estimate for programs."""
    own = {one.name: getattr(found, one.name) for one in fields(found)}
    return own | {"efficiency": EFFICIENCY, "phases": [vars(phase) for phase in found.phases]}
