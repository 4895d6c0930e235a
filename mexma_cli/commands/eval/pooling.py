"""`mexma eval pooling`: the mean of the tokens against the first token."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mexma_cli.commands.eval.options import (
    cached_embedding,
    check_result_output,
    languages_option,
    result_options,
    split_option,
)
from mexma_cli.commands.options import BUNDLED, EncoderChoice, encoder_options, load_encoder

if TYPE_CHECKING:
    from mexma_cli.encoder.encoder import SentenceEncoder
    from mexma_cli.evaluation.aligned import AlignedTexts
    from mexma_cli.evaluation.sts_files import Pairs
    from mexma_cli.evaluation.xsimpp import Augmented

log = logging.getLogger(__name__)

TARGET = "eng_Latn"


@click.command("pooling")
@click.option("--xsim", "folder", metavar="DIR", type=click.Path(path_type=Path), help="As for `eval xsim`.")
@click.option(
    "--sts",
    "pairs",
    metavar="FILE|DIR",
    multiple=True,
    type=click.Path(path_type=Path),
    help="As for `eval sts`; may be given several times.",
)
@languages_option
@split_option
@result_options
@encoder_options
def command(
    folder: Path | None,
    pairs: tuple[Path, ...],
    languages: str | None,
    split: str,
    cache: Path | None,
    as_json: bool,
    output: Path | None,
    encoder: EncoderChoice,
) -> None:
    """Measure an encoder twice: by its first token, and by the mean of its tokens (`uniform`).

    As the paper's Table 10, with the same weights, on what is named: xsim into English, xsim++ where its
    files are beside those of xsim (errors, percent), and STS (mean Spearman over files, percent). `change`
    is 100 (CLS - uniform) / CLS, as in that table. Its classification is `mexma eval mteb --tasks table2`,
    with and without --pooling mean.

    \b
    Example:
      mexma eval pooling --xsim flores200_dataset --langs 81 --sts STS --model facebook/MEXMA
    """
    if folder is None and not pairs:
        raise click.UsageError("Name what to measure: --xsim DIR, --sts FILE or both.")
    if folder is None and languages is not None:
        raise click.UsageError("--langs is for --xsim: name a folder.")
    if encoder.pooling is not None:
        raise click.UsageError("--pooling is what is compared here: leave it out.")
    check_result_output(output)
    from mexma_cli.evaluation.aligned import read_texts
    from mexma_cli.evaluation.pooling import means_of_both, relative_change
    from mexma_cli.evaluation.sts_files import find_files, read_pairs
    from mexma_cli.reporting.results import Result, describe, print_result

    data = read_texts(folder, split, languages, TARGET) if folder else None
    hard = _augmented(data) if data else None
    sets = [read_pairs(path) for path in find_files(pairs)]
    first = load_encoder(encoder)
    encoder = replace(encoder, model=encoder.model or BUNDLED)
    if first.pooling == "mean":
        first = load_encoder(replace(encoder, pooling="cls"))
    cls = _measured(first, data, hard, sets, cache)
    uniform = _measured(load_encoder(replace(encoder, pooling="mean")), data, hard, sets, cache)
    both = {name: means_of_both(name, cls[name], uniform[name]) for name in cls}
    rows: list[dict[str, Any]] = [
        {
            "measure": name,
            "CLS": means and means[0],
            "uniform": means and means[1],
            "change": means and relative_change(*means),
        }
        for name, means in both.items()
    ]
    scores = {
        f"{name} {kind}": means[place]
        for place, kind in enumerate(("CLS", "uniform"))
        for name, means in both.items()
        if means
    }
    settings = (data.settings() if data else {}) | {"sts": [str(path) for path in pairs]}
    as_published = data and data.published == "81" and not (hard and hard.own)
    published = "pooling" if as_published else None
    print_result(Result("pooling", describe(first), settings, scores, rows, published), as_json, output)


def _augmented(data: AlignedTexts) -> Augmented | None:
    """xsim++'s hard negatives, where they are beside the texts."""
    from mexma_cli.errors import MexmaError
    from mexma_cli.evaluation.xsimpp import find_augmented

    try:
        return find_augmented(data, None)
    except MexmaError as error:
        log.info("without xsim++: %s", error.message)
        return None


def _measured(
    encoder: SentenceEncoder,
    data: AlignedTexts | None,
    hard: Augmented | None,
    sets: list[Pairs],
    cache: Path | None,
) -> dict[str, list[float | None]]:
    """By measure: the numbers of its languages, or sets; None where a set has none."""
    from mexma_cli.evaluation.aligned import measure_xsim
    from mexma_cli.evaluation.sts import score_pairs
    from mexma_cli.evaluation.xsimpp import measure_xsimpp

    found: dict[str, list[float | None]] = {}
    total = (data.sentences if data else 0) + (len(hard.lines) if hard else 0)
    total += 2 * sum(len(pairs.gold) for pairs in sets)
    with cached_embedding(encoder, cache, total) as embed:
        if data:
            found["xsim"] = [one.error_rate for one in measure_xsim(data, embed).values()]
        if data and hard:
            both = measure_xsimpp(data, hard, embed).values()
            found["xsim++"] = [one.error_rate for one, _ in both]
        if sets:
            found["STS"] = [score_pairs(embed(p.left), embed(p.right), p.gold).spearman for p in sets]
    return found
