"""`mexma report`: training runs as curves and a table, results of `mexma eval` as a page."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import click

from mexma_cli.commands.options import json_option, output_option
from mexma_cli.errors import MexmaError
from mexma_cli.files import refuse_pipe
from mexma_cli.reporting.result import Result
from mexma_cli.reporting.tables import aligned_columns, as_csv, as_latex, text_lines

log = logging.getLogger(__name__)

_TABLES = {".csv": as_csv, ".tex": as_latex}


@click.command("report")
@click.argument("paths", nargs=-1, required=True, metavar="RUN...|RESULT...", type=click.Path(path_type=Path))
@output_option(
    "PICTURE",
    "Draw the curves of runs (.png, .svg, .pdf, .html), or write a page (.html) or a table (.csv, .tex) of "
    "results.",
    dir_okay=False,
)
@json_option
def command(paths: tuple[Path, ...], output: Path | None, as_json: bool) -> None:
    """Compare training runs, or make a page of evaluation results.

    RUN is the folder of `mexma train`, or its log.jsonl; it may still be training. The table has the first,
    best and last loss, each loss term, the dev score and the speed of every phase. Of runs that differ in the
    seed alone, a second table has means with their 95% intervals.

    RESULT is a file that `mexma eval ... -o FILE.json` wrote. The page compares encoders on the same data, in
    tables and charts with the published numbers, and needs no other file.

    \b
    Examples:
      mexma report runs/small
      mexma report runs/small -o curves.png
      mexma report runs/with-koleo runs/without-koleo -o compared.html
      mexma report results/*.json -o page.html
      mexma report results/*.json -o scores.tex
    """
    from mexma_cli.reporting import curves

    for path in paths:
        if not path.exists():
            raise MexmaError(f"{path}: no such file or folder")
        refuse_pipe(path)
    paths = _each_once(paths)
    results = [path for path in paths if path.suffix == ".json" and path.is_file()]
    if results:
        if len(results) < len(paths):
            other = next(path for path in paths if path not in results)
            raise MexmaError(
                f"{other} is no result of `mexma eval`, {results[0]} is",
                "report on runs alone, or on results alone",
            )
        _results(results, output, as_json)
        return
    for path in paths:
        if not curves.is_run(path):
            raise MexmaError(f"{path} is no training run", _instead(path))
    _runs(paths, output, as_json)


def _each_once(paths: Sequence[Path]) -> tuple[Path, ...]:
    """The paths less those of a run or result that was named before; a run is its folder or its log."""
    from mexma_cli.reporting.curves import LOG

    once: dict[Path, Path] = {}
    for path in paths:
        log_of = path / LOG if (path / LOG).is_file() else path
        if once.setdefault(log_of.resolve(), path) is not path:
            log.warning("%s was named before: it is shown once", path)
    return tuple(once.values())


def _instead(path: Path) -> str:
    """A hint for a path that is no run: what to name in its place."""
    from mexma_cli.reporting.curves import LOG

    found = sorted(path.glob("*.json")) if path.is_dir() else []
    results = []
    for file in found:
        with suppress(MexmaError):
            Result.read(file)
            results.append(file)
    if (path / "units").is_dir() and (path / "report.html").is_file():
        return f"its report is {path / 'report.html'}"
    if not results:
        return f"name the folder of `mexma train` that has a {LOG}"
    named = f"{path}/*.json" if results == found else " ".join(map(str, results))
    return f"there {'are results' if len(results) > 1 else 'is a result'} of `mexma eval` in it: name {named}"


def _runs(paths: Sequence[Path], output: Path | None, as_json: bool) -> None:
    from mexma_cli.reporting import curves, seeds
    from mexma_cli.reporting.curve_plot import FORMATS, draw_curves
    from mexma_cli.reporting.plot import check_plottable

    check_plottable(output, FORMATS)
    runs = curves.read_runs(paths)
    groups = seeds.by_seed(paths, runs)
    if output is not None:
        draw_curves(output, runs)
    if as_json:
        found = {
            "runs": [curves.summary(run) for run in runs],
            "seeds": [seeds.summary(group) for group in groups],
        }
        click.echo(json.dumps(found, ensure_ascii=False))
        return
    click.echo("\n".join(aligned_columns(curves.table(runs), names=3 if len(runs) > 1 else 2)))
    if groups:
        click.echo("\nmean over seeds, with the 95% interval of Student's t")
        click.echo("\n".join(aligned_columns(seeds.table(groups), names=3)))


def _results(paths: Sequence[Path], output: Path | None, as_json: bool) -> None:
    from mexma_cli.commands.eval import headings
    from mexma_cli.reporting.page import compared, write_results_page
    from mexma_cli.text.writing import prepare_output, write_chunks

    suffix = output.suffix.lower() if output else ""
    if output and suffix not in (".html", *_TABLES):
        raise MexmaError(f"{output}: a page of results is .html", "a table of them is .csv or .tex")
    prepare_output(output)
    results = [Result.read(path) for path in paths]
    table = compared(results)
    if output and suffix in _TABLES:
        write_chunks([output], [((_TABLES[suffix](table),), 0)])
    elif output:
        write_results_page(output, results, headings())
    if as_json:
        click.echo(json.dumps({"results": [result.to_json() for result in results]}, ensure_ascii=False))
        return
    for number, (path, result) in enumerate(zip(paths, results, strict=True)):
        click.echo("\n" * bool(number) + f"{result.task} ({path})")
        click.echo("\n".join(text_lines(result)))
    if len(results) > 1:
        click.echo("\n" + "\n".join(aligned_columns(table, names=3)))
