"""Hard negatives of the pairs' targets: made by rule, or read from further columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from mexma_cli.evaluation.augment import negatives_of
from mexma_cli.recipe import Corpus, Data

SEED = 42
"""Of those that are made, and of the choice among them."""


class HardNegatives:
    """Those of one corpus.

    Attributes:
        counts: How many are `kept`; and `alike`, left out because their tokens are their target's.
    """

    def __init__(self, data: Data, corpus: Corpus) -> None:
        self._most, self._from_columns = data.negatives, corpus.negatives == "columns"
        self.counts = Counter(kept=0, alike=0)

    def of(self, batch: Sequence[tuple[str, str, str]]) -> list[list[str]]:
        """The hard negatives of each target, from pairs and what a tsv has behind them.

        Names that stand in for others are the batch's own, so that the text need not be in memory.
        """
        if self._from_columns:
            columns = ([column.strip() for column in further.split("\t")] for _, _, further in batch)
            return [list(filter(None, found))[: self._most] for found in columns]
        made = negatives_of([target for _, target, _ in batch], self._most, SEED)
        return [made.get(target, []) for _, target, _ in batch]

    def unlike(self, targets: list[list[int]], found: list[list[list[int]]]) -> list[list[list[int]]]:
        """Token ids of hard negatives, without those that are their target's or another one's again."""
        kept: list[list[list[int]]] = []
        for target, sentences in zip(targets, found, strict=True):
            different = {tuple(ids): ids for ids in sentences if ids and ids != target}
            kept.append(list(different.values()))
            self.counts["kept"] += len(different)
            self.counts["alike"] += len(sentences) - len(different)
        return kept
