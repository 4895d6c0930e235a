"""Texts in other encodings than UTF-8."""

from __future__ import annotations

import pytest

from mexma_cli.errors import MexmaError
from mexma_cli.text.encodings import STATED, encoding_of, in_utf8

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
