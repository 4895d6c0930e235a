"""A phase's objective: it is built here, and an encoder that it cannot train is refused."""

from __future__ import annotations

import torch

from mexma_cli.encoder.encoder import SentenceEncoder
from mexma_cli.encoder.model.attention import set_attention_dropout
from mexma_cli.errors import MexmaError
from mexma_cli.objectives.base import Objective, Start
from mexma_cli.objectives.checks import ALONE
from mexma_cli.settings.training import Phase, Recipe


def build(recipe: Recipe, phase: Phase, encoder: SentenceEncoder, languages: int) -> Objective:
    """The objective of a phase; what is new in it comes from the phase's seed.

    Args:
        encoder: As the phase finds it.
        languages: Source languages of the run.

    Raises:
        MexmaError: The encoder, or another one that the objective needs, is not what it can train with.
    """
    torch.manual_seed(phase.trainer.seed)  # whatever ran before in this process
    start = _start(recipe, phase, encoder, languages)
    objective: Objective = phase.objective.losses().build(start, phase.objective)
    if recipe.encoder.start is not None:
        set_attention_dropout(objective, recipe.encoder.attention_dropout)
    return objective


def check(recipe: Recipe, phase: Phase, encoder: SentenceEncoder) -> None:
    """Refuse a phase whose objective does not go with the encoder.

    Args:
        encoder: That the first phase begins with; the later ones have its shape, tokeniser and pooling.

    Raises:
        MexmaError: Naming the phase, and what does not fit.
    """
    try:
        if encoder.prefix:
            raise MexmaError(
                f"{encoder.name} puts {encoder.prefix!r} before every sentence, "
                "and the prepared pairs are without it",
                f"encoder.pooling: cls (or mean) {ALONE}",
            )
        phase.objective.losses().check(_start(recipe, phase, encoder), phase.objective)
    except MexmaError as error:
        raise MexmaError(f"phase {phase.name}: {error.message}", error.hint) from None


def _start(recipe: Recipe, phase: Phase, encoder: SentenceEncoder, languages: int = 1) -> Start:
    untrained = recipe.encoder.new is not None and phase is recipe.phases[0]
    return Start(encoder, recipe.encoder.start, languages, untrained)
