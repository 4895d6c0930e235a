"""Training pairs and dev errors of an encoder in each language: `languages.json` in its folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pydantic import BaseModel, ConfigDict, NonNegativeInt

from mexma_cli.files import read_manifest, write_json_atomic

FILE = "languages.json"
FORMAT_VERSION = 1


class Trained(BaseModel):
    """Training pairs and dev error of one language."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    pairs: NonNegativeInt
    """Sentence pairs with a side in it, all that the encoder was trained on; 0: only its error is known."""
    dev_error: float | None = None
    """xsim error on the dev set of its training, in percent; None: the language has none."""


class _Languages(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    format_version: int = FORMAT_VERSION
    languages: dict[str, Trained]
    """By FLORES-200 code."""


def read(folder: Path) -> dict[str, Trained]:
    """By FLORES-200 code; nothing if the folder does not say.

    Raises:
        MexmaError: The file is damaged, or of a later format.
    """
    if not (folder / FILE).is_file():
        return {}
    return read_manifest(folder / FILE, _Languages, FORMAT_VERSION).languages


def write(folder: Path, languages: Mapping[str, Trained]) -> None:
    """Write the file, by FLORES-200 code."""
    content = _Languages(languages=dict(sorted(languages.items())))
    write_json_atomic(folder / FILE, content.model_dump(mode="json"))
