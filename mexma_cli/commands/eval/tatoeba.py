"""`mexma eval tatoeba`: retrieval by cosine, both directions."""

from __future__ import annotations

from pathlib import Path

import click

from mexma_cli.commands.eval.options import cached_embedding, check_result_output, result_options
from mexma_cli.commands.options import EncoderChoice, encoder_options, load_encoder


@click.command("tatoeba")
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.option(
    "--langs",
    "languages",
    metavar="LIST",
    help="14, 28 or 36 (the DAP paper's), or codes with commas between them.  [default: all in DIR]",
)
@result_options
@encoder_options
def command(
    folder: Path,
    languages: str | None,
    cache: Path | None,
    as_json: bool,
    output: Path | None,
    encoder: EncoderChoice,
) -> None:
    """The percentage of sentences whose nearest sentence by cosine is their translation (P@1).

    DIR holds tatoeba.<l>-eng.<l> and tatoeba.<l>-eng.eng, line-aligned, one pair of files a language, as in
    data/tatoeba/v1 of github.com/facebookresearch/LASER. Both directions are measured, each over the whole
    set. The means over the DAP paper's 14, 28 and 36 languages are shown where all of these are in DIR.

    \b
    Examples:
      mexma eval tatoeba LASER/data/tatoeba/v1 --langs 36 --model sentence-transformers/LaBSE
    """
    check_result_output(output)
    from mexma_cli.evaluation.retrieval import measure_tatoeba, read_tatoeba, tatoeba_result
    from mexma_cli.reporting.results import describe, print_result

    pairs = read_tatoeba(folder, languages)
    loaded = load_encoder(encoder)
    with cached_embedding(loaded, cache, sum(2 * len(pair.english) for pair in pairs)) as embed:
        rows = measure_tatoeba(pairs, embed)
    print_result(tatoeba_result(rows, folder, describe(loaded)), as_json, output)
