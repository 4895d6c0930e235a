"""`mexma eval leakage`: what the language part of vectors still knows of the meaning."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from mexma_cli.commands.eval.options import cached_embedding, check_result_output, result_options
from mexma_cli.commands.options import EncoderChoice, decomposer_option, encoder_options, load_encoder

if TYPE_CHECKING:
    import numpy as np

    from mexma_cli.encoder.encoder import Pooling, SentenceEncoder
    from mexma_cli.evaluation.leakage import Embed, Split
    from mexma_cli.evaluation.retrieval import AlignedPair
    from mexma_cli.stages.train.decompose import TrainedDecomposer

PANELS = 12


@click.command("leakage")
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@decomposer_option
@click.option(
    "--langs",
    "languages",
    metavar="LIST",
    help="14, 28 or 36, or codes with commas between them.  [default: all in DIR]",
)
@click.option(
    "--sts",
    "sets",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="FILE|DIR",
    help="Similarity sets too, in the layouts of `mexma eval sts`; give it again for more.",
)
@click.option(
    "--plot",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="PICTURE",
    help=f"Draw the four clouds of the first {PANELS} languages: .png, .svg or .pdf.",
)
@result_options
@encoder_options
def command(
    folder: Path,
    run: Path,
    languages: str | None,
    sets: tuple[Path, ...],
    plot: Path | None,
    cache: Path | None,
    as_json: bool,
    output: Path | None,
    encoder: EncoderChoice,
) -> None:
    """Retrieval and similarity by meaning and by language, side by side.

    A good decomposer finds translations by the meaning part as well as by the whole vectors, and by the
    language part hardly ever: what it finds by that has leaked. DIR holds Tatoeba's files as for `mexma eval
    tatoeba`, or what `mexma eval codeswitch` made. Retrieval is precision at 1 by cosine in both directions;
    similarity Spearman's correlation x 100. The encoder is the one that RUN was trained on.

    --plot shows English and the other language, meaning and language, in the plane in which the four together
    spread most (principal components of unit vectors).

    \b
    Examples:
      mexma eval leakage LASER/data/tatoeba/v1 --with runs/systems/meat-oracle --langs 36 --plot clouds.png
      mexma eval leakage codeswitched --with runs/systems/meat-oracle --sts STS2017
    """
    check_result_output(output)
    from mexma_cli.evaluation.leakage import leakage_scores, measure_leakage, published_as
    from mexma_cli.evaluation.retrieval import is_switched, read_tatoeba
    from mexma_cli.evaluation.sts_files import find_files, read_pairs
    from mexma_cli.reporting.plot import check_plottable
    from mexma_cli.reporting.results import Result, describe, print_result
    from mexma_cli.stages.train.decompose import PARTS, TrainedDecomposer

    if plot is not None:
        check_plottable(plot)
        check_result_output(plot)
    decomposer = TrainedDecomposer.open(run)
    pairs = read_tatoeba(folder, languages)
    scored = [read_pairs(path) for path in find_files(sets)]
    loaded = _encoder(decomposer, encoder)

    def split(vectors: np.ndarray) -> dict[str, np.ndarray]:
        return {part: decomposer.part(vectors, part) for part in PARTS}

    count = sum(2 * len(pair.english) for pair in pairs) + sum(2 * len(one.gold) for one in scored)
    with cached_embedding(loaded, cache, count) as embed:
        rows = measure_leakage(pairs, scored, embed, split)
        if plot is not None:
            _draw(plot, pairs[:PANELS], embed, split, decomposer.run.name)
    settings = {"data": str(folder), "languages": len(pairs), "sts": list(map(str, sets))}
    benchmark = published_as([pair.language for pair in pairs], is_switched(folder))
    described = describe(loaded) | {"name": f"{loaded.name}, {decomposer.run.name}", "run": str(run)}
    result = Result("leakage", described, settings, leakage_scores(rows), rows, benchmark)
    print_result(result, as_json, output)


def _encoder(decomposer: TrainedDecomposer, choice: EncoderChoice) -> SentenceEncoder:
    """The encoder that made what the decomposer was trained on, embedding as it did there."""
    manifest = decomposer.manifest
    choice = replace(
        choice,
        model=choice.model or manifest.encoder,
        pooling=choice.pooling or cast("Pooling", manifest.pooling),
        prefix=manifest.prefix if choice.prefix is None else choice.prefix,
    )
    loaded = load_encoder(choice)
    decomposer.check(loaded.name, loaded.fingerprint, "the text")
    return loaded


def _draw(path: Path, pairs: Sequence[AlignedPair], embed: Embed, split: Split, run: str) -> None:
    from mexma_cli.evaluation.leakage import PARTS, plane
    from mexma_cli.reporting.cloud_plot import draw_clouds

    panels = {}
    for pair in pairs:
        english, other = split(embed(pair.english)), split(embed(pair.sentences))
        sides = {"eng": english, "xx": other}
        keys = [(part, side) for part in PARTS for side in sides]
        flat = plane([sides[side][part] for part, side in keys])
        panels[pair.language] = dict(zip(keys, flat, strict=True))
    draw_clouds(path, panels, f"{run}: sentences in the plane of their two principal components")
