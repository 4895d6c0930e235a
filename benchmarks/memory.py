"""`mexma mine` on two large stores within a memory limit: what it took, and what --dry-run had said.

    python benchmarks/memory.py [--rows 1000000] [--dim 256] [--memory 4G] [-k 16]

    python benchmarks/memory.py --text fra.txt.gz eng.txt.gz --rows 2000000 -k 4 --index auto
                                [--folder FOLDER]
    python benchmarks/memory.py --text ... --folder FOLDER --run [--seconds 480] [--tile 500000]
    python benchmarks/memory.py --plan --rows 10000000 --dim 1024 --memory 16G

The last only prints what --dry-run would say of two such stores. The vectors are made up as for
benchmarks/mine.py, and stored as float16 with a line of text each. With --text each row is of two lines
of a text: the first half of the words of one and the second half of another's, and the sum of mini's vectors
of both. The lines of the two texts are translations of one another. --folder keeps the stores, and takes
those that are there. --run takes `mexma run` from the text alone to the pairs. It is stopped after so many
seconds, and the same command goes on, until it says what all of its slices took.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from mine import BLOCK, make_up

from mexma_cli import SentenceEncoder
from mexma_cli.settings.stages import SearchSettings, bytes_of
from mexma_cli.stages.knn.estimate import SearchInput, estimate_search
from mexma_cli.store.layout import EmbeddingSettings, Source
from mexma_cli.store.writer import EmbeddingWriter
from mexma_cli.text.lines import read_lines
from mexma_cli.text.writing import write_chunks

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


def mixed_lines(text: str, rows: int) -> Iterator[tuple[list[str], tuple[np.ndarray, np.ndarray]]]:
    """So many rows in blocks, each of two lines of a text, whose places come with it: the first half of the
    words of one and the second half of another's, which is further behind it each time round."""
    words = [line.split() for line in read_lines(Path(text))]
    for start in range(0, rows, BLOCK):
        row = np.arange(start, min(start + BLOCK, rows))
        one, other = row % len(words), (row + row // len(words)) % len(words)
        pairs = zip(one.tolist(), other.tolist(), strict=True)
        halves = (words[a][: len(words[a]) // 2] + words[b][len(words[b]) // 2 :] for a, b in pairs)
        yield list(map(" ".join, halves)), (one, other)


def mixed(text: str, rows: int, path: Path, language: str) -> None:
    """A store of so many rows as `mixed_lines` has them. The vector of each is the sum of both lines'."""
    vectors = SentenceEncoder.load("mini").embed(list(read_lines(Path(text))))
    blocks = ((vectors[one] + vectors[other], lines) for lines, (one, other) in mixed_lines(text, rows))
    write(rows, vectors.shape[1], lambda start, count: next(blocks), path, language)


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


def run_whole(settings: argparse.Namespace, folder: Path) -> None:
    """`mexma run` from text to pairs. Ends after --seconds; the same command goes on from there."""
    recipe = {
        "kind": "corpus",
        "name": "memory",
        "run": str(folder / "run"),
        "root": str(folder),
        "languages": {code: {"input": f"{code}.txt.zst"} for code in settings.languages},
        "units": {"tile": settings.tile},
        "mine": {"k": settings.k, "index": settings.index},
        "output": {"with_ids": True},
    }
    (folder / "recipe.yaml").write_text(json.dumps(recipe))
    command = [sys.executable, "-m", "mexma_cli", "run", "recipe.yaml"]
    for code, text in zip(settings.languages, settings.text, strict=True):
        if not (folder / f"{code}.txt.zst").exists():
            blocks = (lines for lines, _ in mixed_lines(text, settings.rows))
            chunks = ((("".join(f"{line}\n" for line in block),), 0) for block in blocks)
            write_chunks([folder / f"{code}.txt.zst"], chunks)
    before, began = folder / "slices.json", time.time()
    slices = json.loads(before.read_text()) if before.exists() else []
    if not slices:
        subprocess.run([*command, "--dry-run"], check=True, cwd=folder)
    spent = resource_spent()
    process = subprocess.Popen(command, cwd=folder)
    try:
        process.wait(settings.seconds)
    except subprocess.TimeoutExpired:
        process.terminate()
        process.wait()
    peak = 1024 * resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    slices.append({"peak": peak, "processor": resource_spent() - spent, "clock": time.time() - began})
    before.write_text(json.dumps(slices))
    for name, together in (("peak", max), ("processor", sum), ("clock", sum)):
        print(f"{name}: {together(one[name] for one in slices):,.0f}, {len(slices)} times begun")
    if process.returncode:
        sys.exit(f"ended with {process.returncode}; the same command goes on")


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
    parser.add_argument("--seconds", type=float, help="of a slice of --run")
    settings = parser.parse_args()
    if settings.text:
        with tempfile.TemporaryDirectory(prefix="mexma-benchmark-") as name:
            (run_whole if settings.run else mine_text)(settings, settings.folder or Path(name))
        return
    if settings.plan:
        sides = (SearchInput("x.emb", settings.rows, 100 * settings.rows),) * 2
        memory = bytes_of(settings.memory)
        search = SearchSettings(memory=memory, index=settings.index)
        for side in sides:
            print(f"{side.label:<24} {side.rows:>14,} lines x {settings.dim}")
        for name, value in estimate_search((sides[0], sides[1]), settings.dim, settings.k, search, None):
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
