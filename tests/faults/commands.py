"""The commands under faults: all that write, what they read, and what stands in the folder before."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.command import write
from tests.examples import demo_pairs

EMBED = ("embed", "--model", "enc", "--device", "cpu", "--lang")
A, A2, B = (
    (*EMBED, language, f"{name}.txt") for language, name in (("spa", "a"), ("spa", "a2"), ("eng", "b"))
)
WITH = ("--model", "enc", "--device", "cpu")
CODES = ("--source-lang", "spa", "--target-lang", "eng")
INDEX = ("--index", "IVF4,Flat", "--recall", "0.5")
DOCS = ("a.docs", "b.docs")
KNN = ("knn", "a.emb", "b.emb", "-o", "ab.knn")
PREPARE = ("prepare", "recipe.yaml", "--workers", "1")
TRAIN, MAPS = ("train", "recipe.yaml"), ("train", "maps.yaml")
CONVERT = ("convert", "a.emb", "-o", "a.npy")
BACK = ("convert", "a.npy", "--text", "a.txt", "-o", "v.emb")
MERGE = ("merge", "a.emb", "a2.emb", "-o", "all.emb")
PROJECT = ("project", "a.emb", "--with", "maps", "-o", "m.emb")
MINE = ("mine", "a.emb", "b.emb", "-o", "pairs.tsv")
MINE_TEXT = (
    *("mine", *WITH, "a.txt", "b.txt", *CODES),
    *("--format", "moses", "-o", "p.gz"),
)
TEXTS = ("align", *WITH, "a.txt", "b.txt", "-o")
ALIGN = (*TEXTS, "pairs.align", "--unaligned", "rest")
FOUND = ("align", *WITH, "spa", "copies", "--find-documents", "-o", "found.jsonl.zst")
TUNE = ("tune", "mined.tsv", "--gold", "gold.tsv", "--plot", "scores.png", "-o", "kept.tsv")
TUNE_TEXTS = ("tune", "a.emb", "b.emb", "--retrieval", "forward", "--plot", "scores.svg")
FILTER = ("filter", "mined.tsv", "-o", "f.tsv.gz", "--rejects", "fr.tsv", "--report", "f.report.json")
SPLIT = (
    *("split", "spa.jsonl", "--lang", "spa", "--workers", "1", "--off", "language"),
    *("-o", "s.txt.zst", "--rejects", "sr.tsv.gz"),
)
SCORE = ("score", "gold.tsv", *WITH, "-o", "scored.jsonl")
XSIM = ("eval", "xsim", "dev", *WITH, "--cache", "kept", "-o", "xsim.result.json")
ATTENTION = ("eval", "attention", "dev", *WITH, "-o", "attention.result.json")
TOKENS = ("eval", "tokens", "dev", *WITH, "-o", "tokens.result.json")
TATOEBA = ("eval", "tatoeba", "tatoeba", *WITH, "--cache", "kept", "-o", "tatoeba.result.json")
LEAKAGE = (
    *("eval", "leakage", "tatoeba", "--with", "maps", *WITH, "--cache", "kept"),
    *("-o", "leakage.result.json"),
)
CODESWITCH = (
    *("eval", "codeswitch", "tatoeba/tatoeba.spa-eng.spa", "tatoeba/tatoeba.spa-eng.eng", "--lang", "spa"),
    *("--dictionary", "words.txt", "-n", "20", "-o", "switched"),
)
RUN, CRAWL, NEWS = (("run", f"{name}.yaml") for name in ("corpus", "crawl", "news"))
AUTO = ("--set", "mine.threshold=auto", "--set", "mine.retrieval=forward")
SMALL = {
    "encoder.new": "{layers: 1, width: 32, heads: 2, ffn: 32, dropout: 0}",
    "encoder.tokenizer.vocabulary": 700,
    "encoder.tokenizer.words": 300,
    "objective.own_tokens": 300,
    "objective.width": 40,
    "trainer.steps": 3,
    "trainer.batch_pairs": 64,
}
NEW = (
    *("new-language", "es", "many.tsv", "-o", "new"),
    *(word for key, value in SMALL.items() for word in ("--set", f"{key}={value}")),
)
THEIRS = ("notes.txt", "thesis/chapter 1.txt", "thesis/.draft", "a.emb.txt", "out.txt", "mine.partial.txt")
"""Files of the user's in and around the folder, with which no command has anything to do."""


@dataclass(frozen=True)
class Command:
    """A command that writes.

    Attributes:
        before: The commands that make what it reads.
        again: What a user gives to go on, if it is not the same command.
        once: It does something else the second time: it appends.
        adds: Its sums have another order, and so other last bits, with another number of threads.
        parts: It makes several things, each with a name of its own as soon as it is whole.
        long: Not part of `make test`: it takes long, or writes in the way of another one.
    """

    name: str
    words: tuple[str, ...]
    before: tuple[tuple[str, ...], ...] = ()
    again: tuple[str, ...] = ()
    once: bool = False
    adds: bool = False
    parts: bool = False
    long: bool = False

    def second(self, folder: Path) -> tuple[str, ...]:
        """What a user gives after it was stopped."""
        begun = any((folder / run / "recipe.yaml").exists() for run in ("run", "maps"))
        return self.again if self.again and begun else self.words


COMMANDS = [
    Command("embed", A),
    Command("embed-shard", (*A, "--shard", "2/3"), long=True),
    Command("embed-append", (*A2, "--append", "-o", "a.emb"), (A,), once=True),
    Command("embed-overwrite", (*A2, "--overwrite", "-o", "a.emb"), (A,)),
    Command("embed-log", ("--log-file", "notes.log", *A), long=True),
    Command("merge", MERGE, (A, A2)),
    Command(
        "merge-overwrite", (*MERGE, "--overwrite"), (A, A2, ("merge", "a2.emb", "-o", "all.emb")), long=True
    ),
    Command("knn", KNN, (A, B)),
    Command("knn-overwrite", (*KNN, "-k", "4", "--overwrite"), (A, B, KNN), long=True),
    Command("knn-index", (*KNN, *INDEX), (A, B)),
    Command("mine", MINE, (A, B)),
    Command("mine-text", MINE_TEXT),
    Command("mine-index", (*MINE[:-1], "p.jsonl.zst", *INDEX, "--report", "p.report.json"), (A, B)),
    Command("mine-within", (*MINE[:-1], "p.tmx", "--within", *DOCS), (A, B), long=True),
    Command("align", ALIGN),
    Command("align-tsv", (*TEXTS, "p.tsv", "--report", "p.report.json", "--plot", "aligned.png"), long=True),
    Command("align-moses", (*TEXTS, "p.xz", *CODES, "--format", "moses"), long=True),
    Command("align-tmx", (*TEXTS, "p.tmx.gz", *CODES, "--shard", "1/1"), long=True),
    Command("align-parquet", (*TEXTS, "p.parquet", "--keep", "1-1"), long=True),
    Command("align-docs", ("align", "a.emb", "b.emb", "--docs", *DOCS, "-o", "p.tsv.bz2"), (A, B), long=True),
    Command("align-find", FOUND),
    Command("convert", CONVERT, (A,)),
    Command("convert-back", BACK, (A, CONVERT)),
    Command("convert-overwrite", (*BACK, "--lang", "eng", "--overwrite"), (A, CONVERT, BACK), long=True),
    Command("prepare", PREPARE, parts=True),
    Command("train", TRAIN, (PREPARE,), (*TRAIN, "--resume"), adds=True, parts=True),
    Command("train-maps", MAPS, (A, B), (*MAPS, "--resume"), adds=True, parts=True, long=True),
    Command("tune", TUNE),
    Command("tune-texts", TUNE_TEXTS, (A, B), long=True),
    Command("tune-save", ("tune", "a.emb", "b.emb", "--save-threshold", "found.json"), (A, B), long=True),
    Command("project", PROJECT, (A, B, MAPS)),
    Command(
        "project-overwrite", (*PROJECT, "--part", "language", "--overwrite"), (A, B, MAPS, PROJECT), long=True
    ),
    Command("split", SPLIT),
    Command("split-again", SPLIT, ((*SPLIT, "--off", "boilerplate", "--on", "long=200"),), long=True),
    Command("split-near", (*SPLIT, "--on", "near-duplicate"), long=True),
    Command("filter", FILTER),
    Command("filter-again", (*FILTER, "--on", "duplicate-source"), (FILTER,), long=True),
    Command("langid", ("langid", "a.txt", "-o", "l.tsv")),
    Command("score", SCORE),
    Command("classifier-train", ("classifier", "train", "gold.tsv", "--model", "enc", "-o", "own.json")),
    Command("review", ("review", "mined.tsv", "-o", "review.html")),
    Command("search", ("search", *WITH, "a2.txt", "b.emb", "-o", "found.tsv"), (B,)),
    Command("export", ("export", "enc", "-o", "exported")),
    Command(
        "export-overwrite", ("export", "enc", "-o", "exported", "--dtype", "fp16", "--overwrite"), long=True
    ),
    Command("augment", ("augment", "b.txt", "-o", "hard")),
    Command("eval", XSIM, parts=True),
    Command("eval-attention", (*ATTENTION, "--picture", "heads.png"), parts=True, long=True),
    Command("eval-tokens", (*TOKENS, "--picture", "nearest.svg"), parts=True, long=True),
    Command("eval-tatoeba", (*TATOEBA, "--plot", "clouds.png"), parts=True, long=True),
    Command("eval-leakage", (*LEAKAGE, "--plot", "parts.png"), (A, B, MAPS), parts=True, long=True),
    Command("eval-codeswitch", CODESWITCH),
    Command("report-page", ("report", "xsim.result.json", "-o", "page.html"), (XSIM,)),
    Command("report-curves", ("report", "maps", "-o", "curves.png"), (A, B, MAPS), long=True),
    Command("demo", ("demo", "shown"), parts=True, long=True),
    Command("new-language", NEW, adds=True, parts=True, long=True),
    Command("run", RUN, parts=True),
    Command("run-sent", (*RUN, "--set", "output.to=sent"), parts=True),
    Command(
        "run-changed", (*RUN, "--set", "mine.threshold=1", "--set", "mine.k=3"), (RUN,), parts=True, long=True
    ),
    Command("run-auto", (*RUN, *AUTO), parts=True, long=True),
    Command("run-crawl", (*CRAWL, "--executor", "slurm"), parts=True),
    Command("run-align", (*NEWS, "--executor", "ray"), parts=True),
]
READING = {"recipes", "languages", "info", "doctor"}
"""Commands that write nothing of the user's; `doctor --warm` fills the cache of compiled loops."""


def inputs(folder: Path, encoder: Path) -> None:
    """The files that commands begin with: texts, an encoder, recipes; and some of the user's own."""
    for name in THEIRS:
        write(folder / name, f"my own {name}")
    pairs = [pair.split("\t") for pair in demo_pairs(400)]
    write(folder / "a.txt", *(spanish for spanish, _ in pairs[:110]))
    write(folder / "b.txt", *(english for _, english in pairs[:110]))
    write(folder / "a2.txt", *(spanish for spanish, _ in pairs[110:180]))
    write(folder / "gold.tsv", *map("\t".join, pairs[:110]))
    write(folder / "many.tsv", *map("\t".join, pairs))
    mined = zip(pairs[:110], [*pairs[:80], *pairs[81:110], pairs[80]], strict=True)  # the last 30 are wrong
    scored = [f"{1.5 - place / 200:.3f}\t{one[0]}\t{other[1]}" for place, (one, other) in enumerate(mined)]
    write(folder / "mined.tsv", *scored)
    write(folder / "words.txt", "de of", "la the", "que that", "en in", "no not", "el the", "un a", "es is")
    shutil.copytree(encoder, folder / "enc")
    for side, (code, name) in enumerate((("spa", "a"), ("eng", "b"))):
        write(folder / f"{name}.docs", *(f"d{row // 10}" for row in range(110)))
        write(folder / f"dev/{code}_Latn.txt", *(pair[side] for pair in pairs[:30]))
        write(folder / f"tatoeba/tatoeba.spa-eng.{code}", *(pair[side] for pair in pairs[:40]))
        documents = [[pair[side] for pair in pairs[row : row + 4]] for row in range(0, 60, 4)]
        lines = [{"id": f"d{row}", "text": " ".join(text)} for row, text in enumerate(documents)]
        write(folder / f"{code}.jsonl", *map(json.dumps, lines))
    for row in range(12):
        write(folder / f"spa/{row}.txt", *(pair[0] for pair in pairs[4 * row : 4 * row + 4]))
        write(folder / f"copies/{row * 7 % 12}.txt", *(pair[0] for pair in pairs[4 * row : 4 * row + 4]))
    for name, content in _recipes().items():
        (folder / f"{name}.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")


def _recipes() -> dict[str, dict[str, Any]]:
    corpus = {"name": "own", "format": "tsv", "path": "gold.tsv", "languages": ["spa_Latn"]}
    trainer = {"batch_pairs": 8, "log_every": 1, "checkpoint_every": 2, "device": "cpu", "steps": 4}
    training = {
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

    def texts(form: str, **how: Any) -> dict[str, Any]:
        return {code: {"input": form.format(code)} | how for code in ("spa", "eng")}

    whole = {
        "kind": "corpus",
        "name": "c",
        "run": "out",
        "encoder": {"model": "enc", "device": "cpu", "dtype": "fp32"},
        "languages": {"spa": {"input": "a.txt"}, "eng": {"input": "b.txt"}},
        "pairs": [["spa", "eng"]],
        "mine": {"threshold": 0.1},
        "units": {"lines": 60, "tile": 60},
    }
    documents = texts("{}.jsonl", split={"off": ["language", "boilerplate"], "rejects": True})
    crawl = {
        "languages": documents,
        "mine": {"index": "IVF4,Flat", "recall": 0.5},
        "filter": {"rejects": True},
    }
    news = {"languages": documents, "align": {}, "output": {"format": "moses", "compression": "gz"}}
    return {
        "recipe": training,
        "maps": maps,
        "corpus": whole,
        "crawl": whole | crawl,
        "news": whole | news | {"ray": {"gpus": 1}},
    }
