"""Sentences of documents are estimated from a sample, whatever stands around them."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from mexma_cli.errors import MexmaError
from mexma_cli.files import shipped_folder
from mexma_cli.settings.stages import SplitSettings
from mexma_cli.stages.split import sample
from mexma_cli.stages.split.inputs import Splitting, find_inputs
from mexma_cli.stages.split.sample import sampled
from mexma_cli.stages.split.split import SplitOutputs, split
from mexma_cli.text.lines import estimate_size

LINES = (shipped_folder("examples") / "spa-eng" / "eng.txt").read_text(encoding="utf-8").splitlines()
DOCUMENTS = [LINES[at : at + 10] for at in range(0, len(LINES), 10)]
MENU = "".join(f'<li class="item"><a href="/section/{n}">Section {n}</a></li>\n' for n in range(60))


def page(lines: list[str]) -> str:
    body = "".join(f"<p>{line}</p>\n" for line in lines)
    return f"<!DOCTYPE html>\n<html><head><title>A page</title></head><body>{MENU}{body}{MENU}</body></html>"


def text(folder: Path) -> None:
    (folder / "a.txt").write_text("".join(f"{' '.join(lines)}\n" for lines in DOCUMENTS))


def packed(folder: Path) -> None:
    text(folder)
    (folder / "a.txt.gz").write_bytes(gzip.compress((folder / "a.txt").read_bytes()))
    (folder / "a.txt").unlink()


def objects(folder: Path) -> None:
    others = {"url": "https://example.org/" + 100 * "x", "scores": list(range(300))}
    rows = (json.dumps({"text": " ".join(lines)} | others) for lines in DOCUMENTS)
    (folder / "a.jsonl").write_text("".join(f"{row}\n" for row in rows))


def pages(folder: Path) -> None:
    for number, lines in enumerate(DOCUMENTS[:150]):
        (folder / f"{number}.html").write_text(page(lines))


def crawl(folder: Path) -> None:
    with gzip.open(folder / "a.warc.gz", "wb") as file:
        for number, lines in enumerate(DOCUMENTS[:150]):
            body = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n" + page(lines).encode()
            for kind, block in (("request", b"GET / HTTP/1.1\r\n\r\n"), ("response", body)):
                head = f"WARC/1.0\r\nWARC-Type: {kind}\r\nWARC-Record-ID: <urn:{kind}-{number}>\r\n"
                file.write(f"{head}Content-Length: {len(block)}\r\n\r\n".encode() + block + b"\r\n\r\n")


@pytest.mark.parametrize("write", [text, packed, objects, crawl, pytest.param(pages, marks=pytest.mark.slow)])
def test_an_estimate_is_within_a_third_of_what_splitting_keeps(
    write: Callable[[Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("trafilatura")
    monkeypatch.setattr(sample, "_TEXT", 1 << 17)
    monkeypatch.setattr(sample, "_MARKED_UP", 1 << 19)
    documents, how = tmp_path / "documents", Splitting("eng_Latn")
    documents.mkdir()
    write(documents)
    inputs = find_inputs([str(documents)], "eng_Latn")
    kept = split(inputs, how, SplitOutputs(tmp_path / "eng.txt", None)).kept
    size = sum(estimate_size(path).size for path in inputs.files)
    found = sampled(inputs, how)
    assert found.bytes < size / 2 and found.seconds > 0
    assert 2 / 3 < len(found.sentences) * size / found.bytes / kept < 3 / 2


def test_all_of_a_small_text_is_split_and_repeated_sentences_count_once(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("The first sentence is here. The first sentence is here.\n" * 3)
    inputs = find_inputs([str(tmp_path / "a.txt")], "eng_Latn")
    found = sampled(inputs, Splitting("eng_Latn"))
    assert (found.sentences, found.bytes) == (["The first sentence is here."], 168)
    every = sampled(inputs, Splitting("eng_Latn", SplitSettings(off=("duplicate",))))
    assert every.sentences == 6 * ["The first sentence is here."]


@pytest.mark.parametrize("end", ["", "\n"])
@pytest.mark.parametrize("objects", [1, 3])
def test_an_object_longer_than_the_sample_is_read_whole(objects: int, end: str, tmp_path: Path) -> None:
    row = json.dumps({"text": " ".join(f"This is sentence number {n}, of many." for n in range(30000))})
    (tmp_path / "a.jsonl").write_text("\n".join(objects * [row]) + end)
    found = sampled(find_inputs([str(tmp_path / "a.jsonl")], "eng_Latn"), Splitting("eng_Latn"))
    assert len(found.sentences) == 30000
    assert found.bytes == len(row) + (objects > 1 or bool(end))


def test_what_cannot_be_read_is_refused_where_it_is_not_only_cut_off(tmp_path: Path) -> None:
    (tmp_path / "a.tmx").write_text("<tmx><body>")
    with pytest.raises(MexmaError, match=r"a\.tmx.*not well-formed"):
        sampled(find_inputs([str(tmp_path / "a.tmx")], "eng_Latn"), Splitting("eng_Latn"))
    (tmp_path / "empty.txt").write_text("")
    found = sampled(find_inputs([str(tmp_path / "empty.txt")], "eng_Latn"), Splitting("eng_Latn"))
    assert (found.sentences, found.bytes) == ([], 0)
