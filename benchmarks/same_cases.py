"""What `same.py` compares: the commands, their recipes, and the files that they begin with.

A case is a name and its command lines, one a line. They run in one folder, in which each case has a folder of
its name, and there its outputs. To add a command, add a line; to add a case, add a key. What else counts:

- A case whose files are named (`embed/spa.emb`), in a command or in a recipe, runs before.
- `NAME <FILE` reads stdin from a file. `fails NAME ...` is a mistake: its exit code must not be 0.
- `RECIPES` has the YAML files of cases; in the commands they are `CASE/NAME.yaml`.
- `OF_OLD` names cases that read in both checkouts what the old one wrote: the folders of earlier cases are
  copied into the case's own, `opens/embed/spa.emb`.
"""

from __future__ import annotations

import gzip
import html
import json
import random
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import yaml

ROOT = Path(__file__).parent.parent
MARGINS = ("ratio", "distance", "absolute")
RETRIEVALS = ("max", "intersect", "forward", "backward")
FORMATS = {"tsv": "tsv.gz", "jsonl": "jsonl.zst", "moses": "xz", "tmx": "tmx", "parquet": "parquet"}
STEPS = 6
LINES = 1_500
"""Of each text of the demo."""
MANY = 20_800
"""Rows of made-up vectors: so many are not searched as a small search is."""

SYSTEMS: dict[str, list[dict[str, Any]]] = yaml.safe_load("""
train-mexma: [&mexma {name: mexma, head: &head {layers: 1, heads: 2, ffn: 64}}]
train-mexma-one-side:
  - {name: mexma, symmetric: false, align: masked, gamma: 0, token_gradients: false, head: *head}
train-mexma-contrastive:
  - {name: mexma, contrastive: 0.5, margin: 0.1, koleo_normalise: false, hard_negatives: 0.3, head: *head}
train-contrastive: [{name: contrastive, margin: 0.3}]
train-contrastive-tlm: [{name: contrastive, projection: tanh, tlm: {weight: 0.1}}]
train-dap: [{name: dap, rtl: {ratio: 0.5, direction: both, layers: 1}}]
train-clft: [{name: clft}]
train-clft-mini: [{name: clft, teacher: mini}]
train-bag: [{name: bag}]
train-bag-mexma:
  - {name: bag, token_dropout: 0.1, own_tokens: 100, ngrams: [3, 4], consonants: [3], keep_ngrams: true,
     width: 48, own_share: 0.6, inner_weight: 0.7, length_power: 0.6, whitening: 0.2}
  - *mexma
""")
"""The objectives of a training's phases, by the case's name."""
DECOMPOSERS: dict[str, dict[str, Any]] = yaml.safe_load("""
maps-dream: {name: dream}
maps-meat: {name: meat, intra_class: 1.0, inter_class: 1.0, ic_group: language}
maps-oracle: {name: oracle, intra_class: 1.0, inter_class: 1.0, is_mode: language_language}
""")


def training(case: str, objectives: list[dict[str, Any]]) -> dict[str, Any]:
    """A recipe of a few steps for each objective, on the demo's translations."""
    corpus = {"name": "demo", "format": "tsv", "path": "gold.tsv", "languages": ["spa_Latn"]}
    new = {"layers": 2, "width": 32, "heads": 2, "ffn": 64}
    trainer = {
        "steps": STEPS, "batch_pairs": 16, "learning_rate": 0.003, "eps": 1e-4, "average": 0.9,
        "log_every": 1, "checkpoint_every": 4, "device": "cpu", "precision": "fp32",
    }  # fmt: skip
    hard = 2 if any(objective.get("hard_negatives") for objective in objectives) else 0
    return {
        "name": "same",
        "run": f"{case}/run",
        "data": {
            "root": "text", "store": f"{case}/data", "max_tokens": 40, "negatives": hard, "corpora": [corpus],
        },
        "encoder": {
            "new": new,
            "tokenizer": {"vocabulary": 900, "words": 500, "lowercase": True, "latin": True},
        },
        "dev": {"path": "few.spa", "target_path": "few.eng", "languages": ["spa_Latn"]},
        "phases": [
            {"name": f"phase-{number}", "objective": objective} for number, objective in enumerate(objectives)
        ],
        "trainer": trainer,
    }  # fmt: skip


def decomposing(case: str, objective: dict[str, Any]) -> dict[str, Any]:
    """A recipe of three epochs on the vectors of the demo's translations."""
    return {
        "kind": "decompose",
        "name": "same",
        "run": f"{case}/run",
        "encoder": "mini",
        "data": {"pairs": [{"source": "embed/gold-eng.emb", "target": "embed/gold-spa.emb"}]},
        "objective": objective,
        "trainer": {"batch": 128, "epochs": 3, "learning_rate": 0.001, "device": "cpu"},
    }


def preparing(**data: Any) -> dict[str, Any]:
    """A recipe for `prepare` alone, of some corpora."""
    return {
        "name": "same",
        "run": "prepare/run",
        "data": {"root": "text", "max_tokens": 40} | data,
        "encoder": {"new": {"layers": 1, "width": 16, "heads": 2}, "tokenizer": {"vocabulary": 600}},
        "objective": {"name": "contrastive", "hard_negatives": 0.5 if data.get("negatives") else 0},
        "trainer": {"steps": 1},
    }


def corpus(name: str, **keys: Any) -> dict[str, Any]:
    """A recipe for `run`: three texts, in units of some hundred lines."""
    texts = {code: {"input": f"{code}.txt"} for code in ("spa", "por", "eng")}
    return (
        {
            "kind": "corpus",
            "name": name,
            "run": f"{name}/run",
            "root": "text/corpus",
            "languages": texts,
            "units": {"lines": 400, "tile": 300},
        }
        | keys
        | {"mine": {"margin": "ratio"} | keys.get("mine", {})}
    )


SPLIT = {code: {"input": f"{code}.jsonl", "split": {"off": ["language"]}} for code in ("spa", "eng")}
RECIPES: dict[str, dict[str, Any]] = {
    **{case: {"recipe": training(case, objectives)} for case, objectives in SYSTEMS.items()},
    **{case: {"recipe": decomposing(case, objective)} for case, objective in DECOMPOSERS.items()},
    "train-from": {
        "recipe": training("train-from", [{"name": "mexma", "head": {"layers": 1, "heads": 4, "ffn": 64}}])
        | {"encoder": {"from": "text/tiny", "attention_dropout": 0.1}}
    },
    "prepare": {
        "tsv": preparing(
            store="prepare/tsv",
            exclude=["exclude.txt"],
            cap_per_language=700,
            rules={"copy": True, "digits": 0.2},
            corpora=[
                {"name": "own", "format": "tsv", "path": "pairs.tsv", "languages": ["spa_Latn"], "cap": 500},
                {"name": "all", "format": "tsv", "path": "gold.tsv", "languages": ["spa_Latn"], "repeat": 2},
            ],
        ),
        "aligned": preparing(
            store="prepare/aligned",
            negatives=3,
            corpora=[
                {
                    "name": "sides", "format": "aligned", "languages": ["spa_Latn"],
                    "source_path": "gold.spa", "target_path": "gold.eng",
                    "keep": {"path": "gold.docs", "value": "3"},
                },
                {
                    "name": "columns", "format": "tsv", "path": "negatives.tsv", "languages": ["spa_Latn"],
                    "negatives": "columns",
                },
            ],
        ),
        "opus": preparing(
            store="prepare/opus",
            languages=["spa_Latn", "fra_Latn"],
            corpora=[{"name": "opus", "format": "opus", "path": "opus"}],
        ),
    },
    "run": {
        "exact": corpus("run", mine={"threshold": 1.02}, output={"with_ids": True, "compression": "gz"}),
    },
    "run-auto": {
        "auto": corpus(
            "run-auto",
            pairs=[["spa", "eng"]],
            languages={
                "spa": {"input": "../spa.txt", "clean": True},
                "eng": {"input": "../eng.txt"},
            },
            mine={"threshold": "auto", "margin": "distance", "k": 3, "drop_copies": True},
            filter={"rejects": True},
        ),
    },
    "run-index": {
        "index": corpus("run-index", pairs="eng", mine={"index": "IVF8,Flat", "retrieval": "intersect"}),
    },
    "run-split": {
        "split": corpus(
            "run-split", languages=SPLIT, align={"max_size": 3}, output={"format": "jsonl"}
        ),
        "within": corpus(
            "run-split", run="run-split/within", languages=SPLIT, mine={"within": True}, filter={}
        ),
    },
}  # fmt: skip

SETS = "--set encoder.new='{layers: 1, width: 32, heads: 2, ffn: 32, dropout: 0}'"
for change in (
    "encoder.tokenizer.vocabulary=700", "encoder.tokenizer.words=300", "objective.own_tokens=300",
    "objective.width=40", f"trainer.steps={STEPS}", "trainer.batch_pairs=64",
):  # fmt: skip
    SETS += f" --set {change}"
TINY = "--model text/tiny --dtype fp32"
SIDES = "--source-lang spa --target-lang eng"
STORES = "embed/spa.emb embed/eng.emb"
WITHIN = "--within text/spa.docs text/eng.docs"


HELP = """
align augment convert demo doctor embed eval export filter info knn langid languages merge mine new-language
prepare project recipes report run score search split train tune
"""


def lines(*commands: str) -> str:
    return "\n".join(commands)


CASES: dict[str, str] = {
    # Encoders and their stores.
    "embed": """
        embed --lang spa text/spa.txt -o embed/spa.emb
        embed --lang eng text/eng.txt -o embed/eng.emb --json
        embed --lang eng text/gold.eng -o embed/fp32.emb --dtype fp32 --clean --max-tokens 12
        embed --lang eng text/few.eng -o embed/bf16.emb --dtype bf16 --store-dtype float32
        embed --lang eng text/few.eng -o embed/long.emb --no-normalise
        embed --lang spa text/gold.spa -o embed/gold-spa.emb
        embed --lang eng text/gold.eng -o embed/gold-eng.emb
        embed - -o embed/stdin.emb <text/dirty.txt
        embed text/dirty.txt.zst --clean -o embed/dirty.emb
        embed text/dirty.txt.zst --clean -o embed/dirty.emb
        fails embed text/nothing.txt -o embed/nothing.emb
        fails embed text/few.spa -o embed/spa.emb
    """,
    "embed-tiny": f"""
        embed {TINY} --lang spa text/few.spa -o embed-tiny/spa.emb
        embed {TINY} --lang eng text/few.eng -o embed-tiny/eng.emb --pooling mean --prompt 'query: '
        embed {TINY} --lang eng text/dirty.txt -o embed-tiny/eng.emb --overwrite --max-tokens 9
        embed --model text/tiny --dtype bf16 text/few.eng -o embed-tiny/bf16.emb
    """,
    "shards": """
        embed --lang spa text/spa.txt --shard 1/3 -o shards/spa.emb
        embed --lang spa text/spa.txt --shard 2/3 -o shards/spa.emb
        embed --lang spa text/spa.txt --shard 3/3 -o shards/spa.emb
        merge shards/spa.00002-of-00003.emb shards/spa.00001-of-00003.emb shards/spa.00003-of-00003.emb -o \
shards/all.emb
        merge shards/all.emb embed/gold-spa.emb -o shards/more.emb --json
        fails merge shards/spa.00001-of-00003.emb shards/spa.00002-of-00003.emb -o shards/some.emb
        fails merge shards/all.emb embed/eng.emb -o shards/mixed.emb
        embed --lang spa text/few.spa -o shards/some.emb
        embed --lang spa text/dirty.txt -o shards/some.emb --append
        info shards/some.emb
    """,
    "convert": """
        convert embed/spa.emb -o convert/spa.f32
        convert convert/spa.f32 --dim 320 --text text/spa.txt --lang spa -o convert/spa.emb
        convert embed/spa.emb -o convert/spa.npy --dtype float16
        convert convert/spa.npy --text text/spa.txt --lang spa -o convert/npy.emb
        convert embed/bf16.emb -o convert/eng.npy
        convert convert/eng.npy --text text/few.eng -o convert/eng.emb --overwrite
        convert embed/spa.emb -o - --dtype float16
        fails convert convert/spa.f32 --dim 319 --text text/spa.txt -o convert/wrong.emb
        score convert/npy.emb convert/npy.emb --margin absolute --scores-only
    """,
    "export": """
        export mini -o export/mini --dtype fp16
        export text/tiny -o export/tiny
        embed --model export/tiny text/few.eng -o export/tiny.emb
        embed --model export/mini text/few.eng -o export/mini.emb
    """,
    "info": """
        info embed/spa.emb
        info embed/spa.emb --json
        info embed-tiny/eng.emb
        info mini --json
        info text/tiny
        info text/dirty.txt
        info text/spa.txt --json
        fails info text/nothing
    """,
    # Neighbours and pairs.
    "knn": f"""
        knn {STORES} -k 16 -o knn/exact.knn --json
        knn {STORES} -k 1 -o knn/one.knn
        knn {STORES} -k 4 --memory 3G -o knn/memory.knn
        knn text/few.spa text/few.eng -k 300 -o knn/most.knn
        knn embed/dirty.emb embed/eng.emb -k 5 -o knn/dirty.knn
        knn {STORES} -k 4 --index IVF16,Flat -o knn/index.knn
        knn {STORES} -k 4 --index auto -o knn/auto.knn
        knn {STORES} -k 4 --index HNSW16 --recall 0.9 -o knn/hnsw.knn
        knn {STORES} -k 4 --index IVF16,PQ16x4fs --recall 0.8 --memory 3G -o knn/fs.knn
        fails knn {STORES} -o knn/little.knn --memory 10M
        fails knn {STORES} -o knn/exact.knn -k 2
        knn {STORES} -o knn/exact.knn -k 2 --overwrite
    """,
    "many": """
        convert text/many/x.npy --text text/many/x.txt --lang spa -o many/x.emb
        convert text/many/y.npy --text text/many/y.txt --lang eng -o many/y.emb
        knn many/x.emb many/y.emb -k 4 -o many/xy.knn
        mine many/x.emb many/y.emb --neighbours many/xy.knn -k 3 -o many/pairs.tsv
        mine many/x.emb many/y.emb --memory 2G --retrieval forward --with-ids -o many/forward.tsv
        knn many/x.emb many/y.emb -k 4 --index IVF128,PQ80x4fs --recall 0.8 -o many/index.knn
    """,
    "mine": lines(
        *(
            f"mine {STORES} --margin {margin} --retrieval {retrieval}"
            for margin in MARGINS
            for retrieval in RETRIEVALS
        ),
        *(f"mine {STORES} --margin {margin} --all-candidates --with-ids" for margin in MARGINS),
    ),
    "mine-more": f"""
        mine {STORES} -k 16 --all-candidates --with-ids --top 4000
        mine {STORES} --threshold 1.05 --max-score 1.5 --drop-copies --report mine-more/report.json
        mine {STORES} --memory 3G
        mine {STORES} --memory 3G --retrieval intersect -k 1
        mine text/gold.spa text/gold.eng {SIDES} -o mine-more/gold.tsv
        mine - text/few.eng <text/few.spa
        mine text/dirty.txt text/spa.txt --top 50
        mine embed/dirty.emb text/eng.txt -k 2
        mine {TINY} text/few.spa text/few.eng
        mine {STORES} --neighbours knn/exact.knn --margin distance -k 2
        mine {STORES} --neighbours knn/index.knn
        mine {STORES} --index IVF16,Flat
        mine {STORES} --index HNSW16 --retrieval backward --memory 3G
        fails mine {STORES} --neighbours knn/exact.knn -k 3
        fails mine {STORES} --memory 10M
        fails mine {STORES} --margin rato
        fails mine embed/spa.emb embed-tiny/eng.emb
    """,
    "mine-formats": lines(
        *(f"mine {STORES} --format {name} -o mine-formats/p.{end}" for name, end in FORMATS.items()),
        *(
            f"mine {STORES} --with-ids --format {name} -o mine-formats/ids-{name}"
            for name in ("tsv", "tmx", "parquet")
        ),
        f"mine {STORES} --format jsonl",
        f"mine {STORES} --format tmx --top 100",
    ),
    "within": lines(
        *(
            f"mine {STORES} {WITHIN} --margin {margin} {more}"
            for margin, more in (
                ("ratio", ""),
                ("distance", "--all-candidates --with-ids"),
                ("absolute", "--document-pairs text/documents.tsv -k 2"),
            )
        ),
        f"mine {STORES} {WITHIN} --retrieval forward --report within/report.json",
        f"mine {STORES} {WITHIN} --memory 3G",
        f"mine text/spa.txt text/eng.txt {WITHIN} --document-pairs text/documents.tsv --retrieval backward",
    ),
    "one-text": """
        mine embed/spa.emb
        mine embed/spa.emb --threshold 1.1 --with-ids -k 8
        mine embed/spa.emb --margin distance --retrieval forward --drop-copies
        mine embed/spa.emb --margin absolute --all-candidates --top 500
        mine text/dirty.txt --retrieval intersect --memory 3G
        mine embed/spa.emb --index IVF16,Flat -o one-text/pairs.jsonl
    """,
    "align": f"""
        align text/jonah/fra text/jonah/eng -o align/jonah.align --unaligned align/rest --report align/j.json
        align text/jonah/fra text/jonah/eng --max-size 2 --keep 1-1 --with-ids
        align 'text/jonah/fra/*.txt' 'text/jonah/eng/*.txt' -o align/jonah.jsonl.gz --threshold 0.4
        align text/jonah/fra/1.txt text/jonah/eng/1.txt --format vecalign
        align {STORES} --docs text/spa.docs text/eng.docs --document-pairs text/documents.tsv -o align/d.tsv
        align text/long.spa text/long.eng {SIDES} -o align/long.tmx --plot align/long.svg
        align text/mixed.spa text/mixed.eng --docs text/mixed-spa.docs text/mixed-eng.docs --with-ids
        align text/mixed.spa text/mixed.eng --docs text/mixed-spa.docs text/mixed-eng.docs --find-documents \
-o align/found.parquet
        align text/mixed.spa text/mixed.eng --docs text/mixed-spa.docs text/mixed-eng.docs --shard 2/3 \
-o align/part.tsv
        align text/mixed.spa text/mixed.eng --docs text/mixed-spa.docs text/mixed-eng.docs --format moses \
{SIDES} -o align/moses.gz
        align {TINY} text/few.spa text/few.eng
        fails align text/few.spa text/nothing
        eval align align/jonah.align align/jonah.align --json
    """,
    # Pairs that are there already.
    "score": lines(
        *(f"score text/gold.spa text/gold.eng --margin {margin}" for margin in MARGINS),
        "score embed/gold-spa.emb embed/gold-eng.emb --background embed/spa.emb embed/eng.emb",
        "score text/gold.tsv --scores-only -k 2",
        "score text/gold.tsv --json --margin absolute",
        "score - -o score/dirty.jsonl <text/pairs.tsv",
        "score mine-more/gold.tsv --background text/spa.txt text/eng.txt -o score/again.tsv.gz",
        "fails score text/few.spa text/gold.eng",
    ),
    "search": lines(
        *(f"search text/gold.spa embed/eng.emb --margin {margin}" for margin in MARGINS),
        f"search {STORES} -n 3 -k 2",
        f"search {STORES} -n 1 -o search/best.jsonl",
        "search --query 'No me gusta.' embed/eng.emb",
        "search --query 'No me gusta.' embed/eng.emb -n 20 --json",
        "search text/dirty.txt text/few.eng",
    ),
    "tune": """
        tune mine-more/gold.tsv --gold text/gold.tsv -o tune/kept.tsv
        tune mine-more/gold.tsv --gold text/gold.tsv --precision 0.95 --json
        tune mine-more/gold.tsv --gold text/ids.tsv --source text/ids.spa --target text/ids.eng
        tune mine-formats/p.jsonl.zst --gold text/gold.tsv --plot tune/scores.png
        fails tune mine-more/gold.tsv --gold text/few.spa
    """,
    "tune-texts": f"""
        tune {STORES}
        tune {STORES} --precision 0.9 --margin distance --json
        tune {STORES} --retrieval intersect -k 2
        fails tune {STORES} -o tune-texts/kept.tsv
        tune {STORES} --drop-copies --precision 0.8 --save-threshold tune-texts/kept.json
        mine {STORES} --precision 0.8
        tune {STORES} {WITHIN} --json
    """,
    "filter": """
        filter text/pairs.tsv --source-lang spa --target-lang eng -o filter/a.tsv --rejects filter/r.tsv \
--report filter/report.json
        filter text/pairs.tsv --off all --on ratio=2 --on duplicate-source
        filter text/gold.spa text/gold.eng --off duplicate --on few-words=4 --on url
        filter mine-more/gold.tsv --on low-score=1.1 --on high-score=1.3 --off numbers
        filter mine-formats/p.jsonl.zst --on duplicate-target -o filter/b.tmx --source-lang spa \
--target-lang eng
        filter - --exclude text/exclude.txt --lid none <text/pairs.tsv
        filter text/pairs.tsv --lid-model text/lid.bin --source-lang spa --target-lang eng
        filter mine-formats/p.tmx --format jsonl --source-lang spa --target-lang eng
        fails filter text/pairs.tsv --on nonsense
    """,
    # Documents and languages.
    "split": """
        split text/documents/spa.txt --lang spa -o split/line.txt --rejects split/line.rejects
        split text/documents/spa.txt --lang spa --document blank -o split/blank.txt.gz --workers 2
        split text/documents/spa.txt --lang spa --document file -o split/file.txt --splitter moses
        split text/documents/eng.jsonl --lang eng -o split/jsonl.txt.zst --on boilerplate=3 --on url
        split text/documents/eng.jsonl --lang eng --text-field body --id-field url -o split/fields.txt
        split text/documents/both.tmx --lang spa -o split/tmx.txt
        split text/documents/pages --lang spa -o split/html.txt --rejects split/html.rejects
        split text/documents/pages.warc.gz --lang spa -o split/warc.txt
        split text/documents/pages.warc.gz --lang spa --error-pages --keep-html -o split/errors.txt
        split text/jonah/fra --lang fra -o split/jonah.txt --lid heliport --on near-duplicate=0.6
        split text/dirty.txt --lang spa -o split/dirty.txt --rejects split/dirty.rejects --off language
        split text/dirty.txt --lang spa -o split/lid.txt --lid-model text/lid.bin
        fails split text/nothing --lang spa -o split/nothing.txt
    """,
    "langid": """
        langid text/dirty.txt text/jonah/fra/1.txt
        langid --lid heliport <text/dirty.txt
        langid --lid-model text/lid.bin text/few.spa -o langid/few.tsv.gz
        languages
        languages pt_BR zh-TW iw --json
        recipes
        recipes one-language
    """,
    # Trainings.
    "prepare": """
        prepare prepare/tsv.yaml --workers 1
        prepare prepare/tsv.yaml --workers 1
        prepare prepare/aligned.yaml --json --workers 2
        prepare prepare/opus.yaml
        prepare 81langs --script
        info prepare/tsv/own.spa_Latn
        info prepare/opus --json
        fails prepare prepare/tsv.yaml --set data.max_charz=3
    """,
    **{case: f"train {case}/recipe.yaml" for case in SYSTEMS},
    "train-more": """
        train train-mexma/recipe.yaml --set run=train-more/run --set data.store=train-more/data \
--set trainer.schedule=linear --set trainer.accumulate=3 --set trainer.export=best --set trainer.dev_every=2
        train train-more/run/recipe.yaml --resume --json
        info train-more/run
        report train-more/run train-mexma/run
        report train-more/run --json
        train train-mexma/recipe.yaml --dry-run
        embed --model train-more/run text/few.spa -o train-more/spa.emb
        train train-mexma/recipe.yaml --set run=train-more/two --set data.store=train-more/data \
--nproc-per-node 2 --set trainer.steps=3 --set trainer.batch_pairs=8
        fails train train-mexma/recipe.yaml
    """,
    "train-from": "train train-from/recipe.yaml",
    **{
        case: lines(
            f"train {case}/recipe.yaml",
            f"project embed/spa.emb --with {case}/run -o {case}/spa.emb",
            f"project embed/spa.emb --with {case}/run --part language -o {case}/language.emb",
        )
        for case in DECOMPOSERS
    },
    "new-language": f"""
        new-language spa text/gold.tsv -o new-language/run {SETS}
        new-language spa text/gold.tsv -o new-language/run {SETS}
    """,
    # Runs of many languages.
    "run": """
        run run/exact.yaml --jobs 2
        run run/exact.yaml
        run run/exact.yaml --set mine.threshold=1.1 --pairs spa-eng --set run=run/one
        run run/exact.yaml --status --json
        mine run/run/spa_Latn/spa_Latn.emb run/run/eng_Latn/eng_Latn.emb \
-k 3 --margin distance --thresholds run-auto/run/thresholds.json
    """,
    "run-auto": "run run-auto/auto.yaml",
    "run-index": "run run-index/index.yaml",
    "run-split": """
        run run-split/split.yaml
        run run-split/within.yaml
        run run-split/split.yaml --only split --set run=run-split/only
    """,
    # Measures.
    "eval": """
        augment text/flores/devtest/eng_Latn.devtest -o eval/hard --json
        augment text/gold.eng -o eval/augmented --seed 3
        eval xsim text/flores --cache none -o eval/xsim.json
        eval xsim text/flores --cache eval/cache --json
        eval xsim text/flores --cache eval/cache --margin distance
        eval xsimpp text/flores --augmented eval/hard --cache none
        eval tatoeba text/tatoeba --cache none -o eval/tatoeba.json
        eval tatoeba text/tatoeba --cache none --beside mini --plot eval/two.svg
        eval bucc text/bucc --cache none -o eval/bucc.json
        eval sts text/sts.tsv --cache none --json
        eval codeswitch text/gold.spa text/gold.eng --dictionary text/dictionary.txt --lang spa \
-o eval/switched
        eval leakage text/tatoeba --with maps-meat/run --cache none
        eval tokens text/flores --model text/tiny --cache none
        eval attention text/flores --model text/tiny --cache none --json
        eval pooling --xsim text/flores --model text/tiny --cache none
        eval senteval text/senteval --model text/tiny --kfold 3 --cache none --json
        eval xnli text/xnli --model text/tiny --batch 8 --epochs 1 --cache none --json
        report eval/xsim.json eval/tatoeba.json
        report eval/xsim.json eval/bucc.json --json
        report eval/xsim.json eval/tatoeba.json -o eval/page.html
        fails eval xsim text/nothing
    """,
    "demo": "demo demo/out",
    "help": lines("--help", *(f"{command} --help" for command in HELP.split())),
    # What the old checkout wrote is read by both.
    "opens": """
        info opens/embed/spa.emb
        info opens/embed/dirty.emb --json
        info opens/embed-tiny/eng.emb
        info opens/prepare/tsv/own.spa_Latn
        mine opens/embed/spa.emb opens/embed/eng.emb
        mine opens/embed/spa.emb opens/embed/eng.emb --neighbours opens/knn/exact.knn -k 2 --margin distance
        mine opens/embed/spa.emb opens/embed/eng.emb --neighbours opens/knn/index.knn
        mine opens/many/x.emb opens/many/y.emb --neighbours opens/many/xy.knn -o opens/many.tsv
        align opens/embed/spa.emb opens/embed/eng.emb -o opens/aligned.tsv --docs text/spa.docs text/eng.docs
        merge opens/shards/spa.00001-of-00003.emb opens/shards/spa.00002-of-00003.emb \
opens/shards/spa.00003-of-00003.emb -o opens/all.emb
        embed --lang spa text/few.spa -o opens/shards/some.emb --append
        search opens/convert/npy.emb opens/convert/spa.emb
        train train-mexma/recipe.yaml --set data.store=opens/train-mexma/data --set run=opens/run
        project opens/embed/spa.emb --with opens/maps-meat/run -o opens/meaning.emb
        embed --model opens/train-mexma/run text/few.spa -o opens/trained.emb
    """,
}
OF_OLD = {
    "opens": (
        "embed",
        "embed-tiny",
        "knn",
        "many",
        "shards",
        "convert",
        "prepare",
        "train-mexma",
        "maps-meat",
    )
}


def write_inputs(folder: Path) -> None:
    """Write all that the commands begin with, `folder/text`; the same bytes every time."""
    text = folder / "text"
    examples = ROOT / "examples" / "spa-eng"
    gold = [tuple(line.split("\t")[:2]) for line in _read(examples / "gold.tsv")]
    source = _read(examples / "spa.txt")[:LINES]
    inside = {b for a, b in gold if a in {*source}}
    known = [(a, b) for a, b in gold if a not in {*source}]
    others = [line for line in _read(examples / "eng.txt") if line not in {b for _, b in gold}]
    target = [*sorted(inside), *others][:LINES]
    random.Random(0).shuffle(target)
    for side, name in enumerate(("spa", "eng")):
        _put(text / f"known.{name}", (pair[side] for pair in known))
    _write_demo(text, source, target, gold)
    _write_dirty(text, source, gold)
    _write_documents(text, source, gold)
    _write_corpora(text, source, target, gold)
    _write_measures(text, gold)
    _write_many(text / "many")
    write_encoder(text / "tiny", [side for pair in gold for side in pair])
    lid = ROOT / "tests" / "fixtures" / "lid.bin"
    (text / "lid.bin").write_bytes(lid.read_bytes())


Pairs = list[tuple[str, ...]]


def _read(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()


def _put(path: Path, rows: Iterable[object]) -> None:
    """Write lines to a new file, compressed if its name says so."""
    path.parent.mkdir(parents=True, exist_ok=True)
    content = "".join(f"{row}\n" for row in rows).encode()
    path.write_bytes(gzip.compress(content, mtime=0) if path.suffix == ".gz" else content)


def _write_demo(text: Path, source: list[str], target: list[str], gold: Pairs) -> None:
    """The demo's texts, their translations, and made-up documents of both."""
    _put(text / "gold.tsv", ("\t".join(pair) for pair in gold))
    _put(text / "gold.docs", (row % 5 for row in range(len(gold))))
    _put(
        text / "documents.tsv", (f"{row}\t{other % 60}" for row in range(60) for other in (row, 7 * row + 1))
    )
    _put(text / "ids.tsv", (f"s{row}\tt{row}" for row in range(0, len(gold), 2)))
    for side, (name, rows) in enumerate((("spa", source), ("eng", target))):
        known = [pair[side] for pair in gold]
        _put(text / f"{name}.txt", rows)
        _put(text / f"{name}.docs", (row % 60 for row in range(len(rows))))
        _put(text / f"gold.{name}", known)
        _put(text / f"few.{name}", known[:200])
        _put(text / f"long.{name}", known[100:400])
        _put(
            text / f"ids.{name}",
            (f"{name[0] if not side else 't'}{row}\t{one}" for row, one in enumerate(known)),
        )


def _write_dirty(text: Path, source: list[str], gold: Pairs) -> None:
    """Lines and pairs with all that rules look for."""
    import zstandard

    dirty = [
        *source[:60], "", "  ", source[3], source[4].upper(), "Lire <b>la suite</b> ici &amp; demain",
        "12 345 678 910 11",
        "Er kam gestern in das Haus meiner Mutter.", "Он пришёл в дом моей матери.", "a", "x" * 70,
        "word " * 300, "Ã© mojibake Ã¼ber", "bell\x07 and \ufffd", "see https://example.org/a?b=c now",
        "aaaaaaaaaaaaaaaaaaa", "\u4f60\u597d\uff0c\u4e16\u754c\u3002", "uno " * 11 + "uno",
        "no\u0301 e\u0301l",
        *source[50:90],
    ]  # fmt: skip
    _put(text / "dirty.txt", dirty)
    (text / "dirty.txt.zst").write_bytes(zstandard.compress((text / "dirty.txt").read_bytes()))
    pairs = [
        *gold[:80], gold[3], (gold[4][0], gold[5][1]), (gold[6][0], gold[7][1]), ("", "Nothing here."),
        ("Igual 2018", "Igual 2018"),
        ("Quedan 12 o 13.", "There are 14 or 15 left."),
        ("Sí.", "Yes, thank you, that is very kind of you, and more."),
        *((line, "It is a dirty line, and this is its translation.") for line in dirty[60:78]),
        *gold[70:120],
    ]  # fmt: skip
    _put(text / "pairs.tsv", ("\t".join(pair) for pair in pairs))
    _put(text / "exclude.txt", (pair[1].upper() for pair in gold[10:20]))
    negatives = ((*pair, f"{pair[1]} Not so.", gold[row + 1][1]) for row, pair in enumerate(gold[:300]))
    _put(text / "negatives.tsv", ("\t".join(row) for row in negatives))


def _write_documents(text: Path, source: list[str], gold: Pairs) -> None:
    """Documents of all kinds, and parallel ones."""
    folder = text / "documents"
    spans = [(first, first + 3 + first % 9) for first in range(0, 700, 12)]
    _put(folder / "spa.txt", (row for first, last in spans for row in (" ".join(source[first:last]), "")))
    rows = [
        {
            "id": f"d{first}",
            "url": f"http://x/{first}",
            "text": " ".join(pair[1] for pair in gold[first:last]),
            "body": "\n".join(pair[1] for pair in gold[first:last]) + "\nHome and imprint.",
        }
        for first, last in spans
    ]
    _put(folder / "eng.jsonl", (*map(json.dumps, rows), "{broken", "7", json.dumps({"id": 1})))
    side = '<tuv xml:lang="{}"><seg>{}</seg></tuv>'
    units = "".join(
        f"<tu>{side.format('es', html.escape(a))}{side.format('en', html.escape(b))}</tu>\n"
        for a, b in gold[:150]
    )
    _put(
        folder / "both.tmx",
        [f'<?xml version="1.0"?><tmx version="1.4"><header srclang="es"/><body>{units}</body></tmx>'],
    )
    records = b""
    for number, (first, last) in enumerate(spans[:8]):
        body = "".join(f"<p>{html.escape(' '.join(source[row : row + 4]))}</p>" for row in range(first, last))
        page = f"<html><body><nav>Inicio</nav><article>{body}</article></body></html>"
        _put(folder / "pages" / f"{number}.html", [page])
        content = f"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n{page}".encode()
        head = (
            f"WARC/1.0\r\nWARC-Type: response\r\nContent-Type: application/http; msgtype=response\r\n"
            f"WARC-Target-URI: http://x/{number}\r\nContent-Length: {len(content)}\r\n"
            f"WARC-Record-ID: <urn:uuid:{number}>\r\nWARC-Date: 2024-01-01T00:00:00Z\r\n\r\n"
        )
        records += gzip.compress(head.encode() + content + b"\r\n\r\n", mtime=0)
    (folder / "pages.warc.gz").write_bytes(records)
    for side, name in enumerate(("spa", "eng")):
        order = spans[:20] if side == 0 else spans[19:2:-1]
        chosen = [(row, first) for first, last in order for row in range(first, last) if side == 0 or row % 7]
        _put(text / f"mixed.{name}", (gold[row][side] for row, _ in chosen))
        _put(text / f"mixed-{name}.docs", (f"doc{first}" for _, first in chosen))
    for path in sorted((ROOT / "examples" / "jonah").glob("*/*.txt")):
        _put(text / "jonah" / path.parent.name / path.name, _read(path))


def _write_corpora(text: Path, source: list[str], target: list[str], gold: Pairs) -> None:
    """Texts for `run` (Portuguese is the other half of the Spanish), and zips as OPUS has them."""
    _put(text / "corpus" / "spa.txt", source[:900])
    _put(text / "corpus" / "por.txt", source[700:1500])
    _put(text / "corpus" / "eng.txt", target[:1300])
    for side, name in enumerate(("spa", "eng")):
        rows = [" ".join(pair[side] for pair in gold[first : first + 7]) for first in range(0, 420, 7)]
        _put(
            text / "corpus" / f"{name}.jsonl",
            (json.dumps({"id": f"d{n}", "text": row}) for n, row in enumerate(rows)),
        )
    (text / "opus").mkdir()
    for code, pairs in (("es", gold[:300]), ("fr", [(f"Le {b}", b) for _, b in gold[300:400]])):
        with zipfile.ZipFile(text / "opus" / f"One_latest_moses_en-{code}.txt.zip", "w") as archive:
            for name, side in ((code, 0), ("en", 1)):
                archive.writestr(f"One.en-{code}.{name}", "".join(f"{pair[side]}\n" for pair in pairs))


def _write_measures(text: Path, gold: Pairs) -> None:
    """Benchmarks in the layouts in which they are published."""
    for side, code in enumerate(("spa", "eng")):
        known = [pair[side] for pair in gold]
        _put(text / "flores" / "devtest" / f"{code}_Latn.devtest", known[:150])
        _put(text / "tatoeba" / f"tatoeba.spa-eng.{code}", known[:200])
        _put(
            text / "bucc" / f"spa-eng.{code}.tsv",
            (f"{code}-{row}\t{one}" for row, one in enumerate(known[:400])),
        )
    _put(text / "bucc" / "spa-eng.gold.tsv", (f"spa-{row}\teng-{row}" for row in range(0, 400, 3)))
    rng = random.Random(0)
    _put(
        text / "sts.tsv",
        (
            f"{rng.uniform(0, 5):.2f}\t{a}\t{gold[row + row % 3][1]}\tx{row % 2}"
            for row, (a, b) in enumerate(gold[:200])
        ),
    )
    words = sorted({word for a, _ in gold[:100] for word in a.lower().split() if word.isalpha()})
    _put(text / "dictionary.txt", (f"{word} {word[::-1]}" for word in words))
    classes = ("entailment", "neutral", "contradictory")
    rows = [f"{gold[n][1]}\t{gold[n + n % 2][1]}\t{classes[n % 3]}" for n in range(48)]
    _put(text / "xnli" / "multinli.train.en.tsv", ["premise\thypo\tlabel", *rows])
    tests = [f"es\t{classes[n % 3]}\t{gold[n][0]}\t{gold[n + 1][0]}" for n in range(30)]
    _put(text / "xnli" / "xnli.test.tsv", ["language\tgold_label\tsentence1\tsentence2", *tests])
    films = ["good", "fine", "bad", "poor"]
    for name, count in (
        ("MR.tsv", 60),
        ("TREC.train.tsv", 40),
        ("TREC.test.tsv", 12),
        ("MRPC.train.tsv", 40),
    ):
        pair = "\tanother film" if name.startswith("MRPC") else ""
        _put(text / "senteval" / name, (f"{n % 4 // 2}\t{films[n % 4]} film {n}{pair}" for n in range(count)))


def _write_many(folder: Path) -> None:
    """Vectors that nobody embedded, around topics."""
    folder.mkdir()
    rng = np.random.default_rng(0)
    topics = rng.standard_normal((500, 320), dtype=np.float32)
    for name in "xy":
        vectors = topics[rng.integers(0, 500, MANY)] + 0.8 * rng.standard_normal(
            (MANY, 320), dtype=np.float32
        )
        np.save(folder / f"{name}.npy", vectors)
        _put(folder / f"{name}.txt", (f"{name} {row}" for row in range(MANY)))


def write_encoder(folder: Path, text: list[str], width: int = 32, layers: int = 2) -> None:
    """An untrained XLM-R; its tokeniser has the characters and the most frequent words."""
    import torch
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast, XLMRobertaConfig, XLMRobertaModel

    words = [f"\u2581{word}" for line in text for word in line.split()]
    counts = {word: words.count(word) for word in sorted(set(words[:4000]))}
    frequent = sorted(counts, key=lambda word: (-counts[word], word))[:400]
    letters = sorted({letter for line in text for letter in line if letter != " "} | {"\u2581"})
    names = {"bos_token": "<s>", "pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"}
    pieces = [(token, 0.0) for token in names.values()]
    pieces += [(word, -8.0) for word in frequent if len(word) > 1] + [(letter, -11.0) for letter in letters]
    pieces += [("<mask>", 0.0)]
    tokenizer = Tokenizer(models.Unigram(pieces, unk_id=3, byte_fallback=False))
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    named = names | {"cls_token": "<s>", "sep_token": "</s>", "mask_token": "<mask>"}
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=64, **named)
    torch.manual_seed(0)
    config = XLMRobertaConfig(
        vocab_size=len(fast), hidden_size=width, num_hidden_layers=layers, num_attention_heads=4,
        intermediate_size=2 * width, max_position_embeddings=66, type_vocab_size=1, initializer_range=0.3,
    )  # fmt: skip
    XLMRobertaModel(config, add_pooling_layer=False).save_pretrained(folder)
    fast.save_pretrained(folder)
    pooling = {
        "word_embedding_dimension": width,
        "pooling_mode_cls_token": True,
        "pooling_mode_mean_tokens": False,
    }
    kinds = "sentence_transformers.models."
    modules = [
        {"idx": 0, "name": "0", "path": "", "type": f"{kinds}Transformer"},
        {"idx": 1, "name": "1", "path": "1_Pooling", "type": f"{kinds}Pooling"},
    ]
    files = {
        "1_Pooling/config.json": pooling,
        "modules.json": modules,
        "sentence_bert_config.json": {"max_seq_length": 64, "do_lower_case": False},
    }
    for name, content in files.items():
        _put(folder / name, [json.dumps(content)])
