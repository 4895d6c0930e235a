"""Pairs by the probability that they are translations, in place of margins."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from mexma_cli.classifier.features import load_features
from mexma_cli.classifier.model import (
    Classifier,
    ClassifierWeights,
    bundled_weights,
    bytes_for,
    probabilities_of,
    probable,
)
from mexma_cli.classifier.pairs import TextFacts, known_of
from mexma_cli.classifier.precision import Errors
from mexma_cli.errors import MexmaError
from mexma_cli.mining.candidates import Candidates
from mexma_cli.mining.lists import Sides
from mexma_cli.settings.stages import BUNDLED, EncoderChoice, JudgingSettings, MineSettings
from mexma_cli.stages.embed.inputs import is_store, load_encoder_of, open_store
from mexma_cli.stages.knn.search import result_bytes
from mexma_cli.stages.mine.texts import KeptTexts
from mexma_cli.store.embeddings import StorePair

if TYPE_CHECKING:
    from mexma_cli.encoder.encoder import SentenceEncoder

log = logging.getLogger(__name__)

_NO_MARGIN = 0.9
LIBRARIES_BYTES = 140_000_000
"""Of libraries that judging loads: Numba, and the encoder's."""


def with_score(
    settings: MineSettings, encoder: str, one_text: bool = False, within: bool = False
) -> MineSettings:
    """The settings with their score: that of the user, or probabilities where they can be had. It is said why
    not, unless the user asks for margins or the encoder is another. Settings for margins are refused with
    probabilities."""
    if settings.finds and one_text:
        raise MexmaError(
            "a threshold is found between two different texts, not within one",
            "name a threshold: --threshold 1.3 keeps paraphrases",
        )
    if settings.plugin is not None and settings.classifier is None:
        raise MexmaError(
            "--plugin changes no pair without a classifier that was trained with it",
            f"`mexma classifier train PAIRS --plugin {settings.plugin} -o own.json` trains one",
        )
    reason = why_margin(settings, encoder, one_text, within)
    if reason is not None:
        if settings.score == "probability":
            raise MexmaError(f"--score probability does not go with this: {reason}")
        if settings.score is None and (settings.classifier is not None or encoder == BUNDLED):
            log.info("scored by margin, without the classifier: %s", reason)
        if settings.score is None and settings.margin == "ratio" and 0 < (settings.least or 0) < _NO_MARGIN:
            log.warning(
                "threshold %g is none for margins, of which translations have more than 1: nearly all pairs "
                "are kept; `mexma tune` finds one",
                settings.least,
            )
        return settings.but(score="margin")
    wrong, hint = None, "--margin ratio scores pairs by margin"
    if settings.max_score is not None:
        wrong = "--max-score is for margins, and these pairs are scored by probability"
    elif settings.least is not None and settings.least >= 1:
        wrong = f"threshold {settings.least} is of margins, and these pairs are scored by probability"
        hint = f"name a probability, such as --threshold 0.5; {hint}"
    if wrong is not None:
        raise MexmaError(wrong, hint)
    return settings.but(score="probability")


def judging_bytes(settings: MineSettings, rows: int) -> int:
    """Bytes that probabilities of pairs of so many rows, both sides together, take beside what the process
    holds before; 0 where there are none."""
    if settings.score != "probability" and not settings.finds:
        return 0
    return LIBRARIES_BYTES + result_bytes(rows, settings.k) + bytes_for(rows)


def why_margin(
    settings: MineSettings, encoder: str, one_text: bool = False, within: bool = False
) -> str | None:
    """Why pairs are scored by margin, as `with_score` has it; None: by probability."""
    reasons = {
        "margins are asked for": settings.score == "margin",
        "it is for two different texts": one_text,
        "it is not for documents that are paired": within,
        f"it takes each sentence once, and so not the pairs of retrieval {settings.retrieval}": (
            settings.retrieval != "max"
        ),
        f"it was trained with {BUNDLED}, not {encoder}": not (settings.score or settings.classifier)
        and encoder != BUNDLED,
        f"it compares ratio margins, and not {settings.margin} ones": settings.margin != "ratio",
    }
    return next((reason for reason, holds in reasons.items() if holds), None)


def encoder_of(paths: Sequence[Path], encoder: EncoderChoice | SentenceEncoder) -> str:
    """The name of the encoder of some inputs: that of the first store, or that for texts."""
    stores = [open_store(path) for path in paths if is_store(path)]
    if stores:
        return stores[0].manifest.encoder
    return (encoder.model or BUNDLED) if isinstance(encoder, EncoderChoice) else encoder.name


def probable_pairs(stores: StorePair, sides: Sides, settings: MineSettings) -> tuple[Candidates, Errors]:
    """The most probable pairs of two stores, best first, each row in one pair at most, from the neighbours of
    both sides; and the errors of their probabilities."""
    classifier, known = _classifier_for(stores, sides, settings)
    return probable(classifier, sides, known, settings)


def pair_probabilities(
    stores: StorePair, sides: Sides, pairs: Candidates, settings: JudgingSettings, taken: bool = True
) -> tuple[np.ndarray, Errors]:
    """The probability that each of some pairs is a translation, float32 [n], see `probabilities_of`, and the
    errors."""
    classifier, known = _classifier_for(stores, sides, settings)
    return probabilities_of(classifier, sides, known, pairs, taken)


def _classifier_for(
    stores: StorePair, sides: Sides, settings: JudgingSettings
) -> tuple[Classifier, tuple[TextFacts, TextFacts]]:
    """The classifier for two stores, and what it has to know of their rows. It looks at words where it was
    trained with the encoder of the stores, for it embeds them; else it is said that it does not."""
    if settings.plugin is not None:
        load_features(settings.plugin)
    weights = (
        bundled_weights() if settings.classifier is None else ClassifierWeights.read(settings.classifier)
    )
    manifest, embed = stores[0].manifest, None
    if weights.fingerprint == manifest.fingerprint:
        if "words" in weights.by:
            embed = load_encoder_of(stores, EncoderChoice(model=manifest.encoder), "the words").embed
    else:
        whose = manifest.encoder
        if whose == weights.encoder:
            same = manifest.dim == weights.dim
            whose += " otherwise embedded" if same else f" with {manifest.dim} dimensions, not {weights.dim}"
        log.warning(
            "the classifier was trained with the vectors of %s, these are of %s: words are not compared",
            weights.encoder,
            whose,
        )
    texts = stores[0].sentences, stores[1].sentences
    judge, known = weights.by["words" if embed else "text"], known_of(sides, texts, embed)
    if judge.own:
        first, second = (
            replace(
                side,
                texts=KeptTexts(store.sentences(), np.arange(store.rows)).take,
                language=store.manifest.language,
            )
            for side, store in zip(known, stores, strict=True)
        )
        known = first, second
    return judge, known
