"""A corpus run that searches exactly, beside one that searches with indexes: time, memory, and pairs.

    OMP_NUM_THREADS=1 python benchmarks/indexes.py [--data ../shared/data/bible] [--rows 100000]
        [--index IVF1024,PQ160x4fs] [--tile 50000] [--folder FOLDER]

The source text is Bibles in French, Italian, Portuguese and Spanish, one after the other, as if they were one
language; the target text is two in English, one in German and one in Danish. So a verse has several
translations, and near ones. Both runs take the same embeddings (mini). Each stage runs in a process of its
own, of one thread; time is that of the processor, memory the most that the process held. With --folder the
stages that were done there are not done again: the command may be stopped, and given again.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
from collections import Counter
from itertools import chain, islice
from pathlib import Path

from mexma_cli.settings.corpus import CorpusRecipe
from mexma_cli.stages.run.executor import InThisProcess
from mexma_cli.stages.run.plan import Selection
from mexma_cli.stages.run.run import run_corpus
from mexma_cli.stages.run.units import RunFolder
from mexma_cli.text.lines import read_lines

TEXTS = {
    "fra": ("fra_Latn", "ita_Latn", "por_Latn", "spa_Latn"),
    "eng": ("eng_Latn", "eng_Latn.web", "deu_Latn", "dan_Latn"),
}
SHARES = (1, 0.5, 0.25)  # of the exact search's pairs, the best first


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=Path(__file__).parents[2] / "shared" / "data" / "bible")
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--index", default="IVF1024,PQ160x4fs")
    parser.add_argument("--tile", type=int, default=50_000)
    parser.add_argument("--folder", type=Path)
    settings = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="mexma-benchmark-") as name:
        folder = settings.folder or Path(name)
        folder.mkdir(exist_ok=True)
        for code, names in TEXTS.items():
            verses = chain.from_iterable(read_lines(settings.data / f"{one}.txt.gz") for one in names)
            lines = (f"{verse}\n" for verse in verses if verse)
            (folder / f"{code}.txt").write_text("".join(islice(lines, settings.rows)), encoding="utf-8")
        stage(folder, settings.tile, "exact", "embed")
        exact, wanted = stage(folder, settings.tile, "exact")
        indexed, found = stage(folder, settings.tile, settings.index)
    for title, said in (("exact", exact), (settings.index, indexed)):
        print(f"{title}: {said['seconds']:.1f} s, at most {said['bytes'] / 1e9:.2f} GB, {said['works']}")
    print(f"time with the index: {indexed['seconds'] / exact['seconds']:.2f} of the exact search's")
    print(f"{indexed['effort']}")
    for share in SHARES:
        best = wanted[: round(share * len(wanted))]
        print(f"of the {len(best):,} best pairs: {100 * len(set(best) & set(found)) / len(best):.2f} % found")


def stage(folder: Path, tile: int, index: str, only: str | None = None) -> tuple[dict, list[str]]:
    """What a run in a process of its own says, and the pairs that it mined; kept for the next time."""
    kept = folder / f"{only or index}.json"
    if not kept.exists():
        command = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})\n"]
        command[-1] += f"import indexes\nindexes.work({str(folder)!r}, {tile}, {index!r}, {only!r})"
        said = subprocess.run(command, check=True, capture_output=True).stdout.splitlines()[-1]
        kept.write_text(json.dumps([json.loads(said), [] if only else pairs(folder)]))
    said, found = json.loads(kept.read_text())
    return said, found


def work(folder: str, tile: int, index: str, only: str | None) -> None:
    """Do all units, or those of a stage, and print what they took."""
    recipe = CorpusRecipe.model_validate(
        {
            "kind": "corpus",
            "name": "indexes",
            "run": f"{folder}/run",
            "root": folder,
            "languages": {code: {"input": f"{code}.txt"} for code in TEXTS},
            "units": {"tile": tile},
            "mine": {"index": index},
        }
    )
    done = run_corpus(recipe, InThisProcess, chosen=Selection(only=only))
    spent = Counter[str]()
    for name in done.done:
        spent[done.units[name].work] += RunFolder(Path(recipe.run)).record(name).processor_seconds
    effort = [unit for unit in done.units.values() if unit.work == "effort"]
    said = {
        "seconds": sum(spent.values()),
        "works": {work: round(seconds, 1) for work, seconds in spent.items()},
        "bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "effort": json.loads((Path(recipe.run) / effort[0].output).read_text()) if effort else None,
    }
    print(json.dumps(said))


def pairs(folder: Path) -> list[str]:
    """The pairs that were mined, best first, without scores."""
    (path,) = (folder / "run" / "bitext").glob("*/*.tsv")
    return [line.partition("\t")[2] for line in read_lines(path)]


if __name__ == "__main__":
    main()
