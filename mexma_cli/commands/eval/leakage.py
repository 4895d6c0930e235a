"""Meaning and language parts of a decomposer's vectors."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click
import numpy as np

from mexma_cli.commands.eval_options import (
    PANELS,
    Result,
    Session,
    dap_languages_option,
    evaluation,
    plot_option,
)
from mexma_cli.commands.options import decomposer_option, path_option
from mexma_cli.settings.stages import EncoderChoice
from mexma_cli.stages.embed.inputs import load_encoder

if TYPE_CHECKING:
    from mexma_cli.encoder.encoder import SentenceEncoder
    from mexma_cli.stages.train.decompose import TrainedDecomposer


@evaluation(
    "Leakage",
    "retrieval and similarity by meaning and by language, percent",
    "a trained decomposer, and LASER's Tatoeba sets or code-switched ones",
)
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@decomposer_option
@dap_languages_option
@path_option(
    "--sts",
    "sets",
    help="Similarity sets, as for `mexma eval sts`; may be repeated.",
    metavar="FILE|DIR",
    multiple=True,
)
@plot_option("both parts")
def command(
    session: Session,
    folder: Path,
    run: Path,
    languages: str | None,
    sets: tuple[Path, ...],
    plot: Path | None,
) -> Result:
    """Measure retrieval and similarity by the meaning and the language part of a decomposer, in percent.

    The meaning part should find as many translations as the whole vectors do. The language part should find
    hardly any: those that it finds show that meaning has leaked into it. Retrieval is precision at 1 by
    cosine, in both directions; similarity is Spearman's correlation.

    DIR holds Tatoeba's files, as for `mexma eval tatoeba`, or what `mexma eval codeswitch` made. The encoder
    is the one that the run was trained on. --plot draws both parts of English and of the other language on
    their two principal components.

    \b
    Examples:
      mexma eval leakage LASER/data/tatoeba/v1 --with runs/systems/meat-oracle --langs 36 --plot clouds.png
      mexma eval leakage codeswitched --with runs/systems/meat-oracle --sts STS2017
    """
    from mexma_cli.evaluation.leakage import clouds, draw_clouds, leakage_result, measure_leakage
    from mexma_cli.evaluation.sts import find_files, read_pairs
    from mexma_cli.evaluation.tatoeba import read_tatoeba
    from mexma_cli.reporting.plot import check_plottable
    from mexma_cli.stages.train.decompose import PARTS, TrainedDecomposer

    check_plottable(plot)
    decomposer = TrainedDecomposer.open(run)
    pairs = read_tatoeba(folder, languages)
    scored = [read_pairs(path) for path in find_files(sets)]
    encoder = _encoder(decomposer, session.choice)
    count = sum(2 * len(pair.english) for pair in pairs) + sum(2 * len(one.gold) for one in scored)
    name = decomposer.run.name

    def split(vectors: np.ndarray) -> dict[str, np.ndarray]:
        return {part: decomposer.part(vectors, part) for part in PARTS}

    with session.embedder(count, encoder) as embed:
        rows = measure_leakage(pairs, scored, embed, split)
        if plot is not None:
            title = f"{name}: sentences in the plane of their two principal components"
            cut = encoder.truncated  # counted where it is measured, not where it is drawn
            draw_clouds(plot, clouds(pairs[:PANELS], embed, split), title)
            encoder.truncated = cut
    described = embed.describe() | {"name": f"{encoder.name}, {name}", "run": str(run)}
    return leakage_result(rows, folder, sets, described)


def _encoder(decomposer: TrainedDecomposer, choice: EncoderChoice) -> SentenceEncoder:
    """The encoder that made what the decomposer was trained on, embedding as it did there."""
    manifest = decomposer.manifest
    known = {"model": choice.model or manifest.encoder, "pooling": choice.pooling or manifest.pooling}
    loaded = load_encoder(choice.model_copy(update=known), manifest.normalised)
    if choice.prompt is None:
        loaded.prefix = manifest.prefix
    decomposer.check(loaded.name, loaded.fingerprint, "the text")
    return loaded
