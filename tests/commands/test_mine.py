from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from mexma_cli.main import cli


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli, [str(argument) for argument in arguments])


def raw_store(folder: Path, name: str, lines: list[str], vectors: np.ndarray) -> Path:
    raw, text, store = folder / f"{name}.f32", folder / f"{name}.txt", folder / f"{name}.emb"
    raw.write_bytes(vectors.astype(np.float32).tobytes())
    text.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    result = run("convert", raw, "--dim", str(vectors.shape[1]), "--text", text, "-o", store)
    assert result.exit_code == 0, result.output
    return store


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    """Three sentences on either side, two of which are translations; the source has a repeated line, an
    empty one and one with a tab."""
    vectors = np.eye(4)
    source = raw_store(
        tmp_path, "s", ["un\tdeux", "", "deux", "deux", "trois"], vectors[[0, 3, 1, 1, 2]] + 0.01
    )
    target = raw_store(tmp_path, "t", ["two", "one", "four"], vectors[[1, 0, 3]] + 0.02)
    return source, target


def test_laser_raw_vectors_in_laser_pairs_out(shared: Path, tmp_path: Path) -> None:
    folder = shared / "fixtures" / "laser"
    for side in ("src", "tgt"):
        options = ("--dim", "64", "--text", folder / f"{side}.txt")
        assert run("convert", folder / f"{side}.f32", *options, "-o", tmp_path / f"{side}.emb").exit_code == 0
    for retrieval, margin, k in (("max", "ratio", "4"), ("intersect", "distance", "16")):
        result = run(
            "mine", tmp_path / "src.emb", tmp_path / "tgt.emb",
            "--margin", margin, "-k", k, "--retrieval", retrieval,
        )  # fmt: skip
        assert result.exit_code == 0, result.output

        def parsed(text: str) -> dict[str, float]:
            rows = [line.partition("\t") for line in text.splitlines()]
            return {sentences: float(score) for score, _, sentences in rows}

        ours = parsed(result.stdout)
        theirs = parsed((folder / f"mine.{retrieval}.{margin}.k{k}.tsv").read_text())
        assert ours.keys() == theirs.keys()
        assert max(abs(ours[pair] - theirs[pair]) for pair in ours) < 1e-6
        assert list(ours.values()) == sorted(ours.values(), reverse=True)


def test_pairs_on_stdout_and_counts_on_stderr(pair: tuple[Path, Path]) -> None:
    result = run("mine", *pair, "-k", "2", "--threshold", "1.5")
    assert result.exit_code == 0, result.output
    rows = [line.split("\t") for line in result.stdout.splitlines()]
    assert sorted(row[1:] for row in rows) == [["deux", "two"], ["un deux", "one"]]
    assert [float(row[0]) for row in rows] == sorted((float(row[0]) for row in rows), reverse=True)
    assert "2 pairs in" in result.stderr
    assert "source: 5 lines (1 duplicates, 1 empty left out); target: 3 lines" in result.stderr
    assert "tabs or line breaks became spaces in 1 sentences" in result.stderr


def test_into_a_file_as_its_name_says(pair: tuple[Path, Path], tmp_path: Path) -> None:
    wanted = run("mine", *pair).stdout
    for name in ("out.tsv", "out.tsv.gz"):
        result = run("mine", *pair, "-o", tmp_path / name)
        assert result.exit_code == 0 and result.stdout == ""
    assert (tmp_path / "out.tsv").read_text(encoding="utf-8") == wanted
    assert gzip.decompress((tmp_path / "out.tsv.gz").read_bytes()).decode() == wanted
    assert not list(tmp_path.glob("*tmp*"))


def test_no_pair_above_the_threshold_is_a_warning(pair: tuple[Path, Path], tmp_path: Path) -> None:
    result = run("mine", *pair, "--threshold", "99", "-o", tmp_path / "out.tsv")
    assert result.exit_code == 0 and "warning: no pair was found above 99" in result.stderr
    assert (tmp_path / "out.tsv").read_bytes() == b""


def test_more_neighbours_than_sentences(pair: tuple[Path, Path]) -> None:
    assert run("mine", *pair, "-k", "1000").exit_code == 0


class TestBadInput:
    def fails(self, code: int, message: str, *arguments: str | Path) -> None:
        result = run("mine", *arguments)
        assert result.exit_code == code, result.output
        assert message in result.stderr, result.stderr

    def test_usage(self, pair: tuple[Path, Path]) -> None:
        self.fails(2, "'cosine' is not one of 'ratio', 'distance', 'absolute'", *pair, "--margin", "cosine")
        self.fails(2, "is not one of", *pair, "--retrieval", "best")
        self.fails(2, "0 is not in the range", *pair, "-k", "0")
        self.fails(2, "Missing argument 'TARGET'", pair[0])

    def test_stores(self, pair: tuple[Path, Path], tmp_path: Path) -> None:
        narrow = raw_store(tmp_path, "n", ["a"], np.ones((1, 3)))
        self.fails(1, "different dimensions", pair[0], narrow, "-o", tmp_path / "out.tsv")
        self.fails(1, "none.emb: no such file", pair[0], tmp_path / "none.emb")
        self.fails(1, "no embedding store", pair[0], tmp_path)
        (vectors,) = pair[1].glob("vectors-*.npy")
        vectors.write_bytes(vectors.read_bytes()[:-8])
        self.fails(
            1, "is damaged: the manifest says 3 rows, the file has 2", *pair, "-o", tmp_path / "out.tsv"
        )
        assert not list(tmp_path.glob("out*"))
