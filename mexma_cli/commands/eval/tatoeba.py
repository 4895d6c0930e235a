"""Retrieval both ways: precision at 1."""

from __future__ import annotations

from pathlib import Path

import click

from mexma_cli.commands.eval_options import Result, Session, dap_languages_option, evaluation


@evaluation(
    "Tatoeba", "translations that are the nearest sentence by cosine, percent", "LASER's Tatoeba sets"
)
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@dap_languages_option
def command(session: Session, folder: Path, languages: str | None) -> Result:
    """Measure retrieval: sentences whose nearest sentence by cosine is their translation, in percent (P@1).

    DIR holds line-aligned files tatoeba.<l>-eng.<l> and tatoeba.<l>-eng.eng, as in data/tatoeba/v1 of
    github.com/facebookresearch/LASER. Both directions are measured. The means over the DAP paper's 14, 28 and
    36 languages are shown where all of these are in DIR.

    \b
    Examples:
      mexma eval tatoeba LASER/data/tatoeba/v1 --langs 36 --model sentence-transformers/LaBSE
    """
    from mexma_cli.evaluation.tatoeba import evaluate, read_tatoeba

    pairs = read_tatoeba(folder, languages)
    with session.embedder(sum(2 * len(pair.english) for pair in pairs)) as embed:
        return evaluate(pairs, folder, embed)
