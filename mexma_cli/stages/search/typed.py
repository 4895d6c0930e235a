"""The sentences of a store that are nearest to one that was typed."""

from __future__ import annotations

from collections.abc import Sequence

from mexma_cli.errors import MexmaError
from mexma_cli.languages import UNSTATED
from mexma_cli.stages.embed.inputs import EncoderChoice, load_encoder_of
from mexma_cli.stages.search.search import line_of, nearest
from mexma_cli.store.embeddings import EmbeddingStore
from mexma_cli.text.normalise import cleaner
from mexma_cli.text.writing import Chunk


def nearest_to_sentence(
    query: str, store: EmbeddingStore, encoder: EncoderChoice, top: int
) -> list[tuple[float, str]]:
    """The `top` different sentences nearest to the query, with their cosines, best first.

    Args:
        query: One line; it is cleaned if the store's sentences were.
        encoder: By default the store's own.

    Raises:
        MexmaError: The encoder is another one than the store's, or no sentence has a usable vector.
    """
    cleaned = cleaner(UNSTATED)(query) if store.manifest.clean else query
    (vector,) = load_encoder_of([store], encoder, "the query").embed([cleaned])
    found = nearest(store, vector, top)
    if not found:
        raise MexmaError(f"{store.path} has no sentence with a usable vector")
    return found


def nearest_lines(query: str, found: Sequence[tuple[float, str]], with_ranks: bool) -> list[Chunk]:
    """As `hit_lines`: `score TAB query TAB sentence` for each, and its rank from 1."""
    return [
        line_of(score, query, text, rank if with_ranks else None)
        for rank, (score, text) in enumerate(found, 1)
    ]
