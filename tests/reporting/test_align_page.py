"""The page of two texts side by side: everything is on it, and nothing in the texts is markup."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mexma_cli.formats.documents import DocumentPair
from mexma_cli.reporting import align_page
from mexma_cli.reporting.align_page import write_alignment_page

PAIR = DocumentPair(
    ("<a>", "b"),
    None,
    0.75,
    (["uno <script>alert(1)</script>", "dos"], ["one", "& two", "page 7"]),
    ([1, 3], [1, 2, 3]),
    [(range(0, 2), range(0, 2)), (range(2, 2), range(2, 3))],
    [0.45, 0.0],
)


def test_sentences_are_escaped_and_coloured_by_score(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    write_alignment_page(path, [PAIR], ("x & y", "z"))
    text = path.read_text(encoding="utf-8")
    assert "<script" not in text and "uno &lt;script&gt;alert(1)&lt;/script&gt;" in text
    assert "<title>x &amp; y and z</title>" in text and "<h2>&lt;a&gt; and b</h2>" in text
    assert re.findall(r'<details class="bead (\w+)" id="(\S+)"', text) == [("s2", "d1-1"), ("alone", "d1-2")]
    assert re.findall(r'<a class="(\w+)" href="#(\S+)" title="(\S+)"', text) == [
        ("s2", "d1-1", "0.45"),
        ("alone", "d1-2", "alone"),
    ]
    assert re.findall(r"<p><b>(\d)</b>(\S+)", text)[1:] == [
        ("3", "dos"),
        ("1", "one"),
        ("2", "&amp;"),
        ("3", "page"),
    ]
    assert "are shown" not in text and "http" not in text
    assert "<b>of these alone</b> 0 and 1</span></p>" in text and "dropped by" not in text


def test_sentences_whose_alignment_a_filter_drops_are_apart(tmp_path: Path) -> None:
    beads = [
        (range(0, 1), range(0, 0)),
        (range(1, 1), range(0, 1)),
        *PAIR.beads[1:],
        (range(1, 2), range(1, 2)),
    ]
    path = tmp_path / "page.html"
    write_alignment_page(path, [PAIR._replace(beads=beads, scores=[0.2, 0.2, 0.0, 0.7])], ("x", "y"))
    text = path.read_text(encoding="utf-8")
    assert re.findall(r'class="bead (\w+)"', text) == ["dropped", "dropped", "alone", "s3"]
    assert "<b>of these alone</b> 0 and 1</span><span><b>dropped</b> 1 and 1</span>" in text
    assert "dropped by --threshold or --keep" in text


def test_of_very_long_texts_the_beginning_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(align_page, "MOST", 3)
    path = tmp_path / "page.html"
    write_alignment_page(path, [PAIR, PAIR, PAIR], ("x", "y"))
    text = path.read_text(encoding="utf-8")
    assert text.count("<details") == 3 and "The first 3 alignments are shown." in text
