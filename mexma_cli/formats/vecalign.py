"""Vecalign's files of alignments: `[source ids]:[target ids]:score`, ids counted from 0."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from mexma_cli.formats.bitext import AlignedPair, BitextFormat, Pair, bitext_format, one_field

if TYPE_CHECKING:
    from mexma_cli.text.writing import Chunk


@bitext_format
class Vecalign(BitextFormat):
    """A line an alignment, in the documents' order; `[3]:[]:0.0` is a sentence without a translation.

    The documents' names follow where they have any: Vecalign's own programs read the first two fields.
    Scores are higher for better alignments, while Vecalign's are costs.
    """

    name = "vecalign"
    endings = (".align",)
    ids = "always"
    alignments_only = True
    about = "[source lines]:[target lines]:score, from line 0, with unaligned sentences"

    def write(
        self, pairs: Iterable[Pair], languages: tuple[str, str], with_ids: bool = False
    ) -> Iterator[Chunk]:
        for pair in pairs:
            assert isinstance(pair, AlignedPair)
            sides = ([line - 1 for line in lines] for lines in (pair.source_lines, pair.target_lines))
            documents = (pair.source_document, pair.target_document)
            names = map(one_field, documents) if any(documents) else ()
            yield (":".join([*map(str, sides), str(float(pair.score)), *names]) + "\n",), 0
