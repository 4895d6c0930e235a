"""How fast `mexma prepare` is and what it holds in memory, on synthetic pairs.

    python benchmarks/prepare.py                        two million pairs, one process
    python benchmarks/prepare.py --pairs 8000000 --languages 8 --workers 8
    python benchmarks/prepare.py --pairs 4000000 --words 4 --first-only

A language is one Moses zip. A tenth of the pairs are duplicates, and a cap takes the rest down by a tenth.
Each reading runs in a process of its own: the first decides about the pairs (duplicates, cap), both
together make the stores. Peak memory is the largest process's; the byte a pair that is mapped counts.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parent.parent
LANGUAGES = ["fra_Latn", "deu_Latn", "spa_Latn", "ita_Latn", "por_Latn", "nld_Latn", "pol_Latn", "ron_Latn"]


def write_zip(path: Path, language: str, pairs: int, words: int, seed: int) -> None:
    """Random sentences of `words` words on average, a tenth of them twice."""
    rng = np.random.default_rng(seed)
    known = np.array([f"w{number:x}" for number in range(20_000)])
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for code in ("eng_Latn", language):
            with archive.open(f"X.eng_Latn-{language}.{code}", "w") as file:
                for start in range(0, pairs, 100_000):
                    count = min(100_000, pairs - start)
                    lengths = rng.integers(words // 2, words * 3 // 2, count)
                    chosen = iter(known[np.minimum(rng.zipf(1.3, lengths.sum()), 20_000) - 1].tolist())
                    numbers = (start + np.arange(count)) * 10 // 11  # one number in ten comes twice
                    same = np.diff(numbers, prepend=-1) == 0
                    lines: list[str] = []
                    for number, length, again in zip(
                        numbers.tolist(), lengths.tolist(), same.tolist(), strict=True
                    ):
                        text = f"{number} " + " ".join([next(chosen) for _ in range(length)])
                        lines.append(lines[-1] if again and lines else text)
                    file.write(("\n".join(lines) + "\n").encode())


def measured(mode: str, recipe: Path, workers: int) -> dict[str, float]:
    """Run this script on itself in a process of its own."""
    command = [sys.executable, __file__, "--mode", mode, "--recipe", str(recipe), "--workers", str(workers)]
    done = subprocess.run(command, cwd=ROOT, text=True, stdout=subprocess.PIPE, check=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def work(mode: str, recipe_path: Path, workers: int) -> None:
    """In a process of its own: one of the modes; prints seconds and megabytes."""
    from mexma_cli.settings.load import load
    from mexma_cli.stages.prepare.corpora import find_bitexts
    from mexma_cli.stages.prepare.selection import select
    from mexma_cli.text.rules import PairRules

    if mode == "prepare":
        from mexma_cli.stages.prepare.prepare import prepare
    recipe = load(recipe_path)
    before = _peak()
    start = time.perf_counter()
    if mode == "select":
        with tempfile.TemporaryDirectory(dir=recipe.run) as folder:
            for bitext in find_bitexts(recipe.data)[0]:
                select(
                    bitext,
                    PairRules({"missing": 0, "long": 1000, "ratio": 3}),
                    recipe.data.cap_per_language,
                    Path(folder),
                    lambda: None,
                )
    else:
        prepare(recipe, workers=workers)
    print(json.dumps({"seconds": time.perf_counter() - start, "mb": _peak(), "before": before}))


def _peak() -> float:
    """Megabytes of the largest of this process and its children."""
    own = next(
        int(line.split()[1])
        for line in Path("/proc/self/status").read_text().splitlines()
        if line.startswith("VmHWM")
    )
    return max(own, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss) / 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--pairs", type=int, default=2_000_000, help="of all languages")
    parser.add_argument("--words", type=int, default=14, help="of a sentence, on average")
    parser.add_argument("--languages", type=int, default=1)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--encoder", default="mini", help="whose tokeniser; a new XLM-R has a larger one")
    parser.add_argument("--first-only", action="store_true", help="only the first reading: its memory")
    parser.add_argument("--mode", choices=["select", "prepare"], help=argparse.SUPPRESS)
    parser.add_argument("--recipe", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.mode:
        work(arguments.mode, arguments.recipe, arguments.workers)
        return
    with tempfile.TemporaryDirectory(prefix="mexma-bench-") as name:
        folder, languages = Path(name), LANGUAGES[: arguments.languages]
        each = arguments.pairs // len(languages)
        for seed, language in enumerate(languages):
            write_zip(folder / "text" / f"{language}.zip", language, each, arguments.words, seed)
        zipped = sum(path.stat().st_size for path in (folder / "text").iterdir())
        recipe = {
            "name": "bench",
            "run": str(folder),
            "data": {
                "root": str(folder),
                "store": str(folder / "store"),
                "languages": languages,
                "cap_per_language": each * 8 // 10,
                "corpora": [{"name": "x", "format": "opus", "path": "text"}],
            },
            "encoder": {"from": arguments.encoder},
            "objective": {"name": "mexma"},
            "trainer": {"steps": 1},
        }
        (folder / "recipe.yaml").write_text(json.dumps(recipe))
        first = measured("select", folder / "recipe.yaml", 1)
        pairs = each * len(languages)
        print(f"{pairs:,} pairs in {len(languages)} zips of {zipped / 1e6:,.0f} MB, {os.cpu_count()} cores")
        print(f"first reading, 1 process: {pairs / first['seconds']:,.0f} pairs/s, ", end="")
        print(f"peak {first['mb']:,.0f} MB, of which {first['before']:,.0f} MB before it began")
        if arguments.first_only:
            return
        both = measured("prepare", folder / "recipe.yaml", arguments.workers)
        store = sum(path.stat().st_size for path in (folder / "store").rglob("*") if path.is_file())
        print(f"prepare, {arguments.workers} processes: {pairs / both['seconds']:,.0f} pairs/s, ", end="")
        print(f"peak {both['mb']:,.0f} MB in one process; stores {store / 1e6:,.0f} MB")


if __name__ == "__main__":
    main()
