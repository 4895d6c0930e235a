"""The commands under faults: what stands in the folder before, the command, and the names it may change."""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from pathlib import Path

import yaml

from tests.command import write
from tests.examples import demo_pairs
from tests.faults.power import operations
from tests.faults.running import Mexma, Tree, differing, tree

EMBED = ("embed", "--model", "enc", "--device", "cpu", "--lang")
A, A2, B = (
    (*EMBED, language, f"{name}.txt") for language, name in (("spa", "a"), ("spa", "a2"), ("eng", "b"))
)
KNN = ("knn", "a.emb", "b.emb", "-o", "ab.knn")
PREPARE = ("prepare", "recipe.yaml", "--workers", "1")
TRAIN, MAPS = ("train", "recipe.yaml"), ("train", "maps.yaml")
CONVERT = ("convert", "a.emb", "-o", "a.npy")
MINE_TEXT = (
    *("mine", "--model", "enc", "a.txt", "b.txt", "--source-lang", "spa", "--target-lang", "eng"),
    *("--format", "moses", "-o", "p.gz"),
)
ALIGN = ("align", "--model", "enc", "a.txt", "b.txt", "--unaligned", "rest", "-o", "pairs.align")
TUNE = ("tune", "mined.tsv", "--gold", "gold.tsv", "--plot", "scores.png", "-o", "kept.tsv")
TIMED = ("log.jsonl", "checkpoint.json")
TIMES = re.compile(
    rb'"(seconds|tokens_per_second|best_seconds)": ?[-0-9.e+]+|"checksum": "[0-9a-f]+"|\d\d:\d\d:\d\d'
)
"""What a clock says, and the checksum of a checkpoint's manifest, which has such times."""
SPARING = "data/files.json"
"""With times and inodes of files; what `prepare` has there only spares it a reading."""


@dataclass(frozen=True)
class Command:
    """A command that writes.

    Attributes:
        before: The commands that make what it reads.
        again: What a user gives to go on, if it is not the same command.
        once: It does more the second time: it appends.
        adds: Its sums have another order, and so other last bits, with another number of threads.
    """

    name: str
    words: tuple[str, ...]
    before: tuple[tuple[str, ...], ...] = ()
    again: tuple[str, ...] = ()
    once: bool = False
    adds: bool = False

    def second(self, folder: Path) -> tuple[str, ...]:
        """What a user gives after it was stopped."""
        return self.again if self.again and (folder / "run" / "recipe.yaml").exists() else self.words


COMMANDS = [
    Command("embed", A),
    Command("embed-shard", (*A, "--shard", "2/3")),
    Command("embed-append", (*A2, "--append", "-o", "a.emb"), (A,), once=True),
    Command("embed-overwrite", (*A2, "--overwrite", "-o", "a.emb"), (A,)),
    Command("merge", ("merge", "a.emb", "a2.emb", "-o", "all.emb"), (A, A2)),
    Command("knn", KNN, (A, B)),
    Command("knn-overwrite", (*KNN, "-k", "4", "--overwrite"), (A, B, KNN)),
    Command("mine", ("mine", "a.emb", "b.emb", "-o", "pairs.tsv"), (A, B)),
    Command("mine-text", MINE_TEXT),
    Command("align", ALIGN),
    Command("convert", CONVERT, (A,)),
    Command("convert-back", ("convert", "a.npy", "--text", "a.txt", "-o", "v.emb"), (A, CONVERT)),
    Command("prepare", PREPARE),
    Command("train", TRAIN, (PREPARE,), (*TRAIN, "--resume"), adds=True),
    Command("tune", TUNE),
    Command("project", ("project", "a.emb", "--with", "maps"), (A, B, MAPS)),
]


def inputs(folder: Path, encoder: Path) -> None:
    """The files that commands begin with: texts, an encoder, recipes."""
    pairs = [pair.split("\t") for pair in demo_pairs(220)]
    write(folder / "a.txt", *(spanish for spanish, _ in pairs[:110]))
    write(folder / "b.txt", *(english for _, english in pairs[:110]))
    write(folder / "a2.txt", *(spanish for spanish, _ in pairs[110:180]))
    write(folder / "gold.tsv", *map("\t".join, pairs[:110]))
    mined = zip(pairs[:110], [*pairs[:80], *pairs[81:110], pairs[80]], strict=True)  # the last 30 are wrong
    scored = [f"{1.5 - place / 200:.3f}\t{one[0]}\t{other[1]}" for place, (one, other) in enumerate(mined)]
    write(folder / "mined.tsv", *scored)
    shutil.copytree(encoder, folder / "enc")
    corpus = {"name": "own", "format": "tsv", "path": "gold.tsv", "languages": ["spa_Latn"]}
    trainer = {"batch_pairs": 8, "log_every": 1, "checkpoint_every": 2, "device": "cpu", "steps": 4}
    recipe = {
        "name": "small",
        "run": "run",
        "data": {"root": ".", "store": "data", "max_tokens": 40, "corpora": [corpus]},
        "encoder": {
            "new": {"layers": 1, "width": 32, "heads": 2, "ffn": 64},
            "tokenizer": {"vocabulary": 300},
        },
        "trainer": trainer | {"precision": "fp32", "keep": 2},
        "phases": [
            {"name": "bag", "objective": {"name": "bag"}},
            {"name": "mexma", "objective": {"name": "mexma", "head": {"layers": 1, "heads": 2, "ffn": 64}}},
        ],
    }
    maps = {
        "kind": "decompose",
        "name": "maps",
        "run": "maps",
        "data": {"root": ".", "pairs": [{"source": "a.emb", "target": "b.emb"}]},
        "objective": {"name": "meat", "intra_class": 1.0, "inter_class": 1.0},
        "trainer": {"batch": 8, "epochs": 1, "learning_rate": 0.001, "device": "cpu"},
    }
    for name, content in (("recipe", recipe), ("maps", maps)):
        (folder / f"{name}.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")


class Stand:
    """A command, the folder before it, and what an undisturbed run makes of it."""

    def __init__(self, mexma: Mexma, command: Command, folder: Path, encoder: Path) -> None:
        self.mexma, self.command, self.folder = mexma, command, folder
        self.base, self.log, self._tries = folder / "base", folder / "operations", 0
        self.base.mkdir()
        inputs(self.base, encoder)
        for words in command.before:
            done = mexma(words, self.base)
            assert done.code == 0, done.err
        whole = self.fresh()
        done = mexma(command.words, whole, log=str(self.log))
        assert done.code == 0, done.err
        self.before, self.whole = untimed(tree(self.base)), untimed(tree(whole))
        self.operations = operations(self.log)

    def fresh(self) -> Path:
        """The folder as it was before, by the same name every time."""
        for gone in (self.folder / "here", self.folder / "here.tmp"):
            shutil.rmtree(gone, ignore_errors=True)
        return Path(shutil.copytree(self.base, self.folder / "here", symlinks=True))

    def nothing_is_half(self, folder: Path) -> None:
        """Under every final name is what was there before, or all of what the command makes."""
        now = untimed(tree(folder))
        for unit in sorted({_unit(name) for name in {*self.before, *self.whole}} - {""}):
            found, before, whole = (_below(unit, files) for files in (now, self.before, self.whole))
            assert found in (before, whole), f"{unit} is neither old nor new: {differing(found, whole)[:5]}"

    def nothing_is_lost(self, folder: Path) -> None:
        """What was there before is, as it was."""
        now = tree(folder)
        for unit in sorted({_unit(name) for name in self.before} - {""}):
            wrong = differing(_below(unit, untimed(now)), _below(unit, self.before))
            assert not wrong, f"it failed, and {unit} is not what it was: {wrong[:5]}"

    def is_done(self, folder: Path) -> bool:
        """Whether the command, which must not be given again after that, has done its work."""
        return self.command.once and _below("a.emb", tree(folder)) == _below("a.emb", self.whole)

    def finish(self, folder: Path, threads: int = 1, stopped: bool = False) -> None:
        """Give the same command again, as a user would; it ends with the bytes of an undisturbed run.

        Args:
            stopped: By a signal: then `train` wrote a checkpoint, and the last ones are others.
        """
        if self.is_done(folder):
            return
        ended = self.mexma(self.command.second(folder), folder, threads=threads)
        assert ended.code == 0, f"the next run failed: {ended.err}"
        if threads > 1 and self.command.adds:
            assert untimed(tree(folder)).keys() == self.whole.keys()
        else:
            self.is_whole(folder, but="/checkpoints/" if stopped else "\0")

    def has_all(self, folder: Path) -> None:
        """All that the command makes is there; temporary files may be, too."""
        now = untimed(tree(folder))
        wrong = differing({name: now[name] for name in self.whole if name in now}, self.whole)
        assert not wrong, f"not there, or not whole: {wrong[:8]}"

    def is_whole(self, folder: Path, but: str = "\0") -> None:
        """All that the command makes is there, and nothing else, `but` for names with this in it."""
        wrong = [name for name in differing(untimed(tree(folder)), self.whole) if but not in name]
        assert not wrong, f"differs from an undisturbed run: {wrong[:8]}"

    def nothing_is_left(self, folder: Path) -> None:
        """No temporary file or folder is, but in a folder with which the next run goes on."""
        files = tree(folder)
        left = [name for name in files if name.endswith(".partial") and f"{name}/progress.json" not in files]
        left += [path.name for path in folder.with_name("here.tmp").iterdir()]
        assert not left, f"left: {left[:5]}"


def untimed(files: Tree) -> Tree:
    """The files of a tree without what a clock says."""
    return {
        name: TIMES.sub(b"", data) if name.endswith(TIMED) and data else data
        for name, data in files.items()
        if name != SPARING
    }


def _unit(name: str) -> str:
    """The file or folder that gets its final name at once, and that this one is or lies in."""
    first, _, rest = name.partition("/")
    if first == "data":
        return f"data/{rest.partition('/')[0]}" if rest else ""
    if first == "run":
        return "run/encoder" if rest.startswith("encoder") else ""
    return first


def _below(unit: str, files: Tree) -> Tree:
    return {name: data for name, data in files.items() if name == unit or name.startswith(f"{unit}/")}
