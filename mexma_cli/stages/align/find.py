"""Pairs of documents that are translations of each other, found in both sides."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from contextlib import ExitStack, closing
from itertools import pairwise
from pathlib import Path

import numpy as np

from mexma_cli.align.documents import (
    CANDIDATES,
    WINDOWS,
    centre,
    coverage,
    document_vector,
    matched,
    sentence_weights,
)
from mexma_cli.errors import MexmaError
from mexma_cli.files import temporary_space
from mexma_cli.knn.exact import knn
from mexma_cli.stages.align.align import Aligner, groups_by
from mexma_cli.store.arrays import new_mapped


def find_documents(aligner: Aligner, on_progress: Callable[[int, int], None]) -> np.ndarray:
    """The pairs of documents, int32 [n, 2], sorted; a document is in one at most.

    Sentences are embedded once into a temporary file, or taken from stores.

    Args:
        on_progress: Called with documents embedded and documents in all.

    Raises:
        MexmaError: A document is damaged, the temporary disk is full, or no pair is found.
    """
    counts = aligner.documents.counts
    with ExitStack() as stack, temporary_space():
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mexma-")))
        source = _Embedded(aligner, 0, folder, lambda done: on_progress(done, sum(counts)))
        target = _Embedded(aligner, 1, folder, lambda done: on_progress(counts[0] + done, sum(counts)))
        near = knn(source.documents, target.documents, CANDIDATES, keep_x=source.filled, keep_y=target.filled)
        forward, backward = (
            np.stack([np.repeat(np.arange(len(ids)), ids.shape[1]), ids.ravel()], axis=1)
            for ids in (near.forward_ids, near.backward_ids)
        )
        candidates = np.unique(np.concatenate([forward, backward[:, ::-1]]), axis=0)
        candidates = candidates[(candidates >= 0).all(axis=1)]
        scores = np.empty(len(candidates))
        for place, (one, other) in enumerate(candidates.tolist()):
            (x, x_weights), (y, y_weights) = source.sentences(one), target.sentences(other)
            scores[place] = coverage(x, y, (x_weights, y_weights))
    pairs = candidates[matched(candidates, scores)]
    if not len(pairs):
        raise MexmaError(
            "no documents are translations of each other", "--document-pairs names those that belong together"
        )
    return pairs.astype(np.int32)


class _Embedded:
    """One side: its documents' vectors, and those of their sentences in a temporary file.

    Attributes:
        documents: float32 [documents, width], mapped from the disk.
        filled: bool [documents], whether a document has any sentence.
    """

    def __init__(self, aligner: Aligner, side: int, folder: Path, on_progress: Callable[[int], None]) -> None:
        own = (aligner.documents.source, aligner.documents.target)[side]
        self._dim = aligner.encoder.dim
        self._ends = np.zeros(len(own.names) + 1, np.int64)
        self._path, weights = folder / f"{side}.f16", []
        shape = (len(own.names), WINDOWS * self._dim)
        self.documents = new_mapped(folder / f"{side}.f32", np.float32, shape)
        spans = list(pairwise(groups_by(own.sizes).tolist()))
        groups = aligner.each(lambda span: aligner.sentences(side, range(*span)), spans)
        with self._path.open("wb") as file, closing(groups):
            for (first, last), group in zip(spans, groups, strict=True):
                for number, (vectors, lengths) in enumerate(group, first):
                    file.write(vectors.astype(np.float16).tobytes())
                    self.documents[number] = document_vector(vectors, lengths)
                    self._ends[number + 1] = self._ends[number] + len(lengths)
                    weights.append(sentence_weights(lengths))
                on_progress(last)
        self._weights = np.concatenate(weights)
        self.filled = np.asarray(self.documents.any(axis=1))
        centre(self.documents)

    def sentences(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        """Vectors of a document's sentences, float32 [n, dim], and their weights."""
        first, last = self._ends[number : number + 2].tolist()
        place, size = 2 * self._dim * first, (last - first) * self._dim
        vectors = np.fromfile(self._path, np.float16, size, offset=place).reshape(-1, self._dim)
        return vectors.astype(np.float32), self._weights[first:last]
