from __future__ import annotations

import csv
import gzip
import io
import json
import lzma
import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mexma_cli.errors import MexmaError
from mexma_cli.formats.bitext import (
    NO_PAIR,
    AlignedPair,
    MinedPair,
    Pair,
    PlainPair,
    RawText,
    format_of,
    formats,
    named_format,
    open_pairs,
    outputs_of,
    write_pairs,
)
from mexma_cli.formats.csv import Csv
from mexma_cli.formats.tsv import ONE_SIDE, Tsv, tsv_lines
from mexma_cli.text.writing import Chunk, write_chunks
from tests.command import write

PAIRS = [MinedPair(1.5, "un", "one"), MinedPair(1.0, "deux", "two")]
LANGUAGES = ("fra_Latn", "eng_Latn")

sentence = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n\r\t\0"), max_size=30)


def written(name: str, pairs: Sequence[Pair], with_ids: bool = False) -> list[Chunk]:
    return list(formats(alignments=True)[name].write(pairs, LANGUAGES, with_ids))


def read(kind: str, *lines: str) -> list[Pair]:
    """The pairs of a file "f" with these lines."""
    text = "".join(f"{line}\n" for line in lines).encode()
    return list(formats()[kind].read(RawText(iter([text]), "f"), languages=LANGUAGES).pairs)


def test_tabs_and_line_breaks_become_spaces_and_are_counted() -> None:
    ((first,), changed), ((second,), unchanged) = tsv_lines([(1, "a\tb\r", "c\nd"), (1.5, "à", "b c")])
    assert (first, changed, unchanged) == ("1.0\ta b \tc d\n", 2, 0)
    assert second == "1.5\tà\tb c\n"


@given(st.floats(allow_nan=False, allow_infinity=False), sentence, sentence)
def test_comes_back_as_it_was_written(score: float, source: str, target: str) -> None:
    (((line,), _),) = tsv_lines([(score, source, target)])
    if '""' not in line:  # that would be read as the quoting of csv
        assert read("tsv", line[:-1]) == [MinedPair(score, source, target)]


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
    assert read("tsv", out.getvalue()[:-2]) == [MinedPair(1.0625, *pair)]


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
    (pair,) = read("tsv", line)
    assert [str(pair[0]), *pair[1:3]] == line.split("\t")
    assert read("tsv", line.partition("\t")[2]) == [PlainPair(pair.source, pair.target)]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("just a line", r"f, line 2: 1 tab-separated field, expected 3"),
        ("1\ta\tb\tc", "line 2: 4 tab-separated fields, expected 3"),
        ("high\ta\tb", r"line 2: no score, expected 3 \(score, source, target\) as in line 1"),
    ],
)
def test_says_which_line_is_wrong(line: str, message: str) -> None:
    with pytest.raises(MexmaError, match=message):
        read("tsv", "1.0\ta\tb", line)


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ('<?xml version="1.0"?>', "XML; TSV is read"),
        ('{"score": 1.0}', "JSONL; TSV is read"),
        ("1.0 a b", "one side of a bitext in two files"),
    ],
)
def test_other_formats_are_told(line: str, hint: str) -> None:
    with pytest.raises(MexmaError, match="1 tab-separated field, expected 2") as caught:
        read("tsv", line)
    assert hint in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"score": 1.0}', r"f, line 2: not an object with the texts `source` and `target`"),
        ('{"score": 1.0, "source": "a", "target": 2}', "not an object with the texts"),
        ("[1]", "not an object with the texts"),
        ("1.0\ta\tb", "not an object with the texts"),
    ],
)
def test_says_which_line_of_jsonl_is_wrong(line: str, message: str) -> None:
    with pytest.raises(MexmaError, match=message) as caught:
        read("jsonl", '{"score": 1, "source": "a", "target": "b"}', line)
    assert "--format jsonl" in str(caught.value.hint)


@pytest.mark.parametrize("score", ["NaN", "Infinity", "1e999", "true", '"1.5"', "null"])
def test_a_score_in_json_is_a_number(score: str) -> None:
    pair = f'{{"score": {score}, "source": "a", "target": "b"}}'
    ((known, *others),) = read("jsonl", pair)
    assert str(known) == ("inf" if score == "1e999" else "nan") and others[:2] == ["a", "b"]


EN, FR = '{"translation": {"en": "a", "fr": "b"}, "score": 2}', '{"translation": {"fr": "d", "en": "c"}}'


@pytest.mark.parametrize(
    ("languages", "found", "named"),
    [
        (("und", "und"), [MinedPair(2, "a", "b"), PlainPair("c", "d")], ("eng_Latn", "fra_Latn")),
        (("und", "eng"), [MinedPair(2, "b", "a"), PlainPair("d", "c")], ("fra_Latn", "eng_Latn")),
        (("fr", "en"), [MinedPair(2, "b", "a"), PlainPair("d", "c")], ("fr", "en")),
    ],
)
def test_objects_with_the_names_of_languages(
    languages: tuple[str, str], found: list[Pair], named: tuple[str, str]
) -> None:
    for first in (EN, EN.replace('{"translation": {', "{").replace("}, ", ", ")):
        raw = RawText(iter([f"{first}\n{FR}\n".encode()]), "f", options="--source-lang")
        read = formats()["jsonl"].read(raw, languages=languages)
        assert (read.languages, list(read.pairs)) == (named, found)
    raw = RawText(iter([b'{"translation": {"en": "a", "fr": "b", "de": "c"}}']), "f", options="--source-lang")
    if "und" in languages:
        with pytest.raises(MexmaError, match="line 1 has en, fr, de; two languages are read"):
            formats()["jsonl"].read(raw, languages=languages)


@pytest.mark.parametrize(
    ("row", "pair", "others"),
    [
        ({"uid": 7, "src": "un", "tgt": "one", "note": "x"}, ("un", "one"), {"uid": 1, "note": 1}),
        ({"note": "x", "Sentence 2": "one", "sentence1": "un"}, ("un", "one"), {"note": 1}),
        ({"original": "x", "source": "un", "target": "one"}, ("un", "one"), {"original": 1}),
        ({"source": "web", "src": "un", "trg": "one"}, ("un", "one"), {"source": 1}),
        ({"source": "web", "fr": "un", "en": "one"}, ("un", "one"), {"source": 1}),
        ({"origin": "web", "translation": {"src": "un", "tgt": "one"}}, ("un", "one"), {"origin": 1}),
    ],
)
def test_names_of_sides_are_no_languages(
    row: dict[str, object], pair: tuple[str, str], others: dict[str, int], tmp_path: Path
) -> None:
    """`src` is Sardinian and `tgt` Central Tagbanwa, too."""
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow.parquet import write_table

    write(tmp_path / "jsonl", json.dumps(row))
    write_table(pyarrow.Table.from_pylist([row]), tmp_path / "parquet")
    kinds = ["jsonl", "parquet"]
    if "translation" not in row:
        write(tmp_path / "tsv", "\t".join(row), "\t".join(map(str, row.values())))
        kinds += ["tsv"] * ("fr" not in row)
    for kind in kinds:
        found = open_pairs(tmp_path / kind, languages=("fr", "en"))
        assert (found.format, list(found.pairs), dict(found.others)) == (kind, [pair], others)


def test_reads_pairs_of_two_fields() -> None:
    assert read("tsv", "a\tb", "c\td") == [PlainPair("a", "b"), PlainPair("c", "d")]
    with pytest.raises(MexmaError, match=r"f, line 2: 3 .*expected 2 \(source, target\)"):
        read("tsv", "a\tb", "1\tc\td")


PAIR = MinedPair(1.5, "a\tb", "c\rd", 3, 4, 1, 0, 0.5, 0.25, 0.75)


@pytest.mark.parametrize("line", ["{}\tun\tone", '"{}","un","one"'])
def test_numbers_that_are_ids_are_no_scores(line: str, caplog: pytest.LogCaptureFixture) -> None:
    for numbers in ((1, 2, 3), (7012, 88, 31)):
        lines = list(map(line.format, numbers))
        assert read("tsv", *lines) == [PlainPair("un", "one")] * 3
        assert "the first column is taken for ids" in caplog.text
        caplog.clear()
        named = read("tsv", line.format("score").replace("un", "source").replace("one", "target"), *lines)
        assert named == [MinedPair(number, "un", "one") for number in numbers]
    for scores in ((1, 1, 0), (3, 2, 1), (1.5, 2.5), (5,)):
        assert [pair.score for pair in read("tsv", *map(line.format, scores))] == [*scores]  # type: ignore[union-attr]
    assert not caplog.text


def test_tsv_has_ids_after_the_text() -> None:
    assert written("tsv", [PAIR]) == [(("1.5\ta b\tc d\n",), 2)]
    assert written("tsv", [PAIR], with_ids=True) == [(("1.5\ta b\tc d\t3\t4\t1\t0\t0.5\t0.25\t0.75\n",), 2)]


def test_tsv_with_ids_and_without_may_stand_in_one_file() -> None:
    (((line,), _),) = written("tsv", [PAIR], with_ids=True)
    whole, plain = PAIR._replace(source="a b", target="c d"), MinedPair(1.0, "e", "f")
    assert read("tsv", line[:-1], "1.0\te\tf") == [whole, plain]
    assert read("tsv", "1.0\te\tf", line[:-1]) == [plain, whole]


@given(sentence, sentence)
def test_jsonl_changes_nothing(source: str, target: str) -> None:
    (((line,), changed),) = written("jsonl", [PAIR._replace(source=source, target=target + "\t\r\0")])
    assert line.count("\n") == 1 and changed == 0
    assert MinedPair(**json.loads(line)) == PAIR._replace(source=source, target=target + "\t\r\0")


@pytest.mark.parametrize(
    "text",
    [
        "source\ttarget\nun\tone\nno\tsí",
        "src\ttrg\nun\tone\nno\tsí",
        "score\tsrc_text\ttrg_text\n1.5\tun\tone\n1.25\tno\tsí",
        "src_url\ttrg_url\tsrc_text\ttrg_text\tbicleaner_score\nx\ty\tun\tone\t1.5\nx\ty\tno\tsí\t1.25",
        "fr\ten\nun\tone\nno\tsí",
        "French\tEnglish\nun\tone\nno\tsí",
        "Français\tEnglish\nun\tone\nno\tsí",
        "french text,English text\nun,one\nno,sí",
        "sentence_fra_Latn\tsentence_eng_Latn\nun\tone\nno\tsí",
        "\ufeffid,source,target\r\n1,un,one\r\n2,no,sí\r",
        'Target;Source;Score\n"one";"un";1.5\nsí;no;1.25',
        '"un","one"\n"no","sí"',
        "id,fr,en\n1,un,one\n2,no,sí",
        "text_id\ttext_fr\ttext_en\nx1\tun\tone\nx2\tno\tsí",
        "fr-FR\ten_us\nun\tone\nno\tsí",
        'sep=;\nfr;en\nun;"one"\nno;sí',
        '"sep=,"\nun,one\nno,sí',
    ],
)
def test_headers_and_csv_are_recognised(text: str) -> None:
    found = read("tsv", text)
    assert [(pair.source, pair.target) for pair in found] == [("un", "one"), ("no", "sí")]
    scores = [pair.score for pair in found if isinstance(pair, MinedPair)]
    assert scores == ([1.5, 1.25] if "score" in text.lower() else [])


def test_csv_is_read_by_its_quotes(tmp_path: Path) -> None:
    path = tmp_path / "pairs.csv"
    path.write_text('un,"one, ""1"""\n"deux\nlignes","two\nlines"\n\n"it\'s","ça"\n', "utf-8")
    left_out: Counter[str] = Counter()
    found = list(open_pairs(path, left_out=left_out).pairs)
    assert found == [("un", 'one, "1"'), ("deux\nlignes", "two\nlines"), ("it's", "ça")]
    assert left_out == {"blank lines": 1}
    for text, message in (
        ("a,b\nc\n", "line 2: 1 field, expected 2 as in line 1"),
        ("a,b,c\n", "line 1: 3 fields, and none of them is named source or target"),
        ('"a"\n"b"\n', "line 1: one field, and a pair has two"),
        ("a,b\rc\nd,e\n", "line 1: not CSV: new-line character"),
        ('a,b\n"c' + "x" * 1000 + ("\n" + "x" * 1000) * 1100, "not CSV: field larger"),
    ):
        path.write_bytes(text.encode())
        with pytest.raises(MexmaError, match=message):
            list(open_pairs(path).pairs)


@pytest.mark.parametrize("header", ["", "source,target\n", "fr,en\n", "score,src,tgt\n"])
@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ("trois\n", "1 field, expected"),
        ('trois,"three\n', "not CSV: unexpected end of data"),
        ('"le "mot" trois",three\n', "not CSV: ',' expected after"),
        ("a,b,c,d\n", "4 fields, expected"),
    ],
)
def test_a_malformed_row_is_named_and_spoils_no_other(
    header: str, bad: str, message: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path, score = tmp_path / "pairs.csv", "0.5," * ("score" in header)
    good = [f'{score}un,"one\nor two"\n', f"{score}deux,two\n", f"{score}quatre,four\n"]
    path.write_text(f"\n{header}{good[0]}{good[1]}{bad}{good[2]}")
    number, names = 5 + bool(header), [NO_PAIR] * (1 + bool(header))
    with pytest.raises(MexmaError, match=f"pairs.csv, line {number}: {re.escape(message)}"):
        list(open_pairs(path).pairs)
    left_out: Counter[str] = Counter()
    found = [pair[:2] for pair in open_pairs(path, left_out=left_out, each_line=True).pairs]
    assert found == [*names, ("un", "one\nor two"), ("deux", "two"), NO_PAIR, ("quatre", "four")]
    assert left_out == Counter({"blank lines": 1, "header line": bool(header), "malformed lines": 1})
    assert f"pairs.csv, line {number}: {message}" in caplog.text
    path.write_text(f"{header}{bad * 3}" if header else f"{good[1]}{bad}")
    if header:
        with pytest.raises(MexmaError, match=r"pairs\.csv, line 2: "):
            list(open_pairs(path, each_line=True).pairs)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("pairs.csv", "score,source,target,source_line,target_line\n1.5,un,one,{},2\n"),
        (
            "pairs.jsonl",
            '{{"score": 1.5, "source": "un", "target": "one", "source_line": {}, "target_line": 2}}\n',
        ),
    ],
)
def test_a_line_of_more_than_64_bits_is_not_known(name: str, text: str, tmp_path: Path) -> None:
    path = tmp_path / name
    for number, line in ((2**53, 2**53), (2**63, None)):
        path.write_text(text.format(number))
        assert list(open_pairs(path).pairs) == [MinedPair(1.5, "un", "one", line, 2)]


@pytest.mark.parametrize("name", ["pairs.tsv", "pairs.csv"])
@pytest.mark.parametrize(
    ("text", "pairs"),
    [
        ("1.25,un,one\n\n1.5,deux,two\n", [("un", "one"), ("", ""), ("deux", "two")]),
        ("1.25,un,one\nbad\n1.5,deux,two\n", [("un", "one"), ("", ""), ("deux", "two")]),
        ("1984,a novel,x\nun,one,y\n", [("1984", "a novel"), ("un", "one")]),
        ("1,un,one\n2,deux,two\n", [("un", "one"), ("deux", "two")]),
        ("1,un,one,x\n2,deux,two,y\n", [("un", "one"), ("deux", "two")]),
    ],
)
def test_a_first_column_of_numbers_is_told_from_sentences(
    text: str, pairs: list[tuple[str, str]], name: str, tmp_path: Path
) -> None:
    """Where there is a pair for each line, blank and malformed lines say nothing of the columns."""
    path = tmp_path / name
    path.write_text(text if name.endswith("csv") else text.replace(",", "\t"))
    found = open_pairs(path, each_line=True).pairs
    assert [(pair.source, pair.target) for pair in found] == pairs


def test_a_quotation_mark_that_is_not_closed_takes_few_lines_into_memory() -> None:
    """Rows are refused whose fields are short, too."""

    def pieces() -> Iterator[bytes]:
        yield b"source,target\nun,one\n"
        for _ in range(3):
            yield b'"a\n",' * (1 << 18)
        raise AssertionError("read on and on")

    found = Csv().read(RawText(pieces(), "x.csv"), languages=("und", "und")).pairs
    assert next(found) == ("un", "one")
    with pytest.raises(MexmaError, match=r"x\.csv, line 3: not CSV: a row of more than 1,048,576 characters"):
        next(found)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("delimiter", ",;\t")
def test_all_that_is_known_of_a_pair_is_read_from_any_csv(
    delimiter: str, encoding: str, tmp_path: Path
) -> None:
    path = tmp_path / "pairs.csv"
    rows = [
        ["Source", "Target", "Score", "source_line", "cosine", "url"],
        ["un", "one", "0.5", "7", "x", "u"],
    ]
    path.write_text("".join(f"{delimiter.join(row)}\r\n" for row in rows), encoding)
    found = open_pairs(path)
    assert (found.format, list(found.pairs)) == ("csv", [MinedPair(0.5, "un", "one", 7)])
    assert found.others == {"url": 1, "cosine (no number)": 1}


@pytest.mark.parametrize("kind", ["csv", "tsv", "jsonl", "parquet"])
@pytest.mark.parametrize("names", ["Source fra eng", "fra Target eng Source publisher"])
def test_columns_of_the_stated_languages_come_before_others_named_source_and_target(
    kind: str, names: str, tmp_path: Path
) -> None:
    path = tmp_path / f"a.{kind}"
    row = {name: {"fra": "un", "eng": "one"}.get(name, "Le Monde") for name in names.split()}
    if kind == "parquet":
        pyarrow = pytest.importorskip("pyarrow")
        from pyarrow.parquet import write_table

        write_table(pyarrow.table({name: [value] for name, value in row.items()}), path)
    elif kind == "jsonl":
        path.write_text(json.dumps(row) + "\n")
    else:
        path.write_text(
            "".join(("," if kind == "csv" else "\t").join(line) + "\n" for line in (row, row.values()))
        )
    for languages, wanted in ((LANGUAGES, ("un", "one")), (LANGUAGES[::-1], ("one", "un"))):
        assert list(open_pairs(path, languages=languages).pairs) == [wanted]
    if "Target" in names:
        assert list(open_pairs(path).pairs) == [("Le Monde", "Le Monde")]


@pytest.mark.parametrize(
    ("title", "hint"),
    [
        ("From the CMS", ONE_SIDE),
        ("CMS,2024,May", "remove a title above the names of columns, and rename those of the sentences"),
        ("CMS,2024", "remove the lines above these names of columns"),
    ],
)
@pytest.mark.parametrize("names", ["score,source,target", "fr,en,url"])
def test_a_title_above_the_names_of_columns_is_told_of(
    title: str, hint: str, names: str, tmp_path: Path
) -> None:
    path = tmp_path / "a.csv"
    for text in (names, names.replace(",", ";")) if "," not in title else (names,):
        path.write_text(f"{title}\n{text}\n")
        with pytest.raises(MexmaError) as error:
            list(open_pairs(path).pairs)
        assert str(error.value.hint).startswith(hint) and "tab" not in error.value.message


def test_columns_of_unknown_names_are_read_as_the_hint_says(tmp_path: Path) -> None:
    """In the file's own delimiter: renamed, or below names that are put before them."""
    path, names, row = tmp_path / "a.csv", "No;Title_A;Title_B;Room", "1900.0;one;un;A1"
    path.write_text(f"{names}\n{row}\n")
    with pytest.raises(MexmaError, match="4 fields, and none of them is named") as error:
        list(open_pairs(path).pairs)
    hint = error.value.hint or ""
    assert "rename those of the sentences source and target" in hint
    path.write_text(f"{names.replace('Title_A', 'source').replace('Title_B', 'target')}\n{row}\n")
    assert list(open_pairs(path).pairs) == [("one", "un")]
    path.write_text(f"{hint.rpartition(' ')[2]}\none;un;A1;x\n")
    assert list(open_pairs(path).pairs) == [("one", "un")]


def test_other_columns_are_left_out_and_counted(tmp_path: Path) -> None:
    path = tmp_path / "pairs.csv"
    for text, others in (
        ("fr;English;My comment\nun;one;\ndeux;two;right?\n", {"My comment": 1}),
        ("source;target;\nun;one;\ndeux;two;right?\n", {"": 1}),
        ("No;French;English;Note\n1;un;one;x\n2;deux;two;\n", {"No": 2, "Note": 1}),
        ("No\tFrench\tEnglish\tNote\n1\tun\tone\tx\n2\tdeux\ttwo\t\n", {"No": 2, "Note": 1}),
        ("French\tEnglish\tMy comment\nun\tone\t\ndeux\ttwo\tright?\n", {"My comment": 1}),
        ("source,target,document,line\nun,one,a,1\ndeux,two,a,2\n", {"document": 2, "line": 2}),
        ("source\turl\ttarget\nun\tu\tone\ndeux\t\ttwo\n", {"url": 1}),
        (
            '{"source": "un", "target": "one", "url": "u", "n": null, "tags": ["a"]}\n'
            '{"source": "deux", "target": "two", "url": "v"}\n',
            {"url": 2, "tags": 1},
        ),
        (
            '{"id": 1, "translation": {"fr": "un", "en": "one"}}\n'
            '{"id": 2, "translation": {"fr": "deux", "en": "two"}}\n',
            {"id": 2},
        ),
    ):
        path.write_text(text)
        left_out: Counter[str] = Counter()
        found = open_pairs(path, left_out=left_out)
        assert list(found.pairs) == [("un", "one"), ("deux", "two")]
        assert found.others == others and set(left_out) <= {"header line"}
        assert list(found.other_values.values()) == [sum(others.values())]
    assert len(read("tsv", "He speaks French, English, and Dutch\tx")) == 1
    path.write_text("1.5\tFrench\tEnglish\n")  # a scored pair, and no header
    assert [pair[:3] for pair in open_pairs(path.rename(tmp_path / "pairs.tsv")).pairs] == [
        (1.5, "French", "English")
    ]


@pytest.mark.parametrize("delimiter", ["\t", ",", ";"])
@pytest.mark.parametrize(
    "rows",
    [
        ["en fr Hello. Salut.", "en fr Good-bye! Adieu!"],
        ["English French Hello. Salut.", "English French Good-bye! Adieu!"],
        ["No Non fr", "Yes Oui fr", "Hello. Salut. fr"],
    ],
)
def test_languages_beside_sentences_are_no_names_of_columns(
    rows: list[str], delimiter: str, tmp_path: Path
) -> None:
    path = tmp_path / ("a.tsv" if delimiter == "\t" else "a.csv")
    path.write_text("".join(row.replace(" ", delimiter) + "\n" for row in rows))
    with pytest.raises(MexmaError, match="fields"):
        list(open_pairs(path).pairs)


@pytest.mark.parametrize("kind", ["tsv", "csv", "jsonl", "tmx", "parquet"])
@pytest.mark.parametrize("first", ["0.5", "", "high"])
@pytest.mark.parametrize("of", ["csv", "jsonl", "parquet"])
def test_a_score_is_kept_where_others_have_none(of: str, first: str, kind: str, tmp_path: Path) -> None:
    """Whichever pair the first is, each keeps both of its sentences and its score."""
    path, read, out = tmp_path / "pairs.csv", tmp_path / f"read.{of}", tmp_path / f"out.{kind}"
    scores = [first, "0.25", "", "n/a"]
    path.write_text("score,source,target\n" + "".join(f"{score},un {score},one\n" for score in scores))
    write_chunks([read], formats()[of].write(open_pairs(path).pairs, LANGUAGES))
    write_chunks([out], formats()[kind].write(open_pairs(read).pairs, LANGUAGES))
    found = list(open_pairs(out, languages=LANGUAGES).pairs)
    assert [(pair.source.strip(), pair.target) for pair in found] == [
        (f"un {score}".strip(), "one") for score in scores
    ]
    known = [getattr(pair, "score", math.nan) for pair in found]
    assert [None if math.isnan(one) else one for one in known] == [
        0.5 if first == "0.5" else None, 0.25, None, None,
    ]  # fmt: skip


def test_columns_are_those_of_the_first_pairs(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of any of so many; what only later ones have is left out, and said."""
    path = tmp_path / "pairs.jsonl"
    rows = [{"source": "un", "target": "one"}, {"source": "deux", "target": "two", "score": 0.5}]
    for order, seen, line, told in (
        (1, 1000, "0.5,deux,two", 0),
        (1, 1, "deux,two", 1),
        (-1, 1, "nan,un,one", 0),
    ):
        caplog.clear()
        monkeypatch.setattr("mexma_cli.formats.bitext._FIRST", seen)
        path.write_text("".join(f"{json.dumps(row)}\n" for row in rows[::order]))
        write_chunks([tmp_path / "out.csv"], formats()["csv"].write(open_pairs(path).pairs, LANGUAGES))
        assert (tmp_path / "out.csv").read_text().splitlines()[-1] == line
        assert caplog.text.count("1 value left out: the first pairs, which say what") == told


@pytest.mark.parametrize(
    ("name", "line", "pair"),
    [
        ("a.csv", "0,9;un;one", (0.9, "un", "one")),
        ("a.csv", '"0,9",un,one', (0.9, "un", "one")),
        ("a.csv", "Bonjour, toi;Hello, you", ("Bonjour, toi", "Hello, you")),
        ("a.csv", "Bonjour; toi,Hello; you", ("Bonjour; toi", "Hello; you")),
        ("a.tsv", "0,9\tun\tone", (0.9, "un", "one")),
    ],
)
def test_commas_in_numbers_and_sentences_divide_no_fields(
    name: str, line: str, pair: tuple[object, ...], tmp_path: Path
) -> None:
    (tmp_path / name).write_text(f"{line}\n")
    (found,) = open_pairs(tmp_path / name).pairs
    assert found[: len(pair)] == pair


def test_a_score_of_tmx_that_is_no_number_is_counted(tmp_path: Path) -> None:
    path = tmp_path / "pairs.tmx"
    write_chunks([path], formats()["tmx"].write([MinedPair(0.5, "un", "one")], LANGUAGES))
    path.write_text(path.read_text().replace(">0.5<", ">high<"))
    found = open_pairs(path, languages=LANGUAGES)
    assert [(pair.source, pair.target) for pair in found.pairs] == [("un", "one")]
    assert found.other_values == {"values of other columns, such as score (no number)": 1}


def test_numbers_with_a_comma_are_scores_and_other_scores_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "pairs.csv"
    for start, end in (("score;source;target\n", ";un;one\n"), ('score,source,target\n"', '",un,one\n')):
        path.write_text(f"{start}0,9{end}{start[-1:].strip()}high{end}")
        found = open_pairs(path)
        first, second = found.pairs
        assert getattr(first, "score", None) == 0.9 and math.isnan(getattr(second, "score", 0))
        assert found.others == {"score (no number)": 1}


def test_values_of_json_that_are_of_other_types_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "pairs.jsonl"
    path.write_text(
        '{"source": "un", "target": "one", "score": "high", "source_line": 4, "target_line": "x"}'
    )
    found = open_pairs(path)
    (pair,) = found.pairs
    assert isinstance(pair, MinedPair) and math.isnan(pair.score) and pair.source_line == 4
    assert found.others == {"score": 1, "target_line": 1}


def test_a_property_of_a_unit_is_a_score_or_none(tmp_path: Path) -> None:
    pair = AlignedPair(math.nan, "un", "one", "a", "b", (1,), (1,))
    ((unit, _),) = list(formats()["tmx"].write([pair], LANGUAGES))[1:-1]
    assert "<tu " in str(unit) and "<prop" not in str(unit)


@pytest.mark.parametrize(
    ("name", "text", "message", "hint"),
    [
        ("a.tsv", "7\tun\tone\tx\n8\tdeux\ttwo\ty\n", "4 tab-separated fields, expected 3 (id,", "-f 2,3`"),
        ("a.tsv", "un\tone\tx\ndeux\ttwo\ty\n", "3 tab-separated fields, expected 2", "-f 1,2`"),
        ("a.csv", "7,un,one,x\n8,deux,two,y\n", "4 fields", "first pair, such as id,source,target,other1"),
        ("a.csv", "0.5,un,one,x\n0.5,deux,two,y\n", "4 fields", "such as score,source,target,other1"),
        ("a.csv", "un,one,x\ndeux,two,y\n", "3 fields", "such as source,target,other1"),
    ],
)
def test_hints_name_the_columns_that_are_there(
    name: str, text: str, message: str, hint: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(MexmaError) as error:
        list(open_pairs(path).pairs)
    assert message in error.value.message and hint in str(error.value.hint)


@pytest.mark.parametrize(
    "line", ["source\tla source", "en\ten", "français\tFrench", "Oui, merci.\tYes", "id\ttarget", "fr\tx"]
)
def test_pairs_are_no_headers(line: str) -> None:
    assert len(read("tsv", line)) == 1


def test_lines_that_are_no_pairs_are_left_out_and_counted(tmp_path: Path) -> None:
    one, half, whole = (
        f'{{"source": "{source}", "target": "one"}}' for source in ("un", "un \\ud83d", "un \\ud83d\\ude00")
    )
    path = tmp_path / "pairs"
    empty = '{"source": null, "target": "one"}'
    path.write_text(f"{one}\n\n{half}\n{whole}\n \n{empty}\n")
    left_out: Counter[str] = Counter()
    assert [pair.source for pair in open_pairs(path, left_out=left_out).pairs] == ["un", "un 😀", ""]
    assert left_out == {"blank lines": 2, "lines with half a character (a lone surrogate)": 1}
    path.write_text("\nsource\ttarget\n\nun\tone\n\n")
    left_out.clear()
    assert len(list(open_pairs(path, left_out=left_out).pairs)) == 1
    assert left_out == {"header line": 1, "blank lines": 3}


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
        ("a.CSV.gz", "csv"),
    ],
)
def test_the_name_says_the_format(name: str, kind: str) -> None:
    assert format_of(Path(name)) == kind


@pytest.mark.parametrize(
    "name",
    [
        "x.xls", "x.xlsx", "x.npz", "x.XLS.gz", "x.emb", "x.po", "x.xliff", "x.xlf", "x.tbx", "x.ods",
        "x.moses", "x.moses.gz", "x.vecalign",
    ],
)  # fmt: skip
def test_a_name_of_another_format_is_refused_with_those_that_exist(name: str) -> None:
    with pytest.raises(
        MexmaError, match=rf"(?m)^{name.lower()}: pairs are not written as \.[a-z]+$"
    ) as error:
        format_of(Path(name.lower()))
    assert error.value.hint == "what is written: .tsv, .csv, .jsonl, .parquet, .tmx or --format moses"


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
    assert list(formats()) == ["tsv", "csv", "jsonl", "moses", "parquet", "tmx"]
    assert list(formats(alignments=True)) == [
        "tsv",
        *("csv", "documents", "jsonl", "moses", "parquet", "tmx", "vecalign"),
    ]
    endings = [ending for found in formats(alignments=True).values() for ending in found.endings]
    assert len(set(endings)) == len(endings)


ALIGNED = AlignedPair(0.5, "a\tb c", "d", "news\t1", "n1", (3, 4), (2,))


@pytest.mark.parametrize("with_ids", [False, True])
def test_csv_comes_back_whatever_is_in_it(with_ids: bool, tmp_path: Path) -> None:
    pairs = [PAIR, PAIR._replace(source='a, "b"\rc', target="d\te", score=0.1)]
    write_pairs(tmp_path / "a.csv.gz", formats()["csv"], iter(pairs), LANGUAGES, with_ids)
    back = [pair[:3] for pair in open_pairs(tmp_path / "a.csv.gz").pairs]
    assert back == [pair[:3] for pair in pairs]
    write_pairs(tmp_path / "b.csv", formats()["csv"], [PlainPair("=1;2", "x")], LANGUAGES)
    assert (tmp_path / "b.csv").read_text() == "source,target\n=1;2,x\n"


def test_alignments_have_their_documents_and_lines() -> None:
    aligned_in_tsv = ALIGNED._replace(source="a b c", source_document="news 1")
    assert written("tsv", [ALIGNED]) == [(("0.5\ta b c\td\n",), 1)]
    (((line,), _),) = written("tsv", [ALIGNED], with_ids=True)
    assert line == "0.5\ta b c\td\tnews 1\tn1\t3,4\t2\n"
    assert read("tsv", line[:-1]) == [aligned_in_tsv]
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


@pytest.mark.parametrize("end", [".csv", ".tsv"])
@pytest.mark.parametrize(
    ("names", "stated", "found"),
    [
        ("No en id", ("ind", "eng"), ("2", "one")),
        ("No en id", ("und", "und"), ("one", "2")),
        ("no. English id", ("ind", "und"), ("2", "one")),
        ("id en de", ("deu", "eng"), ("2", "one")),
        ("index en zh", ("zho_Hant", "eng"), ("2", "one")),
        ("id en de", ("deu", "fra"), "the columns are en, de, and the languages deu_Latn and fra_Latn are"),
    ],
)
def test_stated_languages_choose_columns(
    end: str, names: str, stated: tuple[str, str], found: str | tuple[str, str], tmp_path: Path
) -> None:
    path = tmp_path / f"a{end}"
    rows = [names.split(), ["71", "one", "2"], ["72", "two", "b"]]
    path.write_text("".join((";" if end == ".csv" else "\t").join(row) + "\n" for row in rows))
    if isinstance(found, str):
        with pytest.raises(MexmaError, match=found):
            list(open_pairs(path, languages=stated).pairs)
    else:
        assert next(open_pairs(path, languages=stated).pairs) == found


@pytest.mark.parametrize("kind", [name for name in formats() if not formats()[name].two_files])
@pytest.mark.parametrize("pairs", KNOWN, ids=["plain", "scored", "with ids", "aligned"])
def test_a_file_of_pairs_is_read_as_it_was_written(kind: str, pairs: list[Pair], tmp_path: Path) -> None:
    path = tmp_path / "pairs"
    languages = ("fra_Latn", "zho_Hant")
    write_chunks([path], formats()[kind].write(pairs, languages, with_ids=True))
    found = open_pairs(path, languages=languages)
    assert (found.format, list(found.pairs)) == (kind, pairs)


@pytest.mark.parametrize("kind", ["tsv", "jsonl"])
def test_each_pair_comes_with_its_line(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "pairs.gz"
    write_chunks([path], formats()[kind].write([MinedPair(1.0, str(n), "b") for n in range(9)], ("und",) * 2))
    lines = gzip.decompress(path.read_bytes()).decode().splitlines()
    assert [(line, pair.source) for line, pair in open_pairs(path).records] == [
        (line, str(n)) for n, line in enumerate(lines)
    ]


def test_columns_of_other_programs_in_parquet(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow.parquet import write_table

    table = {"source": ["a", None], "target": ["b", "c"], "score": ["high", "low"], "more": [1, 2]}
    write_table(pyarrow.table(table), tmp_path / "a")
    found = open_pairs(tmp_path / "a")
    assert [(str(score), *texts[:2]) for score, *texts in found.pairs] == [
        ("nan", "a", "b"),
        ("nan", "", "c"),
    ]
    assert found.others == {"more": 2, "score": 2}
    write_table(pyarrow.table({"en": ["a"]}), tmp_path / "b")
    (tmp_path / "c").write_bytes((tmp_path / "a").read_bytes()[:200])
    for name, message in (("b", "b has no columns source and target"), ("c", "c is damaged: Parquet")):
        with pytest.raises(MexmaError, match=message):
            list(open_pairs(tmp_path / name).pairs)


@pytest.mark.parametrize("start", [b"Hola.\tHello.\n", b"sep=;\nHola.;Hello.\n"], ids=["TSV", "CSV"])
def test_a_first_pair_is_there_before_the_next_line_is(start: bytes) -> None:
    """A program may wait for the answer to it (OpusCleaner's filters)."""

    def pieces() -> Iterator[bytes]:
        yield start
        raise AssertionError("read too early")

    text = RawText(pieces(), "x.tsv", each_line=True)
    found = (pair for pair in Tsv().read(text, languages=("und", "und")).pairs if pair.source)
    assert next(found)[:2] == ("Hola.", "Hello.")


def test_objects_with_other_fields_and_without_a_stated_language(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    from langcodes import registry_parser

    path, asked = tmp_path / "a.jsonl", []
    rows = [{"origin": "web", "crawled_on": "x", "sw": "Habari.", "en": "News."}] * 50
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    parse = registry_parser.parse_registry
    monkeypatch.setattr(registry_parser, "parse_registry", lambda: asked.append(1) or parse())
    assert len(list(open_pairs(path, languages=("swh", "eng")).pairs)) == 50
    (said,) = caplog.messages
    assert said.endswith("a.jsonl: left out: values of other columns, such as origin, crawled_on (100)")
    assert len(asked) <= 2, "what is no language is found out once"
    assert next(iter(open_pairs(path, languages=("hau", "eng")).pairs)).source == ""
    said = "no text in hau_Latn; there are origin, crawled_on, sw, en"
    assert f"a.jsonl, line 1: {said}" in caplog.text
    with pytest.raises(MexmaError, match=rf"a\.jsonl: {said}") as error:
        list(open_pairs(path, languages=("hau", "eng"), options="--source-lang").pairs)
    assert error.value.hint == "state which: --source-lang"
    path.write_text(f"{path.read_text()}{json.dumps({'ha': 'Labari.', 'en': 'News.'})}\n")
    pairs = [pair.source for pair in open_pairs(path, languages=("hau", "eng")).pairs]
    assert pairs == [*[""] * 50, "Labari."]


def test_parquet_is_compressed_no_further() -> None:
    with pytest.raises(MexmaError, match=r"x\.parquet\.gz: parquet is compressed in itself") as error:
        outputs_of(Path("x.parquet.gz"), "parquet", LANGUAGES)
    assert error.value.hint == "name it x.parquet"


def test_a_name_of_another_format_is_refused() -> None:
    for name, kind in (("x.csv", "tsv"), ("x.tsv.gz", "jsonl"), ("x.jsonl", "tmx")):
        with pytest.raises(
            MexmaError, match=f"{name} has the name of .*, and the format {kind}, so"
        ) as error:
            named_format(Path(name), kind)
        assert error.value.hint == f"name it *.{kind}, or leave out --format"
    for name, kind in (("x.csv", "csv"), ("x", "tsv"), ("x.txt.gz", "jsonl"), ("x.tsv", None)):
        assert named_format(Path(name), kind).name == (kind or "tsv")
    assert named_format(Path("x.jsonl"), "documents", alignments=True).whole_documents
