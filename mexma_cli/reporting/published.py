"""Published numbers of the papers, to stand beside those that were measured here."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from mexma_cli.reporting.result import Result

_TABLE = Path(__file__).with_name("published.tsv")


@dataclass(frozen=True)
class PublishedRow:
    """The numbers of one system on a benchmark, from one table of one paper."""

    encoder: str
    scores: dict[str, float]
    """As our `Result.scores` names them, in its units."""
    source: str
    """Paper and table."""


@lru_cache(maxsize=1)
def _table() -> dict[str, list[PublishedRow]]:
    found: dict[str, dict[tuple[str, str], PublishedRow]] = {}
    lines = _TABLE.read_text(encoding="utf-8").splitlines()[1:]
    for line in filter(None, lines):
        benchmark, encoder, score, value, source = line.split("\t")
        rows = found.setdefault(benchmark, {})
        row = rows.setdefault((encoder, source), PublishedRow(encoder, {}, source))
        row.scores[score] = float(value)
    return {benchmark: list(rows.values()) for benchmark, rows in found.items()}


def rows(task: str) -> list[PublishedRow]:
    """Published numbers for a benchmark of published.tsv, in the file's order; nothing for an unknown one.

    The file has a line for each number: benchmark, encoder, score, value, source.
    """
    return _table().get(task, [])


def papers(task: str) -> list[str]:
    """The papers with numbers of an evaluation, which may have several benchmarks: `xsim-81`, `xsim-90`."""
    found = (row.source for name, rows in _table().items() if name.split("-")[0] == task for row in rows)
    return sorted({source.partition(",")[0] for source in found})


def published_scores(result: Result) -> list[PublishedRow]:
    """Published numbers for a result's scores. A score that is a mean of published rows (`cosine f1` of
    `cosine f1 fra-eng` and others) counts only if all these rows have been measured here too."""
    here = {str(next(iter(row.values()))) for row in result.rows}
    found = []
    for row in rows(result.benchmark) if result.benchmark else []:
        parts = {name: {key for key in row.scores if key.startswith(f"{name} ")} for name in result.scores}
        scores = {
            name: row.scores[name]
            for name, keys in parts.items()
            if name in row.scores and here >= {key.removeprefix(f"{name} ") for key in keys}
        }
        if scores:
            found.append(replace(row, scores=scores))
    return found
