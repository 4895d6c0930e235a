"""Results: JSON, tables, and the published numbers beside them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from mexma_cli.errors import MexmaError
from mexma_cli.reporting import tables
from mexma_cli.reporting.result import Result
from mexma_cli.reporting.tables import (
    as_csv,
    as_latex,
    names_in,
    published_rows,
    published_scores,
    text_lines,
    warn_of_few,
)

RESULT = Result(
    "bucc",
    {"name": "tiny", "fingerprint": "f"},
    {"k": 4},
    {"cosine f1": 90.0, "tuned f1": 80.5},
    [
        {"pair": "fra-eng", "gold": 1200, "cosine f1": 91.0, "tuned f1": None, "threshold": 1.08765},
        {"pair": "deu-eng", "gold": 3, "cosine f1": 89.0, "tuned f1": 80.5, "threshold": 1.1},
    ],
    "bucc",
)


def test_json_there_and_back(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    RESULT.write(path)
    assert Result.read(path) == RESULT
    assert json.loads(path.read_text()) == RESULT.to_json()


def test_what_is_missing_is_empty_in_csv() -> None:
    assert as_csv([["encoder", "F1", "xsim"], ["mini", "-", "1.00"]]) == "encoder,F1,xsim\nmini,,1.00\n"


def test_a_table_for_latex() -> None:
    table = [["encoder", "F1 de->en"], ["mini_1 & \\x", "90.52"]]
    header = r"\hline encoder & F1 de-\textgreater{}en \\ \hline"
    wanted = rf"\begin{{tabular}}{{lr}} {header} mini\_1 \& \textbackslash{{}}x & 90.52 \\"
    assert as_latex(table).replace("\n", " ") == wanted + r" \hline \end{tabular} "


def test_tables() -> None:
    lines = text_lines(RESULT)
    assert lines[0].split() == ["pair", "gold", "cosine", "f1", "tuned", "f1", "threshold"]
    assert lines[1].split() == ["fra-eng", "1,200", "91.00", "-", "1.0877"]
    assert "cosine f1, beside: MEXMA paper, Tables 1 and 16" in lines
    (header,) = [line for line in lines if line.startswith("encoder")]
    ours = lines[lines.index(header) + 1]
    assert ours.startswith("tiny (here)")
    assert ours == lines[-1]  # the papers' means are of four pairs, not of these two
    other = text_lines(replace(RESULT, benchmark=None))
    assert len(other) == 6 and "paper" not in "".join(other)


def test_published_means_stand_beside_means_of_the_same_rows() -> None:
    pairs = ("fra-eng", "deu-eng", "rus-eng", "zho-eng")
    whole = replace(RESULT, rows=[{"pair": pair, "cosine f1": 90.0, "tuned f1": 80.5} for pair in pairs])
    lines = text_lines(whole)
    assert any(line.startswith("tiny (here)") and line.endswith("measured here") for line in lines)
    assert any(line.startswith("MEXMA") and "98.93" in line and "Tables 1 and 16" in line for line in lines)
    assert published_scores(replace(whole, rows=whole.rows[1:])) == []
    tatoeba = Result("tatoeba", RESULT.encoder, {}, {"xx->eng 14": 90.0}, [{"language": "deu"}], "tatoeba")
    assert published_scores(tatoeba)[0].scores == {"xx->eng 14": 77.8}  # a mean without its rows


def test_a_published_row_stands_beside_the_row_that_has_the_score() -> None:
    rows: list[dict[str, object]] = [
        {"pair": "fra-eng", "split": "test", "tuned f1": 88.25, "test f1": 87.75},
        {"pair": "fra-eng", "split": "training", "tuned f1": 90.5, "test f1": None},
    ]
    lines = text_lines(replace(RESULT, scores={"tuned f1": 90.5, "test f1": 87.75}, rows=rows))
    for title, ours in (("tuned f1, beside", "90.50"), ("test f1, beside", "87.75")):
        (place,) = [number for number, line in enumerate(lines) if line.startswith(title)]
        assert lines[place + 2].split()[:2] == ["fra-eng", ours]


def test_columns_of_names() -> None:
    assert names_in([["a", "b", "c"], ["x", "y", "1"], ["x", "z", "-"]]) == 2
    assert names_in([["a", "b"], ["x", "1,000"], ["x", "-3.5"]]) == 1


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([], "no result"),
        ({"task": "x"}, "`encoder` is missing"),
        ({"task": 3}, "`task` is missing"),
        (RESULT.to_json() | {"encoder": {}}, "its `encoder` has no name"),
        (RESULT.to_json() | {"rows": [3]}, "`rows` is missing or is not what it should be"),
        (RESULT.to_json() | {"rows": [{}]}, "one of its `rows` is empty"),
    ],
)
def test_what_is_no_result(tmp_path: Path, content: object, message: str) -> None:
    path = tmp_path / "r.json"
    path.write_text(json.dumps(content))
    with pytest.raises(MexmaError, match=message):
        Result.read(path)


def test_published_numbers_add_up() -> None:
    """Means that the papers print are those of the rows that they print."""
    for row in published_rows("bucc"):
        for score in ("cosine f1", "tuned f1", "test f1"):
            pairs = [value for name, value in row.scores.items() if name.startswith(score + " ")]
            if pairs:
                assert len(pairs) == 4
                assert sum(pairs) / 4 == pytest.approx(row.scores[score], abs=0.11), row
    # Table 16 prints no means; those of Table 1 are of the same four pairs.
    means = {row.encoder: row.scores["cosine f1"] for row in published_rows("bucc") if "MEXMA" in row.source}
    assert means == {"DAP": 98.68, "SONAR": 98.25, "LaBSE": 98.75, "MEXMA": 98.93}
    assert means == {row.encoder: row.scores["score"] for row in published_rows("mteb-table16")}
    inference = published_rows("xnli")
    systems = [row.encoder.partition("+") for row in inference]
    for base in ("mBERT", "XLM-R"):  # all that the other tables of the DAP paper have
        assert [name for one, _, name in systems if one == base] == ["", "TR", "TR+TLM", "DAP"]
    for row in inference:
        accuracies = [value for name, value in row.scores.items() if name != "accuracy"]
        assert len(accuracies) == 15
        assert sum(accuracies) / 15 == pytest.approx(row.scores["accuracy"], abs=0.06), row
    assert {row.encoder for row in published_rows("xsim-81")} >= {"LaBSE", "SONAR", "MEXMA"}
    assert published_rows("no such benchmark") == []


def test_published_table_is_whole() -> None:
    path = Path(tables.__file__).with_name("published.tsv")
    header, *lines = path.read_text(encoding="utf-8").splitlines()
    assert header.split("\t") == ["benchmark", "encoder", "score", "value", "source"]
    keys = [(line.split("\t")[:3], line.split("\t")[4]) for line in lines if line]
    assert len(set(map(str, keys))) == len(keys), "a number is there twice"


def test_few_translations_are_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    warn_of_few(500, "only 500 pairs")
    assert not caplog.messages
    warn_of_few(499, "only 499 pairs")
    assert caplog.messages == ["these figures are rough: only 499 pairs"]
