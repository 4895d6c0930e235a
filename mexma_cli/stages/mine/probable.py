"""Pairs by the probability that they are translations, in place of margins."""

from __future__ import annotations

import logging

from mexma_cli.classifier.model import bundled, probable
from mexma_cli.classifier.pairs import known_of
from mexma_cli.classifier.words import Embed
from mexma_cli.errors import MexmaError
from mexma_cli.mining.candidates import Candidates
from mexma_cli.mining.lists import Sides
from mexma_cli.settings.encoder import EncoderChoice
from mexma_cli.settings.mine import MineSettings
from mexma_cli.stages.embed.inputs import load_encoder
from mexma_cli.store.embeddings import StorePair

log = logging.getLogger(__name__)

_TRAINED_WITH = "mini"


def check_probable(settings: MineSettings, one_text: bool, within: bool) -> None:
    """Find out whether these settings go with probabilities.

    Raises:
        MexmaError: They are for margins, for pairs in one text or in paired documents.
    """
    wrong = {
        "it is for two different texts": one_text,
        "it is not for documents that are paired": within,
        "it compares ratio margins: leave out --margin": settings.margin != "ratio",
        "it takes each sentence once: leave out --retrieval": settings.retrieval != "max",
        "--max-score is for margins: leave it out": settings.max_score is not None,
        "thresholds.json has thresholds of margins: name a probability": settings.threshold == "auto",
    }
    for reason, holds in wrong.items():
        if holds:
            raise MexmaError(f"--score probability does not go with this: {reason}")
    if settings.least is not None and settings.least >= 1:
        raise MexmaError(
            f"threshold {settings.least} is of margins: no probability is above 1",
            "name a probability, such as --threshold 0.5, or mine with --score margin",
        )


def probable_pairs(stores: StorePair, sides: Sides, settings: MineSettings) -> Candidates:
    """The most probable pairs above the threshold, best first, each row in one pair at most.

    Args:
        sides: The neighbours of the stores' rows.

    Raises:
        MexmaError: The temporary disk is full, or a store or a file of neighbours is damaged.
    """
    embed = _embedder(stores)
    if embed is None:
        log.warning(
            "the classifier was trained with the vectors of mini, these are of %s: words are not compared",
            stores[0].manifest.encoder,
        )
    known = known_of(sides, (stores[0].sentences, stores[1].sentences), embed)
    return probable(bundled()["words" if embed else "text"], sides, known).cut("max", settings.least)


def _embedder(stores: StorePair) -> Embed | None:
    """What embeds words as the sentences of the stores are; None if their encoder is not the bundled one."""
    manifest = stores[0].manifest
    if manifest.encoder != _TRAINED_WITH:
        return None
    encoder = load_encoder(EncoderChoice(model=_TRAINED_WITH))
    return encoder.embed if encoder.fingerprint == manifest.fingerprint else None
