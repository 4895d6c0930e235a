"""Retrieval both ways: precision at 1."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click

from mexma_cli.commands.eval_options import (
    PANELS,
    Result,
    Session,
    dap_languages_option,
    evaluation,
    plot_option,
)


@evaluation(
    "Tatoeba", "translations that are the nearest sentence by cosine, percent", "LASER's Tatoeba sets"
)
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@dap_languages_option
@plot_option("sentences, and tokens of 100 pairs,")
@click.option(
    "--beside", multiple=True, metavar="NAME", help="Another encoder, drawn below; may be repeated."
)
def command(
    session: Session, folder: Path, languages: str | None, plot: Path | None, beside: tuple[str, ...]
) -> Result:
    """Measure retrieval: sentences whose nearest sentence by cosine is their translation, in percent (P@1).

    DIR holds line-aligned files tatoeba.<l>-eng.<l> and tatoeba.<l>-eng.eng, as in data/tatoeba/v1 of
    github.com/facebookresearch/LASER. Both directions are measured. The means over the DAP paper's 14, 28 and
    36 languages are shown where all of these are in DIR. --plot draws English and the other language on their
    two principal components, as CLFT's pictures and DAP's Figure 1, for each encoder.

    \b
    Examples:
      mexma eval tatoeba LASER/data/tatoeba/v1 --langs 36 --model sentence-transformers/LaBSE
      mexma eval tatoeba DIR --langs deu --model runs/tr/encoder --beside runs/dap/encoder --plot clouds.png
    """
    from mexma_cli.evaluation.tatoeba import evaluate, read_tatoeba
    from mexma_cli.reporting.plot import check_plottable

    if beside and plot is None:
        raise click.UsageError("--beside is for the picture of --plot")
    check_plottable(plot)
    pairs = read_tatoeba(folder, languages)
    with session.embedder(sum(2 * len(pair.english) for pair in pairs)) as embed:
        result = evaluate(pairs, folder, embed)
        if plot is None:
            return result
        from mexma_cli.evaluation.leakage import draw_clouds, encoder_clouds

        first, name = pairs[:PANELS], embed.encoder.name
        cut = embed.encoder.truncated  # counted where it is measured, not where it is drawn
        panels = encoder_clouds(first, embed, f"{name}\n" if beside else "")
        embed.encoder.truncated = cut
    count = sum(2 * len(pair.english) for pair in first)
    for other in beside:
        with replace(session, choice=session.choice.but(model=other, revision=None)).embedder(count) as embed:
            panels |= encoder_clouds(first, embed, f"{other}\n")
    whose = "both" if beside else f"{name}: both"
    draw_clouds(plot, panels, f"{whose} languages in the plane of their two principal components")
    return result
