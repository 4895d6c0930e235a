"""Pairs by the probability that they are translations, in place of margins."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

from mexma_cli.classifier.model import Classifier, bundled, bytes_for, probable
from mexma_cli.classifier.pairs import known_of
from mexma_cli.classifier.words import Embed
from mexma_cli.errors import MexmaError
from mexma_cli.mining.candidates import Candidates
from mexma_cli.mining.lists import Sides
from mexma_cli.settings.stages import BUNDLED, EncoderChoice, MineSettings
from mexma_cli.stages.embed.inputs import is_store, load_encoder, open_store
from mexma_cli.stages.knn.search import resident, result_bytes
from mexma_cli.store.embeddings import StorePair
from mexma_cli.text.amounts import size, size_option

log = logging.getLogger(__name__)


def stated(
    settings: MineSettings, encoder: str, one_text: bool = False, within: bool = False
) -> MineSettings:
    """The settings with their score: that of the user, or probabilities where they can be had.

    It is said why not, unless the user asks for margins or the encoder is another.

    Args:
        encoder: Of the vectors.
        one_text: Pairs within a text are wanted.
        within: Pairs in paired documents are.

    Raises:
        MexmaError: Settings that are for margins go with probabilities.
    """
    reason = why_margin(settings, encoder, one_text, within)
    if reason is not None:
        if settings.score == "probability":
            raise MexmaError(f"--score probability does not go with this: {reason}")
        if settings.score is None and encoder == BUNDLED:
            log.info("scored by margin, without the classifier: %s", reason)
        return settings.but(score="margin")
    wrong, hint = None, "--margin ratio scores pairs by margin"
    if settings.max_score is not None:
        wrong = "--max-score is for margins, and these pairs are scored by probability"
    elif settings.threshold != "auto" and settings.least is not None and settings.least >= 1:
        wrong = f"threshold {settings.least} is of margins, and these pairs are scored by probability"
        hint = f"name a probability, such as --threshold 0.5; {hint}"
    if wrong is not None:
        raise MexmaError(wrong, hint)
    return settings.but(score="probability")


def check_memory_for(settings: MineSettings, rows: int) -> None:
    """Refuse a limit that probabilities of pairs of so many rows, both sides together, would not keep.

    Raises:
        MexmaError: It says how much is enough.
    """
    needed = resident() + result_bytes(rows, settings.k) + bytes_for(rows)
    if settings.memory is not None and needed > settings.memory:
        raise MexmaError(
            f"--memory {size(settings.memory)} is too little for probabilities, which take {size(needed)}",
            f"--memory {size_option(needed)}, or --margin ratio, which takes less",
        )


def why_margin(
    settings: MineSettings, encoder: str, one_text: bool = False, within: bool = False
) -> str | None:
    """Why pairs are scored by margin, as `stated` has it; None: by probability."""
    reasons = {
        "margins are asked for": settings.score == "margin",
        "it is for two different texts": one_text,
        "it is not for documents that are paired": within,
        "it takes each sentence once, so not with --retrieval": settings.retrieval != "max",
        f"it was trained with {BUNDLED}, not {encoder}": settings.score is None and encoder != BUNDLED,
        "it compares ratio margins: leave out --margin": settings.margin != "ratio",
    }
    return next((reason for reason, holds in reasons.items() if holds), None)


def encoder_of(paths: Sequence[Path], choice: EncoderChoice) -> str:
    """What the encoder of some inputs is called: that of the first store, or that for texts.

    Raises:
        MexmaError: A store that cannot be opened.
    """
    stores = [open_store(path) for path in paths if is_store(path)]
    return stores[0].manifest.encoder if stores else choice.model or BUNDLED


def probable_pairs(stores: StorePair, sides: Sides, settings: MineSettings) -> Candidates:
    """The most probable pairs above the threshold, best first, each row in one pair at most.

    Args:
        sides: The neighbours of the stores' rows.

    Raises:
        MexmaError: The temporary disk is full, or a store or a file of neighbours is damaged.
    """
    classifier, embed = classifier_for(stores)
    known = known_of(sides, (stores[0].sentences, stores[1].sentences), embed)
    return probable(classifier, sides, known).cut("max", settings.least)


def classifier_for(stores: StorePair) -> tuple[Classifier, Embed | None]:
    """The classifier for two stores, and what embeds their words; None where it does not look at them, which
    is said."""
    embed = _embedder(stores)
    if embed is None:
        log.warning(
            "the classifier was trained with the vectors of mini, these are of %s: words are not compared",
            stores[0].manifest.encoder,
        )
    return bundled()["words" if embed else "text"], embed


def _embedder(stores: StorePair) -> Embed | None:
    """What embeds words as the sentences of the stores are; None if their encoder is not the bundled one."""
    manifest = stores[0].manifest
    if manifest.encoder != BUNDLED:
        return None
    encoder = load_encoder(EncoderChoice(model=BUNDLED))
    return encoder.embed if encoder.fingerprint == manifest.fingerprint else None
