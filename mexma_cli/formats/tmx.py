"""TMX 1.4, the exchange format of translation memories: https://www.gala-global.org/tmx-14b."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape, quoteattr

from mexma_cli import __version__
from mexma_cli.formats.bitext import BitextFormat, Pair, bitext_format
from mexma_cli.formats.tsv import shown
from mexma_cli.languages import UNSTATED, resolve

if TYPE_CHECKING:
    from mexma_cli.text.writing import Chunk

_FORBIDDEN = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_ENTITIES = {"\r": "&#13;"}  # a plain one would be read as a line break


@bitext_format
class Tmx(BitextFormat):
    """A whole TMX document: a unit a pair, with the score as a property, and the ids as more of them.

    Characters that XML forbids (most control characters) are removed.
    """

    name = "tmx"
    endings = (".tmx",)
    ids = "wanted"
    about = "TMX 1.4, with the score as the property x-score"
    changes = "characters that XML forbids were removed"
    by_language = True

    def write(
        self, pairs: Iterable[Pair], languages: tuple[str, str], with_ids: bool = False
    ) -> Iterator[Chunk]:
        tags = [quoteattr(bcp47(code)) for code in languages]
        header = (
            f'<header creationtool="mexma" creationtoolversion={quoteattr(__version__)} segtype="sentence" '
            f'o-tmf="mexma" adminlang="en" srclang={tags[0]} datatype="plaintext"/>'
        )
        yield (f'<?xml version="1.0" encoding="UTF-8"?>\n<tmx version="1.4">\n{header}\n<body>\n',), 0
        for number, pair in enumerate(pairs, 1):
            values = zip(pair._fields, pair, strict=True)
            known = [(name, value) for name, value in values if name not in ("source", "target")]
            properties = "".join(
                f'<prop type="x-{name.replace("_", "-")}">{_FORBIDDEN.sub("", escape(shown(value)))}</prop>'
                for name, value in (known if with_ids else known[:1])
            )
            clean = [_FORBIDDEN.sub("", sentence) for sentence in (pair.source, pair.target)]
            segments = "".join(
                f"<tuv xml:lang={tag}><seg>{escape(sentence, _ENTITIES)}</seg></tuv>"
                for tag, sentence in zip(tags, clean, strict=True)
            )
            changed = (clean[0] != pair.source) + (clean[1] != pair.target)
            yield (f'<tu tuid="{number}">{properties}{segments}</tu>\n',), changed
        yield ("</body>\n</tmx>\n",), 0


def bcp47(code: str) -> str:
    """The usual BCP-47 tag of a FLORES-200 code: `fr` for `fra_Latn`, `zh-Hant` for `zho_Hant`."""
    import langcodes  # 10 ms

    if code == UNSTATED:
        return UNSTATED
    tag = code.replace("_", "-")
    macro = langcodes.standardize_tag(tag, macro=True)
    for wide in (macro, langcodes.standardize_tag(tag)):
        short = langcodes.Language.get(wide, normalize=False).simplify_script().to_tag()
        if resolve(short) == code:
            return str(short)
    return tag
