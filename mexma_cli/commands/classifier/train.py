"""`mexma classifier train`: parallel text in, weights of a classifier out."""

from __future__ import annotations

import json
import logging
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mexma_cli.commands.inputs import check_inputs, check_outputs, progress_bar
from mexma_cli.commands.options import (
    encoder_options,
    json_option,
    no_verify_option,
    options_of,
    output_option,
    path_option,
    written_languages_option,
)
from mexma_cli.errors import MexmaError
from mexma_cli.files import is_special, refuse_pipe
from mexma_cli.reporting.tables import aligned_columns, warn_of_few
from mexma_cli.settings.stages import EncoderChoice, MineSettings, ScoreSettings
from mexma_cli.stages.embed.inputs import is_store
from mexma_cli.text.amounts import counted

if TYPE_CHECKING:
    from mexma_cli.classifier.training import TrainedClassifier
    from mexma_cli.stages.classifier import Corrected

log = logging.getLogger(__name__)

_TRANSLATIONS = 10.0
"""Best F1 by margin, in percent, that text without translations stays below."""


@click.command("train")
@click.argument("bitext", nargs=-1, required=True, type=click.Path(path_type=Path, allow_dash=True))
@output_option(None, "The file of weights.", required=True)
@options_of(ScoreSettings, "k")
@path_option("--plugin", help="Python file with features of pairs of your own. It is run: read it first.")
@json_option
@written_languages_option
@encoder_options
@no_verify_option
def command(
    bitext: tuple[Path, ...],
    output: Path,
    settings: ScoreSettings,
    plugin: Path | None,
    as_json: bool,
    languages: tuple[str, str],
    encoder: EncoderChoice,
) -> None:
    """Train a classifier of pairs on BITEXT, and measure it on a part that is held out.

    BITEXT is two line-aligned files (texts or embedding stores), or one file of source TAB target. From its
    pairs, texts are made in which some sentences have a translation and others none; they are mined, and what
    is found beside the translations is wrong. With fewer than 500 pairs, the classifier that comes with the
    package is recalibrated alone. `mexma mine`, `score` and `tune` take the result with --classifier, and
    `mexma run` as `mine.classifier`.

    LABELS SOURCE TARGET (labels of `mexma tune --label` or `mexma review`): the package's classifier,
    corrected by your answers, and compared with it on them.

    \b
    Examples:
      mexma classifier train dev.yor dev.eng --model runs/yor_Latn -o yor.json
      mexma classifier train labels.tsv yor.emb eng.emb -o yor.json
      mexma mine yor.emb eng.emb --classifier yor.json --threshold 0.5 -o pairs.tsv
    """
    if len(bitext) > 3:
        raise click.UsageError(
            f"BITEXT is one file of pairs, two files, or three with labels, not {len(bitext)}."
        )
    check_inputs(bitext)
    check_outputs([output], bitext)
    from mexma_cli.classifier.features import load_features
    from mexma_cli.stages.classifier import classifier_of_labels, train_classifier
    from mexma_cli.stages.mine.files import MiningJob, mined
    from mexma_cli.stages.score import open_bitext
    from mexma_cli.text.writing import prepare_output

    prepare_output(output)
    if _has_labels(bitext):
        if plugin is not None:
            raise click.UsageError("--plugin does not go with labels: they correct the package's classifier.")
        with ExitStack() as stack:
            job = MiningJob((bitext[1], bitext[2]), settings=MineSettings(k=settings.k, threshold="auto"))
            run = stack.enter_context(mined(job, encoder, progress_bar(stack, "embedding", "line")))
            corrected = classifier_of_labels(bitext[0], run, output)
        _print_corrected(corrected, as_json)
        return
    if plugin is not None:
        load_features(plugin)
    with ExitStack() as stack:
        embedding = progress_bar(stack, "embedding", "line")
        stores = open_bitext(stack, bitext, (), encoder, embedding, languages)
        found = train_classifier((stores[0], stores[1]), settings.k, encoder, output)
    _print(found, as_json)
    warn_of_few(
        found.translations,
        f"F1 stands on only {counted(found.translations, 'translation')} among few lines; give more pairs",
    )
    if found.measures.f1["trained"] <= found.measures.f1["margin"]:
        log.warning("held-out pairs are found no better than by margin: mine without --classifier")
    if found.measures.f1["margin"] < _TRANSLATIONS:
        log.warning("are these translations of each other? In held-out text hardly any are found")


def _has_labels(bitext: tuple[Path, ...]) -> bool:
    """Whether these are labels and two texts; labels alone, or three other files, are refused."""
    from mexma_cli.formats.labels import is_labels

    first = bitext[0]
    if len(bitext) == 3:
        refuse_pipe(first)
    whole = str(first) != "-" and not is_special(first)  # else its beginning would be gone with this look
    labels = len(bitext) != 2 and whole and not is_store(first) and is_labels(first)
    if labels != (len(bitext) == 3):
        wrong = "is a file of labels, and needs their texts" if labels else "is no file of labels"
        raise MexmaError(
            f"{first} {wrong}",
            "labels correct a classifier so: mexma classifier train LABELS SOURCE TARGET",
        )
    return labels


def _print_corrected(found: Corrected, as_json: bool) -> None:
    if as_json:
        kept = {name: getattr(found, name)._asdict() for name in ("bundled", "corrected")}
        click.echo(json.dumps(found._asdict() | kept))
    else:
        said = "corrected by %s; kept at a probability of 0.5, each label as the others correct it"
        log.info(said, counted(found.right + found.wrong, "label"))
        rows = [["", "right", "wrong", "all pairs", "calibration error", "log loss"]]
        for name, one in (("bundled classifier", found.bundled), ("this classifier", found.corrected)):
            shares = (f"{some:,} of {every:,}" for some, every in zip(one[:3], found[:3], strict=True))
            rows.append([name, *shares, f"{one.calibration_error:.2f}", f"{one.log_loss:.3f}"])
        click.echo("\n".join(aligned_columns(rows, names=1)))
    for doubt in found.doubts:
        log.warning("%s", doubt)


def _print(found: TrainedClassifier, as_json: bool) -> None:
    f1, calibration = found.measures.f1, found.measures.calibration
    if as_json:
        figures = {
            "pairs": found.pairs,
            "held_out": found.held_out,
            "translations": found.translations,
            "f1": f1,
            "calibration_error": calibration,
        }
        click.echo(json.dumps(figures))
        return
    log.info(
        "trained on %s, measured on %s others, in whose mining sets %s can be found",
        counted(found.pairs, "pair"),
        f"{found.held_out:,}",
        counted(found.translations, "translation"),
    )
    names = {"margin": "margin", "bundled": "bundled classifier", "trained": "this classifier"}
    rows = [["", "best F1", "calibration error"]]
    rows += [
        [label, f"{f1[name]:.2f}", f"{calibration[name]:.2f}" if name in calibration else "-"]
        for name, label in names.items()
    ]
    click.echo("\n".join(aligned_columns(rows, names=1)))
