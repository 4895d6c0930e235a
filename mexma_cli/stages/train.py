"""Recipe and prepared pairs to a trained encoder: each phase in its own folder, resumable.

run/recipe.yaml  run/log.jsonl  run/PHASE/checkpoints/  run/PHASE/encoder/  run/encoder/ (the last phase's)
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from mexma_cli.encoder.attention import choose_backend
from mexma_cli.encoder.encoder import SentenceEncoder, first_position, pick_device
from mexma_cli.errors import MexmaError
from mexma_cli.objectives.base import Objective
from mexma_cli.objectives.contrastive import Contrastive
from mexma_cli.objectives.mexma import Mexma
from mexma_cli.objectives.words import Words
from mexma_cli.recipe import ContrastiveObjective, MexmaObjective, Phase, Recipe, WordsObjective, load
from mexma_cli.stages.prepare import store_path
from mexma_cli.stages.tokenizer import load_tokenizer, tokenizer_path
from mexma_cli.store.bitext import BitextStore
from mexma_cli.store.manifest import only_writer, whole_file
from mexma_cli.training.log import TrainingLog
from mexma_cli.training.masking import Vocabulary
from mexma_cli.training.sampler import Sampler
from mexma_cli.training.trainer import DevScore, Trainer

HARMLESS = frozenset({"log_every", "checkpoint_every", "keep", "dev_every", "device"})
"""Trainer keys that may differ on --resume: the run stays the same."""


def train(
    recipe: Recipe,
    resume: bool = False,
    dev_score: DevScore | None = None,
    on_phase: Callable[[Phase, int, SentenceEncoder], object] = lambda phase, step, encoder: None,
    on_step: Callable[[dict[str, Any]], object] = lambda record: None,
    stopped: Callable[[], bool] = lambda: False,
) -> Path | None:
    """Run all phases of a recipe; the pairs must have been prepared.

    Args:
        recipe: What to run.
        resume: Go on in a run folder that has been started.
        dev_score: Scores an encoder during training.
        on_phase: Called when a phase begins, with the step it begins at.
        on_step: Called with every step's record.
        stopped: Asked after every step; on True the run is left with a checkpoint.

    Returns:
        The folder of the finished encoder, or None if the run was stopped.

    Raises:
        MexmaError: The folder holds a run already (without `resume`) or another recipe's (with it).
    """
    stores = open_stores(recipe)
    encoder = _start(recipe)
    _check(recipe, encoder)
    run = Path(recipe.run)
    _claim(run, recipe, resume)
    with only_writer(run):
        for phase in recipe.phases:
            if not _finished(run / phase.name):
                trainer = _trainer(recipe, phase, encoder, stores, run / phase.name, dev_score)
                step = trainer.resume()
                on_phase(phase, step, encoder)
                log = TrainingLog(run / "log.jsonl", phase.name, step)
                try:
                    if not trainer.run(log, on_step, stopped):
                        return None
                finally:
                    log.close()
                with trainer.exported() as exported:
                    exported.save(run / phase.name / "encoder")
            encoder = SentenceEncoder.load(str(run / phase.name / "encoder"), "cpu")
        encoder.save(run / "encoder")
    return run / "encoder"


def _check(recipe: Recipe, encoder: SentenceEncoder) -> None:
    """Refuse what cannot run, here or at all, before the run's folder is claimed."""
    for number, phase in enumerate(recipe.phases):
        choose_backend(recipe.encoder.attention, pick_device(phase.trainer.device))
        if isinstance(phase.objective, MexmaObjective):
            heads = phase.objective.head.heads
            if encoder.dim % heads:
                raise MexmaError(
                    f"phase {phase.name}: objective.head.heads is {heads}, "
                    f"which does not divide the encoder's width {encoder.dim}"
                )
        elif isinstance(phase.objective, WordsObjective) and (number or recipe.encoder.new is None):
            raise MexmaError(
                f"phase {phase.name}: the objective `words` overwrites all of an encoder's weights",
                "it can only be the first phase, on a `new` encoder",
            )


def _finished(phase: Path) -> bool:
    return (phase / "encoder" / "config.json").is_file()


def _claim(run: Path, recipe: Recipe, resume: bool) -> None:
    """Keep the resolved recipe in the run's folder, or make sure that the one there is the same."""
    kept = run / "recipe.yaml"
    if kept.is_file():
        if not resume:
            raise MexmaError(
                f"{run} holds a training run already",
                "--resume goes on with it; --set run=FOLDER starts another beside it",
            )
        differing = _differences(load(kept).model_dump(), recipe.model_dump())
        if differing:
            raise MexmaError(
                f"{run} was started with another recipe: {', '.join(differing)}",
                f"resume with the same settings (they are in {kept}), or start anew with --set run=FOLDER",
            )
    run.mkdir(parents=True, exist_ok=True)
    with whole_file(kept) as file:
        file.write(recipe.to_yaml().encode("utf-8"))


def _differences(old: Any, new: Any, key: str = "") -> list[str]:
    """The keys whose values differ, but for those that do not change the run."""
    if isinstance(old, dict) and isinstance(new, dict):
        inner = [
            _differences(old.get(name), new.get(name), f"{key}.{name}" if key else name)
            for name in old | new
            if not (name in HARMLESS and key.endswith("trainer"))
        ]
        return [found for part in inner for found in part]
    if isinstance(old, list | tuple) and isinstance(new, list | tuple) and len(old) == len(new):
        pairs = enumerate(zip(old, new, strict=True))
        return [found for i, (a, b) in pairs for found in _differences(a, b, f"{key}.{i}")]
    return [] if old == new else [key]


def _start(recipe: Recipe) -> SentenceEncoder:
    """The encoder that the first phase trains."""
    settings = recipe.encoder
    if settings.new is None:
        assert settings.start is not None
        encoder = SentenceEncoder.load(settings.start, "cpu")
        encoder.max_tokens = min(encoder.max_tokens, recipe.data.max_tokens)
        return encoder
    tokenizer = load_tokenizer(tokenizer_path(recipe))
    return SentenceEncoder.new(settings.new, tokenizer, recipe.data.max_tokens, recipe.phases[0].trainer.seed)


def open_stores(recipe: Recipe) -> list[BitextStore]:
    """All prepared corpora of a recipe that have pairs.

    Raises:
        MexmaError: One was not prepared.
    """
    stores = []
    for corpus in recipe.data.corpora:
        for language in corpus.languages:
            stores.append(BitextStore.open(store_path(recipe, corpus.name, language)))
    return [store for store in stores if len(store)]


def _trainer(
    recipe: Recipe,
    phase: Phase,
    encoder: SentenceEncoder,
    stores: list[BitextStore],
    folder: Path,
    dev_score: DevScore | None,
) -> Trainer:
    device = pick_device(phase.trainer.device)
    encoder.backend = choose_backend(recipe.encoder.attention, device)
    torch.manual_seed(phase.trainer.seed)  # a head's first weights, whatever ran before in this process
    objective: Objective
    if isinstance(phase.objective, MexmaObjective):
        objective = Mexma(encoder, phase.objective)
    elif isinstance(phase.objective, ContrastiveObjective):
        objective = Contrastive(encoder, phase.objective)
    else:
        objective = Words(encoder, phase.objective)
    repeats = {corpus.name: corpus.repeat for corpus in recipe.data.corpora}
    sampler = Sampler(
        [len(store) for store in stores],
        [repeats[store.manifest.name] for store in stores],
        [store.manifest.source_language for store in stores],
        phase.trainer.temperature,
        phase.trainer.seed,
    )

    def pairs(start: int, count: int) -> list[tuple[np.ndarray, np.ndarray]]:
        return [stores[store].pair(int(row)) for store, row in zip(*sampler.pairs(start, count), strict=True)]

    return Trainer(objective.to(device), pairs, vocabulary_of(encoder), phase.trainer, folder, dev_score)


def vocabulary_of(encoder: SentenceEncoder) -> Vocabulary:
    """The ids that training needs from an encoder's tokeniser.

    Raises:
        MexmaError: The tokeniser has no <mask>.
    """
    tokenizer = encoder.tokenizer
    if tokenizer.mask_token_id is None:
        raise MexmaError(f"the tokeniser of {encoder.name} has no mask token", "MEXMA needs one")
    return Vocabulary(
        bos=tokenizer.cls_token_id,
        eos=tokenizer.sep_token_id,
        mask=tokenizer.mask_token_id,
        special=frozenset(tokenizer.all_special_ids),
        size=encoder.model.config.vocab_size,
        first_position=first_position(encoder.model),
    )
