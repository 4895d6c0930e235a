"""Thresholds that were found once, kept in a file for the next time the same languages are mined."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from mexma_cli.classifier.precision import EstimatedCut
from mexma_cli.errors import MexmaError
from mexma_cli.files import read_json, write_json_atomic
from mexma_cli.languages import UNSTATED, name
from mexma_cli.settings.section import first_mistake
from mexma_cli.settings.stages import MineSettings
from mexma_cli.store.folder import Frozen
from mexma_cli.store.layout import EmbeddingManifest

FILE = "thresholds.json"


class StoredThreshold(Frozen):
    """A threshold for stores of an encoder in two languages and for scores of a kind (`margin` is ratio for
    probabilities), and its precision, as estimated, with its 95 % interval."""

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

    @property
    def key(self) -> tuple[object, ...]:
        """Languages and settings that the threshold is for, whichever of the languages is the source."""
        return frozenset((self.source, self.target)), self.fingerprint, self.score, self.k, self.margin


def stored_threshold(
    cut: EstimatedCut, encoded: EmbeddingManifest, languages: tuple[str, str], settings: MineSettings
) -> StoredThreshold:
    """A threshold that was found for two languages and the encoder of one of their stores."""
    return StoredThreshold(
        encoder=encoded.encoder,
        fingerprint=encoded.fingerprint,
        source=languages[0],
        target=languages[1],
        score=settings.score or "margin",
        k=settings.k,
        margin=settings.margin,
        threshold=cut.threshold,
        precision=cut.precision,
        precision_interval=cut.precision_interval,
    )


def write_thresholds(path: Path, found: list[StoredThreshold]) -> None:
    """Write the file, whole."""
    write_json_atomic(path, [one.model_dump(mode="json") for one in found])


def save_threshold(path: Path, found: StoredThreshold) -> None:
    """Put a threshold into a file of thresholds, in place of the one for the same languages, encoder and
    settings."""
    others = read_thresholds(path) if path.exists() else []
    write_thresholds(path, [*(one for one in others if one.key != found.key), found])


def read_thresholds(path: Path) -> list[StoredThreshold]:
    """Read such a file."""
    if not path.exists():
        raise MexmaError(
            f"{path}: no such file",
            "`mexma tune --save-threshold` and `mexma run` make it; or say `mexma mine --precision 0.95`",
        )
    content = read_json(path)
    try:
        if isinstance(content, list):
            return [StoredThreshold.model_validate(one) for one in content]
        wrong = "it has no list of them"
    except ValidationError as error:
        wrong = first_mistake(error)
    raise MexmaError(
        f"{path} is no file of thresholds: {wrong}",
        "`mexma run` and `mexma tune --save-threshold` write them",
    )


def thresholds_of(path: Path, languages: tuple[str, str]) -> list[StoredThreshold]:
    """The thresholds of a file for two languages, in either direction; refused where there are none."""
    found = read_thresholds(path)
    if UNSTATED in languages:
        raise MexmaError(
            f"{path} has thresholds for languages, and those of these texts are not stated",
            "give --source-lang and --target-lang",
        )
    of_pair = [one for one in found if {one.source, one.target} == {*languages}]
    if not of_pair:
        raise MexmaError(
            f"{path} has no threshold for {' and '.join(map(name, languages))}",
            "`mexma tune SOURCE TARGET --save-threshold FILE` finds one",
        )
    return of_pair


def known_threshold(
    path: Path,
    of_pair: list[StoredThreshold],
    encoded: EmbeddingManifest,
    languages: tuple[str, str],
    settings: MineSettings,
) -> float:
    """Of the `thresholds_of` a file for two languages, the one for the encoder of one of their stores and
    these settings. Where there is none for them, the message says what is nearest."""
    wanted = frozenset(languages), encoded.fingerprint, settings.score, settings.k, settings.margin
    for one in of_pair:
        if one.key == wanted:
            return one.threshold
    there = "; ".join(f"{_options(one.score, one.k, one.margin)} with {one.encoder}" for one in of_pair)
    how = _options(settings.score, settings.k, settings.margin)
    raise MexmaError(
        f"{path} has no threshold for {' and '.join(map(name, languages))} with this encoder and {how}",
        f"there is one for {there}",
    )


def _options(score: str | None, k: int, margin: str) -> str:
    return f"-k {k} " + (f"--margin {margin}" if score == "margin" else "--score probability")
