"""Inputs that are pipes (`<(command)` of a shell): read as files are, or refused where a look is too few."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from mexma_cli.errors import MexmaError
from mexma_cli.text.lines import read_lines
from tests.command import Result, fails, ok, run, write
from tests.examples import ROOT, demo_pairs

Piped = Callable[[Path], str]
CODES = ("--source-lang", "spa", "--target-lang", "eng")


@pytest.fixture
def piped() -> Iterator[Piped]:
    """Makes an unnamed pipe with the content of a small file, and returns its path."""
    opened = []

    def of(path: Path) -> str:
        ours, theirs = os.pipe()
        opened.append(ours)
        with open(theirs, "wb") as file:
            file.write(path.read_bytes())
        return f"/dev/fd/{ours}"

    yield of
    for ours in opened:
        os.close(ours)


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    return write(tmp_path / "pairs.tsv", *demo_pairs(120))


@pytest.fixture
def text(tmp_path: Path) -> Path:
    return write(tmp_path / "spa.txt", *(pair.split("\t")[0] for pair in demo_pairs(60)))


@pytest.mark.parametrize(
    "words",
    [("filter", ...), ("filter", "pairs.tsv", "--exclude", ...), ("langid", ...), ("score", ..., *CODES)],
)
def test_a_pipe_is_read_as_a_file(
    words: tuple[object, ...], pairs: Path, piped: Piped, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(pairs.parent)
    found = [ok(run(*(name if word is ... else word for word in words))) for name in (pairs, piped(pairs))]
    assert found[0].stdout == found[1].stdout
    assert found[0].stdout or "--exclude" in words


def test_a_classifier_is_trained_on_all_pairs_of_a_pipe(
    pairs: Path, piped: Piped, tmp_path: Path, tiny_encoder: Path
) -> None:
    """Also those that a look for labels would have taken away."""
    how = ("--model", tiny_encoder, "--json", "-o", tmp_path / "own.json")
    found = [ok(run("classifier", "train", name, *how)).stdout for name in (pairs, piped(pairs))]
    assert found[0] == found[1] and '"pairs": 84' in found[0]


def refused(done: Result) -> None:
    fails(done, 1, "cannot be read twice", "write it to a file and name that")


def test_labels_from_a_pipe_are_refused(pairs: Path, text: Path, piped: Piped, tmp_path: Path) -> None:
    refused(run("classifier", "train", piped(pairs), text, text, "-o", tmp_path / "own.json"))


def test_what_is_looked_at_more_than_once_is_refused_as_a_pipe(
    pairs: Path, text: Path, piped: Piped, tmp_path: Path
) -> None:
    recipe = ROOT / "examples" / "corpus.yaml"
    for command in (["run"], ["train"], ["prepare"], ["recipes"]):
        refused(run(*command, piped(recipe)))
    refused(run("info", piped(text)))
    refused(run("report", piped(text)))
    refused(run("knn", piped(text), text, "--model", "mini", "--dry-run", "-o", tmp_path / "a.knn"))
    refused(run("convert", piped(text), "--text", text, "--dim", "8", "-o", tmp_path / "a.emb"))
    feature = ROOT / "examples" / "my_feature.py"
    refused(run("score", pairs, "--model", "mini", "--plugin", piped(feature)))


def test_the_inputs_of_a_recipe_are_no_pipes(pairs: Path, text: Path, piped: Piped, tmp_path: Path) -> None:
    raw = {"kind": "corpus", "name": "a", "run": str(tmp_path / "run"), "root": str(tmp_path)}
    raw |= {"languages": {"spa": {"input": "spa.txt"}, "eng": {"input": "spa.txt"}}}
    (tmp_path / "corpus.yaml").write_text(yaml.safe_dump(raw))
    for key in ("languages.spa.input", "mine.classifier"):
        refused(run("run", tmp_path / "corpus.yaml", "--dry-run", "--set", f"{key}={piped(text)}"))
    corpus = {"name": "a", "format": "tsv", "languages": ["spa_Latn"], "path": piped(pairs)}
    refused(run("prepare", ROOT / "examples" / "small.yaml", "--set", f"data.corpora=[{json.dumps(corpus)}]"))


def test_a_second_look_at_a_pipe_is_refused_wherever_it_is(text: Path, piped: Piped) -> None:
    """What was read at the first one is gone."""
    name = piped(text)
    assert list(read_lines(name)) == text.read_text(encoding="utf-8").splitlines()
    with pytest.raises(MexmaError, match="cannot be read twice"):
        list(read_lines(name))
    assert len(list(read_lines(piped(text)))) == 60
