from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.command import fails, ok, run
from tests.processes import MEXMA, Program


@pytest.fixture
def folder(tmp_path: Path, sentences: dict[str, list[str]], tiny_encoder: Path) -> Path:
    """`fra.txt` and `eng.txt`, and their stores."""
    for side, lines in sentences.items():
        (tmp_path / f"{side}.txt").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        ok(run("embed", tmp_path / f"{side}.txt", "--model", tiny_encoder))
    return tmp_path


def test_stores_texts_and_stdin(folder: Path, tiny_encoder: Path, sentences: dict[str, list[str]]) -> None:
    done = ok(run("search", folder / "fra.emb", folder / "eng.emb"))
    rows = [line.split("\t") for line in done.stdout.splitlines()]
    assert [row[1] for row in rows] == sentences["fra"]
    assert all(row[2] in sentences["eng"] and float(row[0]) for row in rows)
    assert "8 queries in" in done.stderr and "target: 8 lines" in done.stderr
    text = (folder / "fra.txt").read_bytes()
    for given, stdin in ((folder / "fra.txt", None), ("-", text)):
        again = ok(run("search", given, folder / "eng.emb", stdin=stdin))
        assert again.stdout == done.stdout
        assert f"using the store's encoder, {tiny_encoder}" in again.stderr
    assert (
        run("search", folder / "fra.txt", folder / "eng.txt", "--model", tiny_encoder).stdout == done.stdout
    )
    output = folder / "out.tsv"
    assert run("search", folder / "fra.emb", folder / "eng.emb", "-o", output).stdout == ""
    assert output.read_text(encoding="utf-8") == done.stdout
    assert not list(folder.glob("out.tsv?*"))


def test_what_goes_with_a_cleaned_store_is_cleaned(folder: Path, tiny_encoder: Path) -> None:
    queries, options = folder / "odd.txt", ("--model", tiny_encoder, "--clean", "--overwrite")
    odd = "Où\x07est-il…"
    queries.write_text(f"{odd}\nBonjour\n", encoding="utf-8")
    for text in (queries, folder / "eng.txt"):
        ok(run("embed", text, *options))
    stores, target = run("search", folder / "odd.emb", folder / "eng.emb"), folder / "eng.emb"
    assert run("search", queries, target).stdout == stores.stdout
    typed = odd, "Où est-il..."
    found = {run("search", "--query", query, target).stdout.replace(query, "") for query in typed}
    assert len(found) == 1


def test_an_input_is_no_output(folder: Path) -> None:
    queries = folder / "fra.txt"
    before = queries.read_bytes()
    fails(run("search", queries, folder / "eng.emb", "-o", queries), 2, "fra.txt is an input")
    assert queries.read_bytes() == before


@pytest.mark.parametrize("query", [("fra.txt",), ("--query", "one")])
def test_another_format_is_refused(folder: Path, query: tuple[str, ...]) -> None:
    first = folder / query[0] if len(query) == 1 else query[0]
    fails(
        run("search", first, *query[1:], folder / "eng.emb", "-o", folder / "out.tmx"),
        1,
        "out.tmx: pairs are not written as .tmx",
    )


def test_itself_is_the_nearest(folder: Path, sentences: dict[str, list[str]]) -> None:
    done = run("search", folder / "fra.emb", folder / "fra.emb", "--margin", "absolute", "-n", "3")
    rows = [line.split("\t") for line in done.stdout.splitlines()]
    assert [row[3] for row in rows] == ["1", "2", "3"] * 8
    for place, sentence in enumerate(sentences["fra"]):
        assert rows[3 * place][1:3] == [sentence, sentence]
        scores = [float(row[0]) for row in rows[3 * place : 3 * place + 3]]
        assert scores[0] == pytest.approx(1, abs=1e-3) and scores == sorted(scores, reverse=True)


def test_an_empty_query_has_a_line(folder: Path) -> None:
    done = run("search", "-", folder / "eng.emb", stdin=b"one\n\nthree\n")
    rows = done.stdout.split("\n")
    assert len(rows) == 4 and rows[1] == "nan\t\t\t0\t0\t"
    assert "warning: 1 query is empty or without a usable vector: nan" in done.stderr
    done = run("search", "-", folder / "eng.emb", "--json", stdin=b"one\n\n")
    none = {"score": None, "query": "", "sentence": "", "rank": 0, "line": 0, "document": ""}
    assert json.loads(done.stdout.splitlines()[1]) == none


def test_a_typed_sentence(folder: Path, sentences: dict[str, list[str]]) -> None:
    query = sentences["eng"][3]
    done = ok(run("search", "--query", query, folder / "eng.emb"))
    rows = [line.split("\t") for line in done.stdout.splitlines()]
    assert [row[3] for row in rows] == ["1", "2", "3", "4", "5"]
    assert rows[0][1:3] == [query, query] and float(rows[0][0]) == pytest.approx(1, abs=1e-3)
    ok(run("search", "--query", query, folder / "eng.emb", "-n", "1", "-o", folder / "one.tsv"))
    place = "4", str(folder / "eng.txt")
    wanted = [query, query, "1", *place]
    assert (folder / "one.tsv").read_text(encoding="utf-8").rstrip("\n").split("\t")[1:] == wanted
    typed = ok(run("search", "--query", query, folder / "eng.emb", "-n", "1", "--json")).stdout
    named = {"query": query, "sentence": query, "rank": 1, "line": 4, "document": place[1]}
    assert json.loads(typed) | {"score": 1} == {"score": 1, **named}
    many = run("search", "--query", query, folder / "eng.emb", "-n", "99")
    assert len(many.stdout.splitlines()) == 8


ON_A_TERMINAL = f"""
import atexit, os, sys
os.dup2(os.open(sys.argv.pop(1), os.O_WRONLY | os.O_NOCTTY), 1)
sys.stdout = open(1, "w", closefd=False)
try:
    {MEXMA}
finally:
    atexit._run_exitfuncs()  # Numba had colorama write something then
"""


def test_on_a_terminal_it_is_for_reading(folder: Path, sentences: dict[str, list[str]]) -> None:
    pty = pytest.importorskip("pty")
    reader, writer = pty.openpty()
    words = ("-q", "search", "-n", "2", "--query", sentences["eng"][3], folder / "eng.emb")
    process = Program(ON_A_TERMINAL, os.ttyname(writer), *words)
    assert process.wait() == 0, process.communicate()
    os.close(writer)
    shown = os.read(reader, 10000).decode().splitlines()
    os.close(reader)
    assert len(shown) == 2
    assert shown[0].split("  ")[-1] == sentences["eng"][3] and shown[0].strip().startswith(
        ("1.0000", "0.999")
    )
    assert "\t" not in shown[0] and "eng.txt, line 4  " in shown[0]


def test_documents_are_named(folder: Path, sentences: dict[str, list[str]]) -> None:
    docs, store = folder / "eng.docs", folder / "eng.emb"
    docs.write_text("".join(f"book {line // 5}\t0\t9\n" for line in range(8)))
    words = "--docs", docs, "--margin", "absolute"
    found = [line.split("\t") for line in ok(run("search", store, store, *words)).stdout.splitlines()]
    assert [row[4:] for row in found] == [[str(line + 1), f"book {line // 5}"] for line in range(8)]
    typed = ok(run("search", "--query", sentences["eng"][6], store, *words[:2], "-n", 1)).stdout
    assert typed.rstrip("\n").split("\t")[3:] == ["1", "7", "book 1"]
    ok(run("search", folder / "fra.emb", store, *words, "-o", folder / "found.tsv"))
    kept = ok(run("filter", folder / "found.tsv", "--off", "all", "-o", "-")).stdout
    assert kept == (folder / "found.tsv").read_text(encoding="utf-8")
    docs.write_text("one\n")
    fails(run("search", store, store, *words), 1, f"{docs} has 1 line, {folder / 'eng.txt'} has 8")


def test_refusals(folder: Path, tiny_encoder: Path) -> None:
    store, text = folder / "eng.emb", folder / "eng.txt"
    (folder / "empty.txt").write_bytes(b"")
    for code, message, *arguments in (
        (2, "Give QUERIES and TARGET, or --query and TARGET, not 1 paths", store),
        (2, "Give one store to search in, not 2 paths", store, store, "--query", "a"),
        (2, "--query searches in a store", text, "--query", "a"),
        (2, f"mexma search --query 'The hare?' {store}", "The hare?", store),
        (2, "The query is empty.", store, "--query", " "),
        (2, "--margin ratio needs the neighbourhoods", store, "--query", "a", "--margin", "ratio"),
        (2, "-k is the size of neighbourhoods, and --query has none", store, "--query", "a", "-k", "8"),
        (2, "Only one of the inputs can be stdin", "-", "-"),
        (2, "are embedded already", store, store, "--model", tiny_encoder),
        (2, "0 is not in the range", store, store, "-n", "0"),
        (1, "different encoders", text, store, "--model", "mini"),
        (1, "different encoders", store, "--query", "a", "--model", "mini"),
        (1, "none.emb: no such", folder / "none.emb", store),
        (1, "none.emb: no such", folder / "none.emb", "--query", "a"),
        (1, "none.txt: no such", folder / "none.txt", "--query", "a"),
        (1, "empty.txt has no lines", folder / "empty.txt", store),
        (1, "is a folder, not a file", store, store, "-o", folder),
    ):
        options = () if "-o" in arguments else ("-o", folder / "out.tsv")
        fails(run("search", *arguments, *options), code, message)
    assert not list(folder.glob("out*"))
