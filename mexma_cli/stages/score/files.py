"""A bitext as it lies on disk, opened as the stores that are scored."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from mexma_cli.stages.embed.inputs import EncoderChoice, Progress, open_inputs
from mexma_cli.stages.score.score import split_sides
from mexma_cli.store.embeddings import EmbeddingStore
from mexma_cli.text.lines import scan, spooled
from mexma_cli.text.names import label_of
from mexma_cli.text.temporary import temporary_space

if TYPE_CHECKING:
    from mexma_cli.encoder.encoder import SentenceEncoder


def open_bitext(
    stack: ExitStack,
    bitext: Sequence[Path],
    background: Sequence[Path],
    encoder: EncoderChoice | SentenceEncoder,
    on_progress: Progress | None = None,
) -> list[EmbeddingStore]:
    """Both sides of a bitext, and both of the background if there is one, until the stack is closed.

    Args:
        bitext: Two stores or texts, or one file of pairs, whose sides become temporary texts.
        background: Two stores or texts, or none.
        encoder: For texts.
        on_progress: Called with lines embedded and lines in all texts.

    Raises:
        MexmaError: As `split_sides` and `open_inputs`.
    """
    paths, labels = [*bitext, *background], [label_of(path) for path in (*bitext, *background)]
    if len(bitext) == 1:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mexma-")))
        sides = [folder / "source", folder / "target"]
        with spooled(paths[0]) as copy:
            scan(copy, labels[0])
            with temporary_space():
                split_sides(copy, labels[0], *sides)
        paths[:1] = sides
        labels[:1] = [f"{labels[0]} ({side.name})" for side in sides]
    return open_inputs(stack, paths, encoder, labels=labels, aligned=True, on_progress=on_progress)
