from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from mexma_cli.main import cli


def run(*arguments: str | Path, stdin: bytes | None = None) -> Result:
    return CliRunner().invoke(cli, [str(argument) for argument in arguments], stdin)


@pytest.fixture
def texts(tmp_path: Path, sentences: dict[str, list[str]]) -> tuple[Path, Path]:
    paths = tmp_path / "fra.txt", tmp_path / "eng.txt"
    for path, lines in zip(paths, sentences.values(), strict=True):
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return paths


def test_texts_and_stores_give_the_same(texts: tuple[Path, Path], tiny_encoder: Path, tmp_path: Path) -> None:
    output = tmp_path / "texts.knn"
    done = run("knn", *texts, "-k", "3", "-o", output, "--model", tiny_encoder)
    assert done.exit_code == 0, done.output
    assert done.stdout == "" and f"{output}: neighbours of 8 and 8 rows" in done.stderr
    stores = [path.with_suffix(".emb") for path in texts]
    for text in texts:
        assert run("embed", text, "--model", tiny_encoder).exit_code == 0
    assert run("knn", *stores, "-k", "3", "-o", tmp_path / "stores.knn").exit_code == 0
    mixed = run("knn", stores[0], "-", "-k", "3", "-o", tmp_path / "mixed.knn", stdin=texts[1].read_bytes())
    assert mixed.exit_code == 0, mixed.output
    assert f"using the store's encoder, {tiny_encoder}" in mixed.stderr
    for name in ("forward-ids", "forward-scores", "backward-ids", "backward-scores"):
        arrays = [
            np.load(tmp_path / kind / f"{name}.npy") for kind in ("texts.knn", "stores.knn", "mixed.knn")
        ]
        assert arrays[0].shape == (8, 3)
        assert all(np.array_equal(arrays[0], array) for array in arrays)
    manifests = [
        json.loads((tmp_path / kind / "manifest.json").read_text()) for kind in ("texts.knn", "stores.knn")
    ]
    assert manifests[0]["source"]["path"] == str(texts[0])
    assert manifests[0]["source"]["content"] == manifests[1]["source"]["content"]


def test_the_same_again_is_no_work(texts: tuple[Path, Path], tiny_encoder: Path, tmp_path: Path) -> None:
    output, stores = tmp_path / "a.knn", [path.with_suffix(".emb") for path in texts]
    for text in texts:
        assert run("embed", text, "--model", tiny_encoder).exit_code == 0
    assert run("knn", *stores, "-k", "3", "-o", output).exit_code == 0
    before = {file.name: file.stat().st_mtime_ns for file in output.iterdir()}
    again = run("knn", *stores, "-k", "3", "-o", output)
    assert again.exit_code == 0 and "of the same stores and settings: nothing to do" in again.stderr
    assert {file.name: file.stat().st_mtime_ns for file in output.iterdir()} == before
    fra, eng = stores
    for difference, *other in (
        ("k: 3 there, 2 now", *stores, "-k", "2"),
        (f"of {fra} there, {eng} now; of {eng} there, {fra} now", *reversed(stores), "-k", "3"),
        ("index: exact there, Flat now", *stores, "-k", "3", "--index", "Flat"),
    ):
        refused = run("knn", *other, "-o", output)
        assert refused.exit_code == 1
        assert f"{output} is there already, of another search: {difference}\nhint: --over" in refused.stderr
    (file,) = output.glob("backward-ids.npy")
    file.write_bytes(file.read_bytes()[:-1] + b"\x01")
    damaged = run("knn", *stores, "-k", "3", "-o", output)
    assert damaged.exit_code == 1 and "backward-ids.npy is damaged" in damaged.stderr
    assert "hint: run `mexma knn` again, with --overwrite" in damaged.stderr
    assert run("knn", *stores, "-k", "3", "-o", output, "--overwrite").exit_code == 0
    assert run("embed", texts[0], "--model", tiny_encoder, "--overwrite", "--prefix", "a ").exit_code == 0
    assert f"search: {fra} was made anew\n" in run("knn", *stores, "-k", "3", "-o", output).stderr


def test_info_knows_it_and_finds_damage(texts: tuple[Path, Path], tiny_encoder: Path, tmp_path: Path) -> None:
    output = tmp_path / "a.knn"
    run("knn", *texts, "-k", "3", "-o", output, "--model", tiny_encoder)
    done = run("info", output)
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith(f"{output}: neighbours\n") and "check: all is whole" in done.stdout
    facts = json.loads(run("info", output, "--json").stdout)["facts"]
    assert (facts["k"], facts["index"], facts["target"]["rows"]) == (3, "exact", 8)
    content = bytearray((output / "backward-ids.npy").read_bytes())
    content[-1] ^= 1
    (output / "backward-ids.npy").write_bytes(content)
    done = run("info", output)
    assert done.exit_code == 1 and "backward-ids.npy is damaged" in done.stderr


def test_refusals(texts: tuple[Path, Path], tiny_encoder: Path, tmp_path: Path) -> None:
    output, model = tmp_path / "a.knn", ("--model", tiny_encoder)
    assert run("knn", *texts).exit_code == 2
    assert run("knn", "-", "-", "-o", output).exit_code == 2
    assert run("knn", *texts, "-o", output, "-k", "0").exit_code == 2
    done = run("knn", texts[0], tmp_path / "none.emb", "-o", output)
    assert done.exit_code == 1 and "none.emb" in done.stderr
    done = run("knn", *texts, "-o", texts[0], *model)
    assert done.exit_code == 1 and "is no store of neighbours: not overwritten" in done.stderr
    assert not output.exists()
    done = run("knn", *texts, "-o", output, "-k", "99", *model)
    assert done.exit_code == 0 and "has 8 sentences to search in, fewer than -k 99" in done.stderr
    done = run("knn", *texts, "-o", output, *model)
    assert done.exit_code == 1 and "is there already" in done.stderr
    assert "embedding" not in done.stderr
    assert run("knn", *texts, "-o", output, "--overwrite", *model).exit_code == 0
    for command in (("knn", output, texts[0], "-o", tmp_path / "b.knn"), ("search", output, "--query", "a")):
        done = run(*command)
        assert done.exit_code == 1 and "a.knn holds neighbours, not embeddings" in done.stderr
