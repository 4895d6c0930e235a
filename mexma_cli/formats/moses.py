"""Moses files and their names: which files, or members of a zip, are the two sides of which languages.

OPUS and mtdata write the two languages into the name and one of them into the extension: ``DGT.en-fr.en``
with ``DGT.en-fr.fr``, ``OPUS-nllb-v1-eng-zho_TW.eng.gz`` with ``OPUS-nllb-v1-eng-zho_TW.zho_TW.gz``. Codes
may have two or three letters, or be BCP-47 tags with ``-`` or ``_``, in either order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

PACKED = (".gz", ".xz", ".zst", ".bz2")


class Sides(NamedTuple):
    """Two aligned files: line n of one is the translation of line n of the other.

    The codes stand as in the name, in its order; a file stands in `names` where its code does in `codes`.
    """

    stem: str
    codes: tuple[str, str]
    names: tuple[str, str]


def sides_of(names: Iterable[str]) -> Iterator[Sides]:
    """The pairs of sides among file names, sorted; other files (readmes, scores, ids) are passed over.

    Args:
        names: Names or paths with ``/``, packed or not.
    """
    stems: dict[str, dict[str, str]] = {}
    for name in sorted(names):
        plain = next((name.removesuffix(end) for end in PACKED if name.endswith(end)), name)
        stem, _, code = plain.rpartition(".")
        if stem and "/" not in code:
            stems.setdefault(stem, {})[code] = name
    for stem, found in stems.items():
        last = stem.rpartition("/")[2]
        for first, first_name in found.items():
            for second, second_name in found.items():
                pair = f"{first}-{second}"
                if last == pair or last.endswith((f".{pair}", f"-{pair}", f"_{pair}")):
                    yield Sides(stem, (first, second), (first_name, second_name))
