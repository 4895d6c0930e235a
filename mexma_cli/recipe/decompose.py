"""Recipes of `kind: decompose`: two linear maps trained on stored vectors, DREAM, MEAT and ORACLE."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, PlainValidator, SerializeAsAny, field_validator, model_validator

from mexma_cli import languages
from mexma_cli.recipe.registry import DecomposerSettings
from mexma_cli.recipe.section import Folder, Section


class StorePaths(Section):
    """Two stores of one encoder, row n of one the translation of row n of the other.

    What languages they are in is said by the stores. `{lang}` in a path stands for each of `languages`.
    """

    source: str
    """A store (`.emb`), seen from `data.root`."""
    target: str
    """The store of its translations."""
    languages: tuple[str, ...] = ()
    """What stands for `{lang}`, where a path has it."""

    @field_validator("languages")
    @classmethod
    def _known(cls, codes: tuple[str, ...]) -> tuple[str, ...]:
        for code in codes:
            languages.resolve(code)
        return codes

    @model_validator(mode="after")
    def _languages_go_with_a_place(self) -> StorePaths:
        places = "{lang}" in self.source + self.target
        if places != bool(self.languages):
            missing = "`languages`" if places else "{lang} in one of the paths"
            raise ValueError(f"{self.source} and {self.target}: {missing} is missing")
        return self

    def paths(self) -> list[tuple[str, str]]:
        """Source and target of each language."""
        return [
            (self.source.replace("{lang}", code), self.target.replace("{lang}", code))
            for code in self.languages or ("",)
        ]


class VectorData(Section):
    """Which pairs of stores, and how much of them."""

    root: str = "."
    """Where relative paths start."""
    pairs: tuple[StorePaths, ...] = Field(min_length=1)
    """The stores."""
    rows: int = Field(0, ge=0)
    """Of each pair of stores the first so many (0: all)."""
    validation: float = Field(0.1, gt=0, lt=1)
    """Share of each pair of stores that is not trained on, drawn by `trainer.seed`."""

    def paths(self) -> list[tuple[Path, Path]]:
        """Source and target store of every pair."""
        root = Path(self.root).expanduser()
        return [(root / source, root / target) for pair in self.pairs for source, target in pair.paths()]


class DecomposeTrainerSettings(Section):
    """How long and how fast: Adam, until the validation loss has not become better for `patience` epochs."""

    batch: int = Field(512, ge=4)
    """Pairs in a step; what is left at an epoch's end is not used."""
    epochs: int = Field(10_000, ge=1)
    """At most so many."""
    patience: int = Field(10, ge=1)
    """Epochs without a better validation loss, after which it ends."""
    learning_rate: float = Field(1e-5, gt=0)
    """Adam's."""
    device: str = "auto"
    """auto (a GPU if there is one), cpu, cuda or cuda:N."""
    seed: int = Field(42, ge=0)
    """Of the maps' first weights, the order of pairs and what is held out."""
    log_every: int = Field(1, ge=1)
    """Epochs between two records in log.jsonl."""
    checkpoint_every: int = Field(1, ge=1)
    """Epochs between two checkpoints; the best state so far is kept at once."""
    keep: int = Field(2, ge=1)
    """So many checkpoints, the last ones, besides the best one."""


class DecomposeRecipe(Section):
    """A whole run, resolved."""

    kind: Literal["decompose"]
    """Tells such a recipe from one that trains an encoder, which has no `kind`."""
    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    """The run's, for people: letters, digits, `.`, `_` and `-`."""
    run: Folder
    """Folder for checkpoints, log and the trained maps."""
    encoder: str | None = None
    """What made the stores, by name or folder: it is saved with the meaning map behind it."""
    data: VectorData
    """Which vectors."""
    objective: Annotated[SerializeAsAny[DecomposerSettings], PlainValidator(DecomposerSettings.chosen)]
    """Which losses."""
    trainer: DecomposeTrainerSettings = Field(
        default_factory=lambda: DecomposeTrainerSettings.model_validate({})
    )
    """How long and how fast."""
