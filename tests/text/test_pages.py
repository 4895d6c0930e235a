"""Pages as HTTP and HTML hold them: chunks, compressions and encodings."""

from __future__ import annotations

import codecs
import gzip
import sys
import zlib

import ftfy.bad_codecs
import pytest
import zstandard

from mexma_cli.errors import MexmaError
from mexma_cli.text.pages import (
    STATED,
    codec_of,
    decode_page,
    doubt_of_encoding,
    encoding_of,
    in_utf8,
    stating,
    unchunked,
    unpacked,
    usual_encoding,
)

PAGE = "<html><p>Le port était fermé à cause d’un épais brouillard.</p></html>".encode()


def chunked(body: bytes, size: int = 9, end: bytes = b"\r\n", rest: str = ";a=b") -> bytes:
    parts = [body[start : start + size] for start in range(0, len(body), size)]
    return b"".join(f"{len(part):X}{rest}".encode() + end + part + end for part in parts) + b"0" + end + end


def raw_deflate(body: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(body) + packer.flush()


def test_chunks_are_joined() -> None:
    assert unchunked(chunked(PAGE)) == PAGE
    assert unchunked(chunked(PAGE, 1 << 20, rest="")) == PAGE
    assert unchunked(chunked(PAGE, end=b"\n", rest=" ")) == PAGE
    assert unchunked(chunked(PAGE)[:-2] + b"Expires: 0\r\n\r\n") == PAGE, "trailers are none of the body"
    assert unchunked(chunked(gzip.compress(PAGE))) == gzip.compress(PAGE)
    assert unchunked(chunked(b"")) == b""


def test_bodies_without_chunks_stay() -> None:
    for body in (
        PAGE,
        b"",
        b"2024\r\nLe port est ferm\xc3\xa9.\r\n",
        b"12\r\nest venu dans la maison",
        b"\n7\n",
    ):
        assert unchunked(body) == body, body


def test_cut_chunks_give_what_is_there() -> None:
    assert unchunked(chunked(PAGE)[:46]) == PAGE[: 9 + 9 + 3]
    assert unchunked(chunked(PAGE)[:40]) == PAGE[: 9 + 9], "cut in a size"
    assert unchunked(b"1000\r\n" + PAGE) == PAGE
    assert unchunked(b"3\r\n<p>\r\nno size\r\n") == b"<p>no size\r\n"


def test_compressions_are_undone() -> None:
    brotli = pytest.importorskip("brotli")
    two = gzip.compress(PAGE[:30]) + gzip.compress(PAGE[30:])
    for encodings, body in {
        "gzip": two,
        "x-gzip": gzip.compress(PAGE),
        "deflate": zlib.compress(PAGE),
        "Deflate": raw_deflate(PAGE),
        "br": brotli.compress(PAGE),
        "zstd": zstandard.compress(PAGE),
        "deflate, gzip": gzip.compress(zlib.compress(PAGE)),
        "identity": PAGE,
        "none": gzip.compress(PAGE),
        "": PAGE,
    }.items():
        assert unpacked(body, encodings, 1 << 20) == PAGE, encodings
    for name in ("gzip", "deflate", "br", "zstd"):
        assert unpacked(PAGE, name, 1 << 20) == PAGE, "an archive that has unpacked it keeps the header"
        assert unpacked(b"", name, 1 << 20) == b""
    for pack, name in ((gzip.compress, "gzip"), (brotli.compress, "br"), (zstandard.compress, "zstd")):
        assert unpacked(pack(b"x" * (1 << 20)), name, 1000) == b"x" * 1000, "no more than the limit"
    assert unpacked(b"\x1f\x8b\x00 damaged", "gzip", 1000) is None
    assert unpacked(b"\xff\xfe\x00 damaged", "deflate", 1000) is None
    assert unpacked(PAGE, "sdch", 1000) is None
    cut = unpacked(gzip.compress(PAGE * 9)[:-12], "gzip", 1 << 20)
    assert cut and (PAGE * 9).startswith(cut)


@pytest.mark.parametrize(
    ("page", "charset", "text"),
    [
        ("d’été".encode("cp1252"), "ISO-8859-1", "d’été"),
        ("d’été".encode("cp1252"), "us-ascii", "d’été"),
        (b"d\x92\x81", "latin1", "d’\x81"),
        ("привет".encode("cp1251"), "windows-1251", "привет"),
        ("привет".encode("koi8-r"), "KOI8-R", "привет"),
        ("日本語のページ".encode("cp932"), "Shift_JIS", "日本語のページ"),
        ("日本語".encode("iso-2022-jp"), "ISO-2022-JP", "日本語"),
        ("中文網頁€".encode("gb18030"), "gb2312", "中文網頁€"),
        ("한국어".encode("cp949"), "ks_c_5601-1987", "한국어"),
        ("été à la mer".encode(), "iso-8859-1", "été à la mer"),
        ("中文网页是用另一种编码写的".encode(), "gb2312", "中文网页是用另一种编码写的"),
        ("联通".encode("gb18030"), "gbk", "联通"),  # whose bytes are UTF-8, too
        (b"\xe9t\xe9", "utf-8", "\ufffdt\ufffd"),
        (b"\xe9t\xe9", "no-such-encoding", None),
        (b"\xe9t\xe9", None, None),
        ("été".encode()[:-1], None, "ét"),
        ("été".encode("utf-16"), "iso-8859-1", "été"),
        ("été".encode("utf-16-be"), "utf-16be", "été"),
        (b"\xef\xbb\xbf" + "été".encode(), "iso-8859-1", "été"),
    ],
)
def test_header_says_the_encoding(page: bytes, charset: str | None, text: str | None) -> None:
    assert decode_page(page, charset, html=False) == text


def test_usual_encoding_of_pages_that_state_none(monkeypatch: pytest.MonkeyPatch) -> None:
    page = PAGE.decode().encode("cp1252")
    codecs.unregister(ftfy.bad_codecs.search_function)  # as in a new process
    monkeypatch.delitem(sys.modules, "ftfy.bad_codecs")
    codec_of.cache_clear()
    assert decode_page(page, usual=usual_encoding("fra_Latn")) == PAGE.decode()
    assert decode_page(page, usual=usual_encoding("pol_Latn")) is None, "windows-1250 or iso-8859-2"
    late = b"<style>" + b"p{}" * 9999 + b"</style><meta charset=windows-1250>" + "zażółć".encode("cp1250")
    assert decode_page(late, usual=usual_encoding("fra_Latn")).endswith("zażółć")  # type: ignore[union-attr]


def test_page_says_the_encoding() -> None:
    for start in (
        '<meta charset="windows-1251">',
        "<html><head><META http-equiv=Content-Type content='text/html; charset=windows-1251'>",
        '<?xml version="1.0" encoding="windows-1251"?>',
    ):
        page = f"{start}привет"
        assert decode_page(page.encode("cp1251")) == page
        assert decode_page(page.encode()) == page, "UTF-8 in spite of it"
        assert decode_page(page.encode("cp1251"), html=False) is None
        assert decode_page(page.encode("koi8-r"), "koi8-r") == page, "the header goes first"
    assert decode_page("<meta charset=utf-16>été".encode()) == "<meta charset=utf-16>été"


def test_no_codec_that_is_no_encoding() -> None:
    assert codec_of(" Latin1 ") == "sloppy-windows-1252"
    assert codec_of("UTF-8") == "utf-8"
    for label in ("rot13", "hex", "idna", "undefined", "no\0", "utf-7", ""):
        assert codec_of(label) is None, label


TEXT = "Le port était fermé.\nМы читали книгу.\n"


def read(content: bytes, step: int = 7) -> str:
    pieces = (content[at : at + step] for at in range(0, len(content), step))
    return b"".join(in_utf8(pieces, "x")).decode("utf-8").removeprefix("\ufeff")


def test_utf16_is_known_with_a_mark_and_without() -> None:
    for encoding in ("utf-8", "utf-8-sig", "utf-16"):
        assert read(TEXT.encode(encoding)) == TEXT, encoding
    for encoding in ("utf-16-le", "utf-16-be"):
        assert read(TEXT.encode(encoding), step=1 << 16) == TEXT, encoding
        assert encoding_of(TEXT.encode(encoding) * 500) == encoding


def test_what_is_no_utf16() -> None:
    for content in (b"", b"abc", b"one\ntw\0o\n", bytes(range(256)) * 4, b"\0" * 64, b"\x93NUMPY\x01\0v\0"):
        assert encoding_of(content) is None, content


def test_an_encoding_is_stated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(STATED, "windows-1251")
    assert read("Мы читали книгу.".encode("cp1251")) == "Мы читали книгу."
    monkeypatch.setenv(STATED, "iso-8859-1")
    assert read("d’été".encode("cp1252")) == "d’été", "as browsers read it"
    monkeypatch.setenv(STATED, "gb18030")
    with pytest.raises(MexmaError, match="x is not in gb18030"):
        read(b"\xff\xff")
    text = "Only ASCII.\n" * 9 + 2 * TEXT
    for stated, encoding in (("cp1252", "utf-8"), ("gb18030", "utf-8"), ("gb18030",) * 2, ("hz",) * 2):
        monkeypatch.setenv(STATED, stated)
        for step in (1 << 16, 108):  # what is stated may be meant of another text of the same command
            assert read(text.encode(encoding), step) == text, (stated, encoding, step)
    monkeypatch.setenv(STATED, "gb18030")
    assert read("Thank you — really.".encode(), 1 << 16) == "Thank you — really.", "as gb18030 it is broken"
    monkeypatch.setenv(STATED, "klingon")
    with pytest.raises(MexmaError, match="no encoding is known that is called 'klingon'"):
        read(b"abc")


@pytest.mark.parametrize(
    ("language", "usual", "text"),
    [
        ("pol", "windows-1250", "Kiedyś będzie żył „spokojnie” – powiedział Łukasz, zły na rząd."),
        ("ces", "windows-1250", "Příliš žluťoučký kůň úpěl ďábelské ódy; že by měl příště čas?"),
        ("hun", "windows-1250", "Az őszi erdőből jövő gyűrűs szőrű őz fűzfa előtt nőtt fűből evett."),
        ("ron", "windows-1250", "Într-o zi, băiatul şi fata au aşteptat în ploaie până seara târziu."),
        ("slv", "windows-1250", "Včeraj je deček čakal na učiteljico in začel čečkati po časopisu."),
        ("lit", "windows-1257", "Žąsys plaukė ežeru, o vėjas šiureno žolę ir ąžuolų lapus."),
        ("lvs", "windows-1257", "Šodien bērni mācās, kā pareizi rakstīt ziņas un vēstules."),
        ("tur", "windows-1254", "Işığı söndürüp dışarı çıktığında yağmur başlamıştı, İstanbul'da."),
    ],
)
def test_letters_that_the_language_has_not_tell_of_another_encoding(
    language: str, usual: str, text: str
) -> None:
    code, content = f"{language}_Latn", f"{text}\n".encode(codec_of(usual) or "") * 10
    others = {"windows-1250": ["iso8859-2"], "windows-1257": ["iso8859-13"], "windows-1254": ["iso8859-9"]}
    for wrong in ("windows-1252", "iso-8859-15", "windows-1251"):
        with stating(wrong):
            said = doubt_of_encoding(content, code)
            assert said.endswith(f"is it in {usual}?") and " has not, such as " in said, said
            assert doubt_of_encoding(f"{text}\n".encode() * 10, code) == "", "it is UTF-8"
            assert doubt_of_encoding(content[:16], code) == "", "of a few letters nothing is known"
            assert doubt_of_encoding(content, "fra_Latn") == ""
    assert doubt_of_encoding(content, code) == "", "nothing is stated"
    for right in (usual, *others[usual]):
        plain = text if right == usual else text.translate(dict.fromkeys(map(ord, "„”–"), "-"))
        with stating(right):
            assert doubt_of_encoding(f"{plain}\n".encode(codec_of(right) or "") * 10, code) == ""
    with stating("windows-1252"):
        foreign = "À Genève, François a dit « ça va très bien » à Chloë et à Zoë.\n".encode("cp1252") * 10
        assert doubt_of_encoding(foreign, code) == "", "another language is none of its letters"
