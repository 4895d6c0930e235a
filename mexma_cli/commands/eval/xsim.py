"""Errors of finding each translation among all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mexma_cli.commands.eval_options import Result, Session, aligned_options, evaluation
from mexma_cli.settings.stages import ScoreSettings

if TYPE_CHECKING:
    from mexma_cli.evaluation.aligned import AlignedTexts


@evaluation(
    "xsim",
    "translations that margin-based search does not find, percent; lower is better",
    "FLORES-200, NTREX-128 or other line-aligned files",
    lower_is_better=True,
)
@aligned_options
def command(session: Session, data: AlignedTexts, settings: ScoreSettings) -> Result:
    """Measure xsim: sentences whose translation margin-based search does not find, in percent.

    DIR is FLORES-200 (with devtest/<code>.devtest), NTREX-128, or a folder of line-aligned <code>.txt,
    compressed or not. The translation of each sentence is searched in the target language; the score is the
    mean over languages, as in LASER's xsim.py (Heffernan et al. 2022). Where the target repeats a sentence,
    either line is right; `xsim by row`, printed only then, counts finding the other line as an error. Lines
    that are empty on a side are left out.

    FLORES-200 is published at github.com/facebookresearch/flores, NTREX-128 at
    github.com/MicrosoftTranslator/NTREX.

    \b
    Examples:
      mexma eval xsim flores200_dataset --langs 81 --model facebook/MEXMA
      mexma eval xsim NTREX --langs fra,deu,zho_Hant -o ntrex.json
    """
    from mexma_cli.evaluation.xsim import evaluate

    with session.embedder(data.sentences) as embed:
        return evaluate(data, embed, settings)
