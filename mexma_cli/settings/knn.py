"""How neighbours are found, and how many are kept."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from mexma_cli.settings.section import Option, Section

EXACT = "exact"

_SECTION = "Search options"
_UNITS = {"": 1, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}


def bytes_of(typed: Any) -> Any:
    """A number of bytes such as 8G, 512M or 1.5G (powers of ten), or 8GiB (powers of two).

    Raises:
        ValueError: A text is no size.
    """
    if not isinstance(typed, str):
        return typed
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?) ?([KMGT]?)(I?)B?", typed.strip().upper())
    if found is None or (found[3] and not found[2]):
        raise ValueError(f"{typed!r} is no size; write it like 8G or 512M")
    unit = 1024.0 ** (1 + "KMGT".index(found[2])) if found[3] else _UNITS[found[2]]
    return int(float(found[1]) * unit)


Size = Annotated[int, BeforeValidator(bytes_of)]
"""Bytes, as a number or as `bytes_of` reads them."""


class SearchSettings(Section):
    """How neighbours are found."""

    index: Annotated[str, Option(_SECTION, "NAME")] = EXACT
    """exact, auto (a FAISS index where that is faster: for more than 300,000 lines with 300,000), or a FAISS
    factory string such as IVF4096,PQ128x4fs. All cosines are exact."""
    recall: Annotated[float, Option(_SECTION, "SHARE")] = Field(default=0.95, gt=0, le=1)
    """Share of the neighbours that an approximate index must find."""
    memory: Annotated[
        Size | None, Option(_SECTION, "SIZE", unset="about 1 GB more than the neighbours take")
    ] = None
    """Memory limit of this process, such as 8G."""


class KnnSettings(SearchSettings):
    """Settings of `mexma knn`: those of the search, and how many neighbours are kept."""

    k: Annotated[int, Option("Options", "N", ("-k", "--neighbourhood"))] = Field(default=16, ge=1)
    """Neighbours to keep for each sentence."""
