"""How a text becomes a store."""

from __future__ import annotations

from typing import Annotated, Literal

from mexma_cli.settings.section import Option, Section

StoreType = Literal["float16", "float32", "int8"]


class EmbedSettings(Section):
    """How a text becomes a store."""

    clean: Annotated[bool, Option()] = False
    """Embed lines with punctuation normalised as in LASER and without control characters."""
    no_normalise: Annotated[bool, Option()] = False
    """Stop before the encoder's Normalize: vectors keep their lengths, as ORACLE's decomposers need them."""
    store_dtype: Annotated[StoreType, Option()] = "float16"
    """Type of the stored numbers; int8 has a scale for each vector, and takes half the space of float16."""
