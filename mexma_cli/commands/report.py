"""`mexma report`: a training run as curves and a table."""

from __future__ import annotations

import json
from pathlib import Path

import click

from mexma_cli.commands.tables import print_table


@click.command("report")
@click.argument("paths", nargs=-1, required=True, metavar="RUN...", type=click.Path(path_type=Path))
@click.option(
    "-o",
    "--output",
    metavar="PICTURE",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Draw the curves: .png, .svg, .pdf, or .html with the table below them.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(paths: tuple[Path, ...], output: Path | None, as_json: bool) -> None:
    """Show what came of training runs: first, best and last loss, terms, dev score and speed.

    RUN is the folder that `mexma train` wrote, or its log.jsonl; it may still be training. Phases come one
    after the other. Several runs are compared, side by side in the table and in one picture.

    \b
    Examples:
      mexma report runs/small
      mexma report runs/small -o curves.png
      mexma report runs/with-koleo runs/without-koleo -o compared.html
    """
    from mexma_cli.errors import MexmaError
    from mexma_cli.evaluation import curves
    from mexma_cli.evaluation.curve_plot import FORMATS, draw_curves
    from mexma_cli.evaluation.plot import check_plottable

    for path in paths:
        if not path.exists():
            raise MexmaError(f"{path}: no such file or folder")
        if not curves.is_run(path):
            raise MexmaError(
                f"{path} is no training run", f"name the folder of `mexma train` that has a {curves.LOG}"
            )
    if output is not None:
        check_plottable(output, FORMATS)
    runs = curves.read_runs(paths)
    if output is not None:
        draw_curves(output, runs)
    if as_json:
        click.echo(json.dumps({"runs": [curves.summary(run) for run in runs]}, ensure_ascii=False))
    else:
        print_table(curves.table(runs), names=3 if len(runs) > 1 else 2)
