"""How a text becomes a store."""

from __future__ import annotations

from typing import Annotated, Literal

from mexma_cli.settings.section import Option, Section

StoreType = Literal["float16", "float32"]


class EmbedSettings(Section):
    """How a text becomes a store."""

    clean: Annotated[bool, Option()] = False
    """Embed lines with punctuation normalised as in LASER and without control characters."""
    store_dtype: Annotated[StoreType, Option()] = "float16"
    """Type of the stored numbers."""
