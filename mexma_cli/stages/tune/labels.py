"""Labels that a person gives to some pairs, kept in a file at once."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from mexma_cli.classifier.precision import PairPrecision, pairs_to_label
from mexma_cli.errors import MexmaError
from mexma_cli.formats.bitext import one_field
from mexma_cli.formats.labels import RIGHT, SKIPPED, WRONG, Label, read_labels
from mexma_cli.mining.candidates import Candidates
from mexma_cli.stages.mine.texts import KeptTexts
from mexma_cli.store.embeddings import EmbeddingStore


class Labels:
    """A file of labels of two texts; one of other texts, or with a line that is no label, is refused. Where
    lines are not known, the first ones with these sentences count."""

    def __init__(self, path: Path, pairs: Candidates, source: EmbeddingStore, target: EmbeddingStore) -> None:
        self._path, self._pairs, self._stores = path, pairs, (source, target)
        self._answers: dict[tuple[int, int], str] = {}
        if path.exists():
            self._read()

    def drawn(self, model: PairPrecision, count: int) -> list[int]:
        """The pairs to ask about, those that were answered already left out; always the same ones."""
        chosen = pairs_to_label(model.probabilities, count)
        return [place for place in chosen.tolist() if self._rows(place) not in self._answers]

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
        rows = self._rows(place)
        label = Label(answer, (rows[0] + 1, rows[1] + 1), (source, target))
        with self._path.open("a", encoding="utf-8") as file:
            file.write(label.line)
            file.flush()
            os.fsync(file.fileno())
        self._answers[rows] = answer

    def corrected(self, model: PairPrecision) -> PairPrecision:
        """The model, corrected by all answers about pairs that are still among these."""
        said = {rows: answer for rows, answer in self._answers.items() if answer != SKIPPED}
        sources = np.array([source for source, _ in said], dtype=np.int64)
        some = np.flatnonzero(np.isin(self._pairs.source, sources)).tolist()
        known = [place for place in some if self._rows(place) in said]
        if not known:
            raise MexmaError(f"{self._path}: no pair is labelled", "answer y or n for some")
        right = np.array([said[self._rows(place)] == RIGHT for place in known])
        return model.labelled(np.array(known), right)

    @property
    def counts(self) -> dict[str, int]:
        """How many answers of each kind there are."""
        answers = list(self._answers.values())
        return {kind: answers.count(kind) for kind in (RIGHT, WRONG, SKIPPED)}

    def _rows(self, place: int) -> tuple[int, int]:
        return int(self._pairs.source[place]), int(self._pairs.target[place])

    def _read(self) -> None:
        said: dict[tuple[int, int], tuple[str, str]] = {}
        unplaced: dict[tuple[str, str], str] = {}
        for label in read_labels(self._path):
            rows = label.lines[0] - 1, label.lines[1] - 1
            if rows == (-1, -1):
                unplaced[label.sentences] = label.answer
            else:
                self._answers[rows], said[rows] = label.answer, label.sentences
        if unplaced:
            self._place(unplaced)
        for side, store in enumerate(self._stores):
            lines = np.array([rows[side] for rows in said], dtype=np.int64)
            if not ((lines >= 0) & (lines < store.rows)).all():
                raise self._of_other_texts()
            texts = KeptTexts(store.sentences(), lines).take(lines)
            if any(one_field(text) != kept[side] for text, kept in zip(texts, said.values(), strict=True)):
                raise self._of_other_texts()

    def _place(self, unplaced: dict[tuple[str, str], str]) -> None:
        """Keep answers about sentences: they are about a pair of these, else about their first rows."""
        texts = [
            self._texts(store, {sentences[side] for sentences in unplaced})
            for side, store in enumerate(self._stores)
        ]
        firsts = [{text: row for row, text in reversed(found.items())} for found in texts]
        near = [
            np.isin(rows, list(found))
            for rows, found in zip((self._pairs.source, self._pairs.target), texts, strict=True)
        ]
        for source, target in map(self._rows, np.flatnonzero(near[0] & near[1]).tolist()):
            if answer := unplaced.pop((texts[0][source], texts[1][target]), None):
                self._answers[source, target] = answer
        for (one, other), answer in unplaced.items():
            self._answers[firsts[0][one], firsts[1][other]] = answer

    def _texts(self, store: EmbeddingStore, wanted: set[str]) -> dict[int, str]:
        """The sentences of all rows that have one of these."""
        lines = enumerate(map(one_field, store.sentences()))
        found = {row: line for row, line in lines if line in wanted}
        if wanted - set(found.values()):
            raise self._of_other_texts()
        return found

    def _of_other_texts(self) -> MexmaError:
        return MexmaError(
            f"{self._path} has labels of other texts",
            "name another file; of any bitext, `mexma filter --exclude LABELS` drops the wrong pairs",
        )
