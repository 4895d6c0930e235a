"""Texts in UTF-16 and in encodings that the user states, as UTF-8."""

from __future__ import annotations

import codecs
import os
from collections.abc import Iterable, Iterator
from itertools import chain

from mexma_cli.errors import MexmaError
from mexma_cli.text.pages import codec_of, is_utf8

STATED = "MEXMA_ENCODING"
"""The variable of the environment in which processes find the encoding that --encoding states."""
_MARKS = ((codecs.BOM_UTF8, None), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_SEEN = 4096
"""Bytes by which UTF-16 is known."""


def in_utf8(pieces: Iterable[bytes], where: str) -> Iterator[bytes]:
    """A text in UTF-8: as it is, or decoded if it is UTF-16, with a byte order mark or without, or in the
    encoding that the user states.

    Raises:
        MexmaError: It is not in that encoding, or there is no encoding of that name.
    """
    pieces = iter(pieces)
    first = next(pieces, b"")
    codec = encoding_of(first)
    while codec and first.isascii() and first.decode(codec, "replace").encode("utf-8", "replace") == first:
        yield first  # it says nothing yet
        first = next(pieces, b"")
        if not first:
            return
    if codec is None or is_utf8(first, codec):
        yield from chain([first], pieces)
        return
    decoder = codecs.getincrementaldecoder(codec)()
    try:
        for piece in chain([first], pieces):
            yield decoder.decode(piece).removeprefix("\ufeff").encode("utf-8")
        yield decoder.decode(b"", True).encode("utf-8")
    except UnicodeError as error:
        raise MexmaError(
            f"{where} is not in {codec}: {error}", "state the right one with --encoding"
        ) from None


def encoding_of(start: bytes) -> str | None:
    """The codec of a text by its first bytes and by what the user states; None for UTF-8."""
    for mark, codec in _MARKS:
        if start.startswith(mark):
            return codec
    seen = b"" if len(start) % 2 and len(start) < _SEEN else start[: min(len(start), _SEEN) // 2 * 2]
    for codec, zeros, others in (("utf-16-le", seen[1::2], seen[::2]), ("utf-16-be", seen[::2], seen[1::2])):
        if 8 * zeros.count(0) > len(zeros) and not others.count(0) and _is_text(seen, codec):
            return codec
    stated = os.environ.get(STATED)
    if not stated:
        return None
    found = codec_of(stated)
    if found is None:
        raise MexmaError(f"no encoding is known that is called {stated!r}", "such as windows-1252 or gb18030")
    return None if found == "utf-8" or found.startswith("utf-16") else found


def _is_text(seen: bytes, codec: str) -> bool:
    """Whether bytes are text in UTF-16, without a character that no text has."""
    try:
        text = codecs.getincrementaldecoder(codec)().decode(seen)
    except UnicodeError:
        return False
    return all(character.isprintable() or character.isspace() for character in text)
