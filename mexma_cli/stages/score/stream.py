"""Scores of pairs as they come, for programs that wait for an answer before they write the next line."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from queue import Queue
from typing import TYPE_CHECKING

import numpy as np

from mexma_cli.errors import MexmaError
from mexma_cli.formats.bitext import LANGUAGES_STATED_BY, Pair, one_field, open_pairs
from mexma_cli.knn.sides import dots
from mexma_cli.languages import known
from mexma_cli.mining.margin import margin as margin_of
from mexma_cli.stages.score.score import units
from mexma_cli.text.lines import is_blank

if TYPE_CHECKING:
    from mexma_cli.encoder.encoder import SentenceEncoder

_BATCH = 1024


def answered(
    path: Path, encoder: SentenceEncoder, margin: str, languages: tuple[str, str]
) -> Iterator[np.ndarray]:
    """The scores of the pairs of a file or of stdin (``-``), as soon as the pairs can be read.

    Args:
        margin: One without neighbourhoods, of `mining.margin.MARGINS`.
        languages: Codes of source and target as the user wrote them, as far as they are stated.

    Returns:
        float32 [lines that were there], again and again; nan for a line that is no pair, or of which a side
        is empty.

    Raises:
        MexmaError: As `open_pairs`.
    """
    bitext = open_pairs(path, languages=languages, options=LANGUAGES_STATED_BY, each_line=True)
    for batch in _there(bitext.pairs):
        scores = np.full(len(batch), np.nan, dtype=np.float32)
        whole = [
            row for row, pair in enumerate(batch) if not (is_blank(pair.source) or is_blank(pair.target))
        ]
        if whole:
            x, y = (
                units(_stored(encoder, language, [one_field(getattr(batch[row], side)) for row in whole]))
                for side, language in zip(("source", "target"), bitext.languages, strict=True)
            )
            rows, none = np.arange(len(whole)), np.zeros(len(whole), dtype=np.float32)
            scores[whole] = margin_of(dots(x, y, rows, rows), none, none, margin)
        yield scores


def _stored(encoder: SentenceEncoder, language: str, sentences: list[str]) -> np.ndarray:
    """Vectors as a store gives them back, so that scores are those of two files."""
    encoder.set_language(known(language))
    return encoder.embed(sentences).astype(np.float16).astype(np.float32)


def _there(pairs: Iterator[Pair]) -> Iterator[list[Pair]]:
    """The pairs that could be read until now, at least one and not too many, in turns."""
    read: Queue[Pair | MexmaError | None] = Queue(4 * _BATCH)

    def reading() -> None:
        try:
            for pair in pairs:
                read.put(pair)
            read.put(None)
        except MexmaError as error:
            read.put(error)

    threading.Thread(target=reading, daemon=True).start()
    while True:
        found = read.get()
        batch: list[Pair] = []
        while isinstance(found, tuple):
            batch.append(found)
            if len(batch) == _BATCH or read.empty():
                break
            found = read.get()
        if batch:
            yield batch
        if isinstance(found, MexmaError):
            raise found
        if found is None:
            return
