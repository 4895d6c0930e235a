"""Recipes of `kind: decompose`: two linear maps trained on stored vectors, DREAM, MEAT and ORACLE."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, PlainValidator, SerializeAsAny, field_validator, model_validator

from mexma_cli import languages
from mexma_cli.settings.registry import DecomposerSettings
from mexma_cli.settings.section import Folder, RunName, Section
from mexma_cli.settings.stages import Device


class StorePaths(Section):
    """Two stores of one encoder; row n of one is the translation of row n of the other.

    `{lang}` in a path stands for each of `languages`.
    """

    source: str
    """Store (`.emb`) of the sentences, from `data.root`."""
    target: str
    """Store of their translations."""
    languages: tuple[str, ...] = ()
    """Codes for `{lang}`, where a path has it."""

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
    """The vectors."""

    root: str = "."
    """Folder that relative paths start from."""
    pairs: tuple[StorePaths, ...] = Field(min_length=1)
    """Pairs of stores."""
    rows: int = Field(0, ge=0)
    """Rows of each pair of stores, from the first (0: all)."""
    validation: float = Field(0.1, gt=0, lt=1)
    """Share of each pair of stores that is held out for validation."""

    def paths(self) -> list[tuple[Path, Path]]:
        """Source and target store of every pair."""
        root = Path(self.root).expanduser()
        return [(root / source, root / target) for pair in self.pairs for source, target in pair.paths()]


class DecomposeTrainerSettings(Section):
    """Training with Adam, until the validation loss has not improved for `patience` epochs."""

    batch: int = Field(512, ge=4)
    """Pairs in a step; an incomplete last batch is not used."""
    epochs: int = Field(10_000, ge=1)
    """Epochs, at most."""
    patience: int = Field(10, ge=1)
    """Epochs without a better validation loss until training ends."""
    learning_rate: float = Field(1e-5, gt=0)
    """Learning rate of Adam."""
    device: Device = "auto"
    """auto (a GPU if there is one), cpu, cuda or cuda:N."""
    seed: int = Field(42, ge=0)
    """Seed of the first weights, the order of pairs and the held-out rows."""
    log_every: int = Field(1, ge=1)
    """Epochs between records in log.jsonl."""
    checkpoint_every: int = Field(1, ge=1)
    """Epochs between checkpoints, besides that of the best epoch."""
    keep: int = Field(2, ge=1)
    """Last checkpoints to keep, besides the best one."""


class DecomposeRecipe(Section):
    """A recipe of a decomposer: two linear maps, trained on stored vectors."""

    kind: Literal["decompose"]
    """Marks a recipe of a decomposer."""
    name: RunName
    """Name of the run: letters, digits, `.`, `_` and `-`."""
    run: Folder
    """Folder of checkpoints, log and maps."""
    encoder: str | None = None
    """Name or folder of the encoder of the stores, to save it with the meaning map behind it."""
    data: VectorData
    """The vectors."""
    objective: Annotated[SerializeAsAny[DecomposerSettings], PlainValidator(DecomposerSettings.chosen)]
    """The losses, chosen by `name`."""
    trainer: DecomposeTrainerSettings = Field(
        default_factory=lambda: DecomposeTrainerSettings.model_validate({})
    )
    """How long it trains, and how fast."""
