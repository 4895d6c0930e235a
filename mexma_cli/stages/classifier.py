"""A classifier of one's own: parallel text, or labels of two texts, in, a file of weights out."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import NamedTuple

import numpy as np

from mexma_cli import __version__
from mexma_cli.classifier.calibration import logits, recalibrated
from mexma_cli.classifier.model import bundled_weights
from mexma_cli.classifier.training import MOST, Parallel, TrainedClassifier, calibration_error, train
from mexma_cli.errors import MexmaError
from mexma_cli.settings.stages import EncoderChoice
from mexma_cli.stages.embed.inputs import load_encoder_of
from mexma_cli.stages.knn.row_filter import filter_rows
from mexma_cli.stages.mine.files import MiningRun
from mexma_cli.stages.tune.labels import Labels
from mexma_cli.store.embeddings import StorePair
from mexma_cli.text.amounts import counted

FEWEST_LABELS = 20
KEPT_ABOVE = 0.5
"""Pairs of a higher probability count as kept where classifiers are compared."""


class KeptPairs(NamedTuple):
    """How many pairs a classifier keeps: of those that a person called right, of those called wrong, of all;
    and its calibration error, in percent, and its mean log loss (natural), on what a person said."""

    right: int
    wrong: int
    pairs: int
    calibration_error: float
    log_loss: float


class Corrected(NamedTuple):
    """Answers of each kind, how many pairs were found, and what the bundled and the corrected classifier keep
    of them. A tenth of the answers is judged by a correction from the others."""

    right: int
    wrong: int
    pairs: int
    bundled: KeptPairs
    corrected: KeptPairs

    @property
    def doubts(self) -> list[str]:
        """Why it may be of no use."""
        old, new = self.bundled, self.corrected
        everything = f"above {KEPT_ABOVE} it keeps all that were called wrong: --precision finds a threshold"
        reasons = {
            "its log loss is no lower than the bundled one's: mine without it": new.log_loss >= old.log_loss,
            f"above {KEPT_ABOVE} it keeps no pair": not new.pairs,
            everything: new.wrong == self.wrong,
        }
        return [reason for reason, holds in reasons.items() if holds]


def classifier_of_labels(labels: Path, run: MiningRun, output: Path) -> Corrected:
    """Write the bundled classifier, corrected by a person's answers about the pairs that were mined in two
    texts for a threshold, as `mexma tune --labels` corrects its estimates. Refused: fewer than
    `FEWEST_LABELS`, all of one kind, or of other texts."""
    found, stores = run.found.estimated, run.stores
    if found is None:
        raise MexmaError("no pair was found in these texts")
    model, answers = found.model, Labels(labels, found.pairs, *stores)
    places, right = answers.said
    said, good = len(right), int(right.sum())
    if said < FEWEST_LABELS or good in (0, said):
        raise MexmaError(
            f"{labels}: {counted(said, 'answer')} ({good} right, {said - good} wrong), too few to correct "
            f"probabilities: {FEWEST_LABELS} are the least, with some of both kinds",
            "`mexma tune SOURCE TARGET --label 50` asks for more",
        )
    line, weights, manifest = answers.corrected(model).answers, bundled_weights(), stores[0].manifest
    before, after = model.probabilities, recalibrated(model.probabilities, *line)
    judged = (before[places], before), (model.held_out(places, right), after)
    kept = (_kept(of, every, right) for of, every in judged)
    own = weights.fingerprint == manifest.fingerprint
    by = {needs: replace(one, answers=line) for needs, one in weights.by.items() if own or needs == "text"}
    about = (
        f"{weights.about} Corrected by mexma {__version__} on {date.today()} by {said} labels of {labels}."
    )
    spoken = replace(weights, encoder=manifest.encoder, fingerprint=manifest.fingerprint, dim=manifest.dim)
    replace(spoken, about=about, by=by).write(output)
    return Corrected(good, said - good, len(before), *kept)


def _kept(said: np.ndarray, every: np.ndarray, right: np.ndarray) -> KeptPairs:
    """By the probabilities of the pairs that were answered, and of all."""
    good, bad, all_pairs = (int((of > KEPT_ABOVE).sum()) for of in (said[right], said[~right], every))
    loss = float(np.logaddexp(0, np.where(right, -1, 1) * logits(said)).mean())
    return KeptPairs(good, bad, all_pairs, calibration_error(said, right), loss)


def train_classifier(stores: StorePair, k: int, encoder: EncoderChoice, output: Path) -> TrainedClassifier:
    """Train a classifier on the rows of two stores that are translations of one another, and write it. Of
    sentences that occur again the first counts, and of many pairs `MOST` at random; `encoder` made the
    stores."""
    rows = np.flatnonzero(filter_rows(stores[0])[0] & filter_rows(stores[1])[0])
    rows = np.sort(np.random.default_rng(0).permutation(rows)[:MOST])
    wanted = set(rows.tolist())
    texts = [[text for row, text in enumerate(store.sentences()) if row in wanted] for store in stores]
    vectors = [store.vectors(0, store.rows)[rows].astype(np.float32) for store in stores]
    embed = load_encoder_of(stores, encoder, "the words").embed
    manifest = stores[0].manifest
    start = replace(
        bundled_weights(), encoder=manifest.encoder, fingerprint=manifest.fingerprint, dim=manifest.dim
    )
    languages = manifest.language, stores[1].manifest.language
    found = train(Parallel((texts[0], texts[1]), (vectors[0], vectors[1]), embed, languages), start, k)
    names = [f"{store.manifest.source.path} ({store.manifest.language})" for store in stores]
    about = (
        f"Trained by mexma {__version__} on {date.today()} on {found.pairs:,} pairs of {' and '.join(names)}."
    )
    found = replace(found, weights=replace(found.weights, about=about))
    found.weights.write(output)
    return found
