"""Shows that two versions of mexma do the same: the same bytes of stores, pairs, scores, losses and encoders.

    python benchmarks/same.py BEFORE AFTER [--laser FOLDER] [--keep FOLDER]

BEFORE and AFTER are checkouts, and the Python that runs this has what mexma needs. Every check gives both
the same commands on the demo's texts, one thread each, in folders of the same layout; it prints `same` or
`DIFFERENT` with the files that differ, and the exit code is 1 if any does. Left out of the comparison is only
what a clock decides, and what a run keeps for itself (its recipe, its checkpoints, the dates of its texts).

`laser` also holds both against what LASER's own programs found, `processes` two processes against one with
twice the batch, and `resumed` a run that was stopped against one that was not.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import yaml

MARGINS = ("ratio", "distance", "absolute")
STEPS = 20
RENAMED = {"name: words\n": "name: bag\n"}
"""In recipes for a checkout that has `objectives/bag`."""
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
        "merge shards/one.emb shards/two.emb -o shards/all.emb",
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
LASER_CASES = [(how, margin, k) for how in ("max", "intersect") for margin in MARGINS for k in (4, 16)]
LASER = [
    "convert text/laser/src.f32 --dim 64 --text text/laser/src.txt -o laser/src.emb",
    "convert text/laser/tgt.f32 --dim 64 --text text/laser/tgt.txt -o laser/tgt.emb",
    *(
        f"mine laser/src.emb laser/tgt.emb --retrieval {how} --margin {margin} -k {k}"
        for how, margin, k in LASER_CASES
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
""")
# Without what each process draws for itself, and without the nearest neighbours that rounding chooses.
PROCESSES = {
    "name": "mexma",
    "gamma": 0.0,
    "contrastive": 0.5,
    "head": {"layers": 1, "heads": 2, "dropout": 0.0},
}
DECOMPOSERS = yaml.safe_load("""
dream: {name: dream}
meat: {name: meat}
meat-oracle: {name: meat, intra_class: 1.0, inter_class: 1.0, ic_group: language}
oracle: {name: oracle, intra_class: 1.0, inter_class: 1.0, is_mode: language_language}
""")
# Runs the commands that it reads, each with its standard output in a file; they share the imports.
DRIVER = """
import contextlib, json, shlex, sys
import mexma_cli
from mexma_cli.main import cli
checkout, commands = json.load(sys.stdin)
assert mexma_cli.__file__.startswith(checkout), mexma_cli.__file__
for command, output in commands:
    print("$ mexma", command, file=sys.stderr, flush=True)
    sys.argv = ["mexma", *shlex.split(command)]
    with open(output, "w", encoding="utf-8") as out, contextlib.redirect_stdout(out):
        try:
            cli.main(sys.argv[1:], prog_name="mexma")
        except SystemExit as end:
            if end.code:
                open(f"{output}.failed", "w").close()
"""


class Side:
    """One checkout, and the folder in which its commands run."""

    def __init__(self, checkout: Path, folder: Path) -> None:
        self.checkout = checkout.resolve()
        self.folder = folder
        self.environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(self.checkout)}
        self.renamed = RENAMED if (self.checkout / "mexma_cli/objectives/bag").is_dir() else {}

    def write_recipe(self, check: str, recipe: dict[str, Any]) -> None:
        """Write `CHECK/recipe.yaml` in the words of this checkout; its run is `CHECK/run`."""
        text = yaml.safe_dump({"name": "same", "run": f"{check}/run"} | recipe, sort_keys=False)
        for old, new in self.renamed.items():
            text = text.replace(old, new)
        (self.folder / check).mkdir()
        (self.folder / check / "recipe.yaml").write_text(text, encoding="utf-8")

    def start(self, *arguments: str, stdin: str = "") -> subprocess.Popen[str]:
        """Start a Python program with the checkout's package; what it says is appended to stderr.txt."""
        with (self.folder / "stderr.txt").open("a", encoding="utf-8") as stderr:
            process = subprocess.Popen(
                [sys.executable, *arguments], cwd=self.folder, env=self.environment, text=True,
                stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=stderr,
            )  # fmt: skip
        assert process.stdin is not None
        process.stdin.write(stdin)
        process.stdin.close()
        return process

    def train(self, check: str, *options: str) -> subprocess.Popen[str]:
        """Start `mexma train` with the check's recipe, in a process of its own."""
        changes = [word for option in options if "=" in option for word in ("--set", option)]
        others = [option for option in options if "=" not in option]
        return self.start("-m", "mexma_cli", "train", f"{check}/recipe.yaml", *changes, *others)

    def run_all(self, checks: dict[str, list[str]]) -> subprocess.Popen[str]:
        """Start the checks' commands, one after the other, in one process."""
        commands = []
        for check, lines in checks.items():
            (self.folder / check).mkdir(exist_ok=True)
            commands += [(line, f"{check}/stdout-{number}.txt") for number, line in enumerate(lines)]
        return self.start("-c", DRIVER, stdin=json.dumps([str(self.checkout), commands]))

    def wait(self, process: subprocess.Popen[str], wanted: int = 0) -> None:
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
    """The demo's texts, its translations as two files, and documents of fifty lines, made up."""
    folder.mkdir(parents=True)
    gold = (source / "gold.tsv").read_text(encoding="utf-8")
    pairs = "".join(f"{row}\t{other % 60}\n" for row in range(60) for other in (row, 7 * row + 1))
    files = {"gold.tsv": gold, "documents.tsv": pairs}
    for side, name in enumerate(("spa", "eng")):
        files[f"{name}.txt"] = text = (source / f"{name}.txt").read_text(encoding="utf-8")
        files[f"gold.{name}"] = "".join(line.split("\t")[side] + "\n" for line in gold.splitlines())
        files[f"{name}.docs"] = "".join(f"{row % 60}\n" for row in range(text.count("\n")))
    for name, content in files.items():
        (folder / name).write_text(content, encoding="utf-8")


def training(check: str, objectives: list[dict[str, Any]], dropout: float = 0.1) -> dict[str, Any]:
    """A recipe of twenty steps for each objective, on the demo's translations."""
    corpus = {"name": "demo", "format": "tsv", "path": "gold.tsv", "languages": ["spa_Latn"]}
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
            "log_every": 1, "checkpoint_every": 5, "device": "cpu",
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


def write(side: Side, laser: Path) -> dict[str, list[str]]:
    """Write the texts and recipes of a side; returns the commands of each check."""
    copy_text(side.checkout / "examples/spa-eng", side.folder / "text")
    checks = dict(PIPELINE)
    if laser.is_dir():
        (side.folder / "text/laser").symlink_to(laser)
        checks["laser"] = LASER
    for check, objectives in SYSTEMS.items():
        side.write_recipe(check, training(check, objectives))
        checks[check] = [f"train {check}/recipe.yaml"]
    for check, objective in DECOMPOSERS.items():
        side.write_recipe(check, decomposing(objective))
        checks[check] = [
            f"train {check}/recipe.yaml",
            f"project embed/spa.emb --with {check}/run -o {check}/spa.emb",
        ]
    side.write_recipe("processes", training("processes", [PROCESSES], dropout=0.0))
    return checks


def stop_and_resume(sides: list[Side]) -> None:
    """The run `words-mexma` again, with SIGTERM in the middle of its last phase, and `--resume`."""
    started = [side.train("words-mexma", "run=resumed/run") for side in sides]
    for side, process in zip(sides, started, strict=True):
        while process.poll() is None and len(side.log("resumed/run/log.jsonl")) < STEPS + 4:
            time.sleep(0.005)
        process.terminate()
        side.wait(process, 128 + signal.SIGTERM)
    for side in sides:
        side.wait(side.train("words-mexma", "run=resumed/run", "--resume"))


def differing(one: dict[str, bytes], other: dict[str, bytes]) -> list[str]:
    """The names whose content is not the same, or is in one of them only."""
    return [name for name in sorted(one.keys() | other.keys()) if one.get(name) != other.get(name)]


def unlike_laser(side: Side, laser: Path) -> list[str]:
    """Where the pairs are not LASER's, or a score is more than 1e-6 from its."""
    wrong = []
    for number, (retrieval, margin, k) in enumerate(LASER_CASES, start=2):
        theirs = laser / f"mine.{retrieval}.{margin}.k{k}.tsv"
        scores = []
        for path in (side.folder / f"laser/stdout-{number}.txt", theirs):
            rows = [line.partition("\t") for line in path.read_text(encoding="utf-8").splitlines()]
            scores.append({pair: float(score) for score, _, pair in rows})
        ours, reference = scores
        if ours.keys() != reference.keys() or any(abs(ours[pair] - reference[pair]) > 1e-6 for pair in ours):
            wrong.append(theirs.name)
    return wrong


def unlike_one_process(side: Side) -> list[str]:
    """Where the losses of two processes are not those of one, up to float32's rounding."""
    logs = [side.log(f"processes/{run}/log.jsonl") for run in ("run", "two")]
    return [f"step {a['step']}" for a, b in zip(*logs, strict=True) if abs(a["loss"] / b["loss"] - 1) > 1e-5]


def unlike_whole_run(side: Side) -> list[str]:
    """What a resumed run has left that the uninterrupted one has not."""
    return [
        name for name in differing(side.files("resumed"), side.files("words-mexma")) if name[:4] == "run/"
    ]


def main() -> int:
    """Run both checkouts, print a line for each check, and return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    parser.add_argument("--laser", type=Path, help="LASER's vectors and results [AFTER/tests/fixtures/laser]")
    parser.add_argument("--keep", type=Path, help="a new folder for all that is written")
    arguments = parser.parse_args()
    laser = (arguments.laser or arguments.after / "tests/fixtures/laser").resolve()
    with tempfile.TemporaryDirectory(prefix="mexma-same-") as temporary:
        folder = (arguments.keep or Path(temporary)).resolve()
        before, after = Side(arguments.before, folder / "before"), Side(arguments.after, folder / "after")
        checks, _ = write(before, laser), write(after, laser)
        print(f"{sum(map(len, checks.values()))} commands and four more runs, in both checkouts", flush=True)
        for side, process in [(side, side.run_all(checks)) for side in (before, after)]:
            side.wait(process)
        stop_and_resume([before, after])
        for side in (before, after):
            side.wait(side.train("processes"))
            two = ("run=processes/two", "trainer.batch_pairs=8", "--nproc-per-node", "2")
            side.wait(side.train("processes", *two))
        more = {
            "laser": lambda: unlike_laser(after, laser),
            "resumed": lambda: unlike_whole_run(after),
            "processes": lambda: unlike_one_process(after),
        }
        all_same = True
        for check in (*checks, "resumed", "processes"):
            found = after.files(check)
            wrong = differing(before.files(check), found)
            wrong += [name for name in found if name.endswith(".failed")]
            wrong += more[check]() if check in more else []
            print(
                f"DIFFERENT  {check}: {', '.join(wrong)}"
                if wrong
                else f"same       {check}: {len(found)} files"
            )
            all_same &= not wrong
        if not laser.is_dir():
            print("left out   laser: name LASER's vectors and results with --laser")
    return 0 if all_same else 1


if __name__ == "__main__":
    sys.exit(main())
