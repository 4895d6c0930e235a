"""`mexma run`: a corpus, many language pairs, from one recipe."""

from __future__ import annotations

import json
import logging
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mexma_cli.commands.progress import progress
from mexma_cli.text.amounts import counted

if TYPE_CHECKING:
    from mexma_cli.stages.run.scheduler import Executor, Progress

log = logging.getLogger(__name__)

STATES = ("done", "running", "failed", "blocked")


@click.command("run")
@click.argument("recipe")
@click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Change a key of the recipe.")
@click.option("--only", metavar="STAGE", help="Do this stage, and what it needs: split, embed, knn or mine.")
@click.option(
    "--jobs",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Units that are done at the same time, by a process each; they share the processor's threads.",
)
@click.option("--status", is_flag=True, help="Say how far the run is, and do nothing.")
@click.option("--json", "as_json", is_flag=True, help="With --status: as JSON.")
def command(
    recipe: str, overrides: tuple[str, ...], only: str | None, jobs: int, status: bool, as_json: bool
) -> None:
    """Mine a whole corpus: text in many languages into parallel text of many pairs, as RECIPE says.

    The work is cut into units; each is done by one process, and kept when it is done. A run that was killed,
    or whose recipe or text has changed, does what is not up to date when the same command is given again.

    \b
    Example:
      mexma run corpus.yaml --jobs 2
    """
    from mexma_cli.recipe import load_corpus
    from mexma_cli.stages.run.run import outputs, run_corpus, status_of

    if as_json and not status:
        raise click.UsageError("--json goes with --status.")
    found = load_corpus(recipe, overrides)
    if status:
        _print(status_of(found), as_json)
        return

    def executor(folder: Path) -> Executor:
        from mexma_cli.executors.local import LocalExecutor
        from mexma_cli.numerics.threads import cores

        return LocalExecutor(folder, jobs, max(1, cores() // jobs))

    started = time.monotonic()
    with progress(desc="units", unit="unit") as bar:

        def tell(now: Progress) -> None:
            bar.total = len(now.units)
            bar.set_postfix_str(next(iter(now.running), ""), refresh=False)
            bar.update(len(now.done) + len(now.found_done) - bar.n)

        done = run_corpus(found, executor, only=only, on_change=tell)
    before = f"; {len(done.found_done):,} were up to date" if done.found_done else ""
    log.info("%s done in %.1f s%s", counted(len(done.done), "unit"), time.monotonic() - started, before)
    for folder in outputs(found, done.units.values()):
        click.echo(folder)


def _print(status: dict[str, Any], as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(status, ensure_ascii=False, indent=1))
        return
    for stage, counts in status["stages"].items():
        states = ", ".join(f"{counts[state]:,} {state}" for state in STATES if counts.get(state))
        click.echo(f"{stage}: {counts['all']:,} units: {states or 'none begun'}")
    for name, why in status["failed"].items():
        click.echo(f"failed: {name}: {why}")
