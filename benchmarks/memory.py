"""`mexma mine` on two large stores within a memory limit: what it took, and what --dry-run had said.

    python benchmarks/memory.py [--rows 1000000] [--dim 256] [--memory 4G] [-k 16]

    python benchmarks/memory.py --plan --rows 10000000 --dim 1024 --memory 16G

The second only prints what --dry-run would say of two such stores. The vectors are made up as for
benchmarks/mine.py, and stored as float16 with a line of text each.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from mine import BLOCK, make_up

from mexma_cli.commands.dry_run import show_estimate
from mexma_cli.commands.options import Size
from mexma_cli.stages.knn.estimate import SearchInput
from mexma_cli.stages.knn.search import SearchSettings
from mexma_cli.store.embeddings import EmbeddingSettings, EmbeddingWriter, Source


def store(vectors: np.ndarray, path: Path, language: str) -> None:
    rows, dim = vectors.shape
    settings = EmbeddingSettings(
        fingerprint="made up",
        pooling="cls",
        dim=dim,
        dtype="float16",
        precision="float32",
        normalised=False,
        language=language,
        source_checksum="made up",
    )
    source = Source(path="made up", checksum="made up", lines=rows)
    with EmbeddingWriter(path, settings, source, encoder="made up") as writer:
        for start in range(0, rows, BLOCK):
            block = vectors[start : start + BLOCK]
            writer.write(block, [f"{language} line {start + row}" for row in range(len(block))])
        writer.finish()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--dim", type=int, default=256)
    parser.add_argument("--memory", default="4G")
    parser.add_argument("-k", type=int, default=16)
    parser.add_argument("--plan", action="store_true")
    settings = parser.parse_args()
    if settings.plan:
        sides = (SearchInput("x.emb", settings.rows, 100 * settings.rows),) * 2
        memory = Size().convert(settings.memory, None, None)
        show_estimate((sides[0], sides[1]), settings.dim, settings.k, SearchSettings(memory=memory), None)
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
