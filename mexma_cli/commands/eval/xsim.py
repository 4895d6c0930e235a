"""Translations not found among all translations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mexma_cli.commands.eval_options import Result, Session, aligned_options, evaluation

if TYPE_CHECKING:
    from mexma_cli.evaluation.readers.aligned import AlignedTexts


@evaluation(
    "xsim",
    "translations that margin-based search does not find, percent; lower is better",
    "FLORES-200, NTREX-128 or other line-aligned files",
    lower_is_better=True,
)
@aligned_options
def command(session: Session, data: AlignedTexts, margin: str, k: int) -> Result:
    """The percentage of sentences whose translation is not what margin-based search finds.

    DIR is FLORES-200 (with devtest/<code>.devtest, or that folder itself), NTREX-128, or any folder of
    line-aligned <code>.txt, compressed or not. Every language is searched in the target; the score is the
    mean over languages (Heffernan et al. 2022; as LASER's xsim.py). Where the target repeats a sentence,
    finding its other line is no error; errors by row are then shown too. Lines that are empty on either side
    take no part.

    FLORES-200 is published at github.com/facebookresearch/flores, NTREX-128 at
    github.com/MicrosoftTranslator/NTREX.

    \b
    Examples:
      mexma eval xsim flores200_dataset --langs 81 --model facebook/MEXMA
      mexma eval xsim NTREX --langs fra,deu,zho_Hant -o ntrex.json
    """
    from mexma_cli.evaluation.xsim import evaluate

    with session.embedder(data.sentences) as embed:
        return evaluate(data, embed, margin, k)
