"""`mexma prepare`: parallel text into tokenised pairs, with a table of what was kept."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING

import click

from mexma_cli.commands.options import show_bars

if TYPE_CHECKING:
    from mexma_cli.stages.prepare import CorpusReport


@click.command("prepare")
@click.argument("recipe")
@click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Change a key of the recipe.")
@click.option("--json", "as_json", is_flag=True, help="Print the table as JSON lines.")
def command(recipe: str, overrides: tuple[str, ...], as_json: bool) -> None:
    """Clean and tokenise the parallel text that RECIPE (a YAML file, or a shipped recipe's name) lists.

    Corpora that were prepared with the same settings are left as they are. The table on stdout says for
    every corpus and language how many pairs were read, kept, and dropped for which reason.
    """
    from tqdm import tqdm

    from mexma_cli.recipe import load
    from mexma_cli.stages.prepare import prepare

    settings = load(recipe, overrides)
    with tqdm(unit="corpus", disable=not show_bars(), leave=False) as bar:

        def progress(done: int, jobs: int, label: str) -> None:
            bar.total, bar.n = jobs, done
            bar.set_description(label)

        reports = prepare(settings, progress)
    if as_json:
        for report in reports:
            click.echo(json.dumps(dataclasses.asdict(report), ensure_ascii=False))
    else:
        click.echo(table(reports))


def table(reports: list[CorpusReport]) -> str:
    """The reports as aligned columns, with a line of sums."""
    from mexma_cli.text.clean import REASONS

    reasons = [reason for reason in REASONS if any(report.dropped.get(reason) for report in reports)]
    counts = [
        [
            report.read,
            report.kept,
            *(report.dropped.get(reason, 0) for reason in reasons),
            report.truncated,
            report.tokens,
        ]
        for report in reports
    ]
    rows = [["corpus", "language", "read", "kept", *reasons, "cut", "tokens", ""]]
    for report, numbers in zip(reports, counts, strict=True):
        note = "as before" if report.reused else ""
        rows.append([report.corpus, report.language, *(f"{number:,}" for number in numbers), note])
    rows.append(["all", "", *(f"{sum(column):,}" for column in zip(*counts, strict=True)), ""])
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = []
    for row in rows:
        names = [cell.ljust(width) for cell, width in zip(row[:2], widths, strict=False)]
        numbers_ = [cell.rjust(width) for cell, width in zip(row[2:-1], widths[2:], strict=False)]
        lines.append("  ".join([*names, *numbers_, row[-1]]).rstrip())
    if reasons:
        lines += ["", *(f"{reason}: {REASONS[reason]}" for reason in reasons)]
    if any(report.truncated for report in reports):
        lines.append(("" if reasons else "\n") + "cut: sentences shortened to max_tokens, and kept")
    return "\n".join(lines)
