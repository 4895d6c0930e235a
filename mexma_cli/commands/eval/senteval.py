"""`mexma eval senteval`: classification of English sentences by a regression on their vectors."""

from __future__ import annotations

import logging
from contextlib import AbstractContextManager
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

import click

from mexma_cli.commands.eval.options import cached_embedding, check_result_output, result_options
from mexma_cli.commands.options import EncoderChoice, encoder_options, load_encoder
from mexma_cli.commands.progress import progress

if TYPE_CHECKING:
    from mexma_cli.evaluation.aligned import Embed
    from mexma_cli.evaluation.senteval import Part
    from mexma_cli.evaluation.senteval_files import Examples

log = logging.getLogger(__name__)

EXAMPLES = {
    "MR": 10662,
    "SST2": 70042,
    "TREC": 5952,
    "CR": 3775,
    "SUBJ": 10000,
    "MPQA": 10606,
    "MRPC": 5801,
}
"""Of all parts, in SentEval's download."""

Splits = dict[str, "Examples"]


@click.command("senteval")
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
@result_options
@encoder_options
def command(
    folders: tuple[Path, ...],
    kfold: int,
    cache: Path | None,
    as_json: bool,
    output: Path | None,
    encoder: EncoderChoice,
) -> None:
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
    from mexma_cli.errors import MexmaError
    from mexma_cli.evaluation.extras import require
    from mexma_cli.evaluation.senteval_files import LAYOUTS, TASKS, read_task
    from mexma_cli.reporting.results import Result, describe, print_result

    require("sklearn", "eval", "SentEval's logistic regression")
    from mexma_cli.evaluation.senteval import check_classes

    for folder in folders:
        if not folder.is_dir():
            raise MexmaError(f"{folder}: no such folder", LAYOUTS)
    tasks = {task: read_task(task, folders) for task in TASKS}
    tasks = {task: splits for task, splits in tasks.items() if splits.keys() & {"all", "train"}}
    missing = [task for task in TASKS if task not in tasks]
    if not tasks:
        raise MexmaError(f"{' '.join(map(str, folders))}: none of SentEval's files is there", LAYOUTS)
    if missing:
        log.warning("warning: no files of %s: left out (--help names the files)", ", ".join(missing))
    check_result_output(output)
    for task, splits in tasks.items():
        check_classes(task, {split: examples.labels for split, examples in splits.items()}, kfold)
    loaded = load_encoder(encoder)
    rows = _rows(tasks, kfold, cached_embedding(loaded, cache, sum(map(_sentences, tasks.values()))))
    as_published = {row["task"]: row["accuracy"] for row in rows if row["as published"] == "yes"}
    scores = as_published or {"accuracy": fmean(row["accuracy"] for row in rows)}
    if len(as_published) == len(TASKS):
        scores = {"average": sum(scores.values()) / len(scores)} | scores
    settings = {
        "folders": [str(folder) for folder in folders],
        "classifier": "logistic regression",
        "kfold": kfold,
    }
    print_result(Result("senteval", describe(loaded), settings, scores, rows, "senteval"), as_json, output)


def _sentences(splits: Splits) -> int:
    return sum(len(part.sentences) + len(part.seconds) for part in splits.values())


def _rows(tasks: dict[str, Splits], kfold: int, bar: AbstractContextManager[Embed]) -> list[dict[str, Any]]:
    from mexma_cli.evaluation.senteval import protocol, run_task

    with bar as embed:
        parts = {task: _parts(splits, embed) for task, splits in tasks.items()}
    protocols = {task: protocol(task, splits, kfold) for task, splits in tasks.items()}
    rows = []
    total = sum(one.fits for one in protocols.values())
    with progress(total=total, desc="fitting", unit="fit") as fitting:
        for task, steps in protocols.items():
            fitting.set_postfix_str(task)
            found = run_task(task, parts[task], kfold, fitting.update)
            examples = sum(len(part.classes) for part in parts[task].values())
            whole = examples >= 0.98 * EXAMPLES[task]  # copies differ by a few
            rows.append(
                {
                    "task": task,
                    "validation": steps.name,
                    "as published": "yes" if steps.as_published and whole else "no",
                    "examples": examples,
                    "accuracy": found.accuracy,
                    "f1": found.f1,
                }
            )
    return rows


def _parts(splits: Splits, embed: Embed) -> dict[str, Part]:
    """Features and classes; classes are numbered over all splits, in the order of their labels."""
    import numpy as np

    from mexma_cli.evaluation.senteval import Part, pair_features

    labels = sorted({label for examples in splits.values() for label in examples.labels})
    parts = {}
    for split, examples in splits.items():
        vectors = embed(examples.sentences)
        if examples.seconds:
            vectors = pair_features(vectors, embed(examples.seconds))
        parts[split] = Part(vectors, np.array([labels.index(label) for label in examples.labels]))
    return parts
