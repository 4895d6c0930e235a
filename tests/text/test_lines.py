"""Reading lines: nothing lost, nothing joined, and a clear word about what is broken."""

from __future__ import annotations

import bz2
import functools
import gzip
import io
import lzma
import os
import random
import struct
import tempfile
import textwrap
import threading
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from mexma_cli.errors import MexmaError
from mexma_cli.text import lines
from mexma_cli.text.lines import (
    Member,
    estimate_size,
    is_blank,
    open_text,
    read_again,
    read_lines,
    reading_order,
    scan,
    spooled,
)

TEXT = "Bonjour\n\nπ ≈ 3\u2028still the same line\r\n \u3000\u00a0\nlast\x0cone"
ROWS = ["Bonjour", "", "π ≈ 3\u2028still the same line", " \u3000\u00a0", "last\x0cone"]
PACK = {
    "txt": bytes,
    "gz": gzip.compress,
    "xz": functools.partial(lzma.compress, preset=0),
    "bz2": bz2.compress,
    "zst": zstandard.ZstdCompressor(write_checksum=True).compress,
}


def write(folder: Path, content: bytes, name: str = "a.txt") -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("kind", PACK)
def test_reads_every_compression(kind: str, tmp_path: Path) -> None:
    path = write(tmp_path, PACK[kind](TEXT.encode()), f"a.{kind}")
    found = scan(path)
    assert list(read_lines(path)) == ROWS
    assert (found.lines, found.bytes) == (5, len(TEXT.encode()))
    assert found.checksum == scan(write(tmp_path, TEXT.encode())).checksum


@pytest.mark.parametrize("kind", [kind for kind in PACK if kind != "txt"])
def test_damaged_compression_is_refused(kind: str, tmp_path: Path) -> None:
    packed = PACK[kind](random.Random(0).randbytes(3000).hex().encode())
    for broken in (packed[:-9], packed[: len(packed) // 2] + bytes(40) + packed[len(packed) // 2 + 40 :]):
        path = write(tmp_path, broken, f"a.{kind}")
        with pytest.raises(MexmaError, match=rf"a\.{kind} is damaged or cut short"):
            scan(path)


@pytest.mark.parametrize("kind", [kind for kind in PACK if kind != "txt"])
def test_lines_that_follow_packed_ones_are_not_passed_over(kind: str, tmp_path: Path) -> None:
    path = write(tmp_path, PACK[kind](b"one\ntwo\n") + b"three\n", f"a.{kind}")
    with pytest.raises(MexmaError, match=rf"a\.{kind} is damaged or cut short"):
        list(read_lines(path))
    path = write(tmp_path, PACK[kind](b"one\ntwo\n") + bytes(512), f"a.{kind}")
    assert list(read_lines(path)) == ["one", "two"]


def test_several_frames_are_one_text(tmp_path: Path) -> None:
    for kind in ("gz", "zst", "xz"):
        path = write(tmp_path, PACK[kind](b"one\ntw") + PACK[kind](b"o\nthree"), f"a.{kind}")
        assert list(read_lines(path)) == ["one", "two", "three"]


def test_frames_of_pzstd_are_one_text(tmp_path: Path) -> None:
    frames = [PACK["zst"](part) for part in (b"one\ntw", b"o\nthree")]
    lengths = [struct.pack("<3I", 0x184D2A50, 4, len(frame)) for frame in frames]
    path = write(tmp_path, lengths[0] + frames[0] + lengths[1] + frames[1], "a.zst")
    assert list(read_lines(path)) == ["one", "two", "three"] and scan(path).lines == 3


@pytest.mark.parametrize(
    ("kind", "unit"),
    [("gz", b"a"), ("gz", b"\n"), ("xz", b"a"), ("bz2", b"a"), ("zst", b"a"), ("zst", b"a\n")],
)
def test_a_bomb_is_refused_in_little_memory(kind: str, unit: bytes, tmp_path: Path) -> None:
    size = 96 << 20
    path = write(tmp_path, PACK[kind](unit * (size // len(unit))), f"a.{kind}")
    tracemalloc.start()
    try:
        with pytest.raises(MexmaError, match=r"MiB are packed into|more than 67,108,864 bytes in one line"):
            scan(path)
        assert tracemalloc.get_traced_memory()[1] < size
    finally:
        tracemalloc.stop()


def test_xz_that_needs_much_memory_is_refused(tmp_path: Path) -> None:
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 0, "dict_size": 512 << 20}]
    path = write(tmp_path, lzma.compress(b"a\n", filters=filters), "a.xz")
    with pytest.raises(MexmaError, match=r"xz decompression failed .Memory usage limit exceeded"):
        scan(path)


def test_wrong_suffix_is_refused(tmp_path: Path) -> None:
    with pytest.raises(MexmaError, match="is not gz data"):
        scan(write(tmp_path, b"plain\n", "a.gz"))


def test_byte_order_mark_and_line_ends(tmp_path: Path) -> None:
    path = write(tmp_path, b"\xef\xbb\xbfone\r\n\xef\xbb\xbftwo\n")
    assert list(read_lines(path)) == ["one", "\ufefftwo"]
    assert scan(path).lines == 2
    path = write(tmp_path, b"one\r\r\ntwo\r\r\n")  # as programs leave it that turn LF into CR LF twice
    assert list(read_lines(path)) == ["one", "two"]


@pytest.mark.parametrize(
    ("content", "line", "byte"),
    [
        (b"ok\ncaf\xe9\n", 2, 4),
        (b"\xff", 1, 1),
        ("é\n".encode() * 70_000 + b"ab\xc3(\n", 70_001, 3),
        (b"a\n\xc3", 2, 1),
    ],
)
def test_not_utf8_names_file_line_and_byte(content: bytes, line: int, byte: int, tmp_path: Path) -> None:
    path = write(tmp_path, content)
    for read in (scan, lambda path: list(read_lines(path))):
        with pytest.raises(MexmaError, match=rf"a\.txt, line {line}, byte {byte}: not UTF-8"):
            read(path)


def test_vectors_in_place_of_text(tmp_path: Path) -> None:
    vectors = np.random.default_rng(0).normal(size=(50, 8)).astype(np.float32)
    np.save(tmp_path / "a.npy", vectors)
    for path in (tmp_path / "a.npy", write(tmp_path, vectors.tobytes())):
        with pytest.raises(MexmaError, match=r"line 1, byte .: not UTF-8") as caught:
            scan(path)
        assert "such as windows-1252" in str(caught.value.hint)
        assert "vectors are read by `mexma convert`" in str(caught.value.hint)


def test_position_is_right_in_later_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "_BLOCK", 64)
    path = write(tmp_path, "größe\n".encode() * 100 + b"gr\xf6\xdfe\n" + b"x\n" * 50)
    with pytest.raises(MexmaError, match="line 101, byte 3"):
        scan(path)


def test_nul_bytes_are_refused_and_utf16_is_read(tmp_path: Path) -> None:
    with pytest.raises(MexmaError, match="line 2, byte 3: a NUL byte"):
        scan(write(tmp_path, b"one\ntw\0o\n"))
    for encoding in ("utf-16", "utf-16-le", "utf-16-be"):
        path = write(tmp_path, "one\ntwö\n".encode(encoding))
        assert scan(path).lines == 2
        assert list(read_again(scan(path))) == ["one", "twö"]


@pytest.mark.parametrize("before", [0, 3, 5_000_000])
@pytest.mark.parametrize("end", [b"", b"\n", b"\nmore\n"])
def test_a_line_above_the_limit_is_refused_with_its_length(before: int, end: bytes, tmp_path: Path) -> None:
    head = b"short\n" * (before // 6)
    path = write(tmp_path, head + b"x" * 10_000_000 + end)
    with pytest.raises(MexmaError, match=rf"line {before // 6 + 1}: 10,000,000 bytes"):
        scan(path)


def test_the_limit_itself_is_allowed(tmp_path: Path) -> None:
    path = write(tmp_path, b"a\n" + b"x" * lines.LINE_LIMIT + b"\nb\n")
    assert scan(path).lines == 3
    for shift in (0, 1, 700_000):
        with pytest.raises(MexmaError, match=f"line 2: {lines.LINE_LIMIT + 1:,} bytes"):
            scan(write(tmp_path, b"a" * shift + b"\n" + b"x" * (lines.LINE_LIMIT + 1) + b"\nb\n"))


def test_missing_folder_and_empty(tmp_path: Path) -> None:
    with pytest.raises(MexmaError, match="nowhere: no such file"):
        scan(tmp_path / "nowhere")
    with pytest.raises(MexmaError, match="is a folder"):
        scan(tmp_path)
    for content in (b"", b"\xef\xbb\xbf"):
        with pytest.raises(MexmaError, match="has no lines"):
            scan(write(tmp_path, content))
    with pytest.raises(MexmaError, match="has no lines"):
        scan(write(tmp_path, gzip.compress(b""), "a.gz"))


@pytest.mark.parametrize(
    "unseen",
    [
        "",
        " \t",
        "\u200b",
        "\u200e\u200f",
        "\xad",
        "\ufeff",
        "\u2060 \u061c",
        "\u3164",
        "\ufe0f",
        "\x07",
        "\u2800",
    ],
)
def test_a_line_in_which_nothing_can_be_seen_is_blank(unseen: str, tmp_path: Path) -> None:
    assert is_blank(unseen) and not is_blank(f"{unseen}.") and not is_blank(f"a{unseen}")
    (tmp_path / "a").write_bytes(f"{unseen}\n{unseen}.\nx".encode())
    assert (scan(tmp_path / "a").lines, sum(map(is_blank, read_lines(tmp_path / "a")))) == (3, 1)


@pytest.mark.parametrize("piece", [5, 1 << 20])
def test_old_macs_line_ends(piece: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "_BLOCK", piece)
    (tmp_path / "mac").write_bytes("\ufeffà\rb\r\rc".encode())
    assert list(read_lines(tmp_path / "mac")) == ["à", "b", "", "c"]
    found = scan(tmp_path / "mac")
    assert found.lines == 4 and list(read_again(found)) == ["à", "b", "", "c"]
    assert estimate_size(tmp_path / "mac") == (4, 10, True)
    (tmp_path / "unix").write_bytes(b"a\rb\nc\r\nd\re")
    assert list(read_lines(tmp_path / "unix")) == ["a\rb", "c", "d\re"], "no other line end is one there"
    monkeypatch.setattr(lines, "_WITHOUT_LINE_FEED", 4)
    (tmp_path / "long").write_bytes(b"abcd\refgh\rij\nkl")
    assert list(read_lines(tmp_path / "long")) == ["abcd", "efgh", "ij", "kl"] or piece > 5


ODD = st.text(st.sampled_from("ab é\u3000\u00a0\u2003\u2028\r\t漢😀\u200b\u3164\x7f"), max_size=6)


@given(st.lists(ODD, min_size=1, max_size=30), st.booleans(), st.integers(8, 64))
def test_scan_and_read_agree_with_python(rows: list[str], ended: bool, block: int) -> None:
    path = Path(tempfile.gettempdir()) / f"mexma-lines-{os.getpid()}.txt"
    text = "\n".join(rows) + ("\n" if ended else "")
    path.write_bytes(text.encode())
    wanted = text.split("\n" if "\n" in text else "\r")
    if not wanted[-1]:
        wanted.pop()
    wanted = [row.rstrip("\r") for row in wanted]  # CR CR LF, too
    before, lines._BLOCK = lines._BLOCK, block
    try:
        assert list(read_lines(path)) == wanted
        if wanted:
            assert scan(path).lines == len(wanted)
    finally:
        lines._BLOCK = before
        path.unlink()


@pytest.mark.parametrize("name", ["out.txt", "out.gz", "out.xz", "out.zst"])
def test_open_text_writes_what_read_lines_reads(name: str, tmp_path: Path) -> None:
    with open_text(tmp_path / name) as file:
        file.write("eins\nzwei π\n")
    assert list(read_lines(tmp_path / name)) == ["eins", "zwei π"]


def test_stdin_and_pipes_are_spooled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packed = gzip.compress(b"one\ntwo\n")
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(packed)))
    assert list(read_lines("-")) == ["one", "two"]
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(packed)))
    with spooled("-") as path:
        assert scan(path).lines == 2
        assert list(read_lines(path)) == ["one", "two"]
    assert not path.exists()
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    threading.Thread(target=fifo.write_bytes, args=(b"a\nb",)).start()
    with spooled(fifo) as path:
        assert path != fifo
        assert (scan(path).lines, scan(path).lines) == (2, 2)
    plain = write(tmp_path, b"a\n")
    with spooled(plain) as path:
        assert path == plain


def test_messages_name_the_label(tmp_path: Path) -> None:
    with pytest.raises(MexmaError, match=r"^stdin, line 1, byte 1: not UTF-8"):
        scan(write(tmp_path, b"\xff"), label="stdin")


@pytest.mark.parametrize(
    ("lines", "broken"),
    [
        (["Jonah fled from the presence", "of the Lord. He went down", "to Joppa."], True),
        (["Йона втік від", "лиця Господнього."], True),
        (["jonah fled .", "he went down ."], False),  # no capitals in the text
        (["Jonah fled.", "He went down.", "", "And he paid."], False),
        (["约拿逃往他施去。", "他下到约帕。"], False),
        (textwrap.wrap("وَكَانَ كَلَامُ الرَّبِّ إِلَى يُونَانَ بْنِ أَمِتَّايَ قَائِلًا. " * 3, 50), True),
        (textwrap.wrap("Gott der Herr ließ Bäume wachsen. Er sah, daß alles gut war. " * 3, 60), True),
    ],
)
def test_lines_that_are_no_sentences_are_noticed(lines: list[str], broken: bool, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("\n".join(15 * lines), encoding="utf-8")
    assert bool(scan(tmp_path / "a.txt").broken) == broken
    (tmp_path / "a.txt").write_text("\n".join(lines), encoding="utf-8")
    assert not scan(tmp_path / "a.txt").broken, "too few to tell"


def test_a_member_of_a_zip_is_read_where_it_is(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("deep/text", TEXT)
        archive.writestr("packed.gz", gzip.compress(TEXT.encode()))
    for name in ("deep/text", "packed.gz"):
        member = Member(tmp_path / "a.zip", name)
        assert list(read_lines(member)) == ROWS
        assert (scan(member).lines, scan(member).path) == (5, member)
    with pytest.raises(MexmaError, match=r"a\.zip:none is damaged"):
        list(read_lines(Member(tmp_path / "a.zip", "none")))


@pytest.mark.parametrize(
    ("at", "value", "said"), [(8, 1, "is encrypted"), (10, 12, "is not packed as usual")]
)
def test_members_that_cannot_be_read_are_refused(at: int, value: int, said: str, tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("text", TEXT)
    content = bytearray(path.read_bytes())
    content[content.index(b"PK\x01\x02") + at] = value
    path.write_bytes(content)
    with pytest.raises(MexmaError, match=rf"a\.zip:text .*{said}"):
        list(read_lines(Member(path, "text")))


def test_names_are_sorted_as_people_count() -> None:
    wanted = "1.9 1.10 1.txt 2.fejezet.txt ٣ 10.fejezet.txt ٢٠ 999999999999999999999 -1 B a a9b2 a9b10 a9c1 "
    wanted += "x/02/1.txt x/2/1.txt x/10/1.txt ²"
    assert " ".join(sorted(sorted(wanted.split()), key=reading_order)) == wanted


def test_a_zip_is_no_text(tmp_path: Path) -> None:
    path = tmp_path / "pairs.tsv.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("text", TEXT)
    for read in (scan, estimate_size, lambda path: list(read_lines(path))):
        with pytest.raises(MexmaError, match=r"pairs\.tsv\.zip is a zip archive") as caught:
            read(path)
        assert "of an .xlsx, CSV" in str(caught.value.hint)
        assert "`format: opus`" in str(caught.value.hint)


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=pytest.mark.slow if kind in ("bz2", "xz") else ()) for kind in PACK]
)
def test_lines_are_estimated_from_the_beginning(kind: str, tmp_path: Path) -> None:
    rows = [f"{os.urandom(n % 40).hex()} {n}" for n in range(200_000)]
    text = "\n".join(rows).encode()
    path = write(tmp_path, PACK[kind](text), f"a.{kind}")
    found, size, counted = estimate_size(path, limit=4 << 20)
    assert not counted
    assert (found, size) == (pytest.approx(len(rows), rel=0.15), pytest.approx(len(text), rel=0.15))
    assert estimate_size(path, limit=1 << 30) == (len(rows), len(text), True)
