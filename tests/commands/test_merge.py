"""`mexma merge` as a user calls it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from mexma_cli.store.embeddings import EmbeddingStore
from mexma_cli.store.layout import Part, Source, part_path
from tests.command import fails, ok, run
from tests.stores import flip, make_store

ROWS, OF = 10, 3


@pytest.fixture
def parts(tmp_path: Path) -> list[Path]:
    vectors = np.random.default_rng(0).normal(size=(ROWS, 4)).astype(np.float32)
    for number in range(1, OF + 1):
        start, stop = Part(number, OF).rows(ROWS)
        make_store(
            part_path(tmp_path / "fra.emb", Part(number, OF)),
            [f"line {row}" for row in range(start, stop)],
            vectors[start:stop],
            dtype="float16",
            language="fra_Latn",
            source=Source(path="fra.txt", checksum="c", lines=ROWS),
            part=f"{number}/{OF}",
        )
    return [part_path(tmp_path / "fra.emb", Part(number, OF)) for number in range(1, OF + 1)]


def test_merges_and_says_what_it_made(parts: list[Path], tmp_path: Path) -> None:
    output = tmp_path / "fra.emb"
    done = ok(run("merge", *reversed(parts), "-o", output))
    assert done.stdout == ""
    assert done.stderr == f"10 rows of 4 numbers in {output}, from 3 stores\n"
    assert list(EmbeddingStore.open(output, verify=True).sentences()) == [
        f"line {row}" for row in range(ROWS)
    ]
    assert "of the same stores: nothing to do" in ok(run("merge", *parts, "-o", output)).stderr
    made = json.loads(ok(run("merge", *parts, "-o", output, "--overwrite", "--json")).stdout)
    assert made["store"] == str(output) and (made["rows"], made["language"]) == (10, "fra_Latn")


def test_refuses_with_one_message(parts: list[Path], tmp_path: Path) -> None:
    fails(
        run("merge", parts[0], parts[2], "-o", tmp_path / "fra.emb"),
        1,
        "error: 1 of 3 parts of fra.txt is missing: 2\n",
    )
    assert run("merge", "-o", tmp_path / "fra.emb").exit_code == 2
    assert run("merge", *parts).exit_code == 2
    fails(
        run("merge", parts[0], tmp_path / "none.emb", "-o", tmp_path / "fra.emb"),
        1,
        "none.emb: no such file or folder",
    )


def test_a_store_inside_of_an_input(parts: list[Path]) -> None:
    fails(run("merge", *parts, "-o", parts[1] / "all.emb"), 2, "all.emb lies in an input")
    assert not (parts[1] / "all.emb").exists()


def test_info_tells_parts_and_sources(parts: list[Path], tmp_path: Path) -> None:
    first = run("info", parts[0])
    assert re.search(r"\n  part +1/3\n", first.stdout), first.output
    run("merge", *parts, "-o", tmp_path / "fra.emb")
    whole = run("info", tmp_path / "fra.emb").stdout
    assert re.search(r"\n  sources +path fra\.txt, checksum c, lines 10\n", whole), whole
    assert "\n  part " not in whole


def test_damage_is_refused_and_not_looked_for_with_no_verify(parts: list[Path], tmp_path: Path) -> None:
    flip(parts[1] / "vectors-00000.npy")
    fails(run("merge", *parts, "-o", tmp_path / "fra.emb"), 1, "is damaged: its checksum")
    ok(run("merge", *parts, "-o", tmp_path / "fra.emb", "--no-verify"))
    fails(run("convert", tmp_path / "fra.emb", "-o", tmp_path / "a.npy"), 1, "is damaged: its checksum")
