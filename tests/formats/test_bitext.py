from __future__ import annotations

import csv
import gzip
import io
import json
import lzma
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mexma_cli.errors import MexmaError
from mexma_cli.formats.bitext import (
    AlignedPair,
    MinedPair,
    Pair,
    PlainPair,
    ScoredPair,
    format_of,
    formats,
    outputs_of,
    read_bitext,
    read_scored,
    read_scored_file,
)
from mexma_cli.formats.tsv import Tsv, read_pairs, tsv_lines
from mexma_cli.text.writing import Chunk, write_chunks

PAIRS = [MinedPair(1.5, "un", "one"), MinedPair(1.0, "deux", "two")]
LANGUAGES = ("fra_Latn", "eng_Latn")

sentence = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n\r\t\0"), max_size=30)


def written(name: str, pairs: Sequence[Pair], with_ids: bool = False) -> list[Chunk]:
    return list(formats(alignments=True)[name].write(pairs, LANGUAGES, with_ids))


def test_tabs_and_line_breaks_become_spaces_and_are_counted() -> None:
    ((first,), changed), ((second,), unchanged) = tsv_lines([(1, "a\tb\r", "c\nd"), (1.5, "à", "b c")])
    assert (first, changed, unchanged) == ("1.0\ta b \tc d\n", 2, 0)
    assert second == "1.5\tà\tb c\n"


@given(st.floats(allow_nan=False, allow_infinity=False), sentence, sentence)
def test_comes_back_as_it_was_written(score: float, source: str, target: str) -> None:
    (((line,), _),) = tsv_lines([(score, source, target)])
    if '""' not in line:  # that would be read as the quoting of csv
        assert list(read_scored([line[:-1]], "f")) == [ScoredPair(score, source, target, 1)]


@pytest.mark.parametrize(
    "pair",
    [
        ('He said "no".', "Il a dit « non »."),
        ('"Yes," she said.', '"Oui"'),
        ("a\tb", 'c "d"'),
        ("plain", "text"),
        ('x "a\tb" y', "z"),
        (f'"{"a" * 200_000}\tb', f'{"c" * 200_000}"'),
    ],
)
def test_reads_what_stopes_quotes(pair: tuple[str, str]) -> None:
    out = io.StringIO()
    csv.writer(out, delimiter="\t").writerow([1.0625, *pair])
    assert out.getvalue().endswith("\r\n")  # which reading lines removes
    assert list(read_scored([out.getvalue()[:-2]], "f")) == [ScoredPair(1.0625, *pair, 1)]


@pytest.mark.parametrize(
    "line",
    [
        '1.0\t"A," he said\tb',
        '1.0\t"Hello"\t"Bonjour"',
        '1.0\t"\ta "b" c',
        '1.0\ta"\t"b',
        '1.0\t"He spoke on.\tIl continua."',
    ],
)
def test_quotation_marks_of_the_text_stay(line: str) -> None:
    ((score, source, target, _),) = read_scored([line], "f")
    assert [str(score), source, target] == line.split("\t")
    assert list(read_pairs([line.partition("\t")[2]], "f")) == [(source, target)]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("just a line", r"f\.tsv, line 2: 1 tab-separated field, expected 3"),
        ("1\ta\tb\tc", "line 2: 4 tab-separated fields"),
        ("", "line 2: 1 tab-separated field,"),
        ("high\ta\tb", "line 2: the score 'high' is not a number"),
        ("nan\ta\tb", "line 2: the score 'nan'"),
        ("inf\ta\tb", "line 2: the score 'inf'"),
    ],
)
def test_says_which_line_is_wrong(line: str, message: str) -> None:
    with pytest.raises(MexmaError, match=message):
        list(read_scored(["1.0\ta\tb", line], "f.tsv"))


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ('<?xml version="1.0"?>', "XML; TSV is read"),
        ("1.0 a b", ""),
    ],
)
def test_other_formats_are_told(line: str, hint: str) -> None:
    for read, fields in ((read_scored, 3), (read_pairs, 2)):
        with pytest.raises(MexmaError, match=f"1 tab-separated field, expected {fields}") as caught:
            list(read([line], "f"))
        assert hint in (caught.value.hint or "") and bool(caught.value.hint) == bool(hint)


def test_a_list_of_two_fields_is_told_of_jsonl() -> None:
    with pytest.raises(MexmaError, match="1 tab-separated field, expected 2") as caught:
        list(read_pairs(['{"score": 1.0}'], "f"))
    assert "JSONL; TSV is read" in str(caught.value.hint)


@given(st.floats(allow_nan=False, allow_infinity=False), sentence, sentence)
def test_jsonl_is_read_as_tsv_would_be(score: float, source: str, target: str) -> None:
    pair = MinedPair(score, source + "\t", target, 3, 4)
    (((line,), _),) = written("jsonl", [pair])
    assert list(read_scored([line[:-1]], "f")) == [ScoredPair(score, source + " ", target, 1)]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"score": 1.0}', r"f, line 2: not an object with the texts `source` and `target`"),
        ('{"score": 1.0, "source": "a", "target": 2}', "not an object with the texts"),
        ('{"score": 1.0, "source": "\\ud800", "target": "b"}', "not an object with the texts"),
        ("[1]", "not an object with the texts"),
        ("1.0\ta\tb", "not an object with the texts"),
        ("", "not an object with the texts"),
        ('{"source": "a", "target": "b"}', r"f, line 2: `score` is not there, or not a number"),
        ('{"score": NaN, "source": "a", "target": "b"}', "not a number"),
        ('{"score": true, "source": "a", "target": "b"}', "not a number"),
    ],
)
def test_says_which_line_of_jsonl_is_wrong(line: str, message: str) -> None:
    with pytest.raises(MexmaError, match=message) as caught:
        list(read_scored(['{"score": 1, "source": "a", "target": "b"}', line], "f"))
    assert "--format jsonl" in str(caught.value.hint)


def test_reads_pairs_of_two_fields() -> None:
    assert list(read_pairs(["a\tb", "c\td"], "g")) == [("a", "b"), ("c", "d")]
    with pytest.raises(MexmaError, match=r"g, line 2: 3 .*expected 2 \(source, target\)"):
        list(read_pairs(["a\tb", "1\tc\td"], "g"))


PAIR = MinedPair(1.5, "a\tb", "c\rd", 3, 4, 1, 0, 0.5, 0.25, 0.75)


def test_tsv_has_ids_after_the_text() -> None:
    assert written("tsv", [PAIR]) == [(("1.5\ta b\tc d\n",), 2)]
    assert written("tsv", [PAIR], with_ids=True) == [(("1.5\ta b\tc d\t3\t4\t1\t0\t0.5\t0.25\t0.75\n",), 2)]


def test_tsv_with_ids_is_read_as_scored_pairs() -> None:
    (((line,), _),) = written("tsv", [PAIR], with_ids=True)
    assert list(read_scored([line[:-1]], "f")) == [ScoredPair(1.5, "a b", "c d", 1)]


@given(sentence, sentence)
def test_jsonl_changes_nothing(source: str, target: str) -> None:
    (((line,), changed),) = written("jsonl", [PAIR._replace(source=source, target=target + "\t\r\0")])
    assert line.count("\n") == 1 and changed == 0
    assert MinedPair(**json.loads(line)) == PAIR._replace(source=source, target=target + "\t\r\0")


def test_moses_is_a_line_in_each_file() -> None:
    assert written("moses", [PAIR, MinedPair(1.0, "e", "f")]) == [
        (("a b\n", "c d\n"), 2),
        (("e\n", "f\n"), 0),
    ]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("a.tsv", "tsv"),
        ("a", "tsv"),
        ("a.txt.gz", "tsv"),
        ("a.jsonl", "jsonl"),
        ("a.jsonl.zst", "jsonl"),
        ("a.b.tmx", "tmx"),
        ("a.tmx.gz", "tmx"),
        ("jsonl", "tsv"),
        ("a.fra-eng", "tsv"),
        ("A.TMX", "tmx"),
    ],
)
def test_the_name_says_the_format(name: str, kind: str) -> None:
    assert format_of(Path(name)) == kind


@pytest.mark.parametrize("name", ["x.csv", "x.xlsx", "x.npz", "x.CSV.gz", "x.emb"])
def test_a_name_of_another_format_is_refused_with_those_that_exist(name: str) -> None:
    with pytest.raises(MexmaError, match=rf"^{name.lower()}: pairs are not written as \.[a-z]+$") as error:
        format_of(Path(name.lower()))
    assert error.value.hint == "what is written: .tsv, .jsonl, .parquet, .tmx or --format moses"


@pytest.mark.parametrize(
    ("name", "languages", "names"),
    [
        ("out", LANGUAGES, ["out.fra", "out.eng"]),
        ("out.gz", LANGUAGES, ["out.fra.gz", "out.eng.gz"]),
        ("corpus.v1.xz", ("deu_Latn", "eng_Latn"), ["corpus.v1.deu.xz", "corpus.v1.eng.xz"]),
        ("out", ("zho_Hans", "zho_Hant"), ["out.zho_Hans", "out.zho_Hant"]),
    ],
)
def test_moses_files_are_named_by_language(name: str, languages: tuple[str, str], names: list[str]) -> None:
    assert outputs_of(Path("dir") / name, "moses", languages) == [Path("dir") / n for n in names]


@pytest.mark.parametrize("kind", ["moses", "tmx"])
@pytest.mark.parametrize("languages", [("und", "eng_Latn"), ("eng_Latn", "eng_Latn")])
def test_formats_that_name_languages_need_two(kind: str, languages: tuple[str, str]) -> None:
    with pytest.raises(MexmaError, match="tells the sides apart by their languages") as error:
        outputs_of(Path("out"), kind, languages)
    assert "--source-lang" in str(error.value.hint)


def test_moses_files_are_compressed_and_aligned(tmp_path: Path) -> None:
    paths = outputs_of(tmp_path / "out.gz", "moses", LANGUAGES)
    assert write_chunks(paths, written("moses", PAIRS)) == 0
    assert [gzip.decompress(path.read_bytes()).decode() for path in paths] == ["un\ndeux\n", "one\ntwo\n"]
    assert sorted(tmp_path.iterdir()) == sorted(paths)


def test_other_formats_are_one_file(tmp_path: Path) -> None:
    for kind, start in (("tmx", "<?xml"), ("jsonl", '{"score": 1.5, "source": "un", "target": "one", "so')):
        path = tmp_path / f"out.{kind}.xz"
        write_chunks([path], written(kind, PAIRS))
        assert lzma.decompress(path.read_bytes()).decode().startswith(start)


def test_the_formats_of_the_folder_are_found_and_no_ending_means_two() -> None:
    assert list(formats()) == ["tsv", "jsonl", "moses", "parquet", "tmx"]
    assert list(formats(alignments=True)) == ["tsv", "jsonl", "moses", "parquet", "tmx", "vecalign"]
    endings = [ending for found in formats(alignments=True).values() for ending in found.endings]
    assert len(set(endings)) == len(endings)


ALIGNED = AlignedPair(0.5, "a\tb c", "d", "news\t1", "n1", (3, 4), (2,))


def test_alignments_have_their_documents_and_lines() -> None:
    aligned_in_tsv = ALIGNED._replace(source="a b c", source_document="news 1")
    assert written("tsv", [ALIGNED]) == [(("0.5\ta b c\td\n",), 1)]
    (((line,), _),) = written("tsv", [ALIGNED], with_ids=True)
    assert line == "0.5\ta b c\td\tnews 1\tn1\t3,4\t2\n"
    assert list(read_scored([line[:-1]], "f")) == [ScoredPair(0.5, "a b c", "d", 1)]
    assert list(Tsv().read_pairs(iter([line[:-1]]), "f")) == [aligned_in_tsv]
    (((line,), _),) = written("jsonl", [ALIGNED])
    assert json.loads(line) == {**ALIGNED._asdict(), "source_lines": [3, 4], "target_lines": [2]}
    (_, ((unit,), _), _) = written("tmx", [ALIGNED._replace(source_document="a&b")], with_ids=True)
    assert '<prop type="x-source-document">a&amp;b</prop>' in unit
    assert '<prop type="x-source-lines">3,4</prop>' in unit


def test_vecalign_counts_lines_from_0_and_has_sentences_without_a_translation() -> None:
    alone = AlignedPair(0.0, "", "d", "", "", (), (7,))
    assert written("vecalign", [ALIGNED, alone]) == [
        (("[2, 3]:[1]:0.5:news 1:n1\n",), 0),
        (("[]:[6]:0.0\n",), 0),
    ]


KNOWN = [
    [PlainPair("a", "b"), PlainPair("", "d")],
    [MinedPair(1.5, "a", "b"), MinedPair(-2.0, "c", "d")],
    [PAIR._replace(source="a", target="c")],
    [
        aligned := ALIGNED._replace(source="a", source_document="x"),
        aligned._replace(source_lines=(), source=""),
    ],
]


@pytest.mark.parametrize("kind", [name for name in formats() if not formats()[name].two_files])
@pytest.mark.parametrize("pairs", KNOWN, ids=["plain", "scored", "with ids", "aligned"])
def test_a_file_of_pairs_is_read_as_it_was_written(kind: str, pairs: list[Pair], tmp_path: Path) -> None:
    path = tmp_path / "pairs"
    languages = ("fra_Latn", "zho_Hant")
    write_chunks([path], formats()[kind].write(pairs, languages, with_ids=True))
    found = read_bitext(path, "f", languages)
    assert (found.kind, [pair for _, pair in found.pairs]) == (kind, pairs)


@pytest.mark.parametrize("kind", ["tsv", "jsonl"])
def test_each_pair_comes_with_its_line(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "pairs.gz"
    write_chunks([path], formats()[kind].write([MinedPair(1.0, str(n), "b") for n in range(9)], ("und",) * 2))
    lines = gzip.decompress(path.read_bytes()).decode().splitlines()
    assert [(line, pair.source) for line, pair in read_bitext(path, "f").pairs] == [
        (line, str(n)) for n, line in enumerate(lines)
    ]


def test_files_of_bytes_have_scores_too(tmp_path: Path) -> None:
    for kind in ("tmx", "parquet"):
        path = tmp_path / kind
        write_chunks([path], formats()[kind].write([MinedPair(1.5, "a\nb", "c")], ("fra_Latn", "eng_Latn")))
        assert list(read_scored_file(path, "f")) == [ScoredPair(1.5, "a b", "c", 1)]
        write_chunks([path], formats()[kind].write([PlainPair("a", "b")], ("fra_Latn", "eng_Latn")))
        with pytest.raises(MexmaError, match="f: pair 1 has no score"):
            list(read_scored_file(path, "f"))


def test_scores_that_are_missing_on_the_way_are_told() -> None:
    with pytest.raises(MexmaError, match="f, line 2: no score, expected 3"):
        list(Tsv().read_pairs(iter(["1.0\ta\tb", "x\ta\tb"]), "f"))


def test_columns_of_other_programs_in_parquet(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow.parquet import write_table

    table = {"source": ["a", None], "target": ["b", "c"], "score": ["high", "low"], "more": [1, 2]}
    write_table(pyarrow.table(table), tmp_path / "a")
    assert [pair for _, pair in read_bitext(tmp_path / "a", "f").pairs] == [
        PlainPair("a", "b"),
        PlainPair("", "c"),
    ]
    write_table(pyarrow.table({"en": ["a"]}), tmp_path / "b")
    (tmp_path / "c").write_bytes((tmp_path / "a").read_bytes()[:200])
    for name, message in (("b", "f has no columns source and target"), ("c", "f is damaged: Parquet")):
        with pytest.raises(MexmaError, match=message):
            list(read_bitext(tmp_path / name, "f").pairs)
