"""Shows that two versions of mexma do the same: the same bytes of stores, pairs, scores, losses and encoders.

    python benchmarks/same.py BEFORE AFTER [--keep FOLDER]

BEFORE and AFTER are checkouts, and the Python that runs this has what mexma needs. Every check gives both
the same commands on the demo's texts, one thread each, in folders of the same layout; it prints `same` or
`DIFFERENT` with the files that differ, and the exit code is 1 if any does. Left out of the comparison is only
what a clock decides, and what a run keeps for itself (its recipe, its checkpoints, the dates of its texts).

`laser` also holds both against what LASER's own programs found, `processes` two processes against one with
twice the batch, and `resumed` a run that was stopped against one that was not.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import yaml

FIXTURES = np.load(Path(__file__).parent.parent / "tests/fixtures/laser.npz")
MARGINS = ("ratio", "distance", "absolute")
STEPS = 20
RENAMED = {"name: words\n": "name: bag\n", "spelling: ": "keep_ngrams: "}
"""In recipes for a checkout whose objective has the new name and key."""
CLOCK = ("seconds", "tokens_per_second")
UNCOMPARED = ("recipe.yaml", "checkpoints", "files.json")
PIPELINE = {
    "embed": [
        "embed --lang spa text/spa.txt -o embed/spa.emb",
        "embed --lang eng text/eng.txt -o embed/eng.emb",
        "embed --lang eng text/eng.txt -o embed/fp32.emb --dtype fp32 --clean --max-tokens 12",
        "embed --lang spa text/gold.spa -o embed/gold-spa.emb",
        "embed --lang eng text/gold.eng -o embed/gold-eng.emb",
    ],
    "shards": [
        "embed --lang spa text/spa.txt --shard 1/2 -o shards/spa.emb",
        "embed --lang spa text/spa.txt --shard 2/2 -o shards/spa.emb",
        "merge shards/spa.00001-of-00002.emb shards/spa.00002-of-00002.emb -o shards/all.emb",
    ],
    "convert": [
        "convert embed/spa.emb -o convert/spa.f32",
        "convert convert/spa.f32 --dim 320 --text text/spa.txt --lang spa -o convert/spa.emb",
        "convert embed/spa.emb -o convert/spa.npy --dtype float16",
    ],
    "mine": [
        f"mine embed/spa.emb embed/eng.emb --margin {margin} --retrieval {retrieval}"
        for margin in MARGINS
        for retrieval in ("max", "intersect", "forward", "backward")
    ],
    "mine-filters": [
        "mine embed/spa.emb embed/eng.emb -k 16 --all-candidates --with-ids --top 4000",
        "mine embed/spa.emb embed/eng.emb --threshold 1.05 --max-score 1.5 --drop-copies",
        "mine embed/spa.emb embed/eng.emb --memory 1G",
        "mine text/gold.spa text/gold.eng --source-lang spa --target-lang eng",
    ],
    "mine-formats": [
        f"mine embed/spa.emb embed/eng.emb --format {name} -o mine-formats/pairs.{ending}"
        for name, ending in (("tsv", "tsv.gz"), ("jsonl", "jsonl.zst"), ("moses", "xz"), ("tmx", "tmx"))
    ],
    "within": [
        f"mine embed/spa.emb embed/eng.emb --within text/spa.docs text/eng.docs --margin {margin} {more}"
        for margin in MARGINS
        for more in ("", "--all-candidates --with-ids", "--document-pairs text/documents.tsv -k 2")
    ],
    "knn": [
        "knn embed/spa.emb embed/eng.emb -k 16 -o knn/exact.knn",
        "mine embed/spa.emb embed/eng.emb --neighbours knn/exact.knn --margin distance -k 8",
        "mine embed/spa.emb embed/eng.emb --index IVF16,Flat",
    ],
    "score": [
        *(f"score text/gold.spa text/gold.eng --margin {margin}" for margin in MARGINS),
        "score embed/gold-spa.emb embed/gold-eng.emb --background embed/spa.emb embed/eng.emb",
        "score text/gold.tsv --scores-only -k 2",
    ],
    "search": [
        *(f"search text/gold.spa embed/eng.emb --margin {margin}" for margin in MARGINS),
        "search embed/spa.emb embed/eng.emb -n 3 -k 2",
        "search --query 'No me gusta.' embed/eng.emb",
    ],
    "tune": [
        "mine embed/spa.emb embed/eng.emb -o tune/pairs.tsv",
        "tune tune/pairs.tsv --gold text/gold.tsv -o tune/kept.tsv",
        "tune tune/pairs.tsv --gold text/gold.tsv --precision 0.95 --json",
        "tune embed/spa.emb embed/eng.emb --plant text/gold.spa text/gold.eng",
    ],
}
LASER_CASES = list(itertools.product(("max", "intersect"), MARGINS, (4, 16)))
LASER = [
    "convert text/src.f32 --dim 64 --text text/src.txt -o laser/src.emb",
    "convert text/tgt.f32 --dim 64 --text text/tgt.txt -o laser/tgt.emb",
    *(
        f"mine laser/src.emb laser/tgt.emb --retrieval {retrieval} --margin {margin} -k {k}"
        for retrieval, margin, k in LASER_CASES
    ),
]
# The objectives of a run's phases, one phase each, by the run's name.
SYSTEMS = yaml.safe_load("""
mexma: [&mexma {name: mexma, head: &head {layers: 2, heads: 2, ffn: 64}}]
mexma-one-side:
  - {name: mexma, symmetric: false, align: masked, gamma: 0, token_gradients: false, head: *head}
mexma-contrastive: [{name: mexma, contrastive: 0.5, margin: 0.1, koleo_normalise: false, head: *head}]
contrastive: [{name: contrastive, margin: 0.3}]
contrastive-tlm: [{name: contrastive, projection: tanh, tlm: {weight: 0.1}}]
dap: [{name: dap, rtl: {ratio: 0.5, direction: both}}]
clft: [{name: clft}]
words: [{name: words}]
words-mexma:
  - {name: words, token_dropout: 0.1, own_tokens: 100, ngrams: [3, 4], consonants: [3], spelling: true,
     width: 48, own_share: 0.6, inner_weight: 0.7, length_power: 0.6, whitening: 0.2}
  - *mexma
# Without dropout, which each process draws for itself, and KoLeo, whose neighbours rounding chooses here.
processes: [{name: mexma, gamma: 0, contrastive: 0.5, head: {layers: 1, heads: 2, ffn: 64, dropout: 0}}]
""")
DECOMPOSERS = yaml.safe_load("""
dream: {name: dream}
meat: {name: meat}
meat-oracle: {name: meat, intra_class: 1.0, inter_class: 1.0, ic_group: language}
oracle: {name: oracle, intra_class: 1.0, inter_class: 1.0, is_mode: language_language}
""")
# Runs the commands of commands.json, each with its standard output in a file; they share the imports.
DRIVER = """
import contextlib, json, shlex, sys, traceback
import mexma_cli
from mexma_cli.main import cli
assert mexma_cli.__file__.startswith(sys.argv[1]), mexma_cli.__file__
for command, output in json.load(open("commands.json")):
    print("$ mexma", command, file=sys.stderr, flush=True)
    sys.argv = ["mexma", *shlex.split(command)]
    with open(output, "w", encoding="utf-8") as out, contextlib.redirect_stdout(out):
        try:
            cli.main(sys.argv[1:], prog_name="mexma")
        except SystemExit as end:
            failed = end.code
        except Exception:
            failed = traceback.format_exc()
    if failed:
        print(failed, file=sys.stderr)
        open(f"{output}.failed", "w").close()
"""


class Side:
    """One checkout, and the folder in which its commands run."""

    def __init__(self, checkout: Path, folder: Path) -> None:
        self.checkout = checkout.resolve()
        self.folder = folder
        self.environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(self.checkout)}
        settings = self.checkout / "mexma_cli/objectives/bag/settings.py"
        registered = settings.exists() and '@objective("bag"' in settings.read_text(encoding="utf-8")
        self.renamed = RENAMED if registered else {}

    def write_recipe(self, check: str, recipe: dict[str, Any]) -> None:
        """Write `CHECK/recipe.yaml` in the words of this checkout; its run is `CHECK/run`."""
        text = yaml.safe_dump({"name": "same", "run": f"{check}/run"} | recipe, sort_keys=False)
        for old, new in self.renamed.items():
            text = text.replace(old, new)
        (self.folder / check).mkdir()
        (self.folder / check / "recipe.yaml").write_text(text, encoding="utf-8")

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        """Start Python with the checkout's package; what it says is appended to stderr.txt."""
        with (self.folder / "stderr.txt").open("a", encoding="utf-8") as stderr:
            return subprocess.Popen(
                [sys.executable, *arguments], cwd=self.folder, env=self.environment,
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=stderr,
            )  # fmt: skip

    def start_all(self, checks: dict[str, list[str]]) -> subprocess.Popen[bytes]:
        """Start the checks' commands, one after the other, in one process."""
        commands = []
        for check, lines in checks.items():
            (self.folder / check).mkdir(exist_ok=True)
            commands += [(line, f"{check}/stdout-{number}.txt") for number, line in enumerate(lines)]
        (self.folder / "commands.json").write_text(json.dumps(commands), encoding="utf-8")
        return self.start("-c", DRIVER, str(self.checkout))

    def train(self, check: str, run: str, *options: str) -> subprocess.Popen[bytes]:
        """Start `mexma train` with the check's recipe and another run's folder."""
        recipe = f"{check}/recipe.yaml"
        return self.start("-m", "mexma_cli", "train", recipe, "--set", f"run={run}", *options)

    def wait(self, process: subprocess.Popen[bytes], wanted: int = 0) -> None:
        """Wait for a process; with another exit code than the wanted one this program ends."""
        if process.wait() != wanted:
            said = (self.folder / "stderr.txt").read_text(encoding="utf-8").splitlines()[-5:]
            sys.exit("\n".join([f"{self.checkout}: exit code {process.returncode}", *said]))

    def files(self, check: str) -> dict[str, bytes]:
        """What a check has left, by name, without what a clock decides."""
        folder = self.folder / check
        names = [path.relative_to(folder) for path in sorted(folder.rglob("*")) if path.is_file()]
        return {
            str(name): repr(self.log(f"{check}/{name}")).encode()
            if name.name == "log.jsonl"
            else (folder / name).read_bytes()
            for name in names
            if not set(UNCOMPARED) & set(name.parts)
        }

    def log(self, name: str) -> list[dict[str, Any]]:
        """A log's records so far, without what a clock decides."""
        path = self.folder / name
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True) if path.exists() else []
        records = [json.loads(line) for line in lines if line.endswith("\n")]
        return [{key: record[key] for key in record if key not in CLOCK} for record in records]


def copy_text(source: Path, folder: Path) -> None:
    """The demo's texts, its translations as two files, made-up documents, and the vectors LASER was given."""
    folder.mkdir(parents=True)
    gold = (source / "gold.tsv").read_text(encoding="utf-8")
    pairs = "".join(f"{row}\t{other % 60}\n" for row in range(60) for other in (row, 7 * row + 1))
    files = {"gold.tsv": gold, "documents.tsv": pairs}
    for side, name in enumerate(("spa", "eng")):
        files[f"{name}.txt"] = text = (source / f"{name}.txt").read_text(encoding="utf-8")
        files[f"gold.{name}"] = "".join(line.split("\t")[side] + "\n" for line in gold.splitlines())
        files[f"{name}.docs"] = "".join(f"{row % 60}\n" for row in range(text.count("\n")))
    for name in ("src", "tgt"):
        vectors = FIXTURES[name].astype(np.float32)
        vectors.tofile(folder / f"{name}.f32")
        files[f"{name}.txt"] = "".join(f"{row}\n" for row in range(len(vectors)))
    for name, content in files.items():
        (folder / name).write_text(content, encoding="utf-8")


def training(check: str, objectives: list[dict[str, Any]]) -> dict[str, Any]:
    """A recipe of twenty steps for each objective, on the demo's translations."""
    corpus = {"name": "demo", "format": "tsv", "path": "gold.tsv", "languages": ["spa_Latn"]}
    dropout = 0.0 if check == "processes" else 0.1
    return {
        "data": {"root": "text", "store": f"{check}/data", "max_tokens": 40, "corpora": [corpus]},
        "encoder": {
            "new": {"layers": 2, "width": 32, "heads": 2, "ffn": 64, "dropout": dropout},
            "tokenizer": {"vocabulary": 900, "words": 500, "lowercase": True, "latin": True},
        },
        "phases": [
            {"name": f"phase-{number}", "objective": dict(objective)}
            for number, objective in enumerate(objectives)
        ],
        "trainer": {
            "steps": STEPS, "batch_pairs": 16, "learning_rate": 0.003, "eps": 1e-4, "average": 0.9,
            "log_every": 1, "checkpoint_every": 5, "device": "cpu", "precision": "fp32",
        },
    }  # fmt: skip


def decomposing(objective: dict[str, Any]) -> dict[str, Any]:
    """A recipe of three epochs on the vectors of the demo's translations."""
    return {
        "kind": "decompose",
        "encoder": "mini",
        "data": {"pairs": [{"source": "embed/gold-eng.emb", "target": "embed/gold-spa.emb"}]},
        "objective": objective,
        "trainer": {"batch": 128, "epochs": 3, "learning_rate": 0.001, "device": "cpu"},
    }


def write(side: Side) -> dict[str, list[str]]:
    """Write the texts and recipes of a side; returns the commands of each check."""
    copy_text(side.checkout / "examples/spa-eng", side.folder / "text")
    checks = PIPELINE | {"laser": LASER}
    for check, objectives in SYSTEMS.items():
        side.write_recipe(check, training(check, objectives))
        checks[check] = [f"train {check}/recipe.yaml"]
    for check, objective in DECOMPOSERS.items():
        side.write_recipe(check, decomposing(objective))
        checks[check] = [
            f"train {check}/recipe.yaml",
            f"project embed/spa.emb --with {check}/run -o {check}/spa.emb",
        ]
    return checks


def stop_and_resume(side: Side) -> None:
    """The run `words-mexma` again, with SIGTERM in the middle of its last phase, and `--resume`."""
    process = side.train("words-mexma", "resumed/run")
    while process.poll() is None and len(side.log("resumed/run/log.jsonl")) < STEPS + 4:
        time.sleep(0.005)
    process.terminate()
    side.wait(process, 128 + signal.SIGTERM)
    side.wait(side.train("words-mexma", "resumed/run", "--resume"))


def differing(one: dict[str, bytes], other: dict[str, bytes]) -> list[str]:
    """The names whose content is not the same, or is in one of them only."""
    return [name for name in sorted(one.keys() | other.keys()) if one.get(name) != other.get(name)]


def unlike_laser(side: Side) -> list[str]:
    """Where the pairs are not those of LASER's programs, or a score is more than 1e-6 from theirs."""
    wrong = []
    for number, (retrieval, margin, k) in enumerate(LASER_CASES, start=2):
        case = f"mine.{retrieval}.{margin}.k{k}"
        mined = np.loadtxt(side.folder / f"laser/stdout-{number}.txt", delimiter="\t", ndmin=2)
        ours = {(source, target): score for score, source, target in mined.tolist()}
        rows, scores = FIXTURES[f"{case}.rows"].tolist(), FIXTURES[f"{case}.scores"].tolist()
        theirs = dict(zip(map(tuple, rows), scores, strict=True))
        if ours.keys() != theirs.keys() or any(abs(ours[pair] - theirs[pair]) > 1e-6 for pair in ours):
            wrong.append(case)
    return wrong


def unlike_one_process(side: Side) -> list[str]:
    """Where the losses of two processes are not those of one, up to float32's rounding."""
    logs = [side.log(f"processes/{run}/log.jsonl") for run in ("run", "two")]
    return [f"step {a['step']}" for a, b in zip(*logs, strict=True) if abs(a["loss"] / b["loss"] - 1) > 1e-5]


def unlike_whole_run(side: Side) -> list[str]:
    """What a resumed run has left that the uninterrupted one has not."""
    found = differing(side.files("resumed"), side.files("words-mexma"))
    return [name for name in found if name.startswith("run/")]


def main() -> int:
    """Run both checkouts, print a line for each check, and return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    parser.add_argument("--keep", type=Path, help="a new folder for all that is written")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="mexma-same-") as temporary:
        folder = (arguments.keep or Path(temporary)).resolve()
        before, after = Side(arguments.before, folder / "before"), Side(arguments.after, folder / "after")
        checks, _ = write(before), write(after)
        print(f"{sum(map(len, checks.values()))} commands and three more runs, in both checkouts", flush=True)
        for side, process in [(side, side.start_all(checks)) for side in (before, after)]:
            side.wait(process)
        for side in (before, after):
            stop_and_resume(side)
            half = ("--set", "trainer.batch_pairs=8", "--nproc-per-node", "2")
            side.wait(side.train("processes", "processes/two", *half))
        more = {
            "laser": lambda: unlike_laser(after),
            "resumed": lambda: unlike_whole_run(after),
            "processes": lambda: unlike_one_process(after),
        }
        all_same = True
        for check in (*checks, "resumed"):
            found = after.files(check)
            wrong = differing(before.files(check), found)
            wrong += [name for name in found if name.endswith(".failed")]
            wrong += more[check]() if check in more else []
            said = (
                f"DIFFERENT  {check}: {', '.join(wrong)}" if wrong else f"same  {check}: {len(found)} files"
            )
            print(said)
            all_same &= not wrong
    return 0 if all_same else 1


if __name__ == "__main__":
    sys.exit(main())
