"""The public API: what it names, that it is quick to import, and the examples in its docstrings."""

from __future__ import annotations

import doctest
import json
import logging
import os
import pickle
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import mexma_cli
from mexma_cli.arguments import types_of
from mexma_cli.formats.bitext import open_pairs
from mexma_cli.main import cli
from mexma_cli.settings.section import naming_keywords
from tests.command import ok, run, write
from tests.examples import demo_pairs

ROOT = Path(__file__).parent.parent


def python(code: str) -> str:
    """What a new Python prints."""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, text=True, capture_output=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_importing_it_imports_nothing_heavy() -> None:
    heavy = "numpy", "torch", "transformers", "numba", "pydantic", "yaml", "click", "tqdm"
    assert python(f"import sys, mexma_cli; print(set(sys.modules) & set({heavy}))") == "set()\n"


@pytest.mark.slow
@pytest.mark.parametrize("order", [1, -1])
def test_knn_is_the_function_in_both_orders(order: int) -> None:
    """The room of the same name is imported before it or after it."""
    lines = ["from mexma_cli import knn", "from mexma_cli.knn import choice"][::order]
    code = "\n".join([*lines, "import mexma_cli", "import mexma_cli.knn.effort"])
    code += "\nprint(knn.__module__, mexma_cli.knn is knn, choice.__name__)"
    assert python(code) == "mexma_cli.api True mexma_cli.knn.choice\n"


def test_other_names_are_refused() -> None:
    assert set(mexma_cli.__all__) <= set(dir(mexma_cli))
    with pytest.raises(AttributeError, match="has no attribute 'nosuch'"):
        mexma_cli.nosuch  # type: ignore[attr-defined]  # noqa: B018


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With the repository's examples, and the store that an example opens."""
    path = tmp_path_factory.mktemp("api")
    shutil.copytree(ROOT / "examples", path / "examples")
    text = path / "examples/spa-eng/spa.txt"
    assert CliRunner().invoke(cli, ["embed", str(text), "-o", str(path / "spa.emb")]).exit_code == 0
    return path


@pytest.mark.parametrize("name", [name for name in mexma_cli.__all__ if name != "MexmaError"])
def test_examples_run(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    (found,) = (
        test
        for test in doctest.DocTestFinder(recurse=False).find(getattr(mexma_cli, name), name)
        if test.examples
    )
    assert doctest.DocTestRunner().run(found).failed == 0


def notebook() -> str:
    """The code of the notebook's cells."""
    cells = json.loads((ROOT / "examples/documents.ipynb").read_text())["cells"]
    assert len(cells) == 10
    return "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")


USER = ROOT / "tests/user_script.py"


@pytest.mark.slow
@pytest.mark.parametrize("checker", ["pyrefly", "mypy", "pyright"])
def test_type_checkers_find_a_users_mistakes(checker: str, tmp_path: Path) -> None:
    """A setting that there is not, and a value that it cannot have; and nothing in what is right."""
    found = shutil.which(checker, path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if found is None:
        pytest.skip(f"{checker} is not there: pip install mypy pyright")
    right = USER.read_text(encoding="utf-8")
    texts = {"script": right, "notebook": notebook()}
    texts["misspelt"] = right.replace("precision=0.95", "precison=0.95")
    texts["other_value"] = right.replace('document="file"', 'document="fil"')
    names = [f"{name}.py" for name in texts]
    for name, text in zip(names, texts.values(), strict=True):
        (tmp_path / name).write_text(text, encoding="utf-8")
    (tmp_path / "pyrightconfig.json").write_text(
        json.dumps({"extraPaths": [str(ROOT)], "reportUnusedExpression": False})
    )
    options = {
        "pyrefly": ["check", "--search-path", ROOT, "--python-interpreter-path", sys.executable],
        "mypy": ["--python-executable", sys.executable, "--follow-imports", "silent", "--cache-dir", "mypy"],
        "pyright": ["--pythonpath", sys.executable],
    }
    command = [found, *options[checker], *names]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, env=os.environ | {"MYPYPATH": str(ROOT)}
    )
    wrong = set(re.findall(rf"\b({'|'.join(texts)})\.py:\d+", done.stdout))
    assert wrong == {"misspelt", "other_value"}, done.stdout + done.stderr
    assert "precison" in done.stdout and "fil" in done.stdout


@pytest.mark.slow
def test_a_users_script_runs(folder: Path) -> None:
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, USER], cwd=folder, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    assert (
        done.stdout.endswith("nosuch.emb: no such file or folder\n") and "are translations\n" in done.stdout
    )


def test_the_notebook_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(ROOT / "examples/jonah", tmp_path / "examples/jonah")
    monkeypatch.chdir(tmp_path)
    exec(compile(notebook(), "documents.ipynb", "exec"), {})
    pairs = list(open_pairs(tmp_path / "runs/notebook/jonah.tmx").pairs)
    assert len(pairs) > 30
    assert any("Jonas" in pair.source and "Jonah" in pair.target for pair in pairs)


def test_pairs_are_written_in_the_format_of_the_name(folder: Path, tmp_path: Path) -> None:
    mined = mexma_cli.mine(
        folder / "spa.emb", folder / "examples/spa-eng/eng.txt", top=2, languages=("spa", "eng")
    )
    mined.write(tmp_path / "pairs.tmx")
    mined.write(tmp_path / "pairs.txt", format="tsv")
    read = [(pair.source, pair.target) for pair in open_pairs(tmp_path / "pairs.tmx").pairs]
    assert read == [tuple(row.split("\t")[1:]) for row in (tmp_path / "pairs.txt").read_text().splitlines()]
    with pytest.raises(mexma_cli.MexmaError, match="no format 'xls'"):
        mined.write(tmp_path / "pairs.txt", format="xls")
    assert len(repr(mined)) < 400 and len(mined) == 2
    assert [mined[0], mined[-1]] == mined[:] == list(mined) and mined[2:] == []
    with pytest.raises(IndexError):
        mined[2]


def of_results(found: Any) -> Iterator[Any]:
    """A result, and the results that it has in its fields."""
    yield found
    fields = getattr(found, "_fields", None) or getattr(found, "__dataclass_fields__", ())
    for value in (getattr(found, name) for name in fields):
        if type(value).__module__.startswith("mexma_cli."):
            yield from of_results(value)


def test_results_are_shown_on_a_short_line(aligned: Path, tmp_path: Path) -> None:
    """Of all public functions but those that return paths, numbers or the sentences of a search."""
    texts, gold = (aligned / "spa.txt", aligned / "eng.txt"), tmp_path / "gold.tsv"
    mined, vectors = mexma_cli.mine(*texts, precision=0.9), np.eye(300)
    mined.write(tmp_path / "pairs.tsv")
    gold.write_text("\n".join(demo_pairs(20)) + "\n", encoding="utf-8")
    found = [
        (mined, "Mined(20 pairs of 20 and 20 lines)"),
        (mexma_cli.split(texts[1], tmp_path / "a.txt", lang="eng"), "SplitReport("),
        (mexma_cli.embed(texts[0], tmp_path / "spa.emb"), "EmbeddingStore("),
        (mexma_cli.knn(vectors, vectors[:2], k=4), "Neighbours(2 for each of 300 rows, 4 for each of 2)"),
        (mexma_cli.align(*texts), "Aligned(20 alignments of 1 pair of documents)"),
        (mexma_cli.score(*texts, probability=True), "Scored(20 lines, 0 with an empty side)"),
        (mexma_cli.tune(tmp_path / "pairs.tsv", gold=gold), "Tuned(threshold="),
        (mexma_cli.tune(*texts, k=3), "Estimated(threshold="),
        (mexma_cli.filter(texts, tmp_path / "kept.tsv"), "Filtered(20 of 20 pairs kept)"),
        (mexma_cli.evaluate(aligned), "Result(xsim of mini: xsim 0, 1 row)"),
        (mexma_cli.SentenceEncoder.load(), "SentenceEncoder('mini', 320 numbers, cpu, float32)"),
    ]
    names = set[str]()
    for result, beginning in found:
        assert repr(result).startswith(beginning)
        for one in of_results(result):
            said = repr(one).replace(str(tmp_path), "")
            names.add(type(one).__name__)
            assert len(said) < 120 and "\n" not in said and "array" not in said, said
    assert {"Estimated", "EstimatedCut", "MineSettings", "Candidates", "Threshold", "Rivals"} <= names


def test_hits_say_where_they_are(folder: Path, tmp_path: Path) -> None:
    text = folder / "examples/spa-eng/spa.txt"
    lines = text.read_text(encoding="utf-8").splitlines()
    (tmp_path / "q.txt").write_text(f"{lines[6]}\n\n{lines[2000]}\n", encoding="utf-8")
    (tmp_path / "spa.docs").write_text("".join(f"book {row // 1000}\t0\t1\n" for row in range(len(lines))))
    queries, docs = tmp_path / "q.txt", tmp_path / "spa.docs"
    hits = mexma_cli.search(folder / "spa.emb", queries=queries, docs=docs, margin="absolute")
    assert [(hit.target, hit.line, hit.document) for hit in hits] == [
        (lines[6], 7, "book 0"),
        ("", 0, ""),
        (lines[2000], 2001, "book 2"),
    ]
    encoder = mexma_cli.SentenceEncoder.load("mini")
    store = mexma_cli.EmbeddingStore.open(folder / "spa.emb")
    (hit,) = mexma_cli.search(store, query=lines[6], top=1, encoder=encoder)
    assert hit.line == 7 and hit.document.endswith("spa.txt")
    for given in ({}, {"query": "a", "queries": "b"}, {"query": "a", "k": 4}):
        with pytest.raises(TypeError, match="one of query and queries"):
            mexma_cli.search(store, **given)  # type: ignore[arg-type]
    with pytest.raises(mexma_cli.MexmaError, match="the query is empty"):
        mexma_cli.search(store, query=" ")


@pytest.fixture
def aligned(tmp_path: Path) -> Path:
    """A folder with spa.txt and eng.txt, line by line translations."""
    sides = zip(*(pair.split("\t") for pair in demo_pairs(20)), strict=True)
    (tmp_path / "set").mkdir()
    for name, lines in zip(("spa.txt", "eng.txt"), sides, strict=True):
        (tmp_path / "set" / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return tmp_path / "set"


def test_scored_lines_are_written_and_filtered(aligned: Path) -> None:
    scored, kept = aligned / "scored.tsv", aligned / "kept.tsv"
    scores = mexma_cli.score(
        aligned / "spa.txt", aligned / "eng.txt", probability=True, output=str(scored)
    ).scores
    rows = [line.split("\t") for line in scored.read_text("utf-8").splitlines()]
    assert [float(row[0]) for row in rows] == pytest.approx(scores.tolist())
    before = (aligned / "spa.txt").read_bytes()
    with pytest.raises(mexma_cli.MexmaError, match=r"spa\.txt is an input"):
        mexma_cli.score(aligned / "spa.txt", aligned / "eng.txt", output=aligned / "spa.txt")
    assert (aligned / "spa.txt").read_bytes() == before
    found = mexma_cli.filter(scored, kept, off=["all"], on=["probability=0.5"])
    assert found.read == 20 and found.kept > 10


def test_scores_are_explained(aligned: Path) -> None:
    texts, table = (aligned / "spa.txt", aligned / "eng.txt"), aligned / "explained.csv"
    scored = mexma_cli.score(*texts, explain=True, output=table)
    assert len(scored) == 20 and scored.probabilities is not None
    assert repr(scored) == "Scored(20 lines, 0 with an empty side)"
    assert table.read_text("utf-8").splitlines()[0] == "score,source,target,probability,doubts"
    with pytest.raises(TypeError, match="explain goes with an output"):
        mexma_cli.score(*texts, explain=True)


class _Named:
    """A path of another library."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __fspath__(self) -> str:
        return str(self._path)


def test_any_path_is_one_and_files_of_a_set_are_sorted(tmp_path: Path) -> None:
    for name in "cab":
        write(tmp_path / f"{name}.txt", f"This is the text of {name}, and it is short.")
    texts = {str(tmp_path / "c.txt"), tmp_path / "a.txt", str(tmp_path / "b.txt")}
    report = mexma_cli.split(texts, _Named(tmp_path / "all"), lang="eng")  # type: ignore[arg-type]
    assert report.kept == 3
    with pytest.raises(mexma_cli.MexmaError, match=r"no encoder '.*nosuch'"):
        mexma_cli.SentenceEncoder.load(_Named(tmp_path / "nosuch"))  # type: ignore[arg-type]
    kept = (tmp_path / "all").read_text().splitlines()
    assert [line[20] for line in kept] == ["a", "b", "c"]


def test_languages_come_in_the_order_of_the_lines() -> None:
    lines = {"Where is the station?": 0, "Der Hund schläft im Haus.": 1, "Aujourd'hui il fait très beau.": 2}
    for given in (lines.keys(), set(lines)):
        found = dict(zip(given, mexma_cli.langid(given), strict=True))
        assert [found[line][0] for line in lines] == ["eng_Latn", "deu_Latn", "fra_Latn"]


def test_figures_are_those_of_the_command(aligned: Path) -> None:
    found = mexma_cli.evaluate(aligned)
    assert found.encoder["precision"] == "float32"
    found.write(str(aligned / "xsim.json"))
    assert json.loads((aligned / "xsim.json").read_text())["scores"] == found.scores


def test_a_single_name_in_place_of_several(aligned: Path) -> None:
    source, target = aligned / "spa.txt", aligned / "eng.txt"
    with pytest.raises(mexma_cli.MexmaError, match=r"nope\.tsv"):
        mexma_cli.filter((source, target), aligned / "kept.tsv", exclude="nope.tsv")
    with pytest.raises(mexma_cli.MexmaError, match=r"precision 95 is no share .*; did you mean 0\.95"):
        mexma_cli.tune(source, gold=target, precision=95)


def test_an_encoding_is_stated_for_one_call(tmp_path: Path) -> None:
    text, out = tmp_path / "a.txt", tmp_path / "out.txt"
    text.write_bytes("Où est la gare ? Elle est là-bas, derrière l'école.\n".encode("cp1252"))
    with pytest.raises(mexma_cli.MexmaError, match="UTF-8"):
        mexma_cli.split(text, out, lang="fra")
    mexma_cli.split(text, out, lang="fra", encoding="windows-1252")
    assert out.read_text("utf-8").splitlines() == ["Où est la gare ?", "Elle est là-bas, derrière l'école."]
    with pytest.raises(mexma_cli.MexmaError):
        mexma_cli.split(text, tmp_path / "more.txt", lang="fra")


def test_no_input_is_written_over(folder: Path) -> None:
    path = folder / "examples/spa-eng/spa.txt"
    with pytest.raises(mexma_cli.MexmaError, match="is an input"):
        mexma_cli.split(path, path, lang="spa")


def test_languages_are_given_one_by_one(tmp_path: Path) -> None:
    for code in ("spa", "fra", "eng"):
        (tmp_path / f"{code}.txt").write_text("Hello.\nWhere is the station?\n")
    assert {row["language"] for row in mexma_cli.evaluate(tmp_path, languages=["fra"]).rows} == {"fra_Latn"}


def test_tune_says_what_does_without_gold(folder: Path) -> None:
    with pytest.raises(mexma_cli.MexmaError) as caught:
        mexma_cli.tune(folder / "spa.emb", gold=folder / "spa.emb")
    assert "is an embedding store" in caught.value.message
    assert str(caught.value) == f"{caught.value.message}\nhint: {caught.value.hint}"
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    assert "in Python `tune(source, target)`" in (caught.value.hint or "")


def test_tune_without_gold_finds_what_the_command_does(tmp_path: Path) -> None:
    """Also with labels, which correct it, and within documents."""
    sides = zip(*(pair.split("\t") for pair in demo_pairs(200)), strict=True)
    texts = [write(tmp_path / name, *lines) for name, lines in zip(("spa", "eng"), sides, strict=True)]
    source, target = (mexma_cli.embed(text, f"{text}.emb") for text in texts)
    docs = (write(tmp_path / "docs", *(str(row % 9) for row in range(200))),) * 2
    labels = tmp_path / "labels.tsv"
    run("tune", source.path, target.path, "--label", "9", "--labels", labels, stdin="y\ny\nn\n" * 3)
    cases: list[tuple[dict[str, Any], list[str | Path]]] = [
        ({"precision": 0.9}, ["--precision", "0.9"]),
        ({"labels": labels, "k": 4}, ["--labels", labels]),
        ({"within": docs, "margin": "ratio", "max_score": 1.2}, ["--within", *docs, "--margin", "ratio"]),
    ]
    cases[2][1].extend(["--max-score", "1.2"])
    for keywords, options in cases:
        found = mexma_cli.tune(source, target, **keywords)
        told = json.loads(ok(run("tune", source.path, target.path, *options, "--json")).stdout)
        best, among = found.best, found.translations
        assert (told["threshold"], told["precision"]) == (best.threshold, best.precision)
        assert (told["pairs"], told["candidates"]) == (best.count, len(found.pairs))
        assert told["translations"] == among.expected
        assert told["translations_interval"] == [among.low, among.high]
        assert [row["threshold"] for row in told["table"]] == [cut.threshold for cut in found.table]
    assert "are translations" in str(among)


def test_tune_takes_what_goes_together(aligned: Path, tmp_path: Path) -> None:
    texts, gold = (aligned / "spa.txt", aligned / "eng.txt"), tmp_path / "gold.tsv"
    wrong: list[tuple[list[Path], dict[str, Any]]] = [
        ([texts[0]], {}),
        ([*texts], {"gold": gold}),
        ([texts[0]], {"gold": gold, "encoder": "mini"}),
        ([texts[0]], {"gold": gold, "k": 4}),
        ([*texts], {"ids": texts}),
    ]
    for given, named in wrong:
        with pytest.raises(TypeError, match="one of target and gold is wanted"):
            mexma_cli.tune(*given, **named)
    with pytest.raises(TypeError, match=r"unknown setting 'top'; there are: margin, k, .*, drop_copies"):
        mexma_cli.tune(*texts, top=3)  # type: ignore[call-overload]
    with pytest.raises(mexma_cli.MexmaError, match=r"nosuch\.tsv: no such file\nhint: a page of"):
        mexma_cli.tune(*texts, labels=tmp_path / "nosuch.tsv")
    with pytest.raises(mexma_cli.MexmaError, match=r"precision 95 is no share .*; did you mean 0\.95"):
        mexma_cli.tune(*texts, precision=95)
    gold.write_text("1\t2\n")
    write(tmp_path / "pairs.tsv", "1.4\tHola.\tHello.")
    with pytest.raises(mexma_cli.MexmaError, match="numbers of lines go with `ids`: "):
        mexma_cli.tune(tmp_path / "pairs.tsv", gold=gold)


def test_progress_is_told_in_one_form(aligned: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is done and how much there is, by each step; each step comes to its end."""
    texts = aligned / "spa.txt", aligned / "eng.txt"
    monkeypatch.chdir(tmp_path)
    vectors = np.eye(9)
    calls: dict[str, Callable[[Any], object]] = {
        "embed": lambda tell: mexma_cli.embed(texts[0], "spa.emb", on_progress=tell),
        "knn": lambda tell: mexma_cli.knn(vectors, vectors, on_progress=tell),
        "mine": lambda tell: mexma_cli.mine(*texts, on_progress=tell),
        "align": lambda tell: mexma_cli.align(*texts, on_progress=tell),
        "score": lambda tell: mexma_cli.score(*texts, on_progress=tell),
        "search": lambda tell: mexma_cli.search(texts[0], queries=texts[1], on_progress=tell),
        "tune": lambda tell: mexma_cli.tune(*texts, on_progress=tell),
        "evaluate": lambda tell: mexma_cli.evaluate(aligned, on_progress=tell),
    }
    texts_then_tiles, ends = (
        {40, 1},
        {"embed": {20}, "evaluate": {40}, "knn": {1}, "align": {1}},
    )
    for name, call in calls.items():
        told = list[tuple[int, int]]()
        call(partial(_note, told))
        assert told[-1][0] == told[-1][1] > 0, name
        assert {total for done, total in told if done == total} >= ends.get(name, texts_then_tiles), name
    told = []
    mexma_cli.filter(texts, "kept.tsv", on_progress=partial(_note, told))
    assert told[-1] == (20, 0)  # how many there are is not known
    told = []
    mexma_cli.split(texts[1], "a.txt", lang="eng", on_progress=partial(_note, told))
    assert told[-1][0] == told[-1][1] > 600  # characters


def _note(told: list[tuple[int, int]], done: int, total: int) -> None:
    told.append((done, total))


@pytest.mark.slow
def test_progress_of_long_work(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Units of a run, and the steps of all phases of a training."""
    monkeypatch.chdir(folder)
    told = list[tuple[int, int]]()
    mexma_cli.run("examples/corpus.yaml", ["run=runs/units"], on_progress=partial(_note, told))
    assert told[-1][0] == told[-1][1] > 2 and [done for done, _ in told] == sorted(done for done, _ in told)
    told = []
    steps = "phases.bag.trainer.steps=3", "phases.train.trainer.steps=2", "run=runs/steps"
    mexma_cli.train("examples/small.yaml", steps, on_progress=partial(_note, told))
    assert told[-6:] == [(1, 1), *((step, 5) for step in range(1, 6))]


def test_values_that_people_write_are_taken_or_explained() -> None:
    with pytest.raises(mexma_cli.MexmaError, match=r"hint: did you mean spa_Latn-eng_Latn"):
        mexma_cli.run("examples/corpus.yaml", pairs=["ind-eng"])
    with pytest.raises(mexma_cli.MexmaError, match=r"'eng' is no pair of languages\nhint: name both, as"):
        mexma_cli.run("examples/corpus.yaml", pairs=["eng"])
    with pytest.raises(mexma_cli.MexmaError, match=r"to 1 \(is 95\); did you mean 0\.95\?"):
        mexma_cli.mine("a", "b", precision=95)


@pytest.mark.parametrize(
    ("name", "given", "named", "said"),
    [
        ("split", ["a", "b"], {"lang": ("a", "b")}, "`lang`: should be text (is ('a', 'b'))"),
        (
            "split",
            ["a", "b"],
            {"lang": "fra", "workers": "2"},
            "`workers`: should be a whole number of 1 or more (is '2')",
        ),
        (
            "filter",
            ["a", "b"],
            {"workers": 0},
            "`workers`: should be a whole number of 1 or more (is 0)",
        ),
        ("run", ["a"], {"jobs": -1}, "`jobs`: should be a whole number of 1 or more (is -1)"),
        (
            "search",
            ["a"],
            {"query": "b", "top": 0},
            "`top`: should be a whole number of 1 or more or None (is 0)",
        ),
        ("split", [["a", None], "b"], {"lang": "fra"}, "`inputs`, item 2: should be a path (is None)"),
        ("split", [{}, "b"], {"lang": "fra"}, "`inputs`: should be a path or a list of paths (is {})"),
        ("langid", ["Hola."], {}, "`lines`: should be a list of texts (is 'Hola.')"),
        ("langid", [["Hola.", float("nan")]], {}, "`lines`, item 2: should be text (is nan)"),
        (
            "langid",
            [["Hola."]],
            {"lid": "helport"},
            "`lid`: should be 'py3langid', 'heliport' or 'none' (is 'helport')\nhint: did you mean heliport?",
        ),
        ("search", ["a"], {"query": ["b"]}, "`query`: should be text or None (is ['b'])"),
        (
            "evaluate",
            ["a"],
            {"languages": 81},
            "`languages`: should be text, a list of texts or None (is 81)",
        ),
        (
            "mine",
            ["a", "b"],
            {"threshold": True},
            "`threshold`: should be a number, 'auto' or None (is True)",
        ),
        ("mine", ["a", "b"], {"k": "4"}, "`k`: should be a whole number (is '4')"),
        ("mine", ["a", "b"], {"drop_copies": 1}, "`drop_copies`: should be True or False (is 1)"),
        (
            "mine",
            ["a", "b"],
            {"languages": "spa-eng"},
            "`languages`: should be a pair of texts (is 'spa-eng')",
        ),
        ("mine", ["a", "b"], {"within": "a"}, "`within`: should be a pair of paths or None (is 'a')"),
        (
            "mine",
            ["a", "b"],
            {"encoder": 42},
            "`encoder`: should be a path, a SentenceEncoder or None (is 42)",
        ),
        ("mine", ["a", "b"], {"on_progress": 1}, "`on_progress`: should be a function or None (is 1)"),
        (
            "align",
            [["Hola."], ["Hello."]],
            {},
            "`source`: should be a path or an EmbeddingStore (is ['Hola.'])\n"
            "hint: write sentences to a file, one a line",
        ),
        ("run", ["a", "mine.top=1"], {}, "`overrides`: should be a list of texts (is 'mine.top=1')"),
        (
            "run",
            ["a"],
            {"pairs": 5},
            "`pairs`: should be text or a list of texts or pairs of texts (is 5)",
        ),
        ("knn", [[[1.0]], [[1.0]]], {}, "`source`: should be an array or an EmbeddingStore (is [[1.0]])"),
    ],
)
def test_arguments_of_another_type_are_refused(
    name: str, given: list[object], named: dict[str, object], said: str
) -> None:
    with pytest.raises(mexma_cli.MexmaError) as caught:
        list(getattr(mexma_cli, name)(*given, **named))
    assert str(caught.value) == said


@pytest.mark.parametrize(
    ("name", "said", "named"),
    [
        (
            "mine",
            "such as --threshold 0.5; --margin ratio scores",
            "such as threshold=0.5; margin='ratio' scores",
        ),
        ("mine", "--source-lang and --target-lang state them", "`languages` state them"),
        (
            "mine",
            "--memory 6M, or a smaller -k; no near-copies",
            "memory='6M', or a smaller `k`; no near-copies",
        ),
        ("mine", "`mexma tune --k 4` or `mexma mine --top 5`", "`mexma tune --k 4` or `mexma mine --top 5`"),
        ("mine", "no --dtype, --k.txt and --top=x", "no --dtype, --k.txt and --top=x"),
        ("filter", "where it is one: --on low-score=0.5", "where it is one: on=['low-score=0.5']"),
        ("split", "which one is wanted: --lang fra", "which one is wanted: lang='fra'"),
        (
            "embed",
            "name another output with -o, or --overwrite",
            "name another output with `output`, or overwrite=True",
        ),
        ("evaluate", "--langs 'xx' names no language", "`languages` 'xx' names no language"),
        ("train", "--resume continues it", "resume=True continues it"),
        (
            "train",
            "start anew (--set run=FOLDER), now `--set data.root=DIR` or --set a.b=1",
            "start anew (overrides=['run=FOLDER']), now `overrides=['data.root=DIR']` or overrides=['a.b=1']",
        ),
        ("train", "--set seed: which phase?", "`overrides` seed: which phase?"),
        ("align", "swap --source and --target", "swap `source` and `target`"),
    ],
)
def test_errors_name_keywords(name: str, said: str, named: str) -> None:
    types = types_of(getattr(mexma_cli, name).__wrapped__)
    with pytest.raises(mexma_cli.MexmaError) as caught, naming_keywords(types):
        raise mexma_cli.MexmaError(said, said)
    error = caught.value
    assert (error.message, error.hint, str(error)) == (named, named, f"{named}\nhint: {named}")


def test_an_error_of_a_call_names_keywords(folder: Path) -> None:
    store = folder / "spa.emb"
    with pytest.raises(mexma_cli.MexmaError, match=r"^score='probability' does not go with this"):
        mexma_cli.mine(store, store, score="probability")
    text = folder / "latin.txt"
    text.write_bytes(b"caf\xe9\n")
    with pytest.raises(mexma_cli.MexmaError, match=r"`os\.environ\['MEXMA_ENCODING'\]` states"):
        mexma_cli.mine(text, store)
    with pytest.raises(mexma_cli.MexmaError, match="hint: `lid_model` names a fastText model"):
        list(mexma_cli.langid(["Hola."], lid_model="nosuch.bin"))


def test_warnings_of_a_call_name_keywords(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    text, store = folder / "one.txt", folder / "spa.emb"
    text.write_text("A dog sleeps.\nThe bus was late.\n")
    text.with_suffix(".docs").write_text("a\nb\n")
    caplog.set_level("INFO", "mexma_cli")
    aligned = mexma_cli.align(text, text)
    assert f"{text} is aligned as one document; `docs` {text.with_suffix('.docs')} says" in caplog.text
    assert "no `encoder` given: using the bundled encoder" in caplog.text and "--" not in caplog.text
    assert len(aligned) == len(list(aligned)) == 2
    caplog.clear()
    mexma_cli.mine(text, store, top=1)
    assert "no `encoder` given: using the store's encoder" in caplog.text
    caplog.clear()
    logging.getLogger("mexma_cli.x").warning("outside of a call: --model %s", "mini")
    assert "--model mini" in caplog.text


def test_pairs_are_not_written_over_the_inputs(aligned: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = aligned / "spa.txt", aligned / "eng.txt"
    before = [text.read_bytes() for text in texts]
    monkeypatch.chdir(aligned)
    results = mexma_cli.mine("spa.txt", "eng.txt"), mexma_cli.align("spa.txt", "eng.txt")
    monkeypatch.chdir(aligned.parent)
    for found in results:
        for text in texts:
            with pytest.raises(mexma_cli.MexmaError, match=r"\.txt is an input\nhint: name another output"):
                found.write(text)
    assert [text.read_bytes() for text in texts] == before


def test_results_come_from_other_processes(aligned: Path) -> None:
    """Pickled, and again: with their temporary files."""
    texts = aligned / "spa.txt", aligned / "eng.txt"
    stores = [mexma_cli.embed(text, text.with_suffix(".emb"), lang=text.stem) for text in texts]
    mined = mexma_cli.mine(*texts, threshold="auto", margin="ratio", with_ids=True), mexma_cli.mine(*texts)
    for found in (*mined, mexma_cli.align(*texts)):
        other = pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(found))))
        for name, result in (("one", found), ("other", other)):
            result.write(aligned / f"{name}.jsonl")
        assert (aligned / "one.jsonl").read_bytes() == (aligned / "other.jsonl").read_bytes() != b""
        assert list(other)[1:3] == list(found)[1:3] and repr(other) == repr(found)
    for found in (*stores, mexma_cli.knn(*stores), mexma_cli.score(*texts, probability=True)):
        assert repr(pickle.loads(pickle.dumps(found))) == repr(found)


def test_errors_of_writing_name_keywords(folder: Path, tmp_path: Path) -> None:
    store, text = folder / "spa.emb", folder / "examples/spa-eng/eng.txt"
    mined, aligned = mexma_cli.mine(store, text, top=2), mexma_cli.align(store, text)
    for found in (mined, aligned):
        with pytest.raises(mexma_cli.MexmaError, match="hint: `languages` state them, here or in `mexma emb"):
            found.write(tmp_path / "pairs.tmx")
        with pytest.raises(mexma_cli.MexmaError, match="or format='moses'"):
            found.write(tmp_path / "pairs.po")
    with pytest.raises(mexma_cli.MexmaError, match="no format 'documents'"):
        mined.write(tmp_path / "pairs.txt", format="documents")
    with pytest.raises(mexma_cli.MexmaError, match=r"not written as \.documents"):
        mined.write(tmp_path / "pairs.documents")
    assert not list(tmp_path.iterdir())


def test_outputs_of_filter_are_checked(aligned: Path) -> None:
    source, target, kept = aligned / "spa.txt", aligned / "eng.txt", aligned / "kept.tsv"
    with pytest.raises(mexma_cli.MexmaError, match=r"no format 'tsw'\nhint: did you mean tsv\?"):
        mexma_cli.filter((source, target), kept, format="tsw")
    with pytest.raises(mexma_cli.MexmaError, match=r"kept\.tsv is two of the outputs"):
        mexma_cli.filter((source, target), kept, rejects=kept)


def test_mine_finds_and_tells_what_the_command_does(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Also of documents that were split anew, and of copies; names of one and the same text are one text."""
    lines = ["A dog sleeps.", "The bus was late.", "We walked home.", "It rains a lot in winter."]
    text, other = write(tmp_path / "a.txt", *lines), write(tmp_path / "b.txt", *lines[::-1], "Good night.")
    docs = write(tmp_path / "a.docs", *"xxyy"), write(tmp_path / "b.docs", *"yyxxx")
    store = mexma_cli.embed(text, tmp_path / "a.emb").path
    write(text, *lines[:3], "It rains.")
    said = f"{text} and {docs[0]} have changed since {store} was made: embed again"
    copies = "copies, and no translations, among the best 4 pairs: 4"
    found = mexma_cli.mine(store, other, within=docs, threshold=1.0)
    found.write(tmp_path / "pairs.tsv")
    assert said in caplog.messages and f"{copies}; drop_copies=True drops them" in caplog.messages
    command = ok(run("mine", store, other, "--within", *docs, "--threshold", "1"))
    assert f"warning: {said}\n" in command.stderr and f"{copies}; --drop-copies" in command.stderr
    assert (tmp_path / "pairs.tsv").read_text() == command.stdout and len(found) == 4
    with pytest.raises(mexma_cli.MexmaError, match=r"a\.docs has 4 lines, .*b\.txt has 5"):
        mexma_cli.mine(store, other, within=(docs[0], docs[0]))
    (tmp_path / "link.txt").symlink_to(text)
    alone = list(mexma_cli.mine(text))
    assert alone == list(mexma_cli.mine(text, text)) == list(mexma_cli.mine(text, tmp_path / "link.txt"))
    assert {pair.source == pair.target for pair in alone} == {False}
    (tmp_path / "other.emb").symlink_to(store)
    for one, two in ((text, tmp_path / "link.txt"), (store, tmp_path / "other.emb")):
        assert ok(run("mine", one, two)).stdout == ok(run("mine", one)).stdout != ""


def test_numbers_of_numpy_and_any_lines_are_taken(folder: Path) -> None:
    eng = folder / "examples/spa-eng/eng.txt"
    mined = mexma_cli.mine(folder / "spa.emb", eng, k=np.int64(4), threshold=np.float32(0.5), top=np.int8(2))  # type: ignore[arg-type]
    assert len(mined) == 2
    assert [code for code, _ in mexma_cli.langid(np.array(["Wo ist der Bahnhof?"]))] == ["deu_Latn"]
    with pytest.raises(TypeError, match="missing 1 required keyword-only argument: 'lang'"):
        mexma_cli.split(eng, folder / "out.txt")  # type: ignore[call-arg]


def test_loading_names_what_is_wrong() -> None:
    with pytest.raises(mexma_cli.MexmaError, match=r"no pooling 'CLS'\nhint: did you mean cls\?"):
        mexma_cli.SentenceEncoder.load(pooling="CLS")  # type: ignore[arg-type]
    with pytest.raises(mexma_cli.MexmaError, match="a name or a folder, not dict"):
        mexma_cli.SentenceEncoder.load({})  # type: ignore[arg-type]


def test_an_encoder_is_refused_where_it_embeds_nothing(folder: Path) -> None:
    store = folder / "spa.emb"
    with pytest.raises(
        mexma_cli.MexmaError, match=r"an encoder is for texts; .*spa\.emb are embedded already"
    ):
        mexma_cli.mine(store, store, encoder="mini")
