"""`mexma mine` on two large stores within a memory limit: what it took, and what --dry-run had said.

    python benchmarks/memory.py [--rows 1000000] [--dim 256] [--memory 4G] [-k 16]

    python benchmarks/memory.py --text fra.txt.gz eng.txt.gz --rows 2000000 -k 4 --index auto
                                [--folder FOLDER]
    python benchmarks/memory.py --text ... --rows 2000000 -k 4 --index auto --folder FOLDER --run
    python benchmarks/memory.py --plan --rows 10000000 --dim 1024 --memory 16G

The last only prints what --dry-run would say of two such stores. The vectors are made up as for
benchmarks/mine.py, and stored as float16 with a line of text each. With --text each row is of two lines
of a text: the first half of the words of one and the second half of another's, and the sum of mini's vectors
of both. The lines of the two texts are translations of one another. --folder keeps the stores, and takes
those that are there. --run does the same by the units of `mexma run` from the search on.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from mine import BLOCK, make_up

from mexma_cli import SentenceEncoder
from mexma_cli.commands.dry_run import estimated
from mexma_cli.commands.options import bytes_of
from mexma_cli.recipe import load_corpus
from mexma_cli.stages.knn.estimate import SearchInput, estimate
from mexma_cli.stages.knn.search import SearchSettings
from mexma_cli.stages.run.plan import inputs_of, plan
from mexma_cli.stages.run.units import Record, RunFolder, content_of
from mexma_cli.store.embeddings import EmbeddingSettings, EmbeddingWriter, Source
from mexma_cli.text.lines import read_lines

Rows = Callable[[int, int], tuple[np.ndarray, list[str]]]
"""From the first of some rows and their number to their vectors and lines."""


def write(rows: int, dim: int, block: Rows, path: Path, language: str) -> None:
    settings = EmbeddingSettings(
        fingerprint="made up",
        pooling="cls",
        dim=dim,
        dtype="float16",
        precision="float32",
        normalised=False,
        language=language,
        source_checksum=language,
    )
    source = Source(path="made up", checksum=language, lines=rows)
    with EmbeddingWriter(path, settings, source, encoder="made up") as writer:
        for start in range(0, rows, BLOCK):
            writer.write(*block(start, min(BLOCK, rows - start)))
        writer.finish()


def store(vectors: np.ndarray, path: Path, language: str) -> None:
    def block(start: int, count: int) -> tuple[np.ndarray, list[str]]:
        return vectors[start : start + count], [f"{language} line {start + row}" for row in range(count)]

    write(*vectors.shape, block, path, language)


def mixed(text: str, rows: int, path: Path, language: str) -> None:
    """A store of so many rows, each of two lines of a text: the first half of the words of one and the second
    half of another's, which is further behind it each time round. Its vector is the sum of theirs."""
    lines = list(read_lines(Path(text)))
    words = [line.split() for line in lines]
    vectors = SentenceEncoder.load("mini").embed(lines)

    def block(first: int, count: int) -> tuple[np.ndarray, list[str]]:
        row = np.arange(first, first + count)
        one, other = row % len(lines), (row + row // len(lines)) % len(lines)
        text = [
            " ".join(words[a][: len(words[a]) // 2] + words[b][len(words[b]) // 2 :])
            for a, b in zip(one.tolist(), other.tolist(), strict=True)
        ]
        return vectors[one] + vectors[other], text

    write(rows, vectors.shape[1], block, path, language)


def mine_text(settings: argparse.Namespace, folder: Path) -> None:
    """Make the stores of two texts unless they are there, and mine them."""
    stores = []
    for side, code, text in zip("xy", settings.languages, settings.text, strict=True):
        stores.append(f"{side}.emb")
        if not (folder / stores[-1]).exists():
            mixed(text, settings.rows, folder / stores[-1], code)
    command = [sys.executable, "-m", "mexma_cli", "mine", *stores, "-k", str(settings.k)]
    command += ["--memory", settings.memory, "--index", settings.index]
    subprocess.run([*command, "--dry-run"], check=True, cwd=folder)
    began = time.time()
    output = ["-o", "pairs.tsv", "--with-ids", "--report", "report.json", "--overwrite"]
    subprocess.run([*command, *output], check=True, cwd=folder)
    report = json.loads((folder / "report.json").read_text())
    with (folder / "pairs.tsv").open() as lines:
        right = sum(row[3] == row[4] for row in (line.rstrip("\n").split("\t") for line in lines))
    print(f"peak memory {report['peak_memory_bytes'] / 1e9:.2f} GB of {settings.memory}")
    print(f"{time.time() - began:,.0f} s by the clock, {resource_spent():,.0f} s of processor time")
    print("seconds", json.dumps(report["seconds"]))
    print(f"{report['search']}")
    print(f"{report['counts']['written']:,} pairs, {right:,} of them of the same row")


def run_units(settings: argparse.Namespace, folder: Path) -> None:
    """`mexma run` from the search on: its units of embedding are said to be done, with the stores above."""
    recipe = {
        "kind": "corpus",
        "name": "memory",
        "run": str(folder / "run"),
        "root": str(folder),
        "languages": {
            code: {"input": f"{side}.txt"} for side, code in zip("xy", settings.languages, strict=True)
        },
        "units": {"tile": settings.tile},
        "mine": {"k": settings.k, "index": settings.index},
        "output": {"with_ids": True},
    }
    (folder / "recipe.yaml").write_text(json.dumps(recipe))
    for side in "xy":
        (folder / f"{side}.txt").write_text(f"{side}\n")
    corpus = load_corpus(str(folder / "recipe.yaml"), ())
    run, stores = RunFolder(folder / "run"), dict(zip(corpus.languages, "xy", strict=True))
    size = corpus.units.lines
    pieces = [
        {"name": f"{start // size:05d}.txt.zst", "lines": min(size, settings.rows - start), "checksum": ""}
        for start in range(0, settings.rows, size)
    ]
    for _ in range(2):  # what is embedded is known once the texts are cut
        for unit in plan(corpus, inputs_of(corpus), run.record):
            if unit.stage not in ("split", "embed"):
                continue
            checksum = "made up"
            if unit.work == "merge":
                store = folder / f"{stores[unit.name.partition('/')[0]]}.emb"
                (run.path / unit.output).parent.mkdir(parents=True, exist_ok=True)
                if not (run.path / unit.output).exists():
                    shutil.copytree(store, run.path / unit.output, copy_function=os.link)
                checksum = content_of(store)
            facts = {"pieces": pieces} if unit.work == "cut" else {}
            made = Record(key="made up", output=unit.output, checksum=checksum, facts=facts, seconds=0)
            path = run.todo(unit.name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.with_name(path.name.replace(".todo.json", ".json")).write_text(made.model_dump_json())
    began = time.time()
    command = [sys.executable, "-m", "mexma_cli", "run", "recipe.yaml", "--from", "knn"]
    subprocess.run(command, check=True, cwd=folder)
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    print(f"peak memory of the largest process {peak * 1024 / 1e9:.2f} GB")
    print(f"{time.time() - began:,.0f} s by the clock, {resource_spent():,.0f} s of processor time")


def resource_spent() -> float:
    """Processor time of the processes that were started and have ended, the embedding in it."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--dim", type=int, default=256)
    parser.add_argument("--memory", default="4G")
    parser.add_argument("-k", type=int, default=16)
    parser.add_argument("--plan", action="store_true")
    parser.add_argument("--text", nargs=2, metavar="FILE")
    parser.add_argument("--languages", nargs=2, default=("fra_Latn", "eng_Latn"), metavar="CODE")
    parser.add_argument("--index", default="exact")
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--run", action="store_true")
    parser.add_argument("--tile", type=int, default=500_000)
    settings = parser.parse_args()
    if settings.text:
        with tempfile.TemporaryDirectory(prefix="mexma-benchmark-") as name:
            (run_units if settings.run else mine_text)(settings, settings.folder or Path(name))
        return
    if settings.plan:
        sides = (SearchInput("x.emb", settings.rows, 100 * settings.rows),) * 2
        memory = bytes_of(settings.memory)
        search = SearchSettings(memory=memory, index=settings.index)
        found = estimate((sides[0], sides[1]), settings.dim, settings.k, search, None)
        for side in sides:
            print(f"{side.label:<24} {side.rows:>14,} lines x {settings.dim}")
        for name, value in estimated(found, search):
            print(f"{name:<24} {value}")
        return
    with tempfile.TemporaryDirectory(prefix="mexma-benchmark-") as name:
        folder = Path(name)
        make_up(folder, settings.rows, settings.dim)
        for side, language in (("x", "fra_Latn"), ("y", "eng_Latn")):
            store(np.load(folder / f"{side}.npy", mmap_mode="r"), folder / f"{side}.emb", language)
            (folder / f"{side}.npy").unlink()
        command = [sys.executable, "-m", "mexma_cli", "mine", "x.emb", "y.emb", "-k", str(settings.k)]
        command += ["--memory", settings.memory]
        subprocess.run([*command, "--dry-run"], check=True, cwd=folder)
        subprocess.run([*command, "-o", "pairs.tsv", "--report", "report.json"], check=True, cwd=folder)
        report = json.loads((folder / "report.json").read_text())
        planted = {tuple(pair) for pair in np.load(folder / "planted.npy").tolist()}
        found = 0
        with (folder / "pairs.tsv").open() as lines:
            for line in lines:
                _, source, target = line.split("\t")
                found += (int(source.split()[-1]), int(target.split()[-1])) in planted
        print(f"peak memory {report['peak_memory_bytes'] / 1e9:.2f} GB of {settings.memory}")
        print("seconds", json.dumps(report["seconds"]))
        print(f"{report['counts']['written']:,} pairs, {found:,} of {len(planted):,} planted ones among them")


if __name__ == "__main__":
    main()
