"""Tasks of the mteb package, and the paper's lists."""

from __future__ import annotations

import click

from mexma_cli.commands.eval_options import Result, Session, evaluation
from mexma_cli.commands.progress import progress
from mexma_cli.stages.embed.inputs import load_encoder


@evaluation("MTEB", "scores of the mteb package, percent", "the mteb package, which fetches its data")
@click.option(
    "--tasks",
    required=True,
    metavar="LIST",
    help="Names of mteb (STS12,STS22:fr) or tables of the MEXMA paper (table4,table27), with commas.",
)
def command(session: Session, tasks: str) -> Result:
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
    from mexma_cli.errors import require
    from mexma_cli.evaluation.mteb_tasks import choose

    chosen = choose([word for word in tasks.replace(" ", ",").split(",") if word])
    require("mteb", "mteb", "mexma eval mteb")
    from mexma_cli.evaluation.mteb import MtebEncoder, evaluate, get_tasks

    found = get_tasks(chosen.tasks)
    encoder = MtebEncoder(load_encoder(session.choice), session.cache)
    with progress(found, unit="task") as bar:
        return evaluate(encoder, bar, chosen, tasks, bar.set_postfix_str)
