"""`mexma eval xsimpp`: xsim with hard negatives among the targets."""

from __future__ import annotations

from pathlib import Path

import click

from mexma_cli.commands.eval.options import (
    cached_embedding,
    check_result_output,
    languages_option,
    result_options,
    split_option,
    target_option,
)
from mexma_cli.commands.options import (
    EncoderChoice,
    encoder_options,
    load_encoder,
    margin_option,
    neighbourhood_option,
)


@click.command("xsimpp")
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.option(
    "--augmented",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Folder of the hard negatives.  [default: <split>_augmented in DIR, or DIR]",
)
@languages_option
@target_option
@split_option
@margin_option
@neighbourhood_option
@result_options
@encoder_options
def command(
    folder: Path,
    augmented: Path | None,
    languages: str | None,
    target: str,
    split: str,
    margin: str,
    k: int,
    cache: Path | None,
    as_json: bool,
    output: Path | None,
    encoder: EncoderChoice,
) -> None:
    """xsim++: as `mexma eval xsim`, with sentences among the targets that look like a translation.

    DIR is as for xsim. The hard negatives are two files: <target>_augmented.devtest, one sentence a line,
    and <target>_errtype.devtest.json, {"augmented sentence": {"src": "sentence", "errtype": "type"}, ...}.
    For English FLORES-200 they are published with LASER (github.com/facebookresearch/LASER,
    tasks/xsimplusplus); `mexma augment` makes such files of any English text.

    Shown are the errors of each type, and its share of all sentences in the mean; `misaligned` is an error
    that took another sentence, or a hard negative of another one.

    \b
    Examples:
      mexma eval xsimpp flores200_dataset --langs 81 --model facebook/MEXMA
      mexma eval xsimpp NTREX --augmented hard --langs fra,deu
    """
    check_result_output(output)
    from mexma_cli.evaluation.aligned import read_texts
    from mexma_cli.evaluation.xsimpp import find_augmented, measure_xsimpp, xsimpp_result
    from mexma_cli.reporting.results import describe, print_result

    data = read_texts(folder, split, languages, target)
    hard = find_augmented(data, augmented)
    loaded = load_encoder(encoder)
    with cached_embedding(loaded, cache, data.sentences + len(hard.lines)) as embed:
        found = measure_xsimpp(data, hard, embed, margin, k)
    print_result(xsimpp_result(data, hard, found, describe(loaded), margin, k), as_json, output)
