"""The mean of the tokens against the first token, as sentence vector: the paper's Table 10."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mexma_cli.errors import MexmaError
from mexma_cli.evaluation.aligned import AlignedTexts
from mexma_cli.evaluation.augment import Augmented, find_augmented
from mexma_cli.evaluation.embedder import Embedder
from mexma_cli.evaluation.mteb_tasks import chosen_tasks
from mexma_cli.evaluation.senteval import Splits, embed_splits, read_tasks
from mexma_cli.evaluation.senteval import evaluate as evaluate_senteval
from mexma_cli.evaluation.sts import ScoredPairs, find_files, means_of_known, read_pairs, score_pairs
from mexma_cli.evaluation.xsim import measure_xsim, measure_xsimpp
from mexma_cli.reporting.result import Result
from mexma_cli.text.amounts import counted

log = logging.getLogger(__name__)

TARGET = "eng_Latn"
KINDS = ("CLS", "uniform")
CLASSIFICATION = "classification"
KFOLD = 10
"""SentEval's published setting."""

Numbers = dict[str, list[float | None]]
"""By measure: the numbers of its languages or sets; None for a set without one (see `pooling_result`)."""


@dataclass(frozen=True)
class PoolingData:
    """The data on which poolings are measured: for xsim and xsim++, for STS, for SentEval, or several."""

    aligned: AlignedTexts | None
    hard: Augmented | None
    sets: list[ScoredPairs]
    sts_paths: Sequence[Path]
    senteval: Mapping[str, Splits] = field(default_factory=dict)

    @property
    def sentences(self) -> int:
        """How many there are to embed, each time."""
        aligned = self.aligned.sentences if self.aligned else 0
        hard = len(self.hard.lines) if self.hard else 0
        examples = sum(one.texts for splits in self.senteval.values() for one in splits.values())
        return aligned + hard + 2 * sum(len(pairs.gold) for pairs in self.sets) + examples


def read_data(aligned: AlignedTexts | None, sts: Sequence[Path], senteval: Path | None) -> PoolingData:
    """Read all that is to be measured, with SentEval's files in a folder; xsim++'s files where they are
    beside those of xsim."""
    hard = None
    if aligned:
        try:
            hard = find_augmented(aligned, None)
        except MexmaError as error:
            log.info("without xsim++: %s", error.message)
    sets = [read_pairs(path) for path in find_files(sts)]
    tasks = read_tasks([senteval], KFOLD) if senteval else {}
    return PoolingData(aligned, hard, sets, sts, tasks)


def measure(data: PoolingData, embed: Embedder) -> Numbers:
    """xsim and xsim++ (errors), STS (Spearman) and `classification` of one kind of vectors, in percent."""
    found: Numbers = {}
    if data.aligned:
        found["xsim"] = [one.error_rate for one in measure_xsim(data.aligned, embed).values()]
    if data.aligned and data.hard:
        both = measure_xsimpp(data.aligned, data.hard, embed).values()
        found["xsim++"] = [one.error_rate for one, _ in both]
    if data.sets:
        found["STS"] = [score_pairs(embed(p.left), embed(p.right), p.gold)["spearman"] for p in data.sets]
    if data.senteval:
        found[CLASSIFICATION] = classification(data.senteval, embed)
    return found


def classification(tasks: Mapping[str, Splits], embed: Embedder) -> list[float | None]:
    """The columns of the paper's Table 2, of which Table 10 has the mean: SentEval's accuracy, and mteb's by
    language, in percent; None for a column that lacks data."""
    from mexma_cli.evaluation.mteb import MtebEncoder, evaluate, get_tasks

    features = {task: embed_splits(splits, embed) for task, splits in tasks.items()}
    senteval = evaluate_senteval(features, [], KFOLD, {}, lambda _: None).scores
    table = chosen_tasks(["table2"])
    encoder = MtebEncoder(embed.encoder, embed.folder)
    mteb = evaluate(encoder, get_tasks(table.tasks), table, "table2", lambda _: None).scores
    return [senteval.get("average"), *(mteb.get(column) for column in table.means)]


def pooling_result(data: PoolingData, cls: Numbers, uniform: Numbers, encoder: dict[str, Any]) -> Result:
    """The `Result` of what `measure` found for both. Means are over the sets that both have a number for.

    `change` is 100 (CLS - uniform) / CLS, as in Table 10 (its text says "relative from uniform").
    """
    means = {name: means_of_known(cls[name], uniform[name]) for name in cls}
    for name in cls:
        if lacking := sum(None in both for both in zip(cls[name], uniform[name], strict=True)):
            lack = counted(lacking, "set is", "sets are")
            why = "for lack of data" if name == CLASSIFICATION else "where all cosines are equal"
            log.warning("%s: %s left out, %s", name, lack, why)
    rows: list[dict[str, Any]] = [
        {"measure": name}
        | dict(zip(KINDS, both or (None, None), strict=True))
        | {"change": 100 * (both[0] - both[1]) / both[0] if both and both[0] else None}
        for name, both in means.items()
    ]
    scores = {
        f"{name} {kind}": both[place]
        for place, kind in enumerate(KINDS)
        for name, both in means.items()
        if both
    }
    settings = (data.aligned.settings() if data.aligned else {}) | {"sts": [str(p) for p in data.sts_paths]}
    as_published = [None not in (*cls[CLASSIFICATION], *uniform[CLASSIFICATION])] if data.senteval else []
    if data.aligned:
        as_published.append(data.aligned.published == "81" and not (data.hard and data.hard.own))
    benchmark = "pooling" if as_published and all(as_published) else None
    return Result("pooling", encoder, settings, scores, rows, benchmark)
