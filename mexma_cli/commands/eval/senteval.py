"""SentEval's seven classification tasks."""

from __future__ import annotations

from pathlib import Path

import click

from mexma_cli.commands.eval_options import Result, Session, evaluation
from mexma_cli.commands.progress import progress
from mexma_cli.errors import require


@evaluation("SentEval", "accuracy of a logistic regression on the vectors, percent", "SentEval's files")
@click.argument(
    "folders", nargs=-1, required=True, type=click.Path(path_type=Path, file_okay=False), metavar="DIR..."
)
@click.option(
    "--kfold",
    type=click.IntRange(min=2),
    default=10,
    show_default=True,
    metavar="N",
    help="Number of folds; SentEval's quick setting is 5.",
)
def command(session: Session, folders: tuple[Path, ...], kfold: int) -> Result:
    """Measure SentEval's classification tasks MR, SST2, TREC, CR, SUBJ, MPQA and MRPC: accuracy in percent.

    A logistic regression reads the frozen vectors. Its penalty is chosen on dev data or by cross-validation.

    DIR is `data/downstream` after SentEval's get_transfer_data.bash (github.com/facebookresearch/SentEval),
    or has a TSV a task: MR.tsv, CR.tsv, SUBJ.tsv, MPQA.tsv, {SST2,TREC,MRPC}.{train,dev,test}.tsv. A task
    without files is left out. A task without its test part is cross-validated (SST2: tested on dev), and is
    not compared with published numbers.

    \b
    Examples:
      mexma eval senteval SentEval/data/downstream --model facebook/MEXMA
      mexma eval senteval data/senteval data/mrpc --kfold 5
    """
    require("sklearn", "eval", "SentEval's logistic regression")
    from mexma_cli.evaluation.senteval import embed_splits, evaluate, protocol, read_tasks

    tasks = read_tasks(folders, kfold)
    sentences = sum(examples.texts for splits in tasks.values() for examples in splits.values())
    with session.embedder(sentences) as embed:
        features = {task: embed_splits(splits, embed) for task, splits in tasks.items()}
    fits = sum(protocol(task, splits, kfold).fits for task, splits in tasks.items())
    with progress(total=fits, desc="fitting", unit="fit") as bar:

        def on_fit(task: str) -> None:
            bar.set_postfix_str(task, refresh=False)
            bar.update()

        return evaluate(features, folders, kfold, embed.describe(), on_fit)
