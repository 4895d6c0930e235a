"""What is no text with a sentence a line is refused, by its name or by how it begins."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from mexma_cli.errors import MexmaError
from mexma_cli.text.kinds import sentences_only
from mexma_cli.text.lines import scan
from tests.command import fails, ok, run, write

TMX = '<?xml version="1.0"?>\n<!-- a -->\n<!DOCTYPE tmx SYSTEM "a">\n<tmx version="1.4">\n<header/><body>'
DOCUMENTS = {
    "jsonl": [
        '{"id": 1, "text": "One."}\n{"text": "Two."}\n',
        '{"text": "One."}',
        '\n{"a": {"b": 1}, "t": "x"}\n',
    ],
    "tmx": [TMX, '<tmx version="1.4"><header>', "\ufeff <!-- x -->\r\n<tmx>\r\n <body>"],
    "html": [
        "<!DOCTYPE html>\n<html lang='fr'>",
        "<!doctype HTML PUBLIC 'x'><HEAD>",
        "<html>\n<head>",
        "<html><!-- --><p>",
    ],
    "xml": ['<?xml version="1.0" encoding="utf-8"?>\n<TEI>'],
    "parquet": ["PAR1\x15\x04\n"],
    "warc": ["WARC/1.0\r\nWARC-Type: warcinfo\r\n", "WARC/1.1\nContent-Length: 5\nWARC-Type: response\n"],
}
TEXTS = [
    "{curly} braces begin this line.\nAnd this is another.\n",
    '{"text": "an example of JSON"}\nis what the first line shows.\n',
    "{}\n{}\n[1]\n",
    "<html> is the first tag of a page.\nOthers follow.\n",
    "<b>Bold</b> text\n<i>and more</i>\n",
    "<3\n",
    '<?xml version="1.0"?>\nis how XML begins.\n',
    "WARC/1.0\nis a format.\n",
    "PAR1\tis how Parquet begins.\n",
]


@pytest.mark.parametrize(
    ("kind", "text"), [(kind, text) for kind, texts in DOCUMENTS.items() for text in texts]
)
@pytest.mark.parametrize("name", ["a", "a.txt.gz"])
def test_documents_are_known_by_their_first_lines(kind: str, text: str, name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(gzip.compress(text.encode()) if name.endswith("gz") else text.encode())
    with pytest.raises(MexmaError, match=f"{name} is {kind.upper()}, not a text with one") as error:
        scan(tmp_path / name)
    assert ("mexma split" in str(error.value.hint)) == (kind not in ("xml", "parquet"))
    pairs = "if it is a bitext of its own, give it as one file where pairs are read"
    assert (pairs in str(error.value.hint)) == (kind in ("jsonl", "tmx", "parquet"))
    assert scan(tmp_path / name, any_kind=True).lines


@pytest.mark.parametrize(
    "name", ["a.jsonl", "a.json.zst", "a.tmx", "a.HTML", "a.htm.gz", "a.warc.gz", "a.wet"]
)
def test_documents_are_known_by_their_names(name: str) -> None:
    with pytest.raises(MexmaError, match="not a text with one"):
        list(sentences_only([b"A line.\n"], name))


@pytest.mark.parametrize("text", TEXTS)
def test_a_text_may_begin_like_them(text: str, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(text)
    assert scan(tmp_path / "a.txt").lines == text.count("\n")


def test_no_command_takes_documents_for_sentences(tmp_path: Path) -> None:
    good, bad = write(tmp_path / "a.txt", "One.", "Two."), write(tmp_path / "d.txt", *DOCUMENTS["jsonl"])
    said = "d.txt is JSONL, not a text with one sentence a line"
    for folder, text in (("a", good), ("b", bad)):
        write(tmp_path / folder / "x.txt", *text.read_text().splitlines())
    fails(
        run("align", tmp_path / "a", tmp_path / "b", "--model", "mini", "-o", tmp_path / "o"),
        1,
        "x.txt is JSONL, not a text with one sentence a line",
    )
    for words in (
        ("embed", bad, "-o", tmp_path / "d.emb"),
        ("mine", good, bad, "--model", "mini"),
        ("langid", bad),
        ("filter", good, bad, "-o", tmp_path / "o.tsv"),
        ("score", good, bad, "--model", "mini"),
        ("review", bad, good, "-o", tmp_path / "o.html"),
    ):
        fails(run(*words), 1, said, "mexma split")
    fails(run("langid", stdin=TMX), 1, "stdin is TMX")
    assert ok(run("langid", stdin="{a} <b> is what it is.\n")).stdout.endswith("\t{a} <b> is what it is.\n")
    assert "text file" in ok(run("info", bad)).stdout
