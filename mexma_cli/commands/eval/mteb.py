"""Tasks of the mteb package, and the MEXMA paper's lists."""

from __future__ import annotations

import click

from mexma_cli.commands.eval_options import Result, Session, evaluation
from mexma_cli.commands.progress import progress
from mexma_cli.errors import require
from mexma_cli.stages.embed.inputs import load_encoder


@evaluation("MTEB", "scores of the mteb package, percent", "the mteb package, which fetches its data")
@click.option(
    "--tasks",
    required=True,
    metavar="LIST",
    help="Names of mteb (STS12,STS22:fr), or tables of the papers (table4,table27,clft).",
)
def command(session: Session, tasks: str) -> Result:
    """Run tasks of the mteb package (extra `mteb`), and print its main scores in percent.

    --tasks takes the MEXMA paper's tables: table2 (classification), table3 (pair classification, average
    precision) and table4 (STS), with means by language, or table16 and table18 to table30. table17 is `mexma
    eval senteval`, whose column table2 lacks here. clft-es, -de, -fr, -tr and -sw are the rows of CLFT's
    table, clft their mean; SciFact's data are those of a clone of github.com/mtybadger/mmteb-toolkit in the
    current folder. NAME:SUBSET is one language of a task. Scores are of the test split, if there is one.

    mteb downloads its data from huggingface.co. A task without data is named and left out, and so is its
    mean. Results are kept in --cache, so the same command continues a stopped run. Prompts of tasks are not
    used; --prompt is.

    \b
    Examples:
      mexma eval mteb --tasks table4 --model facebook/MEXMA -o sts.json
      mexma eval mteb --tasks STS12,STS22:fr,BUCC.v2
    """
    from mexma_cli.evaluation.mteb_tasks import chosen_tasks

    chosen = chosen_tasks([word for word in tasks.replace(" ", ",").split(",") if word])
    require("mteb", "mteb", "mexma eval mteb")
    from mexma_cli.evaluation.mteb import MtebEncoder, evaluate, get_tasks

    found = get_tasks(chosen.tasks)
    encoder = MtebEncoder(load_encoder(session.choice), session.cache)
    with progress(found, unit="task") as bar:
        return evaluate(encoder, bar, chosen, tasks, bar.set_postfix_str)
