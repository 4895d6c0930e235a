"""`mexma tune`: the best score threshold, from a gold list or from planted translations."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mexma_cli.commands.inputs import (
    check_inputs,
    check_outputs,
    is_typed,
    opened,
    progress_bar,
    tsv_outputs,
)
from mexma_cli.commands.options import (
    ENCODER_NAMES,
    encoder_options,
    margin_option,
    neighbourhood_option,
    retrieval_option,
)
from mexma_cli.commands.tune_output import (
    planted_json,
    print_languages,
    print_planted,
    print_tuned,
    tuned_json,
)
from mexma_cli.text.amounts import counted

if TYPE_CHECKING:
    from mexma_cli.stages.tune.tune import Tuned

log = logging.getLogger(__name__)

_FILES = ("gold", "source_ids", "target_ids", "output", "plot")
_NAMES = {"source_ids": "--source", "target_ids": "--target", "output": "-o"}
_OF_GOLD = ("gold", "source_ids", "target_ids", "output", "languages")
_OF_PLANT = ("margin", "k", "retrieval", *ENCODER_NAMES)


@click.command("tune")
@click.argument(
    "inputs",
    metavar="CANDIDATES | SOURCE TARGET",
    nargs=-1,
    required=True,
    type=click.Path(path_type=Path, allow_dash=True),
)
@click.option(
    "--gold",
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
    "--plant",
    nargs=2,
    metavar="FILE FILE",
    type=click.Path(path_type=Path),
    help="Known translations, line by line, to mine together with SOURCE and TARGET.",
)
@click.option(
    "--precision",
    type=click.FloatRange(min=0, min_open=True, max=1),
    help="Find the threshold that keeps the most pairs with at least this precision (0.95), not the best F1.",
)
@click.option(
    "--languages",
    metavar="CODE,CODE...",
    help="One threshold for each; the code stands for {lang} in the names of the files.",
)
@click.option(
    "--plot",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Draw the scores, right pairs against others, with the threshold (.png, .svg, .pdf).",
)
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    help="Write the pairs above the threshold, best first (compressed by suffix).",
)
@margin_option
@neighbourhood_option
@retrieval_option
@encoder_options
def command(inputs: tuple[Path, ...], as_json: bool, precision: float | None, **options: Any) -> None:
    """Find the score threshold with the best F1 for CANDIDATES, the output of `mexma mine` (TSV, JSONL).

    Recall is counted over all gold pairs, mined or not. Equal scores are kept or dropped together. With ids,
    a sentence that has more than one is left out, as in LASER's bucc.py. All files may be compressed. In
    parentheses are 95 % intervals, from resampled source sentences; `held out` is what the threshold from
    one half of the gold pairs gives on the other half.

    Without a gold list, --plant mines SOURCE and TARGET (embedding stores or texts) together with known
    translations (some hundreds, of the same kind as the texts) and measures how many come back. From that
    the precision on the texts' own pairs is estimated. Lines of the texts that are planted sentences are left
    out. --margin, -k, --retrieval and the encoder's options are those of `mexma mine`, and for --plant only;
    mine with the same ones afterwards.

    \b
    Examples:
      mexma tune pairs.tsv --gold gold.tsv --plot scores.png
      mexma tune pairs.tsv --gold gold.tsv --precision 0.95 -o kept.tsv.gz
      mexma tune pairs.tsv --gold gold.ids.tsv --source fra.tsv.gz --target eng.tsv.gz
      mexma tune '{lang}.pairs.tsv' --gold '{lang}.gold.tsv' --languages fra,deu
      mexma tune fra.emb eng.emb --plant dev.fra dev.eng
    """
    if precision is not None and math.isnan(precision):
        raise click.BadParameter("nan is no precision.", param_hint="'--precision'")
    _check_usage(inputs, options)
    from mexma_cli.reporting.plot import check_plottable

    if options["plot"] is not None:
        check_plottable(options["plot"])
    if options["plant"]:
        _plant(inputs, as_json, precision, options)
    else:
        _gold(inputs[0], as_json, precision, options)


def _check_usage(inputs: tuple[Path, ...], options: dict[str, Any]) -> None:
    """Raise click.UsageError for options that do not go together."""
    if not (options["plant"] or options["gold"]):
        raise click.UsageError("Give --gold, the true pairs, or --plant, known translations.")
    if options["plant"] and options["gold"]:
        raise click.UsageError("--gold and --plant are two ways; give one of them.")
    mode, foreign = ("--plant", _OF_GOLD) if options["plant"] else ("--gold", _OF_PLANT)
    for parameter in click.get_current_context().command.params:
        if parameter.name in foreign and is_typed(str(parameter.name)):
            raise click.UsageError(f"{parameter.opts[-1]} does not go with {mode}.")
    if options["plant"]:
        if len(inputs) != 2:
            raise click.UsageError("--plant goes with two texts, SOURCE and TARGET.")
        check_inputs([*inputs, *options["plant"]])
        return
    if len(inputs) != 1:
        raise click.UsageError("--gold goes with one file, the CANDIDATES that `mexma mine` wrote.")
    if (options["source_ids"] is None) != (options["target_ids"] is None):
        raise click.UsageError("Give --source and --target together, or neither.")
    if options["languages"] is not None:
        named = {"CANDIDATES": inputs[0]}
        named |= {_NAMES.get(name, f"--{name}"): options[name] for name in _FILES}
        for name, path in named.items():
            if path is not None and "{lang}" not in str(path):
                raise click.UsageError(f"With --languages, {name} needs {{lang}} in its name: {path}")
        if not all(code.strip() for code in options["languages"].split(",")):
            raise click.UsageError(f"--languages {options['languages']!r} has an empty code.")


def _gold(candidates: Path, as_json: bool, precision: float | None, options: dict[str, Any]) -> None:
    """A threshold from a gold list, or one for each language from its own."""
    from mexma_cli.languages import resolve
    from mexma_cli.stages.tune.files import TuningFiles, tune_files

    files = TuningFiles(candidates, **{name: options[name] for name in _FILES})
    jobs = {"": files}
    if options["languages"] is not None:
        jobs = files.of_all([code.strip() for code in options["languages"].split(",")])
    for job in jobs.values():
        check_inputs(job.inputs)
        _check_outputs(job.output, job.plot, job.inputs)
    tuned = {}
    for language, job in jobs.items():
        found = tune_files(job, precision)
        _tell(found, f"{language}: " if language else "")
        tuned[language] = found.without_pairs()
    if options["languages"] is None:
        if as_json:
            click.echo(json.dumps(tuned_json(tuned[""])))
        else:
            print_tuned(tuned[""])
    elif as_json:
        codes = [{"language": language, "code": resolve(language)} for language in tuned]
        click.echo(json.dumps([code | tuned_json(tuned[code["language"]]) for code in codes]))
    else:
        print_languages(tuned)


def _plant(inputs: tuple[Path, ...], as_json: bool, precision: float | None, options: dict[str, Any]) -> None:
    from mexma_cli.mining.calibration import FEW
    from mexma_cli.stages.tune.calibrate import calibrate
    from mexma_cli.stages.tune.files import draw_planted

    _check_outputs(None, options["plot"], [*inputs, *options["plant"]])
    with ExitStack() as stack:
        known_source, known_target, source, target = opened(
            stack, [*options["plant"], *inputs], options["encoder"], aligned=True
        )
        found = calibrate(
            source,
            target,
            (known_source, known_target),
            **{name: options[name] for name in ("margin", "k", "retrieval")},
            precision=precision,
            on_progress=progress_bar(stack, "mining"),
        )
    log.info("%s planted", counted(found.best.planted, "pair"))
    if found.best.planted < FEW:
        log.warning("warning: fewer than %d planted pairs give a poor estimate; plant some hundreds", FEW)
    _say_counts(
        "",
        (found.empty, "planted pair", "left out: a side is empty or has no usable vector"),
        (found.repeated, "planted pair", "left out: a sentence is in an earlier one"),
        (found.copies[0], "line", "of SOURCE left out, planted sentences too"),
        (found.copies[1], "line", "of TARGET left out, planted sentences too"),
    )
    if options["plot"] is not None:
        draw_planted(options["plot"], found, inputs)
    if as_json:
        click.echo(json.dumps(planted_json(found)))
    else:
        print_planted(found)


def _check_outputs(output: Path | None, plot: Path | None, inputs: Sequence[Path]) -> None:
    """Find out before the work that its outputs can be written, and destroy nothing."""
    from mexma_cli.text.writing import prepare_output

    if str(output) == "-":
        raise click.UsageError("The threshold goes to stdout: name a file for the pairs.")
    check_outputs(tsv_outputs(output, inputs), plot, "picture", inputs)
    prepare_output(plot)


def _tell(found: Tuned, about: str) -> None:
    log.info(
        "%s%s, %s, %s of these among the candidates",
        about,
        counted(len(found.scores), "candidate pair"),
        counted(found.gold, "gold pair"),
        f"{int(found.is_gold.sum()):,}",
    )
    _say_counts(
        about,
        (found.repeated, "line", "with a pair that was there before: its best score counts"),
        (found.ambiguous, "line", "left out: a sentence has more than one id"),
        (found.unknown, "line", "left out: a sentence has no id"),
    )


def _say_counts(about: str, *counts: tuple[int, str, str]) -> None:
    for count, what, why in counts:
        if count:
            log.info("%s%s %s", about, counted(count, what), why)
