"""`mexma eval tokens`: what is nearest to a token."""

from __future__ import annotations

from pathlib import Path

import click

from mexma_cli.commands.eval.options import (
    check_result_output,
    languages_option,
    result_options,
    split_option,
    tell_cut,
)
from mexma_cli.commands.options import EncoderChoice, encoder_options, load_encoder
from mexma_cli.commands.progress import progress

QUERIES = "eng_Latn"


@click.command("tokens")
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@languages_option
@split_option
@result_options
@encoder_options
def command(
    folder: Path,
    languages: str | None,
    split: str,
    cache: Path | None,
    as_json: bool,
    output: Path | None,
    encoder: EncoderChoice,
) -> None:
    """Look for the tokens nearest to 750 English ones in all languages, and say whose they are. Percent.

    Three random tokens of each of the first 250 English sentences; their nearest among all tokens of all
    sentences are in the same sentence, in its translation, in another sentence of the same language, or
    elsewhere (MEXMA, section 5.5 and Table 9). Vectors of the last layer, by cosine, without <s> and </s>.
    top-1 counts the nearest token, top-5 the five nearest. Languages go by one after the other: memory
    does not grow with them. --cache has no vectors to keep here.

    DIR is FLORES-200 (github.com/facebookresearch/flores), NTREX-128 or any folder of line-aligned files
    with English among them, as for `mexma eval xsim`.

    \b
    Example:
      mexma eval tokens flores200_dataset --langs 81 --model facebook/MEXMA
    """
    if encoder.pooling is not None:
        raise click.UsageError("--pooling is for sentence vectors; the tokens are measured here.")
    check_result_output(output)

    from mexma_cli.errors import MexmaError
    from mexma_cli.evaluation.aligned import read_texts
    from mexma_cli.evaluation.tokens import NEAREST, SENTENCES, Nearest, pick_queries, token_blocks
    from mexma_cli.reporting.results import Result, describe, print_result

    data = read_texts(folder, split, languages, QUERIES)
    loaded = load_encoder(encoder)
    nearest = Nearest(pick_queries(loaded, data.lines), 0)
    if not len(nearest.queries.lines):
        raise MexmaError(f"{data.target_path}: no token to look for in its first {SENTENCES} sentences")
    loaded.truncated = 0  # the sentences of the queries come again
    texts = [data.lines, *data.texts.values()]
    tokens = 0
    with progress(total=len(texts), unit="language") as bar:
        for number, lines in enumerate(texts):
            for block in token_blocks(loaded, lines):
                nearest.add(number, block)
                tokens += len(block.lines)
            bar.update()
    tell_cut(loaded)
    counts = {"queries": len(nearest.queries.lines), "tokens": tokens}
    rows = [{"nearest": f"top-{k}", **counts, **nearest.shares(k)} for k in (1, NEAREST)]
    scores = nearest.shares(NEAREST)
    settings = data.settings() | {"k": NEAREST}
    published = "tokens" if data.published == "81" else None
    print_result(Result("tokens", describe(loaded), settings, scores, rows, published), as_json, output)
