"""`mexma eval attention`: where the first token looks."""

from __future__ import annotations

import logging
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

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

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mexma_cli.encoder.encoder import SentenceEncoder

log = logging.getLogger(__name__)


@click.command("attention")
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@languages_option
@split_option
@click.option(
    "--picture",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Draw the attention of some sentences: .png, .svg or .pdf (needs the extra `plot`).",
)
@click.option(
    "--sentence",
    "sentences",
    multiple=True,
    metavar="TEXT",
    help="For the picture; may be given several times.  [default: the first sentence of the first two "
    "languages]",
)
@result_options
@encoder_options
def command(
    folder: Path,
    languages: str | None,
    split: str,
    picture: Path | None,
    sentences: tuple[str, ...],
    cache: Path | None,
    as_json: bool,
    output: Path | None,
    encoder: EncoderChoice,
) -> None:
    """The entropy, in nats, of what the first token attends to in the last layer: mean over sentences.

    Low: few tokens make the sentence's vector; the logarithm of the length: all do alike (MEXMA, section
    5.6). With all tokens, and without <s> and </s>, the rest summing to 1 again. `entropy` is the mean over
    heads; `of mean` is the entropy of the heads' mean distribution: the paper does not say which it
    reports. --cache has no vectors to keep here.

    DIR is FLORES-200 (github.com/facebookresearch/flores), NTREX-128 or any folder of line-aligned files,
    as for `mexma eval xsim`. The picture is as Figures 7 to 11 of the paper: bars over the words, and below
    them all heads and all tokens.

    \b
    Examples:
      mexma eval attention flores200_dataset --langs eng_Latn,por_Latn --model facebook/MEXMA
      mexma eval attention NTREX --langs eng --picture nineteen.png \\
        --sentence "Nineteen people died." --sentence "Twenty-nine people died."
    """
    if encoder.pooling is not None:
        raise click.UsageError(
            "--pooling is for sentence vectors; the first token's attention is measured here."
        )
    check_result_output(output)
    from mexma_cli.errors import MexmaError
    from mexma_cli.evaluation.files import aligned_folder, language_list, read_sentences
    from mexma_cli.reporting.plot import check_plottable
    from mexma_cli.reporting.results import Result, describe, print_result

    if sentences and picture is None:
        raise click.UsageError("--sentence is for a picture: name it with --picture.")
    if picture is not None:
        check_plottable(picture)
        check_result_output(picture)
    there = aligned_folder(folder, split)
    texts = {code: read_sentences(path) for code, path in there.choose(languages).items()}
    loaded = load_encoder(encoder)
    if picture is not None:  # first: it takes a moment, the others up to hours
        _draw(loaded, picture, sentences or _first_sentences(texts))
        loaded.truncated = 0
    rows = _rows(loaded, texts)
    tell_cut(loaded)
    if not rows:
        raise MexmaError(f"{folder}: no sentence has a token")
    measured = [key for key in rows[0] if key not in ("language", "sentences")]
    scores = {key: sum(row[key] for row in rows) / len(rows) for key in measured}
    settings = {
        "data": str(folder),
        "files": there.layout,
        "split": split if there.layout.endswith(f".{split}") else "",
        "languages": languages or "all",
        "layer": "last",
        "unit": "nats",
    }
    # The paper's languages are those of the 81 that LaBSE knows too: it does not list them.
    whole = languages == "81" and texts.keys() >= language_list("81").keys()
    published = "attention" if whole and there.layout.endswith("<code>.devtest") else None
    print_result(Result("attention", describe(loaded), settings, scores, rows, published), as_json, output)


def _first_sentences(texts: dict[str, list[str]]) -> list[str]:
    """Those of the first two languages that have one."""
    from mexma_cli.text.lines import is_blank

    first = (next((line for line in lines if not is_blank(line)), None) for lines in texts.values())
    return list(islice(filter(None, first), 2))


def _rows(encoder: SentenceEncoder, texts: dict[str, list[str]]) -> list[dict[str, Any]]:
    from mexma_cli.evaluation.attention import attention_rows, mean_entropy

    rows: list[dict[str, Any]] = []
    with progress(texts.items(), unit="language") as bar:
        for language, lines in bar:
            found = mean_entropy(attention_rows(encoder, lines))
            if found is None:
                log.warning("warning: %s is left out: none of its sentences has a token", language)
                continue
            rows.append(
                {
                    "language": language,
                    "sentences": found.sentences,
                    "entropy": found.heads,
                    "without <s> </s>": found.heads_words,
                    "of mean": found.mean,
                    "of mean without <s> </s>": found.mean_words,
                }
            )
    return rows


def _draw(encoder: SentenceEncoder, picture: Path, sentences: Sequence[str]) -> None:
    from mexma_cli.errors import MexmaError
    from mexma_cli.evaluation.attention import attention_rows
    from mexma_cli.reporting.attention_plot import draw_attention

    rows = sorted(attention_rows(encoder, sentences), key=lambda row: row.line)
    if not rows or any(len(row.tokens) < 3 for row in rows):
        raise MexmaError("a sentence for the picture has no token", "name others with --sentence")
    draw_attention(picture, rows, f"{encoder.name}: attention of the first token, last layer")
