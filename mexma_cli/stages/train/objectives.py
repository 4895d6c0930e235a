"""From a recipe's `objective` section to an objective on an encoder, and what it asks of that encoder."""

from __future__ import annotations

import copy

import torch

from mexma_cli.encoder.encoder import SentenceEncoder
from mexma_cli.encoder.model.attention import set_attention_dropout
from mexma_cli.encoder.model.pooling import Dense
from mexma_cli.errors import MexmaError
from mexma_cli.objectives.base import Objective
from mexma_cli.objectives.clft import Clft
from mexma_cli.objectives.contrastive import Contrastive
from mexma_cli.objectives.dap import Dap, check_checkpoint
from mexma_cli.objectives.mexma import Mexma
from mexma_cli.objectives.words import RESERVED, Words
from mexma_cli.recipe import (
    ClftObjective,
    ContrastiveObjective,
    DapObjective,
    MexmaObjective,
    Phase,
    Recipe,
    WordsObjective,
)


def build(recipe: Recipe, phase: Phase, encoder: SentenceEncoder, languages: int) -> Objective:
    """The objective of a phase; what is new in it comes from the phase's seed.

    Args:
        encoder: As the phase finds it.
        languages: Source languages of the run.

    Raises:
        MexmaError: The encoder, or another one that the objective needs, is not what it can train with.
    """
    torch.manual_seed(phase.trainer.seed)  # whatever ran before in this process
    objective = _build(recipe, phase, encoder, languages)
    if recipe.encoder.start is not None:
        set_attention_dropout(objective, 0.0)
        set_attention_dropout(encoder.model, recipe.encoder.attention_dropout)
    return objective


def _build(recipe: Recipe, phase: Phase, encoder: SentenceEncoder, languages: int) -> Objective:
    settings, start = phase.objective, recipe.encoder.start
    if isinstance(settings, MexmaObjective):
        return Mexma(encoder, settings)
    if isinstance(settings, ContrastiveObjective):
        return Contrastive(encoder, settings, start)
    if isinstance(settings, DapObjective):
        return Dap(encoder, settings, start, languages)
    if isinstance(settings, ClftObjective):
        return Clft(encoder, settings, _teacher(phase, settings, encoder))
    return Words(encoder, settings)


def check(recipe: Recipe, number: int, encoder: SentenceEncoder) -> None:
    """Refuse a phase whose objective does not go with the encoder.

    Args:
        number: Of the phase, from 0.
        encoder: That the first phase begins with; the later ones have its shape, tokeniser and pooling.

    Raises:
        MexmaError: Naming the phase, and what does not fit.
    """
    phase = recipe.phases[number]
    settings = phase.objective
    _check_pooling(phase, encoder)
    if isinstance(settings, MexmaObjective) and encoder.dim % settings.head.heads:
        raise MexmaError(
            f"phase {phase.name}: objective.head.heads is {settings.head.heads}, "
            f"which does not divide the encoder's width {encoder.dim}"
        )
    if isinstance(settings, WordsObjective) and (number or recipe.encoder.new is None):
        raise MexmaError(
            f"phase {phase.name}: the objective `words` overwrites all of an encoder's weights",
            "it can only be the first phase, on a `new` encoder",
        )
    room = encoder.dim - RESERVED
    if isinstance(settings, WordsObjective) and settings.width and settings.width < room:
        raise MexmaError(
            f"phase {phase.name}: objective.width is {settings.width}, less than the {room} numbers that an "
            f"encoder of width {encoder.dim} has for the vectors",
            "leave it out, or make it larger",
        )
    masks = isinstance(settings, MexmaObjective | DapObjective) or (
        isinstance(settings, ContrastiveObjective) and settings.tlm is not None
    )
    if masks and encoder.tokenizer.mask_token_id is None:
        raise MexmaError(
            f"phase {phase.name}: the tokeniser of {encoder.name} has no mask token, and `{settings.name}` "
            "masks tokens",
            "`contrastive` (without `tlm`) and `clft` do without",
        )
    if isinstance(settings, DapObjective) and recipe.encoder.start is not None:
        check_checkpoint(encoder, recipe.encoder.start, settings.rtl.layers)
    if isinstance(settings, ClftObjective):
        _teacher(phase, settings, encoder)


def _check_pooling(phase: Phase, encoder: SentenceEncoder) -> None:
    """What is trained is what the folder's vectors are: a part that the objective leaves out is refused."""
    name = phase.objective.name
    alone = "trains the transformer alone, with that pooling and nothing before or after it"
    if encoder.prefix:
        raise MexmaError(
            f"phase {phase.name}: {encoder.name} puts {encoder.prefix!r} before every sentence, "
            "and the prepared pairs are without it",
            f"encoder.pooling: cls (or mean) {alone}",
        )
    if isinstance(phase.objective, ClftObjective):
        return
    if encoder.pooling != "cls":
        raise MexmaError(
            f"phase {phase.name}: {encoder.name} has {encoder.pooling} pooling, and the objective `{name}` "
            "trains the first token's vector",
            f"encoder.pooling: cls {alone}; `clft` trains any pooling",
        )
    dense = [repr(module) for module in encoder.modules if isinstance(module, Dense)]
    if dense:
        raise MexmaError(
            f"phase {phase.name}: {encoder.name} has a {dense[0]} after its pooling, and the objective "
            f"`{name}` trains the vector before that",
            f"encoder.pooling: cls {alone}; `clft` trains such layers too",
        )


def _teacher(phase: Phase, settings: ClftObjective, encoder: SentenceEncoder) -> SentenceEncoder:
    """A frozen copy of the encoder, or the encoder that the recipe names."""
    if settings.teacher is None:
        return copy.deepcopy(encoder)
    teacher = SentenceEncoder.load(settings.teacher, "cpu")
    teacher.backend = encoder.backend
    what = f"phase {phase.name}: the teacher {settings.teacher}"
    if teacher.dim != encoder.dim:
        raise MexmaError(
            f"{what} has vectors of {teacher.dim} numbers, and {encoder.name} of {encoder.dim}",
            "the anchors' distance needs equal widths",
        )
    if teacher.tokenizer.get_vocab() != encoder.tokenizer.get_vocab():
        raise MexmaError(
            f"{what} has another tokeniser than {encoder.name}", "the prepared pairs are token ids of one"
        )
    if teacher.prefix:
        raise MexmaError(f"{what} puts {teacher.prefix!r} before every sentence, the prepared pairs do not")
    return teacher
