from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from mexma_cli.errors import MexmaError
from mexma_cli.stages.mine import documents
from mexma_cli.stages.mine.documents import (
    DocumentPairs,
    in_no_pair,
    read_document_ids,
    read_documents,
    tell_if_older,
)
from mexma_cli.store import spool
from mexma_cli.text.pages import STATED
from tests.stores import make_store


def write(folder: Path, name: str, *lines: str) -> Path:
    path = folder / name
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def rows(found: DocumentPairs) -> list[tuple[list[int], list[int]]]:
    """The lines of both documents of each pair, which have its number; other documents have a key each."""
    keyed: list[dict[int, list[int]]] = [{}, {}]
    for side, of_line in enumerate((found.source, found.target)):
        keys = found.keys[side]
        for row, document in enumerate(of_line):
            for key in keys.at(np.array([document]))[0].tolist():
                keyed[side].setdefault(key, []).append(row)
    assert sorted(keyed[0].keys() & keyed[1].keys()) == list(range(len(found.pairs)))
    alone = [len(keys) - len(found.pairs) for keys in keyed]
    assert tuple(alone) == found.alone
    return [(keyed[0][pair], keyed[1][pair]) for pair in range(len(found.pairs))]


def test_equal_ids_are_paired(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG", "mexma_cli")
    found = read_documents(
        write(tmp_path, "s", "a", "b", "a", "c"), write(tmp_path, "t", "x", "c", "a", "c", "y")
    )
    assert rows(found) == [([0, 2], [2]), ([3], [1, 3])]
    assert found.documents == (3, 4) and found.alone == (1, 2)
    alone = found.lost
    assert alone == "in no pair: 1 of 3 of the source, such as b; and 2 of 4 of the target, such as x, y"
    assert caplog.messages == [
        f"documents: 2 paired; {alone}",
        "in no pair, of the source: b",
        "in no pair, of the target: x, y",
    ]
    found.check_lines((4, 5), ("s.emb", "t.emb"))
    with pytest.raises(MexmaError, match=r"t has 5 lines, t\.emb has 6"):
        found.check_lines((4, 6), ("s.emb", "t.emb"))


def test_a_file_pairs_other_ids_and_one_with_many(tmp_path: Path) -> None:
    source, target = write(tmp_path, "s", "1", "2", "1"), write(tmp_path, "t", "A", "B")
    found = read_documents(source, target, write(tmp_path, "p", "2\tA", "1\tA", "2\tB", "2\tA"))
    assert rows(found) == [([0, 2], [0]), ([1], [0]), ([1], [1])]
    assert found.alone == (0, 0) and not found.lost


def test_pairs_with_a_document_that_split_emptied_are_left_out_and_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    source, target = write(tmp_path, "s", "1", "2"), write(tmp_path, "t", "A", "B")
    pairs = write(tmp_path, "p", "source\ttarget", "1\tB", "3\tA", "2\tC", "2\tA")
    assert rows(read_documents(source, target, pairs)) == [([0], [1]), ([1], [0])]
    said = "2 pairs of documents of 4 left out, whose ids are misspelt or have no sentences, such as "
    lines = (
        f"{pairs}, line 3: the document '3' is not in {source}, {pairs}, line 4: the document 'C' is not in"
    )
    assert f"{said}{lines} {target}" in caplog.text


def test_a_store_of_a_text_that_split_made_anew_is_told_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = make_store(tmp_path / "a.emb", ["un", "deux"], np.eye(2, dtype=np.float32))
    text, docs = write(tmp_path, "a.txt", "un", "trois"), write(tmp_path, "a.docs", "x", "y")
    os.utime(text, (1, 1))
    tell_if_older(store, docs)
    assert not caplog.messages
    os.utime(text)
    tell_if_older(store, docs)
    assert caplog.messages == [f"{text} and {docs} have changed since {store.path} was made: embed again"]


class TestBadInput:
    def fails(self, message: str, *paths: Path) -> MexmaError:
        with pytest.raises(MexmaError, match=message) as error:
            read_documents(*paths)
        return error.value

    def test_ids(self, tmp_path: Path) -> None:
        good = write(tmp_path, "good", "a")
        self.fails("blank, line 2: no document id", write(tmp_path, "blank", "a", " "), good)
        self.fails("empty is empty", good, write(tmp_path, "empty"))
        self.fails("none: no such file", tmp_path / "none", good)
        error = self.fails("have no document id in common", write(tmp_path, "other", "b"), good)
        assert "--document-pairs" in str(error.hint)

    def test_pairs(self, tmp_path: Path) -> None:
        source, target = write(tmp_path, "s", "1", "2"), write(tmp_path, "t", "A", "B")
        self.fails(
            "p, line 1: the document '3' is not in", source, target, write(tmp_path, "p", "3\tA", "1\tC")
        )
        error = self.fails("the document 'A' is not in", source, target, write(tmp_path, "q", "A\t1"))
        assert "the other way round" in str(error.hint)
        for name, hint in (("1.txt", "ids of documents have no ending: 1"), ("3.txt", "None")):
            error = self.fails(
                f"the document '{name}' is not in", source, target, write(tmp_path, "p", f"{name}\tA")
            )
            assert str(error.hint) == hint
        self.fails("line 1: 1 tab-separated field", source, target, write(tmp_path, "r", "1 A"))
        self.fails("e is empty", source, target, write(tmp_path, "e"))


def test_sentences_in_place_of_ids_are_noticed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    sentences = [f"This is the verse of number {n}." for n in range(30)]
    text = write(tmp_path, "a.txt", *sentences, sentences[0])
    assert len(read_document_ids(text)[1]) == 30
    said = f"nearly every line of {text} is a document of its own: name the .docs file of a text"
    assert caplog.messages == [said]
    caplog.clear()
    read_document_ids(write(tmp_path, "verses", *(f"1 Kings {n}" for n in range(30))))
    read_document_ids(write(tmp_path, "titles", *(f"{title}\t0\t12" for title in sentences)))
    read_document_ids(write(tmp_path, "same", *(sentences[0] for _ in range(30))))
    assert not caplog.messages


def test_a_line_may_say_where_in_its_document_the_sentence_is(tmp_path: Path) -> None:
    source = write(tmp_path, "s", "A\t0\t12", "A\t13\t20", "B\t0\t4")
    assert read_documents(source, write(tmp_path, "t", "B", "A")).pairs.tolist() == [[0, 1], [1, 0]]
    with pytest.raises(MexmaError, match="s, line 1: no document id"):
        read_documents(write(tmp_path, "s", "\t0\t12"), source)


def test_ids_are_utf8_whatever_is_stated_of_texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(STATED, "gb18030")
    assert list(read_document_ids(write(tmp_path, "s", "é\t0\t3"))[1]) == ["é"]


@pytest.mark.parametrize("lines, buffer", [(1 << 16, 16 << 20), (3, 100)])
def test_ids_and_pairs_on_disk_are_those_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: int, buffer: int
) -> None:
    monkeypatch.setattr(documents, "_LINES", lines)
    monkeypatch.setattr(spool, "BUFFER", buffer)
    rng = np.random.default_rng(0)
    sides = [write(tmp_path, name, *(f"é{n // 3}" for n in rng.integers(0, 300, 200))) for name in ("s", "t")]
    (source, sources), (target, targets) = (_in_memory(path) for path in sides)
    pairs = [[number, targets[name]] for name, number in sources.items() if name in targets]
    found = read_documents(*sides)
    for got, wanted in ((found.source, source), (found.target, target), (found.pairs, pairs)):
        assert got.dtype == np.int32 and got.tolist() == wanted
    assert found.documents == (len(sources), len(targets))
    alone = (
        [name for name in sources if name not in targets],
        [name for name in targets if name not in sources],
    )
    assert found.alone == (len(alone[0]), len(alone[1])) and min(found.alone) > 0
    assert found.lost == in_no_pair(alone, found.documents)
    assert len(rows(found)) == len(pairs)
    names = list(sources)
    _, ids = read_document_ids(sides[0])
    assert list(ids) == names and (ids[2], ids[-1], ids[1:9:3]) == (names[2], names[-1], names[1:9:3])
    listed = write(tmp_path, "listed", *(f"{name}\t{name}" for name in sources if name in targets))
    same = read_documents(*sides, listed)
    assert same.pairs.tolist() == pairs and (same.alone, same.lost) == (found.alone, found.lost)
    for one, other in zip(same.keys, found.keys, strict=True):
        assert one.values.tolist() == other.values.tolist() and one.ends.tolist() == other.ends.tolist()


def _in_memory(path: Path) -> tuple[list[int], dict[str, int]]:
    """The number of the document of every line, and the numbers by id."""
    numbers = dict[str, int]()
    return [numbers.setdefault(line, len(numbers)) for line in path.read_text().splitlines()], numbers
