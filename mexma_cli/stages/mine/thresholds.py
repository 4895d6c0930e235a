"""Thresholds that were found once, kept in a file for the next time the same languages are mined."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from mexma_cli import languages
from mexma_cli.errors import MexmaError
from mexma_cli.files import read_json, write_json_atomic
from mexma_cli.settings.stages import MineSettings
from mexma_cli.store.embeddings import StorePair
from mexma_cli.store.folder import Frozen

FILE = "thresholds.json"


class KnownThreshold(Frozen):
    """A threshold, what it is for, and what it gives.

    Attributes:
        encoder, fingerprint: Of the stores.
        source, target: FLORES-200 codes.
        score, k, margin: Of the scores; margin is ratio for probabilities.
        precision: As estimated, with its 95 % interval.
        recall: Of known translations that were planted; None where there are none like the text's own.
        planted: How many there are.
    """

    encoder: str
    fingerprint: str
    source: str
    target: str
    score: Literal["margin", "probability"]
    k: int
    margin: str
    threshold: float
    precision: float
    precision_interval: tuple[float, float]
    recall: float | None
    planted: int


def write_thresholds(path: Path, found: list[KnownThreshold]) -> None:
    """Write the file, whole.

    Raises:
        MexmaError: The disk is full.
    """
    write_json_atomic(path, [one.model_dump(mode="json") for one in found])


def read_thresholds(path: Path) -> list[KnownThreshold]:
    """Read such a file.

    Raises:
        MexmaError: It is missing or damaged.
    """
    content = read_json(path)
    try:
        return [KnownThreshold.model_validate(one) for one in content]
    except (ValidationError, TypeError) as error:
        raise MexmaError(f"{path} is no file of thresholds: {error}", "`mexma run` writes them") from None


def known_threshold(path: Path, stores: StorePair, settings: MineSettings) -> float:
    """The threshold for these stores, in either direction of their languages.

    Raises:
        MexmaError: The file is missing or damaged, or has none for this encoder, these languages and these
            settings; the message says what is nearest.
    """
    pair = {store.manifest.language for store in stores}
    every = read_thresholds(path)
    of_pair = [one for one in every if {one.source, one.target} == pair]
    for one in of_pair:
        wanted = settings.score, settings.k, settings.margin, stores[0].manifest.fingerprint
        if (one.score, one.k, one.margin, one.fingerprint) == wanted:
            return one.threshold
    names = " and ".join(languages.name(store.manifest.language) for store in stores)
    there = "; ".join(f"{_options(one.score, one.k, one.margin)} with {one.encoder}" for one in of_pair)
    how = _options(settings.score, settings.k, settings.margin)
    raise MexmaError(
        f"{path} has no threshold for {names} with this encoder and {how}",
        f"there is one for {there}" if there else "`mexma tune SOURCE TARGET` finds one",
    )


def _options(score: str | None, k: int, margin: str) -> str:
    return f"-k {k} " + (f"--margin {margin}" if score == "margin" else "--score probability")
