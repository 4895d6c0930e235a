"""`mexma tune`: the best score threshold, from a gold list."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import click

log = logging.getLogger(__name__)


@click.command("tune")
@click.argument("candidates", type=click.Path(path_type=Path, allow_dash=True))
@click.option(
    "--gold",
    required=True,
    type=click.Path(path_type=Path),
    help="The true pairs, one a line: source TAB target; ids with --source and --target, else sentences.",
)
@click.option(
    "--source",
    "source_ids",
    type=click.Path(path_type=Path),
    help="Ids of the source sentences: id TAB sentence (as BUCC).",
)
@click.option(
    "--target",
    "target_ids",
    type=click.Path(path_type=Path),
    help="Ids of the target sentences: id TAB sentence.",
)
@click.option(
    "--plot",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Draw the scores, gold pairs against others, with the threshold (.png, .svg, .pdf).",
)
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    help="Write the pairs above the threshold, best first (compressed by suffix).",
)
def command(
    candidates: Path,
    gold: Path,
    source_ids: Path | None,
    target_ids: Path | None,
    plot: Path | None,
    as_json: bool,
    output: Path | None,
) -> None:
    """Find the score threshold with the best F1 for CANDIDATES, the output of `mexma mine`.

    Recall is counted over all gold pairs, mined or not. Equal scores are kept or dropped together. With ids,
    a sentence that has more than one is left out, as in LASER's bucc.py. All files may be compressed.

    \b
    Examples:
      mexma tune pairs.tsv --gold gold.tsv --plot scores.png
      mexma tune pairs.tsv --gold gold.ids.tsv --source fra.tsv.gz --target eng.tsv.gz
      mexma tune pairs.tsv --gold gold.tsv -o kept.tsv.gz
    """
    if (source_ids is None) != (target_ids is None):
        raise click.UsageError("Give --source and --target together, or neither.")
    from mexma_cli.evaluation.plot import check_plottable, draw_scores
    from mexma_cli.stages.bitext import check_output, write_pairs
    from mexma_cli.stages.tune import tune

    check_output(output)
    if plot is not None:
        check_output(plot)
        check_plottable(plot)
    found = tune(candidates, gold, source_ids, target_ids)
    best = found.best
    log.info(
        "%s candidate pairs, %s gold pairs, %s of these among the candidates",
        f"{len(found.scores):,}",
        f"{found.gold:,}",
        f"{int(found.is_gold.sum()):,}",
    )
    for count, what in (
        (found.repeated, "lines repeat a pair: its best score counts"),
        (found.ambiguous, "lines left out: a sentence has more than one id"),
        (found.unknown, "lines left out: a sentence has no id"),
    ):
        if count:
            log.info("%s %s", f"{count:,}", what)
    if plot is not None:
        draw_scores(plot, found.scores, found.is_gold, best.threshold, f"Scores of {candidates.name}")
    if output is not None:
        write_pairs(output, found.kept())
    result = {
        "threshold": best.threshold,
        "precision": best.precision,
        "recall": best.recall,
        "f1": best.f1,
        "pairs": best.count,
        "correct": best.correct,
        "gold": found.gold,
        "candidates": len(found.scores),
    }
    if as_json:
        click.echo(json.dumps(result))
        return
    shortest = repr(best.threshold)
    click.echo(f"threshold  {shortest if len(shortest.partition('.')[2]) > 6 else f'{best.threshold:.6f}'}")
    click.echo(f"precision  {100 * best.precision:.2f}")
    click.echo(f"recall     {100 * best.recall:.2f}")
    click.echo(f"F1         {100 * best.f1:.2f}")
    click.echo(f"pairs      {best.count} above the threshold, {best.correct} of {found.gold} gold pairs")
