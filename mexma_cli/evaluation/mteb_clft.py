"""CLFT's MMTEB: mteb's English tasks on translated data, as github.com/mtybadger/mmteb-toolkit defines them.

The data are those of mteb 1.1.2's tasks by their columns. SciFact's are files of the toolkit itself.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import mteb
from mteb.abstasks import AbsTask
from mteb.abstasks.text import reranking

from mexma_cli.errors import MexmaError

PREFIX = "CLFT-"
LANGUAGES = {
    "es": ("spanish", "spa-Latn"),
    "de": ("german", "deu-Latn"),
    "fr": ("french", "fra-Latn"),
    "tr": ("turkish", "tur-Latn"),
    "sw": ("swahili", "swh-Latn"),
}
TASKS = {
    "SummEval": ("cosine_pearson", "sproos/summeval-{0}"),
    "RedditClustering": ("v_measure", "willhath/{1}-reddit-clustering"),
    "TwentyNewsgroupsClustering": ("v_measure", "willhath/{1}-twentynewsgroups-clustering"),
    "SciFact": ("ndcg_at_10", "mmteb-toolkit/scifact_{0}"),
    "STS22": ("cosine_pearson", None),
    "MindSmallReranking": ("mrr_at_10", "sproos/mindsmall-{0}"),
    "TwitterURLCorpus": ("max_ap", "sproos/twitter-pairclass-{0}"),
}
"""The score of each task in the post's table, by the toolkit's result files for Spanish; and its data:
SciFact's in a clone of the toolkit in the current folder, STS22's as mteb has them."""
IN_TRAIN = ("SummEval", "MindSmallReranking", "TwitterURLCorpus")
"""Tasks whose only split is called train, but for SummEval's French."""
COMMITS = {
    "willhath/{1}-reddit-clustering": {
        "es": "1e419fcdc7a45c5b8953e6429746ffe64e41a831",
        "de": "68b429afe701f1ff0fa65fcbb1b4a186ba89da43",
        "fr": "600231288f9b4b1a59f63ffddc9f5477277018cf",
        "tr": "216945c31bcb1e3d32f26cf77e0ee1eb1376a0d9",
        "sw": "d68683f8c508601b492022e67789a8ab56a430f2",
    },
    "willhath/{1}-twentynewsgroups-clustering": {
        "es": "f3b553cd2a54d404bea02985f4065834211f3abe",
        "de": "b4c12bc12dc3f917f846703a9ff7dd32beb518aa",
        "fr": "b32987cd0f9a7f000aa6293e48efea38e9038794",
        "tr": "448f38e48880a6386dccf647a2eebc078a1c1e2e",
        "sw": "d349bb48e733f237fe47a8923f3dd718000e0985",
    },
    "sproos/summeval-{0}": {
        "es": "806c651ffcc893ee518a2b198fa160d973e2182b",
        "de": "d25b21e407a2d22c96681fe3ae700eb2cc0c9bb9",
        "fr": "6c9e6944ea8ec20291a1488eb762f32a438cd6ae",
        "tr": "d773054c462a22de9a3d4088ab49890bba06118f",
        "sw": "4eb1c5a78fa8f0e9236c1c969d399c3834944e1e",
    },
    "sproos/twitter-pairclass-{0}": {
        "es": "270dc1d8c9a3e515bf727e69efb30ce6903d0d87",
        "de": "310df3c8ea10c127d5735e63245dc0b85746bc28",
        "fr": "bbd7a66e7fcf140d5a0d92d3234f609a6d06298d",
        "tr": "feb67a7bf8141236513594e1ee122325f9d45026",
        "sw": "c0ff83c2b9b023ecf3ffe9d68f258a8198b9a718",
    },
    "sproos/mindsmall-{0}": {  # the toolkit repeats German's in French, and Turkish's in Swahili
        "es": "4b8496471b305dd89be11b3785b9d37649bc302e",
        "de": "7850f8aa5a1220d2d844aa8c9076d2e259278657",
        "fr": "main",
        "tr": "ecfd78dd48627f75e411cf93177b1f95aa90bd11",
        "sw": "main",
    },
}
"""Commits of data sets on the hub, by language; in names {0} is its code, {1} its name."""


def task_of(full: str) -> AbsTask:
    """A task of the table, by mteb's English name and the language's code, `CLFT-SummEval-es`; a KeyError
    says that there is none."""
    name, _, code = full.removeprefix(PREFIX).rpartition("-")
    if name not in TASKS or code not in LANGUAGES:
        raise KeyError(f"{full!r} not found")
    english = type(mteb.get_task(name))
    score, data = TASKS[name]
    own: dict[str, Any] = {"name": full, "main_score": score}
    if data is not None:
        spoken, tag = LANGUAGES[code]
        split = "test" if name not in IN_TRAIN or (name, code) == ("SummEval", "fr") else "train"
        commit = COMMITS.get(data, {}).get(code, "")
        own |= {"dataset": {"path": data.format(code, spoken), "revision": commit}}
        own |= {"eval_splits": [split], "eval_langs": [tag]}
    body: dict[str, Any] = {"metadata": english.metadata.model_copy(update=own)}
    if name == "SciFact":
        body["load_data"] = _load_beir
    if name == "MindSmallReranking":  # its data have mteb 1's form
        english = reranking.AbsTaskReranking
        reranking.OLD_FORMAT_RERANKING_TASKS.append(full)
    made: AbsTask = type(full, (english,), body)()
    return made.filter_languages(None, hf_subsets=[code]) if name == "STS22" else made


def _load_beir(task: Any, *_: Any, **__: Any) -> None:
    """SciFact from the toolkit's files, in BEIR's form."""
    folder = Path(task.metadata.dataset["path"])
    if not folder.is_dir():
        raise MexmaError(
            f"the data of {task.metadata.name} are not there: {folder}",
            f"clone github.com/mtybadger/{folder.parts[0]} into the current folder",
        )

    def read(file: str) -> dict[str, dict[str, Any]]:
        with (folder / file).open(encoding="utf-8") as lines:
            return {row["_id"]: row for row in map(json.loads, lines)}

    relevant: dict[str, dict[str, int]] = {}
    for line in (folder / "qrels/test.tsv").read_text(encoding="utf-8").splitlines()[1:]:
        query, document, score = line.split("\t")
        relevant.setdefault(query, {})[document] = int(score)
    queries = read("queries.jsonl")
    task.corpus = {"test": read("corpus.jsonl")}
    task.queries = {"test": {query: queries[query]["text"] for query in relevant}}
    task.relevant_docs = {"test": relevant}
    task.data_loaded = True
