"""Labels that a person gives to some pairs, kept in a file at once."""

from __future__ import annotations

import logging
from array import array
from collections.abc import Collection, Iterator
from pathlib import Path

import numpy as np

from mexma_cli.classifier.precision import PairPrecision, pairs_to_label
from mexma_cli.errors import MexmaError
from mexma_cli.formats.bitext import one_field
from mexma_cli.formats.labels import RIGHT, SKIPPED, WRONG, Label, add_label, read_labels
from mexma_cli.mining.candidates import Candidates
from mexma_cli.stages.mine.texts import KeptTexts
from mexma_cli.store.embeddings import EmbeddingStore
from mexma_cli.text.amounts import counted
from mexma_cli.text.normalise import normal_form

log = logging.getLogger(__name__)

_STRAYS = 0.25
"""Share of labels of pairs that mining does not find, above which they are of pairs that were chosen in
another way. Of labels of mined pairs 11 % are, where k is another one; of those of alignments 35 to 53 %."""
_EXPECTED = 3.0
"""Answers of a kind that the probabilities expect, from which it is strange that there is none."""
_CONTRADICTED = 0.2
"""Slope of the correction below which answers do not follow the probabilities; 1 where they agree."""
_WHICH = (
    "label pairs that `mexma mine` writes with the same options, all of them or drawn by `mexma review`, not "
    "those of `mexma align`; of any bitext, `mexma filter --exclude LABELS` drops the wrong pairs"
)
_ONE_KIND = (
    "%s: all are called %s, where %.0f would be expected to be %s: the estimate is too %s, unless they were "
    "drawn from all pairs that `mexma mine` finds here"
)


class Labels:
    """A file of labels of two texts, each of all pairs with its two sentences, whatever lines it names: those
    of a file that was filtered have others. Labels of no pair that was found, such as those of joined
    sentences, do not count, and it is said how many. Refused: a file of other texts, with a line that is no
    label, or of which more labels than `_STRAYS` do not count, since the others are then no sample of the
    pairs: those of an alignment are nearly all right."""

    def __init__(self, path: Path, pairs: Candidates, source: EmbeddingStore, target: EmbeddingStore) -> None:
        self._path, self._pairs, self._stores = path, pairs, (source, target)
        self._answers: dict[int, str] = {}
        if path.exists():
            self._read()

    def drawn(self, model: PairPrecision, count: int) -> list[int]:
        """The pairs to ask about, those that were answered already left out; always the same ones."""
        chosen = pairs_to_label(model.probabilities, count)
        return [place for place in chosen.tolist() if place not in self._answers]

    def sentences(self, places: list[int]) -> Iterator[tuple[int, str, str]]:
        """(pair, source, target) of some pairs."""
        found = self._pairs.take(np.array(places, dtype=np.int64))
        rows = found.source, found.target
        sides = (
            KeptTexts(store.sentences(), side).take(side)
            for store, side in zip(self._stores, rows, strict=True)
        )
        return zip(places, *sides, strict=True)

    def add(self, place: int, answer: str, source: str, target: str) -> None:
        """Keep an answer; it is on the disk when this returns."""
        lines = int(self._pairs.source[place]) + 1, int(self._pairs.target[place]) + 1
        add_label(self._path, Label(answer, lines, (source, target)))
        self._answers[place] = answer

    def corrected(self, model: PairPrecision) -> PairPrecision:
        """The model, corrected by all answers; a warning tells of those that do not look like a sample."""
        places, right = self.said
        expected = model.probabilities[places].sum()
        if right.all() and len(right) - expected >= _EXPECTED:
            log.warning(_ONE_KIND, self._path, "right", len(right) - expected, "wrong", "high")
        elif not right.any() and expected >= _EXPECTED:
            log.warning(_ONE_KIND, self._path, "wrong", expected, "right", "low")
        found = model.labelled(places, right)
        if found.answers[1] < _CONTRADICTED and right.any() and not right.all():
            log.warning(
                "%s: pairs that are called right are hardly more probable than those called wrong: is y yes?",
                self._path,
            )
        return found

    @property
    def said(self) -> tuple[np.ndarray, np.ndarray]:
        """Places of the pairs that were called right or wrong, int64 [m], and which are right, bool [m]."""
        said = {place: answer for place, answer in self._answers.items() if answer != SKIPPED}
        if not said:
            raise MexmaError(f"{self._path}: no pair is labelled", "answer y or n for some")
        return np.array(list(said)), np.array(list(said.values())) == RIGHT

    @property
    def counts(self) -> dict[str, int]:
        """How many answers of each kind there are."""
        answers = list(self._answers.values())
        return {kind: answers.count(kind) for kind in (RIGHT, WRONG, SKIPPED)}

    def _read(self) -> None:
        answers: dict[tuple[str, str], str] = {}
        for label in read_labels(self._path):
            source, target = map(_composed, label.sentences)
            answers[source, target] = label.answer
        known = [
            _rows_of({sentences[side] for sentences in answers}, store)
            for side, store in enumerate(self._stores)
        ]
        sides = [set(sentences) for _, sentences in known]
        if answers and not any(one in sides[0] and two in sides[1] for one, two in answers):
            raise self._refused(answers)
        rows = self._pairs.source, self._pairs.target
        near = np.flatnonzero(np.isin(rows[0], known[0][0]) & np.isin(rows[1], known[1][0]))
        found = [np.searchsorted(known[side][0], rows[side][near]).tolist() for side in range(2)]
        used = set[tuple[str, str]]()
        for place, one, two in zip(near.tolist(), *found, strict=True):
            sentences = known[0][1][one], known[1][1][two]
            if answer := answers.get(sentences):
                self._answers[place] = answer
                used.add(sentences)
        if left := len(answers) - len(used):
            strays = f"{left:,} of {counted(len(answers), 'label')}"
            if left > _STRAYS * len(answers):
                why = f"{strays} are of pairs that mining does not find here"
                raise MexmaError(f"{self._path} is not of mined pairs: {why}", _WHICH)
            log.warning("%s: %s do not count: mining does not find their pairs here", self._path, strays)

    def _refused(self, answers: Collection[tuple[str, str]]) -> MexmaError:
        hint = f"--labels names another file, for these texts; {_WHICH}"
        swapped = [{pair[1 - side] for pair in answers} for side in range(2)]
        own, other = (set(_rows_of(*side)[1]) for side in zip(swapped, self._stores, strict=True))
        if any(one != two and two in own and one in other for one, two in answers):
            hint = "they are there with the sides swapped: name the two texts the other way round"
        return MexmaError(f"{self._path} has no label of two lines of these texts", hint)


def _composed(sentence: str) -> str:
    """The sentence by which a label is compared with a text: pairs may have been cleaned before."""
    return normal_form("NFC", one_field(sentence))


def _rows_of(sentences: set[str], store: EmbeddingStore) -> tuple[np.ndarray, list[str]]:
    """The rows that have one of these sentences (as by `_composed`), int64 [n], and the sentence of each; 16
    bytes a row."""
    once = {sentence: sentence for sentence in sentences}
    rows, found = array("q"), list[str]()
    for row, line in enumerate(map(_composed, store.sentences())) if once else ():
        if line in once:
            rows.append(row)
            found.append(once[line])
    return np.array(rows, dtype=np.int64), found
