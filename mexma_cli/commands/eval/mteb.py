"""`mexma eval mteb`: tasks of the mteb package."""

from __future__ import annotations

import logging
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

import click

from mexma_cli.commands.eval.options import check_result_output, result_options
from mexma_cli.commands.options import EncoderChoice, encoder_options, load_encoder
from mexma_cli.commands.progress import progress

if TYPE_CHECKING:
    from mexma_cli.encoder.encoder import SentenceEncoder
    from mexma_cli.evaluation.mteb_tasks import Choice

log = logging.getLogger(__name__)


@click.command("mteb")
@click.option(
    "--tasks",
    required=True,
    metavar="LIST",
    help="Names of mteb (STS12,STS22:fr) or tables of the MEXMA paper (table4,table27), with commas.",
)
@result_options
@encoder_options
def command(
    tasks: str, cache: Path | None, as_json: bool, output: Path | None, encoder: EncoderChoice
) -> None:
    """Run tasks of the mteb package (extra `mteb`): the scores that it reports, in percent.

    The paper's tables by name: table2 (classification), table3 (pair classification) and table4 (STS) with
    their means by language, or one of table16 and table18 to table30. table17 is `mexma eval senteval`, and
    table2 lacks that column. Reported are each task's main score, average precision for pair
    classification, on the test split. NAME:SUBSET is one language of a task.

    mteb fetches its data from huggingface.co; a task whose data cannot be had is named and left out, and so
    is the mean that it is part of. What is done is kept in --cache, and a run that was stopped goes on.
    Prompts of tasks are not used; --prefix is.

    \b
    Examples:
      mexma eval mteb --tasks table4 --model facebook/MEXMA -o sts.json
      mexma eval mteb --tasks STS12,STS22:fr,BUCC.v2
    """
    check_result_output(output)
    from mexma_cli.evaluation.extras import require
    from mexma_cli.evaluation.mteb_tasks import choose

    chosen = choose([word for word in tasks.replace(" ", ",").split(",") if word])
    require("mteb", "mteb", "mexma eval mteb")
    import mteb

    from mexma_cli.reporting.results import Result, describe, print_result

    loaded, rows = _measured(chosen, encoder, cache)
    settings = {"tasks": tasks, "mteb": mteb.__version__}
    result = Result("mteb", describe(loaded), settings, _scores(chosen, rows), rows, chosen.benchmark)
    print_result(result, as_json, output)


def _measured(
    chosen: Choice, encoder: EncoderChoice, cache: Path | None
) -> tuple[SentenceEncoder, list[dict[str, Any]]]:
    """A row a task, subset and split; tasks without data are warned of.

    Raises:
        MexmaError: An unknown task, or no task has data.
    """
    from mexma_cli.errors import MexmaError
    from mexma_cli.evaluation.mteb import MtebEncoder, get_tasks, measure

    tasks = get_tasks(chosen.tasks)
    loaded = load_encoder(encoder)
    handed = MtebEncoder(loaded, cache)
    rows: list[dict[str, Any]] = []
    failed: MexmaError | None = None
    with progress(tasks, unit="task") as bar:
        for task in bar:
            bar.set_postfix_str(task.metadata.name)
            try:
                scores = list(measure(handed, task, cache and cache / "mteb"))
            except MexmaError as error:
                failed = error
                log.warning("warning: %s", error.message)
                continue
            rows += [
                {
                    "task": score.name,
                    "split": score.split,
                    "measure": score.measure,
                    "score": score.value,
                }
                for score in scores
            ]
    if failed and not rows:
        raise failed
    # STS22 has STS22:fr in it: a row that two of the tasks gave is one.
    once = {(row["task"], row["split"]): row for row in rows}
    return loaded, list(once.values())


def _scores(chosen: Choice, rows: list[dict[str, Any]]) -> dict[str, float]:
    """The mean of all that was asked for, and the columns of a table of means; of whole ones only."""
    by_task: dict[str, list[float]] = {}
    for row in rows:
        for name in {row["task"], row["task"].partition(" (")[0]}:
            by_task.setdefault(name, []).append(row["score"])
    means = chosen.means or {"score": chosen.tasks}
    scores = {
        name: fmean(fmean(by_task[str(task)]) for task in members)
        for name, members in means.items()
        if all(str(task) in by_task for task in members)
    }
    if "score" not in means and len(scores) == len(means):
        scores = {"score": fmean(scores.values())} | scores
    return scores
