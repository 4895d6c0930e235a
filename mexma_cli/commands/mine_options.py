"""The options of `mexma mine`, in groups, and what they mean together."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from mexma_cli.commands.inputs import is_typed
from mexma_cli.commands.options import RETRIEVALS, margin_option, neighbourhood_option, search_options
from mexma_cli.formats.bitext import DEFAULT, formats

if TYPE_CHECKING:
    from mexma_cli.stages.mine.mine import MineSettings

Command = TypeVar("Command", bound=Callable[..., Any])


def _with(ids: str) -> str:
    """The names of the formats with such `ids`."""
    return ", ".join(name for name, found in formats().items() if found.ids == ids)


def _format_help() -> str:
    about = "".join(f"{name}: {found.about}. " for name, found in formats().items() if found.about)
    named = [name for name, found in formats().items() if found.endings and name != DEFAULT]
    return f"{about} [default: {' and '.join(named)} by the name of the output, else {DEFAULT}]"


_SCORING = (margin_option, neighbourhood_option)
_NEIGHBOURS = (
    click.option(
        "--neighbours",
        type=click.Path(path_type=Path),
        metavar="NAME.knn",
        help="Take the neighbours from here, where `mexma knn` kept them, instead of searching.",
    ),
)
_SELECTION = (
    click.option(
        "--retrieval",
        type=RETRIEVALS,
        default="max",
        show_default=True,
        help="max: best pairs first, each sentence in one at most. intersect: pairs that chose each other. "
        "forward, backward: the best target of every source, or the other way round.",
    ),
    click.option(
        "--all-candidates",
        is_flag=True,
        help="Instead of --retrieval: every neighbour of every sentence, each pair once.",
    ),
    click.option(
        "--threshold",
        type=float,
        help="Keep pairs with a score above this.  [default: 0 with max, none with the others]",
    ),
    click.option(
        "--max-score",
        type=float,
        help="Keep pairs with a score up to this; above are near-copies. stopes has 1.25.",
    ),
    click.option(
        "--drop-copies",
        is_flag=True,
        help="Drop pairs whose sides are the same sentence, or the same but for case, numbers, punctuation "
        "and a few letters.",
    ),
    click.option("--top", type=click.IntRange(min=1), metavar="N", help="Keep the N best of what is left."),
)
_DOCUMENTS = (
    click.option(
        "--within",
        nargs=2,
        type=click.Path(path_type=Path),
        metavar="SOURCE_DOCS TARGET_DOCS",
        help="Only pairs from documents that are paired: two files with the document id of every line of "
        "SOURCE and of TARGET. Equal ids are paired.",
    ),
    click.option(
        "--document-pairs",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="Which documents of --within are paired, if not equal ids: source id TAB target id.",
    ),
)
_OUTPUT = (
    click.option(
        "-o",
        "--output",
        type=click.Path(path_type=Path, allow_dash=True),
        help="File for the pairs, compressed if named .gz, .bz2, .xz or .zst.  [default: stdout]",
    ),
    click.option(
        "--format",
        "kind",
        type=click.Choice(list(formats())),
        help=_format_help(),
    ),
    click.option(
        "--with-ids",
        is_flag=True,
        help=f"{_with('wanted')}: add source line, target line, source rank, target rank, cosine, source "
        f"mean and target mean. {_with('always')} has them always.",
    ),
    click.option(
        "--report",
        type=click.Path(path_type=Path),
        help="File for a JSON report of the run: inputs, settings, counts, scores, time and memory.",
    ),
)


def mine_options(command: Command) -> Command:
    """Add the options that `settings_of` reads, and those for neighbours, documents and output."""
    for option in reversed((*_SCORING, *_NEIGHBOURS, *_SELECTION, *_DOCUMENTS, *_OUTPUT)):
        command = option(command)
    return search_options(command)


def settings_of(
    *,
    all_candidates: bool,
    retrieval: str,
    kind: str,
    with_ids: bool,
    **choices: Any,
) -> MineSettings:
    """The settings of a run.

    Raises:
        click.UsageError: options that contradict each other.
    """
    from mexma_cli.stages.mine.mine import MineSettings

    if all_candidates and is_typed("retrieval"):
        raise click.UsageError("--all-candidates is instead of --retrieval: give one of them.")
    if with_ids and formats()[kind].ids == "never":
        others = ", ".join(name for name, found in formats().items() if found.ids != "never")
        raise click.UsageError(f"--with-ids: {kind} files have no place for ids; these have: {others}.")
    for name in ("threshold", "max_score"):
        if choices[name] is not None and math.isnan(choices[name]):
            raise click.UsageError(f"--{name.replace('_', '-')} nan: no score is above or below that.")
    return MineSettings(
        retrieval="all" if all_candidates else retrieval,
        with_ids=with_ids or formats()[kind].ids == "always",
        **choices,
    )
