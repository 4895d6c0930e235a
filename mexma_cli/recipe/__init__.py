"""Recipes: YAML in, validated and frozen settings out. The one source of defaults.

A recipe describes a whole run: which text (`data`), which encoder (`encoder`, `tokenizer`), which
losses (`objective`) and how long (`trainer`). A recipe with `phases` trains one after the other, each
starting from the encoder that the one before left; `trainer` then holds what the phases share.
"""

from __future__ import annotations

from mexma_cli.recipe.corpus import CorpusRecipe, RaySettings, SlurmSettings
from mexma_cli.recipe.decompose import DecomposeRecipe, DecomposeTrainerSettings
from mexma_cli.recipe.load import load, load_any, load_corpus, shipped
from mexma_cli.recipe.plugin import load_plugin
from mexma_cli.recipe.registry import DecomposerSettings, ObjectiveSettings, objective
from mexma_cli.recipe.sections import (
    Corpus,
    Data,
    DevSet,
    Encoder,
    Keep,
    NewEncoder,
    Phase,
    Recipe,
    TrainerSettings,
    TrainTokenizer,
)
from mexma_cli.settings.section import Section

__all__ = [
    "Corpus",
    "CorpusRecipe",
    "Data",
    "DecomposeRecipe",
    "DecomposeTrainerSettings",
    "DecomposerSettings",
    "DevSet",
    "Encoder",
    "Keep",
    "NewEncoder",
    "ObjectiveSettings",
    "Phase",
    "RaySettings",
    "Recipe",
    "Section",
    "SlurmSettings",
    "TrainTokenizer",
    "TrainerSettings",
    "load",
    "load_any",
    "load_corpus",
    "load_plugin",
    "objective",
    "shipped",
]
