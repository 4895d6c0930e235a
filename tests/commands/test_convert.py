from __future__ import annotations

import shlex
from pathlib import Path

import numpy as np
import pytest

from mexma_cli.formats.bitext import open_pairs
from mexma_cli.store.embeddings import EmbeddingStore
from tests.command import fails, ok, run


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_there_and_back(tmp_path: Path, dtype: str) -> None:
    vectors = np.random.default_rng(0).standard_normal((5, 6)).astype(dtype)
    raw, text, store, back = (tmp_path / name for name in ("v.raw", "t.txt", "v.emb", "back.raw"))
    raw.write_bytes(vectors.tobytes())
    text.write_text("eins\nzwei\n\nvier\nfünf\n", encoding="utf-8")
    options = ("--dim", "6", "--text", text, "--dtype", dtype, "--lang", "de")
    ok(run("convert", raw, *options, "-o", store))
    opened = EmbeddingStore.open(store, verify=True)
    assert (opened.manifest.language, opened.manifest.dtype, opened.manifest.empty) == ("deu_Latn", dtype, 1)
    assert list(opened.sentences()) == ["eins", "zwei", "", "vier", "fünf"]
    ok(run("convert", store, "--dtype", dtype, "-o", back))
    assert back.read_bytes() == raw.read_bytes()
    assert run("convert", store, "--dtype", dtype, "-o", "-").stdout_bytes == raw.read_bytes()
    assert "nothing to do" in ok(run("convert", raw, *options, "-o", store)).stderr
    raw.write_bytes((2 * vectors).tobytes())
    fails(run("convert", raw, *options, "-o", store), 1, "is there, or was begun, with other vectors")
    ok(run("convert", raw, *options, "--overwrite", "-o", store))


def test_what_does_not_fit_is_refused(tmp_path: Path) -> None:
    raw, text, store = tmp_path / "v.raw", tmp_path / "t.txt", tmp_path / "v.emb"
    raw.write_bytes(np.ones((4, 6), np.float32).tobytes())
    text.write_text("a\nb\nc\n")
    fails(run("convert", raw, "--dim", "6", "--text", text, "-o", store), 1, "4 rows", "3 lines")
    assert run("convert", raw, "--dim", "5", "--text", text, "-o", store).exit_code == 1
    assert run("convert", raw, "--dim", "6", "-o", store).exit_code == 2
    assert run("convert", tmp_path / "none", "--dim", "6", "--text", text, "-o", store).exit_code == 1
    text.write_text("a\nb\nc\nd\n")
    fails(run("convert", raw, "--dim", "6", "--text", text, "-o", "-"), 1, "stdout cannot be a store")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["t.txt", "v.raw"]


@pytest.mark.parametrize("option", [("--dim", "6"), ("--text", "t.txt"), ("--lang", "fra")])
def test_options_of_raw_vectors_do_not_fit_a_store(option: tuple[str, str], tmp_path: Path) -> None:
    fails(run("convert", tmp_path, *option, "-o", tmp_path / "v.raw"), 2, "belong to raw vectors")


@pytest.mark.parametrize("ending", [".emb", ".npz", ".csv"])
def test_vectors_are_not_named_as_what_they_are_not(ending: str, tmp_path: Path) -> None:
    said = f"v{ending}: vectors are not written as {ending}"
    fails(run("convert", tmp_path, "-o", tmp_path / f"v{ending}"), 2, said, "NumPy's .npy")


def test_vectors_that_are_not_there(tmp_path: Path) -> None:
    fails(
        run("convert", tmp_path / "none.emb", "-o", tmp_path / "v.raw"), 1, "none.emb: no such file or folder"
    )
    for name in ("none.f32", "none.npy", "none.tsv"):
        fails(run("convert", tmp_path / name, "-o", tmp_path / "v.emb"), 1, f"{name}: no such file")


def test_raw_vectors_may_be_called_like_a_store(tmp_path: Path) -> None:
    (tmp_path / "v.emb").write_bytes(bytes(np.ones(6, np.float32)))
    (tmp_path / "t.txt").write_text("a\n")
    options = ("--dim", "6", "--text", tmp_path / "t.txt", "-o", tmp_path / "w.emb")
    ok(run("convert", tmp_path / "v.emb", *options))


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_numpy_files_there_and_back(tmp_path: Path, dtype: str) -> None:
    vectors = np.random.default_rng(0).standard_normal((3, 6)).astype(dtype)
    array, text, store = tmp_path / "v.npy", tmp_path / "t.txt", tmp_path / "v.emb"
    np.save(array, vectors)
    text.write_text("a\nb\nc\n")
    result = ok(run("convert", array, "--text", text, "-o", store))
    assert f"3 rows of 6 x {dtype}" in result.stderr
    assert EmbeddingStore.open(store).manifest.argv[0] == "mexma"
    ok(run("convert", store, "--dtype", dtype, "-o", tmp_path / "back.npy"))
    back = np.load(tmp_path / "back.npy")
    assert back.dtype == dtype
    np.testing.assert_array_equal(back, vectors)
    for message, *options in (
        ("Give --text", "--dim", "6"),
        ("not 5", "--dim", "5", "--text", text),
        ("--dtype is for a raw file", "--dtype", "float16", "--text", text),
    ):
        result = run("convert", array, *options, "-o", tmp_path / "w.emb")
        assert result.exit_code and message in result.stderr, result.output


def test_numbers_that_are_none_are_named(tmp_path: Path) -> None:
    vectors = np.ones((3, 4), np.float32)
    vectors[1, 2] = np.nan
    (tmp_path / "v").write_bytes(vectors.tobytes())
    (tmp_path / "t").write_text("a\nb\nc\n")
    fails(
        run("convert", tmp_path / "v", "--dim", "4", "--text", tmp_path / "t", "-o", tmp_path / "v.emb"),
        1,
        "line 2 is not a number",
        "hint: check --dim and --dtype",
    )


@pytest.mark.parametrize("name", ["my pairs.tsv", "a.jsonl.gz", "a.tmx"])
def test_pairs_are_converted_by_another_command(name: str, tmp_path: Path) -> None:
    """Whatever other command is given a file of pairs names it."""
    pairs = tmp_path / name
    pairs.write_text("Ja.\tYes.\n")
    hint = f"`mexma filter --off all {shlex.quote(str(pairs))} -o NAME.tmx` writes pairs in another format"
    fails(run("convert", pairs, "-o", tmp_path / "b.tmx"), 2, "holds pairs, by its name, not vectors", hint)
    fails(run("export", pairs, "-o", tmp_path / "b"), 1, "is a file, not an encoder's folder", hint)
    fails(run("merge", pairs, pairs, "-o", tmp_path / "b.emb"), 1, "is a file and no embedding store", hint)


def test_so_are_pairs_converted(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("Ja, 1.\tYes, 2.\nJa, 1.\tYes, 2.\n")
    languages = "--source-lang", "deu", "--target-lang", "eng"
    ok(run("filter", "--off", "all", tmp_path / "a.tsv", "-o", tmp_path / "a.tmx", *languages))
    found = list(open_pairs(tmp_path / "a.tmx").pairs)
    assert [(pair.source, pair.target) for pair in found] == 2 * [("Ja, 1.", "Yes, 2.")]
