"""`mexma run`: a corpus, many language pairs, from one recipe."""

from __future__ import annotations

import json
import logging
import time
from contextlib import ExitStack
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mexma_cli.commands.completion import FILE
from mexma_cli.commands.options import set_option
from mexma_cli.commands.progress import progress
from mexma_cli.errors import in_a_line
from mexma_cli.executors import executors
from mexma_cli.languages import resolve, resolve_pair
from mexma_cli.text.amounts import counted, hours_needed, size, time_needed

if TYPE_CHECKING:
    from mexma_cli.stages.run.estimate import Estimate
    from mexma_cli.stages.run.scheduler import Progress

log = logging.getLogger(__name__)

STATES = ("done", "running", "waiting", "failed", "blocked", "again", "perhaps")
_STATES = {
    "running": "the run goes on",
    "finished": "the run has ended",
    "stopped": "the run was stopped: nothing works on it now, and `mexma run` goes on with it",
    "unknown": "no locks on this file system tell whether the run goes on",
}


@click.command("run")
@click.argument("recipe", type=FILE)
@set_option
@click.option(
    "--only", metavar="STAGE", help="Stop after this stage: split, read, embed, knn, mine, align or filter."
)
@click.option(
    "--from",
    "start",
    metavar="STAGE",
    help="Begin with this stage (named as for --only), and take what earlier ones made as it is.",
)
@click.option("--pairs", metavar="SRC-TGT,...", help="Only these language pairs, such as fra-eng,deu-eng.")
@click.option(
    "--executor",
    type=click.Choice(list(executors())),
    default="local",
    show_default=True,
    help=f"Where units run: {', '.join(kind.about for kind in executors().values())}.",
)
@click.option(
    "--jobs",
    type=click.IntRange(min=1),
    metavar="N",
    help="On this machine: processes, which share the threads.  [default: 1]",
)
@click.option("--dry-run", is_flag=True, help="Print units, disk, memory and time needed, and stop.")
@click.option(
    "--assume",
    metavar="LANG=LINES,...",
    help="With --dry-run: suppose that languages have so many lines, such as fra=1e9.",
)
@click.option(
    "--calibrate",
    is_flag=True,
    help="With --dry-run: measure the cost of every stage on the first 2,000 lines (not of documents).",
)
@click.option("--status", is_flag=True, help="Print the progress of a run and what changed since, and stop.")
@click.option("--json", "as_json", is_flag=True, help="Print --status or --dry-run as JSON.")
def command(
    recipe: str,
    overrides: tuple[str, ...],
    only: str | None,
    start: str | None,
    pairs: str | None,
    executor: str,
    jobs: int | None,
    dry_run: bool,
    assume: str | None,
    calibrate: bool,
    status: bool,
    as_json: bool,
) -> None:
    """Mine parallel text for many language pairs, from one recipe.

    RECIPE is a YAML file of kind corpus. The work is cut into units, each done by one process. The same
    command continues a killed run; after a change of the recipe or a text, it does only what that changes.
    The run's folder gets the sentence pairs and a page, report.html.

    \b
    Examples:
      mexma run corpus.yaml --dry-run
      mexma run corpus.yaml --jobs 2
      mexma run corpus.yaml --pairs fra-eng --set mine.threshold=0.7
    """
    from mexma_cli.settings.load import load_corpus
    from mexma_cli.stages.run.page import PAGE
    from mexma_cli.stages.run.plan import Selection
    from mexma_cli.stages.run.run import outputs, run_corpus, status_of

    if as_json and not (status or dry_run):
        raise click.UsageError("--json goes with --status or --dry-run.")
    if (assume or calibrate) and not dry_run:
        raise click.UsageError("--assume and --calibrate go with --dry-run.")
    kind = executors()[executor]
    if jobs is not None and not kind.is_here:
        raise click.UsageError(f"--jobs is for this machine; `{executor}` in the recipe has its own.")
    found = load_corpus(recipe, overrides)
    chosen = Selection(only, start, tuple(map(resolve_pair, pairs.split(",") if pairs else ())))
    if status:
        _print(status_of(found, chosen), as_json)
        return
    if dry_run:
        from mexma_cli.stages.run.estimate import estimate

        split = {code for code, language in found.languages.items() if language.split is not None}
        said = estimate(found, chosen, jobs or 1, _lines(assume), calibrate)
        added = kind.forecast(found, said)
        if as_json:
            click.echo(json.dumps({**asdict(said), **added.facts}, ensure_ascii=False, indent=1))
        else:
            elsewhere = not kind.is_here
            _print_estimate(
                said, found.run, split, whole=bool(assume) or calibrate or elsewhere, alone=elsewhere
            )
            for word, line in added.lines:
                click.echo(f"{word:<24} {line}")
        for warning in added.warnings:
            log.warning("%s", warning)
        return

    started, folder = time.monotonic(), Path(found.run).absolute()
    try:
        with ExitStack() as stack:
            make = partial(kind.from_recipe, found, jobs=jobs or 1)
            done = run_corpus(found, make, chosen=chosen, on_change=_bars(stack))
    except KeyboardInterrupt:
        log.info("what is done is kept: the same command goes on")
        raise
    state = "taken as they are" if chosen.start else "up to date"
    before = f"; {len(done.found_done):,} were {state}" if done.found_done else ""
    log.info("%s done in %.1f s%s", counted(len(done.done), "unit"), time.monotonic() - started, before)
    log.info("report: %s", folder / PAGE)
    for made in outputs(found, done.units.values()):
        click.echo(made)


def _lines(typed: str | None) -> dict[str, int]:
    found = {}
    for one in typed.split(",") if typed else ():
        code, _, lines = one.strip().partition("=")
        try:
            found[resolve(code)] = int(float(lines))
        except (ValueError, OverflowError):
            raise click.UsageError(f"--assume {one}: say how many lines, as in fra=1e9.") from None
        if found[resolve(code)] < 1:
            raise click.UsageError(f"--assume {one}: at least one line.")
    return found


def _bars(stack: ExitStack) -> Any:
    """A progress bar for each stage; the run calls the result whenever a unit begins or ends."""
    bars: dict[str, Any] = {}

    def report_progress(now: Progress) -> None:
        for stage, counts in now.by_stage().items():
            if stage not in bars:
                place = len(bars)
                bars[stage] = stack.enter_context(progress(desc=f"{stage:<6}", unit="unit", position=place))
            bar = bars[stage]
            bar.total = counts["all"]
            states = [f"{counts[state]} {state}" for state in STATES[1:] if counts.get(state)]
            bar.set_postfix_str(", ".join(states), refresh=False)
            bar.update(counts.get("done", 0) - bar.n)
            bar.refresh()

    return report_progress


def _print(status: dict[str, Any], as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(status, ensure_ascii=False, indent=1))
        return
    stopped = status["state"] == "stopped"
    for stage, counts in status["stages"].items():
        states = [f"{counts[state]:,} {state}" for state in STATES if counts.get(state)]
        said = ", ".join(states).replace("running", "begun" if stopped else "running")
        said = said.replace("again", "to do again")
        click.echo(f"{stage}: {counted(counts['all'], 'unit')}: {said or 'none begun'}")
    for name, since in status["running"].items():
        click.echo(f"begun: {name}" if stopped else f"running: {name}, for {time.time() - since:,.0f} s")
    for name, why in status["failed"].items():
        click.echo(f"failed: {name}: {in_a_line(why)}")
    if status["pairs"]["all"]:
        click.echo(f"language pairs: {status['pairs']['done']:,} of {status['pairs']['all']:,} done")
    again, perhaps = (
        sum(counts.get(state, 0) for counts in status["stages"].values()) for state in ("again", "perhaps")
    )
    if again or perhaps:
        most = f", and at most {perhaps:,} more" if perhaps else ""
        click.echo(
            f"since then inputs or settings changed: `mexma run` does {counted(again, 'unit')} again{most}"
        )
    click.echo(_STATES[status["state"]])


def _print_estimate(found: Estimate, folder: str, split: set[str], whole: bool, alone: bool) -> None:
    """Print a forecast in words; `folder` is the run's; `split` are languages whose texts are documents;
    `whole`: what all of the work takes on any machines, too; `alone`: other machines than this one will do
    it."""
    click.echo(f"{'folder':<24} {folder}")
    for code, lines in found.languages.items():
        how = ", by a sample" if code in found.estimated else ""
        click.echo(f"{code:<24} {lines:>14,} {'sentences' if code in split else 'lines'}{how}")
    for stage, units in found.units.items():
        done = f", {units['up to date']:,} up to date" if units["up to date"] else ""
        took = f"; {time_needed(found.seconds[stage])}" if stage in found.seconds else ""
        click.echo(f"{stage:<24} {counted(units['all'], 'unit')}{done}{took}")
    click.echo(f"{'disk':<24} at most {size(found.disk)}")
    click.echo(f"{'memory':<24} about {size(found.memory)}")
    click.echo(f"{'network':<24} {size(found.network)}, if the run's folder is on it")
    if found.seconds:
        where = "on this machine alone" if alone else "on this machine"
        click.echo(f"{'time':<24} {time_needed(sum(found.seconds.values()))} {where}")
    if not whole:
        return
    for stage, hours in found.processor.items():
        click.echo(f"{stage + ', in all':<24} {hours_needed(hours)} of a core")
    longest = found.longest
    click.echo(f"{'longest unit':<24} {longest['work']}, {hours_needed(longest['hours'])} of a core")
    for gpu, hours in found.gpu.items():
        click.echo(f"{'GPU, knn':<24} at least {hours_needed(hours)} of an {gpu}, at its data sheet's peak")
    if found.index is not None:
        click.echo(f"{'knn, mine.index: auto':<24} {hours_needed(found.index['processor'])} of a core")
