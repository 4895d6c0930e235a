"""SentEval's seven classification tasks."""

from __future__ import annotations

from pathlib import Path

import click

from mexma_cli.commands.eval_options import Result, Session, evaluation
from mexma_cli.commands.progress import progress


@evaluation("SentEval", "accuracy of a logistic regression on the vectors, percent", "SentEval's files")
@click.argument(
    "folders", nargs=-1, required=True, type=click.Path(path_type=Path, file_okay=False), metavar="DIR..."
)
@click.option(
    "--kfold",
    type=click.IntRange(min=2),
    default=10,
    show_default=True,
    help="Folds, outer and inner; SentEval's own quick setting is 5.",
)
def command(session: Session, folders: tuple[Path, ...], kfold: int) -> Result:
    """Classify with SentEval's seven tasks of the paper: MR SST2 TREC CR SUBJ MPQA MRPC. Accuracy, percent.

    A logistic regression on the frozen vectors, the inverse penalty chosen from 1/4 to 8: by folds inside
    folds (MR, CR, SUBJ, MPQA), on the dev part (SST2); from 1/2 to 32: by folds of the train part (TREC,
    MRPC). Pairs of MRPC are [abs(u - v), u * v].

    DIR is `data/downstream` after SentEval's get_transfer_data.bash (github.com/facebookresearch/SentEval),
    or has a TSV a task: MR.tsv, CR.tsv, SUBJ.tsv, MPQA.tsv, {SST2,TREC,MRPC}.{train,dev,test}.tsv. Several
    folders are searched in order. A task without files is left out; one without its test part is validated
    by folds inside folds (SST2: tested on dev). Only whole tasks, validated `as published`, are compared.

    \b
    Examples:
      mexma eval senteval SentEval/data/downstream --model facebook/MEXMA
      mexma eval senteval data/senteval data/mrpc --kfold 5
    """
    from mexma_cli.errors import require

    require("sklearn", "eval", "SentEval's logistic regression")
    from mexma_cli.evaluation.readers.senteval import read_tasks
    from mexma_cli.evaluation.senteval import check_classes, embed_splits, evaluate, protocol

    tasks = read_tasks(folders)
    for task, splits in tasks.items():
        check_classes(task, {split: examples.labels for split, examples in splits.items()}, kfold)
    sentences = sum(examples.texts for splits in tasks.values() for examples in splits.values())
    with session.embedder(sentences) as embed:
        features = {task: embed_splits(splits, embed) for task, splits in tasks.items()}
    fits = sum(protocol(task, splits, kfold).fits for task, splits in tasks.items())
    with progress(total=fits, desc="fitting", unit="fit") as bar:

        def on_fit(task: str) -> None:
            bar.set_postfix_str(task, refresh=False)
            bar.update()

        return evaluate(features, folders, kfold, embed.describe(), on_fit)
