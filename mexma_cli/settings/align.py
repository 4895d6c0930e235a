"""How the sentences of documents are aligned."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from mexma_cli.settings.section import Option, Score, Section


class AlignSettings(Section):
    """How documents are aligned, as the options of [`mexma align`](cli.md#mexma-align)."""

    max_size: Annotated[int, Option(metavar="N")] = Field(default=5, ge=1, le=16)
    """Sentences of one side in an alignment, at most."""
    threshold: Annotated[Score | None, Option(metavar="SCORE", unset="none")] = None
    """Keep alignments with a score above this."""
    min_aligned: Annotated[float | None, Option(metavar="SHARE", unset="none")] = Field(
        default=None, ge=0, le=1
    )
    """Keep pairs of documents of whose sentences this share is in an alignment."""
    chunks: Annotated[int | None, Option(metavar="WORDS", unset="whole")] = Field(default=None, ge=1)
    """Cut pairs of documents between alignments into pieces of at most so many words a side
    (`--format documents`)."""
    keep: Annotated[Literal["all", "1-1"], Option()] = "all"
    """1-1: only alignments of one sentence with one."""
