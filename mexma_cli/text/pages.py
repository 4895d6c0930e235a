"""Web pages as HTTP and HTML hold them, unpacked and decoded as browsers do; and texts in UTF-16, or in an
encoding that the user states, as UTF-8.

Names of encodings are those of the Encoding Standard (https://encoding.spec.whatwg.org), in which iso-8859-1
and ascii are names of windows-1252.
"""

from __future__ import annotations

import codecs
import os
import re
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from itertools import chain
from unicodedata import category

import zstandard

from mexma_cli import languages
from mexma_cli.errors import MexmaError

_LABELS = {
    "sloppy-windows-1252": "ansi_x3.4-1968 ascii cp1252 cp819 iso-8859-1 iso-ir-100 iso8859-1 iso88591 "
    "iso_8859-1 iso_8859-1:1987 l1 latin1 us-ascii windows-1252 x-cp1252",
    "sloppy-windows-1254": "cp1254 iso-8859-9 iso8859-9 iso88599 iso_8859-9 l5 latin5 windows-1254 x-cp1254",
    "utf-8": "unicode-1-1-utf-8 utf8 utf-8 x-unicode20utf8",
    "utf-16-le": "utf-16 utf-16le unicode ucs-2 iso-10646-ucs-2",
    "gb18030": "gb18030 chinese csgb2312 gb2312 gb_2312 gb_2312-80 gbk x-gbk",
    "big5hkscs": "big5 big5-hkscs cn-big5 csbig5 x-x-big5",
    "cp932": "shift_jis shift-jis sjis x-sjis ms_kanji ms932 windows-31j csshiftjis",
    "cp949": "euc-kr euckr korean ks_c_5601-1987 ks_c_5601-1989 ksc5601 ksc_5601 windows-949 cseuckr",
    "cp874": "tis-620 iso-8859-11 iso8859-11 dos-874 windows-874",
    "mac_roman": "macintosh mac x-mac-roman csmacintosh",
    "mac_cyrillic": "x-mac-cyrillic x-mac-ukrainian",
    "euc_jp": "euc-jp x-euc-jp",
    "iso8859_8": "iso-8859-8-i logical visual",
}
"""Python's codec -> labels for which it is not what Python takes for these, or which Python does not know."""
_CODECS = {label: codec for codec, labels in _LABELS.items() for label in labels.split()}
_SLOPPY = frozenset({"cp1250", "cp1251", "cp1253", "cp1255", "cp1256", "cp1257", "cp1258"})
"""Codecs in which bytes without a character are control characters to browsers, and errors to Python."""
_MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_SEVERAL_BYTES = ("big5", "cp932", "cp949", "euc", "gb", "hz", "iso2022", "johab", "shift", "utf")
"""How the names of codecs begin in which a character may be several bytes."""
_HEAD = 1 << 16
"""Bytes of a page in which it states its encoding."""
_STATED = re.compile(
    rb"<meta[^>]{1,500}?charset\s*=\s*[\"']?\s*([^\s\"'/>;]+)|^\s*<\?xml[^>]*?\sencoding\s*=\s*[\"']([^\"'>]+)",
    re.IGNORECASE,
)
_SURELY_UTF8 = 16
"""Bytes after the first of characters in UTF-8: no text that is in another encoding has so many by chance."""
_PIECE = 1 << 16
_GZIP = b"\x1f\x8b"
_OTHER_LATIN = (
    "als azj bos ces crh epo est hau hrv hun ibo kmr lav lit ltg lvs mlt mri pol ron slk slv smo srp taq tuk "
    "tur uzn vie yor"
)
_NOT_WESTERN = frozenset(_OTHER_LATIN.split())
"""Languages in Latin letters that windows-1252 has not, or that are often written in another encoding."""
_ALPHABETS = {
    "bos": "1250 čćđšž",
    "ces": "1250 áčďéěíňóřšťúůýž",
    "hrv": "1250 čćđšž",
    "hun": "1250 áéíóöőúüű",
    "lit": "1257 ąčęėįšųūž",
    "lvs": "1257 āčēģīķļņšūž",
    "pol": "1250 ąćęłńóśźż",
    "ron": "1250 ăâîșşțţ",
    "slk": "1250 áäčďéíĺľňóôŕšťúýž",
    "slv": "1250 čšž",
    "tur": "1254 çğıöşüâîû",
}
"""Language -> the code page of Windows that is usual for it, and its letters beyond ASCII, of which some have
other codes in windows-1252."""
_FEWEST, _SHARE, _NEARLY_ALL = 10, 0.03, 0.8
"""Letters, and share of those beyond ASCII, by which one encoding is better than another; and the share that
is the language's own in the right one."""
_CHUNK = re.compile(rb"[ \t]*([0-9A-Fa-f]{1,8})[ \t]*(?:;[^\r\n]*)?\r?(?:\n|\Z)")
_LINE_END = re.compile(rb"\r?\n|\r?$")
STATED = "MEXMA_ENCODING"
"""The variable of the environment in which processes find the encoding that --encoding states."""
_SEEN = 4096
"""Bytes by which UTF-16 is known."""


@lru_cache(maxsize=1024)
def codec_of(label: str) -> str | None:
    """Python's codec for an encoding by any of its names, as browsers understand them; None if none is."""
    import ftfy.bad_codecs  # noqa: F401 - which registers the sloppy codecs

    label = label.strip().lower()
    name = _CODECS.get(label) or _CODECS.get(label.replace("_", "-"))
    try:
        found = codecs.lookup(name or label)
    except (LookupError, ValueError):  # also a name with a NUL
        return None
    if not found._is_text_encoding or found.name in ("idna", "punycode", "undefined", "utf-7"):
        return None
    return f"sloppy-windows-{found.name[2:]}" if found.name in _SLOPPY else found.name


def usual_encoding(language: str) -> str | None:
    """The codec of pages in a language (FLORES-200 code) that state none, as browsers in countries with it
    have it; None where several are usual."""
    code, _, script = language.partition("_")
    return codec_of("windows-1252") if script == "Latn" and code not in _NOT_WESTERN else None


def decode_page(
    content: bytes, charset: str | None = None, html: bool = True, usual: str | None = None
) -> str | None:
    """A page as text; None if nothing says the encoding and it is not UTF-8.

    A byte order mark says its encoding, else the header of HTTP (`charset`), else, in `html`, the page
    itself, else what is `usual` for pages that state none, a codec. A page that is UTF-8 in spite of what is
    stated is read as UTF-8. Bytes that the encoding does not have become U+FFFD.
    """
    for mark, codec in _MARKS:
        if content.startswith(mark):
            return content[len(mark) :].decode(codec, "replace")
    stated = codec_of(charset) if charset else None
    if stated is None and html and (match := _STATED.search(content[:_HEAD])):
        stated = codec_of((match[1] or match[2]).decode("latin-1"))
        if stated and stated.startswith("utf-16"):
            stated = "utf-8"  # or these words could not have been read
    text = _utf8(content)
    if text is not None and (stated is None or is_utf8(content, stated)):
        return text
    stated = stated or (None if b"\0" in content else usual)
    if stated is None:
        return None
    try:
        return content.decode(stated)
    except UnicodeDecodeError:
        return text if text is not None else content.decode(stated, "replace")


def is_utf8(content: bytes, stated: str) -> bool:
    """Whether a text, or its first bytes, is UTF-8 in spite of the codec that is stated for it."""
    if stated == "utf-8":
        return True
    text = _utf8(content)
    further = 0 if text is None else len(content) - len(text)
    if not further or further >= _SURELY_UTF8 or not stated.startswith(_SEVERAL_BYTES):
        return further > 0
    try:
        codecs.getincrementaldecoder(stated)().decode(content)
    except UnicodeDecodeError:
        return True
    return False


def _utf8(content: bytes) -> str | None:
    """A text in UTF-8, whose last character may be cut; None if it is not."""
    try:
        return codecs.utf_8_decode(content, "strict", False)[0]
    except UnicodeDecodeError:
        return None


def unchunked(body: bytes) -> bytes:
    """A body that was sent in chunks (RFC 9112, 7.1), without their sizes; as it is if it has none.

    Archives state the header of a chunked body also where they have joined the chunks. Behind a size that is
    none, all is taken as it is.
    """
    chunks: list[bytes] = []
    place = 0
    while place < len(body):
        size = _CHUNK.match(body, place)
        if size is None:
            break
        end = size.end() + int(size[1], 16)
        after = _LINE_END.match(body, end) if end <= len(body) else None
        # A body that is cut short ends in a chunk; text that begins with a number is no such body.
        is_page = body[size.end() :].lstrip().startswith((b"<", _GZIP))
        if not chunks and after is None and (end <= len(body) or not is_page):
            return body
        if end == size.end():
            return b"".join(chunks)
        chunks.append(body[size.end() : end])
        place = after.end() if after else end
    return b"".join([*chunks, body[place:]])


def unpacked(body: bytes, encodings: str, limit: int) -> bytes | None:
    """A body without the compressions that `Content-Encoding` names, and that it has, up to `limit` bytes;
    None for a compression that is not known, or damaged from its first byte on. Of a body that is cut short
    comes what is there."""
    for name in reversed(encodings.lower().split(",")):
        found = _unpacked(body, name.strip().removeprefix("x-"), limit) if body else b""
        if found is None:
            return None
        body = found
    return body


def _unpacked(body: bytes, name: str, limit: int) -> bytes | None:
    if name in ("", "identity", "none", "utf-8") and not body.startswith(_GZIP):
        return body
    if name in ("", "identity", "none", "utf-8", "gzip"):  # which some servers forget to say
        return _inflated(body, 31, limit) if body.startswith(_GZIP) else body
    if name == "deflate":  # with the header of zlib, as the standard says, or without
        found = _inflated(body, 15, limit) or _inflated(body, -15, limit)
        return body if found is None and _utf8(body) is not None else found
    if name == "zstd":
        if not body.startswith(zstandard.FRAME_HEADER):
            return body
        unpacking = zstandard.ZstdDecompressor().stream_reader(body, read_across_frames=True)
        try:
            return unpacking.read(limit)
        except zstandard.ZstdError:
            return None
    return _from_brotli(body, limit) if name == "br" else None


def _inflated(body: bytes, bits: int, limit: int) -> bytes | None:
    """All members of a gzip body, or one of deflate, up to where it is damaged."""
    found = b""
    while body and len(found) < limit:
        unpacking = zlib.decompressobj(bits)
        try:
            for start in range(0, len(body), _PIECE):
                found += unpacking.decompress(body[start : start + _PIECE], limit + 1 - len(found))
                if unpacking.eof or len(found) > limit:
                    break
        except zlib.error:
            return found or None
        body = unpacking.unused_data + body[start + _PIECE :] if unpacking.eof and bits == 31 else b""
        if not body.startswith(_GZIP):
            break
    return found[:limit]


def _from_brotli(body: bytes, limit: int) -> bytes | None:
    import brotli  # of the extra `web`

    unpacking = brotli.Decompressor()
    found = b""
    try:
        found = unpacking.process(body, output_buffer_limit=limit)
        while len(found) < limit and (more := unpacking.process(b"", output_buffer_limit=limit - len(found))):
            found += more
    except brotli.error:
        pass
    return found[:limit] or (body if _utf8(body) is not None else None)


def in_utf8(pieces: Iterable[bytes], where: str) -> Iterator[bytes]:
    """A text in UTF-8: as it is, or decoded if it is UTF-16, with a byte order mark or without, or in the
    encoding that the user states. Text that is not in that encoding is refused."""
    decoder = None
    try:
        for codec, piece in by_codec(pieces):
            if codec is None:
                yield piece
                continue
            decoder = decoder or codecs.getincrementaldecoder(codec)()
            yield decoder.decode(piece).removeprefix("\ufeff").encode("utf-8")
        if decoder is not None:
            yield decoder.decode(b"", True).encode("utf-8")
    except UnicodeError as error:
        raise MexmaError(
            f"{where} is not in {codec}: {error}", "state the right one with --encoding"
        ) from None


def by_codec(pieces: Iterable[bytes]) -> Iterator[tuple[str | None, bytes]]:
    """The pieces of a text, each with the codec that it is to be decoded with; None: it is UTF-8."""
    pieces = iter(pieces)
    first = next(pieces, b"")
    codec = encoding_of(first)
    while codec and first.isascii() and first.decode(codec, "replace").encode("utf-8", "replace") == first:
        yield None, first  # it says nothing yet
        first = next(pieces, b"")
        if not first:
            return
    if codec is not None and is_utf8(first, codec):
        codec = None
    yield from ((codec, piece) for piece in chain([first], pieces))


def encoding_of(start: bytes) -> str | None:
    """The codec of a text by its first bytes and by what the user states; None for UTF-8."""
    for mark, codec in _MARKS:
        if start.startswith(mark):
            return None if codec == "utf-8" else codec
    seen = b"" if len(start) % 2 and len(start) < _SEEN else start[: min(len(start), _SEEN) // 2 * 2]
    for codec, zeros, others in (("utf-16-le", seen[1::2], seen[::2]), ("utf-16-be", seen[::2], seen[1::2])):
        if 8 * zeros.count(0) > len(zeros) and not others.count(0) and _is_text(seen, codec):
            return codec
    return stated_encoding()


def stated_encoding() -> str | None:
    """The codec that the user states; None for Unicode, which needs no statement. An unknown name is
    refused."""
    stated = os.environ.get(STATED)
    if not stated:
        return None
    found = codec_of(stated)
    if found is None:
        raise MexmaError(f"no encoding is known that is called {stated!r}", "such as windows-1252 or gb18030")
    return None if found == "utf-8" or found.startswith("utf-16") else found


def doubt_of_encoding(start: bytes, language: str) -> str:
    """Say that the beginning of a text in a language (FLORES-200 code) has fewer letters of the language in
    the encoding that the user states than in the one that is usual for it, where nearly all are; else empty.
    """
    stated, known = stated_encoding(), _ALPHABETS.get(language.partition("_")[0])
    usual = codec_of(f"windows-{known[:4]}") if known else None
    if not known or not usual or not stated or encoding_of(start) != stated or is_utf8(start, stated):
        return ""
    here, there = (
        Counter(
            sign
            for sign in start.decode(codec, "replace").lower()
            if sign == "¿" or (sign > "\x7f" and category(sign)[0] in "LNSC")
        )
        for codec in (stated, usual)
    )
    own = [sum(counts[letter] for letter in known[5:]) for counts in (here, there)]
    better = min(own[1] - own[0], here.total() - own[0])
    if own[1] < _NEARLY_ALL * there.total() or better <= max(_FEWEST, _SHARE * here.total()):
        return ""
    others = [sign for sign, _ in here.most_common() if sign not in known and sign.isprintable()]
    return (
        f"in the stated encoding it has letters that {languages.name(language)} has not, such as "
        f"{' '.join(others[:3])}: is it in windows-{known[:4]}?"
    )


@contextmanager
def stating(encoding: str | None) -> Iterator[None]:
    """In the block, this process and those that it starts take an encoding as stated; None: no encoding."""
    before = os.environ.pop(STATED, None)
    if encoding is not None:
        os.environ[STATED] = encoding
    try:
        yield
    finally:
        os.environ.pop(STATED, None)
        if before is not None:
            os.environ[STATED] = before


def _is_text(seen: bytes, codec: str) -> bool:
    """Whether bytes are text in UTF-16, without a character that no text has."""
    try:
        text = codecs.getincrementaldecoder(codec)().decode(seen)
    except UnicodeError:
        return False
    return all(character.isprintable() or character.isspace() for character in text)
