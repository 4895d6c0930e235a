"""The mean of the tokens against the first token, as sentence vector: the paper's Table 10."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mexma_cli.errors import MexmaError
from mexma_cli.evaluation.aligned import AlignedTexts, read_texts
from mexma_cli.evaluation.augment import Augmented, find_augmented
from mexma_cli.evaluation.embedder import Embed
from mexma_cli.evaluation.sts import ScoredPairs, find_files, means_of_known, read_pairs, score_pairs
from mexma_cli.evaluation.xsim import measure_xsim, measure_xsimpp
from mexma_cli.reporting.result import Result
from mexma_cli.text.amounts import counted

log = logging.getLogger(__name__)

TARGET = "eng_Latn"
KINDS = ("CLS", "uniform")

Numbers = dict[str, list[float | None]]
"""By measure: the numbers of its languages or sets; None for a set whose cosines are all equal."""


@dataclass(frozen=True)
class PoolingData:
    """The data on which poolings are measured: texts for xsim and xsim++, or sets for STS, or both."""

    aligned: AlignedTexts | None
    hard: Augmented | None
    sets: list[ScoredPairs]
    sts_paths: Sequence[Path]

    @property
    def sentences(self) -> int:
        """How many there are to embed, each time."""
        aligned = self.aligned.sentences if self.aligned else 0
        hard = len(self.hard.lines) if self.hard else 0
        return aligned + hard + 2 * sum(len(pairs.gold) for pairs in self.sets)


def read_data(folder: Path | None, split: str, languages: str | None, sts: Sequence[Path]) -> PoolingData:
    """Read all that is to be measured; xsim++'s files where they are beside those of xsim."""
    aligned = read_texts(folder, split, languages, TARGET) if folder else None
    hard = None
    if aligned:
        try:
            hard = find_augmented(aligned, None)
        except MexmaError as error:
            log.info("without xsim++: %s", error.message)
    return PoolingData(aligned, hard, [read_pairs(path) for path in find_files(sts)], sts)


def measure(data: PoolingData, embed: Embed) -> Numbers:
    """xsim and xsim++ (errors, percent) and STS (Spearman, percent) of one kind of sentence vectors."""
    found: Numbers = {}
    if data.aligned:
        found["xsim"] = [one.error_rate for one in measure_xsim(data.aligned, embed).values()]
    if data.aligned and data.hard:
        both = measure_xsimpp(data.aligned, data.hard, embed).values()
        found["xsim++"] = [one.error_rate for one, _ in both]
    if data.sets:
        found["STS"] = [score_pairs(embed(p.left), embed(p.right), p.gold)["spearman"] for p in data.sets]
    return found


def pooling_result(data: PoolingData, cls: Numbers, uniform: Numbers, encoder: dict[str, Any]) -> Result:
    """The `Result` of what `measure` found for both. Means are over the sets that both have a number for.

    `change` is 100 (CLS - uniform) / CLS, as in Table 10 (its text says "relative from uniform").
    """
    means = {name: means_of_known(cls[name], uniform[name]) for name in cls}
    for name in cls:
        if lacking := sum(None in both for both in zip(cls[name], uniform[name], strict=True)):
            lack = counted(lacking, "set is", "sets are")
            log.warning("%s: %s left out, where all cosines are equal", name, lack)
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
    is_published = data.aligned and data.aligned.published == "81" and not (data.hard and data.hard.own)
    return Result("pooling", encoder, settings, scores, rows, "pooling" if is_published else None)
