"""`mexma prepare`: parallel text into tokenised pairs, with a table of what was kept."""

from __future__ import annotations

import dataclasses
import json
import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

from mexma_cli.commands.completion import RECIPE
from mexma_cli.commands.options import plugin_option, set_option, workers_option
from mexma_cli.commands.progress import follow, progress
from mexma_cli.errors import MexmaError
from mexma_cli.languages import resolve
from mexma_cli.reporting.tables import aligned_with_notes

if TYPE_CHECKING:
    from mexma_cli.settings.training import Data
    from mexma_cli.stages.prepare.plan import PlannedCorpus, PreparePlan
    from mexma_cli.stages.prepare.prepare import CorpusReport

log = logging.getLogger(__name__)


@click.command("prepare")
@click.argument("recipe", type=RECIPE)
@set_option
@plugin_option
@workers_option("Number of processes, each for a language.")
@click.option(
    "--dry-run", is_flag=True, help="Print languages, files, pairs, disk space and what is missing, and stop."
)
@click.option(
    "--script",
    "as_script",
    is_flag=True,
    help="Print the commands that download the recipe's text from OPUS, with sizes, and stop.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the table as JSON, one object a line.")
def command(
    recipe: str,
    overrides: tuple[str, ...],
    plugins: tuple[str, ...],
    workers: int,
    dry_run: bool,
    as_script: bool,
    as_json: bool,
) -> None:
    """Clean and tokenise the parallel text of a recipe, for `mexma train`.

    RECIPE is a YAML file or the name of a shipped recipe. The table on stdout says for every corpus and
    language how many pairs were read, kept and dropped, by reason. Corpora that are prepared already are not
    prepared again, so the same command continues a killed run.

    \b
    Examples:
      mexma prepare 81langs --set data.root=/data/opus --script > download.sh
      mexma prepare 81langs --set data.root=/data/opus --dry-run
      mexma prepare 81langs --set data.root=/data/opus --workers 32
    """
    from mexma_cli.settings.load import load
    from mexma_cli.settings.registry import load_plugin

    for plugin in plugins:
        load_plugin(plugin)
    settings = load(recipe, overrides)
    if as_script:
        from mexma_cli.stages.prepare.download import script

        click.echo("\n".join(script(settings.data, recipe)))
        return
    with progress(desc="planning" if dry_run else "preparing", unit="corpus") as bar:
        if dry_run:
            from mexma_cli.stages.prepare.plan import plan_data

            planned = plan_data(settings.data, follow(bar))
        else:
            from mexma_cli.stages.prepare.prepare import prepare

            reports = prepare(settings, follow(bar), workers)
    if dry_run:
        _print_plan(planned, settings.data, as_json)
    elif as_json:
        _print_json(reports)
    else:
        click.echo(table(reports, settings.data))


def _print_json(rows: Iterable[CorpusReport | PlannedCorpus]) -> None:
    for row in rows:
        click.echo(json.dumps(dataclasses.asdict(row), ensure_ascii=False))


def _print_plan(planned: PreparePlan, data: Data, as_json: bool) -> None:
    """Print a plan; what is missing makes it an error."""
    if as_json:
        _print_json(planned.corpora)
    else:
        click.echo(plan_table(planned, data))
    if planned.missing:
        for message in planned.missing[:-1]:
            log.error("error: %s", message)
        raise MexmaError(planned.missing[-1], "--set data.root=DIR names the folder with the corpora")


def plan_table(planned: PreparePlan, data: Data) -> str:
    """A row a language, a row a corpus, what OPUS has beside that, and what the disk needs."""
    from mexma_cli.stages.prepare.download import files_needed

    by_language: dict[str, list[PlannedCorpus]] = {}
    by_corpus: dict[str, list[PlannedCorpus]] = {}
    for row in planned.corpora:
        by_language.setdefault(row.language, []).append(row)
        by_corpus.setdefault(row.corpus, []).append(row)
    rows = [["language", "corpora", "files", "pairs", "used", "GB", ""]]
    for language, all_ in by_language.items():
        used = sum(row.used for row in all_)
        short = data.minimum_per_language - used
        lacking = [row.corpus for row in all_ if not row.files]
        notes = ["NO DATA"] if not any(row.files for row in all_) else []
        notes += [f"{short:,} short of the minimum"] if short > 0 else []
        notes += [f"not in {_some(lacking)}"] if lacking and len(lacking) < len(all_) else []
        rows.append([language, str(sum(row.files > 0 for row in all_)), *_sums(all_), "; ".join(notes)])
    rows.append(["all", "", *_sums(planned.corpora), ""])
    corpora = [["corpus", "languages", "files", "pairs", "used", "GB", ""]]
    for corpus, all_ in by_corpus.items():
        here = sum(row.files > 0 for row in all_)
        corpora.append([corpus, f"{here} of {len(all_)}", *_sums(all_), "" if here else all_[0].looked])
    lines = [*aligned_with_notes(rows, 1), "", *aligned_with_notes(corpora, 1), ""]
    if not all(row.counted for row in planned.corpora):
        lines.append("~: estimated from the beginnings and the sizes of the files")
    there = {(row.corpus, resolve(row.language)) for row in planned.corpora if row.files}
    if more := files_needed(data, there):
        lines.append(f"OPUS lists more: {more}; --script prints the commands")
    lines += [
        "used: what the caps leave, if no pair is dropped for another reason",
        "GB: of the stores, estimated at 4 bytes of text a token and 4 bytes of disk",
        f"temporary files: up to {planned.temporary / 1e9:.2f} GB for each process",
    ]
    return "\n".join(lines)


def _some(names: list[str]) -> str:
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")


def _sums(rows: list[PlannedCorpus]) -> list[str]:
    """Files, pairs, used pairs and disk of several rows."""
    about = "" if all(row.counted for row in rows) else "~"
    pairs, used = sum(row.pairs for row in rows), sum(row.used for row in rows)
    disk = sum(row.disk for row in rows)
    return [str(sum(row.files for row in rows)), f"{about}{pairs:,}", f"{used:,}", f"{disk / 1e9:.2f}"]


def table(reports: list[CorpusReport], data: Data) -> str:
    """The reports as aligned columns, with a line of sums."""
    from mexma_cli.stages.prepare.language import rules_of
    from mexma_cli.text.rules import RULES

    limits = rules_of(data)
    reasons = [reason for reason in RULES if any(report.dropped.get(reason) for report in reports)]
    counts = [
        [
            report.read,
            report.kept,
            *(report.dropped.get(reason, 0) for reason in reasons),
            report.truncated,
            report.tokens,
            *([report.negatives.get("kept", 0)] if data.negatives else []),
        ]
        for report in reports
    ]
    beside = ["negatives"] if data.negatives else []
    rows = [["corpus", "language", "read", "kept", *reasons, "cut", "tokens", *beside, ""]]
    for report, numbers in zip(reports, counts, strict=True):
        note = report.skipped or ("as before" if report.reused else "")
        rows.append([report.corpus, report.language, *(f"{number:,}" for number in numbers), note])
    rows.append(["all", "", *(f"{sum(column):,}" for column in zip(*counts, strict=True)), ""])
    lines = aligned_with_notes(rows, 2)
    if reasons:
        lines += ["", *(f"{reason}: {RULES[reason].says(limits.get(reason))}" for reason in reasons)]
    if any(report.truncated for report in reports):
        lines.append(("" if reasons else "\n") + "cut: sentences shortened to max_tokens, and kept")
    if alike := sum(report.negatives.get("alike", 0) for report in reports):
        lines.append(f"negatives: {alike:,} more are left out, which have the tokens of their target")
    return "\n".join(lines)
