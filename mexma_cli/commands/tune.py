"""`mexma tune`: the best score threshold, by a gold list, by the scores alone, or by labels."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mexma_cli.commands.inputs import check_inputs, check_outputs, is_typed, progress_bar, row_outputs
from mexma_cli.commands.options import (
    Share,
    document_options,
    encoder_options,
    json_option,
    languages_option,
    no_verify_option,
    options_of,
    output_option,
    path_option,
    written_option,
)
from mexma_cli.commands.tune_output import (
    estimated_json,
    print_estimated,
    print_languages,
    print_tuned,
    tell_copies,
    tell_precision,
    tuned_json,
)
from mexma_cli.errors import visible
from mexma_cli.languages import UNSTATED, resolve
from mexma_cli.settings.stages import TUNED, EncoderChoice, MineSettings
from mexma_cli.text.amounts import counted

if TYPE_CHECKING:
    from mexma_cli.stages.tune.labels import Labels
    from mexma_cli.stages.tune.tune import Tuned

log = logging.getLogger(__name__)

_FILES = ("gold", "source_ids", "target_ids", "output", "plot")
_NAMES = {"source_ids": "--source", "target_ids": "--target", "output": "-o"}
_OF_GOLD = ("gold", "source_ids", "target_ids", "output", "codes")
_OF_TEXTS = (
    *TUNED,
    "within",
    "document_pairs",
    "save_threshold",
    "label",
    "labels",
    "source_lang",
    "target_lang",
    *EncoderChoice.model_fields,
)


@click.command("tune")
@click.argument(
    "inputs",
    metavar="CANDIDATES | SOURCE TARGET",
    nargs=-1,
    required=True,
    type=click.Path(path_type=Path, allow_dash=True),
)
@path_option(
    "--gold",
    help="All true pairs, source TAB target (others count as wrong): sentences, or ids with --source and "
    "--target.",
    metavar=None,
)
@path_option(
    "--source", "source_ids", help="Ids of the source sentences, id TAB sentence (as BUCC).", metavar=None
)
@path_option("--target", "target_ids", help="Ids of the target sentences, id TAB sentence.", metavar=None)
@click.option(
    "--label",
    type=click.IntRange(min=1),
    metavar="N",
    help="Ask in the terminal whether N of the pairs are right, to correct the estimate.",
)
@written_option(
    "--labels",
    help="Labels of --label or `mexma review`, which correct the estimate; --label adds its answers.  "
    "[default: labels.tsv with --label, else none]",
)
@click.option(
    "--precision",
    type=Share(min=0, min_open=True, max=1),
    metavar="SHARE",
    help="Instead of the best F1: the lowest threshold with this precision, such as 0.95.",
)
@written_option(
    "--save-threshold", help="Keep it in a file of thresholds, for `mexma mine --thresholds FILE`."
)
@click.option(
    "--languages",
    "--langs",
    "codes",
    metavar="CODES",
    help="One threshold a language; {lang} in file names stands for its code.",
)
@written_option("--plot", help="Draw the scores of right and other pairs (.png, .svg, .pdf).")
@json_option
@output_option(None, "Write the pairs above the threshold there, best first.")
@options_of(MineSettings, *TUNED)
@document_options
@languages_option
@encoder_options
@no_verify_option
def command(inputs: tuple[Path, ...], as_json: bool, precision: float | None, **options: Any) -> None:
    """Find the score threshold with the best F1 for mined pairs, with 95 % intervals.

    With --gold, CANDIDATES is the TSV or JSONL of `mexma mine`. Recall counts all gold pairs, mined or not. A
    sentence with several ids is left out, as in LASER's bucc.py. `held out` shows a threshold from one half
    of the gold pairs on the other half.

    Without --gold, SOURCE and TARGET (texts or embedding stores) are mined. Precision is the mean of the
    probabilities that the pairs are translations, also where their scores are margins (with --margin,
    --within, or another encoder than mini). --label 50, or labels of `mexma review`, make the estimate surer.
    Mine with the same --score, --margin, -k and --within as here.

    \b
    Examples:
      mexma tune pairs.tsv --gold gold.tsv --plot scores.png
      mexma tune pairs.tsv --gold gold.tsv --precision 0.95 -o kept.tsv.gz
      mexma tune pairs.tsv --gold gold.ids.tsv --source fra.tsv.gz --target eng.tsv.gz
      mexma tune '{lang}.pairs.tsv' --gold '{lang}.gold.tsv' --langs fra,deu
      mexma tune fra.emb eng.emb --precision 0.95 --save-threshold thresholds.json
      mexma tune fra.emb eng.emb --label 50
      mexma tune fra.emb eng.emb --labels labels.tsv
    """
    if precision is not None and math.isnan(precision):
        raise click.BadParameter("nan is no precision.", param_hint="'--precision'")
    _check_usage(inputs, options)
    if options["gold"]:
        _gold(inputs[0], as_json, precision, options)
    else:
        _texts(inputs, as_json, precision, options)


def _check_usage(inputs: tuple[Path, ...], options: dict[str, Any]) -> None:
    """Raise click.UsageError for options that do not go together."""
    if not options["gold"] and len(inputs) != 2:
        raise click.UsageError(
            "Give --gold, the true pairs, or the two texts, SOURCE and TARGET, which --labels go with."
        )
    mode, foreign = ("--gold", _OF_TEXTS) if options["gold"] else ("two texts", _OF_GOLD)
    for parameter in click.get_current_context().command.params:
        if parameter.name in foreign and is_typed(str(parameter.name)):
            instead = ""
            if parameter.name == "output":
                instead = (
                    " Keep the threshold (--save-threshold), and `mexma mine --thresholds` writes the pairs."
                )
            raise click.UsageError(f"{parameter.opts[-1]} does not go with {mode}.{instead}")
    if not options["gold"]:
        check_inputs(inputs)
        return
    if len(inputs) != 1:
        raise click.UsageError(
            "--gold goes with one file, the CANDIDATES: `mexma mine SOURCE TARGET -o pairs.tsv` writes them."
        )
    if (options["source_ids"] is None) != (options["target_ids"] is None):
        raise click.UsageError("Give --source and --target together, or neither.")
    if options["codes"] is not None:
        named = {"CANDIDATES": inputs[0]}
        named |= {_NAMES.get(name, f"--{name}"): options[name] for name in _FILES}
        for name, path in named.items():
            if path is not None and "{lang}" not in str(path):
                raise click.UsageError(f"With --langs, {name} needs {{lang}} in its name: {path}")
        if not all(code.strip() for code in options["codes"].split(",")):
            raise click.UsageError(f"--langs {options['codes']!r} has an empty code.")


def _gold(candidates: Path, as_json: bool, precision: float | None, options: dict[str, Any]) -> None:
    """A threshold from a gold list, or one for each language from its own."""
    from mexma_cli.stages.tune.tune import TuningFiles, tune_files

    files = TuningFiles(candidates, **{name: options[name] for name in _FILES})
    jobs = {"": files}
    if options["codes"] is not None:
        jobs = files.of_all([code.strip() for code in options["codes"].split(",")])
    for job in jobs.values():
        check_inputs(job.inputs)
        _check_outputs(job.output, job.plot, job.inputs)
    tuned = {}
    for language, job in jobs.items():
        found = tune_files(job, precision)
        about = f"{language}: " if language else ""
        _log_summary(found, about)
        tell_precision(precision, found.best, about)
        tuned[language] = found.without_pairs()
    if options["codes"] is None:
        if as_json:
            click.echo(json.dumps(tuned_json(tuned[""])))
        else:
            print_tuned(tuned[""])
    elif as_json:
        codes = [{"language": language, "code": resolve(language)} for language in tuned]
        click.echo(json.dumps([code | tuned_json(tuned[code["language"]]) for code in codes]))
    else:
        print_languages(tuned)


def _texts(inputs: tuple[Path, ...], as_json: bool, precision: float | None, options: dict[str, Any]) -> None:
    """A threshold from the scores of two texts' pairs."""
    from mexma_cli.stages.mine.mine import MiningJob
    from mexma_cli.stages.mine.thresholds import save_threshold, stored_threshold
    from mexma_cli.stages.tune.estimate import draw_estimate, estimated

    documents, count, labels = options["documents"], options["label"], options["labels"]
    if count and labels is None:
        labels = Path("labels.tsv")
    saved = options["save_threshold"]
    languages = _check_texts(inputs, labels if count else None, options)
    job = MiningJob((inputs[0], inputs[1]), languages, options["settings"], documents=documents)
    asking = (lambda answers, model: ask(answers, answers.drawn(model, count))) if count else None
    with ExitStack() as stack:
        bars = progress_bar(stack, "embedding", "line"), progress_bar(stack, "mining")
        how = options["encoder"], precision, labels, asking
        found, stores = stack.enter_context(estimated(job, *how, *bars))
        tell_precision(precision, found.best)
        tell_copies(found.copies)
        if saved is not None:
            manifest = stores[0].manifest
            save_threshold(saved, stored_threshold(found.best, manifest, languages, found.settings))
    if options["plot"] is not None:
        draw_estimate(options["plot"], found.model, found.best.threshold, inputs)
    if as_json:
        click.echo(json.dumps(estimated_json(found)))
    else:
        print_estimated(found)


def _check_texts(inputs: tuple[Path, ...], answered: Path | None, options: dict[str, Any]) -> tuple[str, str]:
    """Find out before the work that the outputs of two texts' threshold can be written, the file of labels
    that are `answered` among them; returns the languages of the texts."""
    from mexma_cli.stages.embed.inputs import language_of
    from mexma_cli.stages.mine.thresholds import read_thresholds
    from mexma_cli.text.writing import prepare_output

    read = [*inputs, *(path for path in options["documents"] or () if path)]
    _check_outputs(None, options["plot"], read)
    saved = options["save_threshold"]
    check_outputs([answered, saved, options["plot"]], read)
    codes = options["languages"]
    languages = language_of(inputs[0], codes[0]), language_of(inputs[1], codes[1])
    if saved is not None and UNSTATED in languages:
        raise click.UsageError(
            "--save-threshold keeps a threshold for two languages: give --source-lang and --target-lang."
        )
    for path in (answered, saved):
        prepare_output(path)
    if saved is not None and saved.exists():
        read_thresholds(saved)  # that it is one
    return languages


def _check_outputs(output: Path | None, plot: Path | None, inputs: Sequence[Path]) -> None:
    """Find out before the work that its outputs can be written, and destroy nothing."""
    from mexma_cli.reporting.plot import check_plottable

    check_outputs([*row_outputs(output, inputs)[0], plot], inputs)
    check_plottable(plot)


def _log_summary(found: Tuned, about: str) -> None:
    log.info(
        "%s%s, %s, %s of these among the candidates",
        about,
        counted(len(found.scores), "candidate pair"),
        counted(found.gold, "gold pair"),
        f"{int(found.is_gold.sum()):,}",
    )
    for count, why in (
        (found.repeated, "with a pair that was there before: its best score counts"),
        (found.ambiguous, "left out: a sentence has more than one id"),
        (found.unknown, "left out: a sentence has no id"),
    ):
        if count:
            log.info("%s%s %s", about, counted(count, "line"), why)


def ask(labels: Labels, places: list[int]) -> None:
    """Ask about pairs, one after the other, and keep each answer; stops early at `q` or the input's end.
    After Ctrl-C (a KeyboardInterrupt), too, what was answered is kept."""
    if places:
        click.echo("Is the second the translation of the first? [y]es, [n]o, [s]kip, [q]uit", err=True)
    for number, (place, source, target) in enumerate(labels.sentences(places), 1):
        click.echo(f"\n{number} of {len(places)}\n  {visible(source)}\n  {visible(target)}", err=True)
        try:
            answer = click.prompt("y/n/s/q", value_proc=_answer, prompt_suffix=" ", err=True)
        except click.Abort as stopped:  # Ctrl-D, or the end of a file; Click makes one of Ctrl-C, too
            if isinstance(stopped.__context__, KeyboardInterrupt):
                raise KeyboardInterrupt from None
            break
        if answer == "q":
            break
        labels.add(place, answer, source, target)


def _answer(typed: str) -> str:
    """The first letter of an answer, which may be the whole word, in capitals or not."""
    given = typed.strip().lower()
    if given not in {"y", "n", "s", "q", "yes", "no", "skip", "quit"}:
        raise click.UsageError(f"{visible(typed)!r} is no answer: y, n, s or q.")
    return given[0]
