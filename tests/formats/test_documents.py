"""Whole documents as they are written, cut into pieces and read again as pairs."""

from __future__ import annotations

import json

import pytest

from mexma_cli.errors import MexmaError
from mexma_cli.formats.bitext import AlignedPair, RawText, formats
from mexma_cli.formats.documents import DocumentPair
from mexma_cli.text.writing import Chunk

PAIR = DocumentPair(
    ("a", "b"),
    None,
    0.75,
    (["uno dos", "tres", "cuatro cinco"], ["one two", "three", "page 7", "four five"]),
    ([1, 2, 4], [1, 2, 3, 5]),
    [
        (range(0, 2), range(0, 2)),
        (range(2, 2), range(2, 3)),
        (range(2, 3), range(3, 4)),
    ],
    [0.5, 0.0, 0.25],
)


def written(*pairs: DocumentPair) -> str:
    chunks: list[Chunk] = list(formats(alignments=True)["documents"].write(pairs, ("spa_Latn", "eng_Latn")))
    return "".join(str(text) for (text,), _ in chunks)


def read(*pieces: str) -> list[AlignedPair]:
    text = RawText(iter(piece.encode() for piece in pieces), "f")
    return list(formats(alignments=True)["documents"].read(text, languages=("", "")).pairs)  # type: ignore[arg-type]


def test_an_object_has_all_sentences_and_says_what_is_alone() -> None:
    assert json.loads(written(PAIR)) == {
        "source_document": "a",
        "target_document": "b",
        "source_language": "spa_Latn",
        "target_language": "eng_Latn",
        "score": 0.75,
        "aligned": 0.8571,
        "source": ["uno dos", "tres", "cuatro cinco"],
        "target": ["one two", "three", "page 7", "four five"],
        "alignments": [
            {"source": [0, 1], "target": [0, 1], "score": 0.5},
            {"source": [2], "target": [3], "score": 0.25},
        ],
        "source_alone": [],
        "target_alone": [2],
        "source_lines": [1, 2, 4],
        "target_lines": [1, 2, 3, 5],
    }


def test_pieces_are_cut_between_alignments_and_make_the_whole() -> None:
    pieces = [json.loads(line) for line in written(*PAIR.pieces(4)).splitlines()]
    assert [(piece["piece"], piece["source"], piece["target"]) for piece in pieces] == [
        (0, ["uno dos", "tres"], ["one two", "three"]),
        (1, ["cuatro cinco"], ["page 7", "four five"]),
    ]
    assert pieces[1]["alignments"] == [{"source": [0], "target": [1], "score": 0.25}]
    assert (pieces[1]["target_alone"], pieces[1]["target_lines"]) == ([0], [3, 5])
    assert len(list(PAIR.pieces(1))) == 3 and len(list(PAIR.pieces(99))) == 1


def test_characters_of_scripts_without_spaces_are_half_a_word() -> None:
    chinese = PAIR._replace(sentences=(["一二三四五六七八", "九", "十"], PAIR.sentences[1]))
    assert [len(piece.sentences[0]) for piece in chinese.pieces(5)] == [2, 1]
    assert [len(piece.sentences[0]) for piece in chinese.pieces(6)] == [2, 1]  # six words of the target
    assert [len(piece.sentences[0]) for piece in chinese.pieces(7)] == [3]


def test_alignments_are_read_as_pairs() -> None:
    line = written(PAIR)
    pairs = [
        AlignedPair(0.5, "uno dos tres", "one two three", "a", "b", (1, 2), (1, 2)),
        AlignedPair(0.25, "cuatro cinco", "four five", "a", "b", (4,), (5,)),
    ]
    assert read(line[:50], line[50:] + line[:9], line[9:].rstrip()) == pairs + pairs
    assert read(written(*PAIR.pieces(4))) == pairs


def test_the_languages_are_written_and_tell_the_sides_apart() -> None:
    for stated, wanted, first in (
        (("und", "und"), ("spa_Latn", "eng_Latn"), "uno dos tres"),
        (("und", "eng_Latn"), ("spa_Latn", "eng_Latn"), "uno dos tres"),
        (("und", "es"), ("eng_Latn", "spa_Latn"), "one two three"),
        (("fra_Latn", "deu_Latn"), ("fra_Latn", "deu_Latn"), "uno dos tres"),
    ):
        text = RawText(iter([written(PAIR).encode()]), "f")
        found = formats(alignments=True)["documents"].read(text, languages=stated)
        assert found.languages == wanted and next(iter(found.pairs)).source == first


@pytest.mark.parametrize(
    "wrong", ["[]", "{}", written(PAIR).replace("[3]", "[4]"), '{"source_document": "\\ud800"}']
)
def test_another_object_is_refused_with_its_line(wrong: str) -> None:
    with pytest.raises(MexmaError, match="f, line 2: not a pair of documents"):
        read(written(PAIR), wrong)
