from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.command import fails, ok, run
from tests.stores import flip


@pytest.fixture
def texts(tmp_path: Path, sentences: dict[str, list[str]]) -> tuple[Path, Path]:
    paths = tmp_path / "fra.txt", tmp_path / "eng.txt"
    for path, lines in zip(paths, sentences.values(), strict=True):
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return paths


def test_texts_and_stores_give_the_same(texts: tuple[Path, Path], tiny_encoder: Path, tmp_path: Path) -> None:
    output = tmp_path / "texts.knn"
    done = ok(run("knn", *texts, "-k", "3", "-o", output, "--model", tiny_encoder))
    assert done.stdout == "" and f"{output}: neighbours of 8 and 8 rows" in done.stderr
    stores = [path.with_suffix(".emb") for path in texts]
    for text in texts:
        ok(run("embed", text, "--model", tiny_encoder))
    ok(run("knn", *stores, "-k", "3", "-o", tmp_path / "stores.knn"))
    mixed = ok(
        run("knn", stores[0], "-", "-k", "3", "-o", tmp_path / "mixed.knn", stdin=texts[1].read_bytes())
    )
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
        ok(run("embed", text, "--model", tiny_encoder))
    ok(run("knn", *stores, "-k", "3", "-o", output))
    before = {file.name: file.stat().st_mtime_ns for file in output.iterdir()}
    again = run("knn", *stores, "-k", "3", "-o", output, "--json")
    made = json.loads(again.stdout)
    assert made["source"] == {"store": str(stores[0]), "rows": 8, "neighbours": 3}
    assert again.exit_code == 0 and "of the same stores and settings: nothing to do" in again.stderr
    assert {file.name: file.stat().st_mtime_ns for file in output.iterdir()} == before
    fra, eng = stores
    for difference, *other in (
        ("k: 3 there, 2 now", *stores, "-k", "2"),
        (f"of {fra} there, {eng} now; of {eng} there, {fra} now", *reversed(stores), "-k", "3"),
        ("index: exact there, Flat now", *stores, "-k", "3", "--index", "Flat"),
    ):
        fails(
            run("knn", *other, "-o", output),
            1,
            f"{output} is there already, of another search: {difference}\nhint: --over",
        )
    (file,) = output.glob("backward-ids.npy")
    file.write_bytes(file.read_bytes()[:-1] + b"\x01")
    fails(
        run("knn", *stores, "-k", "3", "-o", output),
        1,
        "backward-ids.npy is damaged",
        "hint: run `mexma knn` again, with --overwrite",
    )
    ok(run("knn", *stores, "-k", "3", "-o", output, "--overwrite"))
    ok(run("embed", texts[0], "--model", tiny_encoder, "--overwrite", "--store-dtype", "float32"))
    assert f"search: {fra} was made anew\n" in run("knn", *stores, "-k", "3", "-o", output).stderr


def test_info_knows_it_and_finds_damage(texts: tuple[Path, Path], tiny_encoder: Path, tmp_path: Path) -> None:
    output = tmp_path / "a.knn"
    run("knn", *texts, "-k", "3", "-o", output, "--model", tiny_encoder)
    done = ok(run("info", output))
    assert (
        done.stdout.startswith(f"{output}: neighbours\n") and "checked neighbours: every file" in done.stdout
    )
    facts = json.loads(run("info", output, "--json").stdout)["facts"]
    assert (facts["k"], facts["index"], facts["target"]["rows"]) == (3, "exact", 8)
    flip(output / "backward-ids.npy")
    fails(run("info", output), 1, "backward-ids.npy is damaged")


def test_refusals(texts: tuple[Path, Path], tiny_encoder: Path, tmp_path: Path) -> None:
    output, model = tmp_path / "a.knn", ("--model", tiny_encoder)
    assert run("knn", *texts).exit_code == 2
    assert run("knn", "-", "-", "-o", output).exit_code == 2
    assert run("knn", *texts, "-o", output, "-k", "0").exit_code == 2
    done = fails(run("knn", texts[0], tmp_path / "none.emb", "-o", output), 1, "none.emb")
    done = fails(run("knn", *texts, "-o", texts[0], *model), 1, "is no store of neighbours: not overwritten")
    assert not output.exists()
    done = run("knn", *texts, "-o", output, "-k", "99", *model)
    assert done.exit_code == 0 and "has 8 sentences to search in, fewer than -k 99" in done.stderr
    done = fails(run("knn", *texts, "-o", output, *model), 1, "is there already")
    assert "embedding" not in done.stderr
    ok(run("knn", *texts, "-o", output, "--overwrite", *model))
    for command in (("knn", output, texts[0], "-o", tmp_path / "b.knn"), ("search", output, "--query", "a")):
        done = fails(run(*command), 1, "a.knn holds neighbours, not embeddings")
