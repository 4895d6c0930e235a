"""Moses files: line n of one is the translation of line n of the other. They are found by name.

OPUS and mtdata write the two languages into the name and one of them into the extension: ``DGT.en-fr.en``
with ``DGT.en-fr.fr``, ``OPUS-nllb-v1-eng-zho_TW.eng.gz`` with ``OPUS-nllb-v1-eng-zho_TW.zho_TW.gz``. Codes
may have two or three letters, or be BCP-47 tags with ``-`` or ``_``, in either order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from mexma_cli.errors import MexmaError
from mexma_cli.formats.bitext import (
    BitextFormat,
    OpenedPairs,
    Pair,
    PlainPair,
    RawText,
    Record,
    bitext_format,
    one_field,
    told_of_languages,
)
from mexma_cli.text.amounts import counted
from mexma_cli.text.compression import plain_name, split_ending

if TYPE_CHECKING:
    from mexma_cli.text.writing import Chunk


@bitext_format
class Moses(BitextFormat):
    """Two files, the sentences of a pair in the same line of both; changed as by `one_field`."""

    name = "moses"
    ids = "never"
    by_language = True
    two_files = True
    about = "two line-aligned files: -o OUT.gz makes OUT.fra.gz and OUT.eng.gz"

    def files(self, path: Path, languages: tuple[str, str]) -> list[Path]:
        """NAME.fra and NAME.eng; where both languages have the same code, with their script."""
        stem, ending = split_ending(path.name)
        short = [code.partition("_")[0] for code in languages]
        names = short if short[0] != short[1] else languages
        return [path.with_name(f"{stem}.{name}{ending}") for name in names]

    def write(
        self, pairs: Iterable[Pair], languages: tuple[str, str], with_ids: bool = False
    ) -> Iterator[Chunk]:
        for pair in told_of_languages(pairs, languages):
            source, target = one_field(pair.source), one_field(pair.target)
            yield (f"{source}\n", f"{target}\n"), (source != pair.source) + (target != pair.target)

    def read(self, *texts: RawText, languages: tuple[str, str]) -> OpenedPairs:
        """Read both files, which must have the same number of lines."""
        return OpenedPairs(self.name, languages, _aligned(texts))


def _aligned(texts: Sequence[RawText]) -> Iterator[Record]:
    sides = [text.lines() for text in texts]
    for number, pair in enumerate(zip_longest(*sides)):
        if None in pair:
            left = [number + (line is not None) for line in pair]
            counts = [
                f"{text.where} has {counted(count + sum(1 for _ in rest), 'line')}"
                for text, count, rest in zip(texts, left, sides, strict=True)
            ]
            raise MexmaError(
                ", ".join(counts), "line n of one must be the translation of line n of the other"
            )
        yield None, PlainPair(*pair)


class AlignedFiles(NamedTuple):
    """Two aligned files: line n of one is the translation of line n of the other.

    The codes stand as in the name, in its order; a file stands in `names` where its code does in `codes`.
    """

    stem: str
    codes: tuple[str, str]
    names: tuple[str, str]


def aligned_files(names: Iterable[str]) -> Iterator[AlignedFiles]:
    """The aligned files among file names with ``/``, compressed or not, sorted; other files (readmes, scores,
    ids) are passed over."""
    stems: dict[str, dict[str, str]] = {}
    for name in sorted(names):
        stem, _, code = plain_name(name).rpartition(".")
        if stem and "/" not in code:
            stems.setdefault(stem, {})[code] = name
    for stem, found in stems.items():
        last = stem.rpartition("/")[2]
        seconds = [(code, name) for code, name in found.items() if last.endswith(f"-{code}")]
        for first, first_name in found.items():
            for second, second_name in seconds:
                pair = f"{first}-{second}"
                if last == pair or last.endswith((f".{pair}", f"-{pair}", f"_{pair}")):
                    yield AlignedFiles(stem, (first, second), (first_name, second_name))
