"""`mexma eval xsim`: errors of margin-based search in line-aligned files."""

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


@click.command("xsim")
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@languages_option
@target_option
@split_option
@margin_option
@neighbourhood_option
@result_options
@encoder_options
def command(
    folder: Path,
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
    """The percentage of sentences whose translation is not what margin-based search finds.

    DIR is FLORES-200 (with devtest/<code>.devtest), NTREX-128, or any folder of line-aligned <code>.txt,
    compressed or not. Every language is searched in the target; the score is the mean over languages
    (Heffernan et al. 2022; as LASER's xsim.py). Where the target repeats a sentence, finding its other
    line is no error; errors by row are then shown too. Lines that are empty on either side take no part.

    FLORES-200 is published at github.com/facebookresearch/flores, NTREX-128 at
    github.com/MicrosoftTranslator/NTREX.

    \b
    Examples:
      mexma eval xsim flores200_dataset --langs 81 --model facebook/MEXMA
      mexma eval xsim NTREX --langs fra,deu,zho_Hant -o ntrex.json
    """
    check_result_output(output)
    from mexma_cli.evaluation.aligned import measure_xsim, read_texts, xsim_result
    from mexma_cli.reporting.results import describe, print_result

    data = read_texts(folder, split, languages, target)
    loaded = load_encoder(encoder)
    with cached_embedding(loaded, cache, data.sentences) as embed:
        found = measure_xsim(data, embed, margin, k)
    print_result(xsim_result(data, found, describe(loaded), margin, k), as_json, output)
