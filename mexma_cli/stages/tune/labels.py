"""Labels that a person gives to some pairs, kept in a file at once."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from mexma_cli.classifier.precision import PairPrecision, pairs_to_label
from mexma_cli.errors import MexmaError
from mexma_cli.formats.bitext import one_field
from mexma_cli.mining.candidates import Candidates
from mexma_cli.stages.mine.texts import KeptTexts
from mexma_cli.store.embeddings import EmbeddingStore
from mexma_cli.text.lines import read_lines

RIGHT, WRONG, SKIPPED = "y", "n", "s"


class Labels:
    """A file of lines `y, n or s TAB source line TAB target line TAB source TAB target`; lines that are 0 are
    not known, and the first ones with these sentences count.

    Raises:
        MexmaError: it is of other texts, or has a line of another kind.
    """

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
        line = "\t".join((answer, str(rows[0] + 1), str(rows[1] + 1), one_field(source), one_field(target)))
        with self._path.open("a", encoding="utf-8") as file:
            file.write(line + "\n")
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
        said: dict[tuple[int, int], tuple[str, ...]] = {}
        unplaced: list[tuple[str, tuple[str, ...]]] = []
        for number, line in enumerate(read_lines(self._path, ours=True), 1):
            fields = line.split("\t")
            if (
                len(fields) != 5
                or fields[0] not in (RIGHT, WRONG, SKIPPED)
                or not all(field.isascii() and field.isdigit() for field in fields[1:3])
            ):
                raise MexmaError(
                    f"{self._path}, line {number}: not a label",
                    "each line must be: y, n or s TAB source line TAB target line TAB source TAB target",
                )
            rows, sides = (int(fields[1]) - 1, int(fields[2]) - 1), tuple(fields[3:])
            if rows == (-1, -1):
                unplaced.append((fields[0], sides))
            else:
                self._answers[rows], said[rows] = fields[0], sides
        if unplaced:
            firsts = [
                self._first_rows(store, {texts[side] for _, texts in unplaced})
                for side, store in enumerate(self._stores)
            ]
            self._answers |= {(firsts[0][one], firsts[1][other]): answer for answer, (one, other) in unplaced}
        for side, store in enumerate(self._stores):
            lines = np.array([rows[side] for rows in said], dtype=np.int64)
            if not ((lines >= 0) & (lines < store.rows)).all():
                raise self._of_other_texts()
            texts = KeptTexts(store.sentences(), lines).take(lines)
            if any(one_field(text) != kept[side] for text, kept in zip(texts, said.values(), strict=True)):
                raise self._of_other_texts()

    def _first_rows(self, store: EmbeddingStore, wanted: set[str]) -> dict[str, int]:
        """The first row of each sentence."""
        found: dict[str, int] = {}
        for row, text in enumerate(store.sentences()):
            if (line := one_field(text)) in wanted:
                found.setdefault(line, row)
        if len(found) < len(wanted):
            raise self._of_other_texts()
        return found

    def _of_other_texts(self) -> MexmaError:
        return MexmaError(f"{self._path} has labels of other texts", "name another file with --labels")
