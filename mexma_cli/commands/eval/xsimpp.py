"""xsim++: as xsim, with hard negatives."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from mexma_cli.commands.eval_options import Result, Session, aligned_options, evaluation
from mexma_cli.commands.options import path_option
from mexma_cli.settings.stages import ScoreSettings

if TYPE_CHECKING:
    from mexma_cli.evaluation.aligned import AlignedTexts


@evaluation(
    "xsim++",
    "the same among hard negatives, percent; lower is better",
    "the same as xsim, and hard negatives",
    lower_is_better=True,
)
@path_option(
    "--augmented",
    help="Folder of hard negatives.  [default: <split>_augmented in DIR, or DIR]",
    metavar="DIR",
)
@aligned_options
def command(session: Session, augmented: Path | None, data: AlignedTexts, settings: ScoreSettings) -> Result:
    """Measure xsim++: xsim with hard negatives among the targets, in percent.

    DIR is as for `mexma eval xsim`. The hard negatives are two files: <target>_augmented.devtest, one
    sentence a line, and <target>_errtype.devtest.json, {"augmented sentence": {"src": "sentence", "errtype":
    "type"}, ...}. For English FLORES-200 they are published with LASER (github.com/facebookresearch/LASER,
    tasks/xsimplusplus); `mexma augment` makes them for other English text.

    Errors are counted by type; an error is `misaligned` if it took another sentence or its hard negative.

    \b
    Examples:
      mexma eval xsimpp flores200_dataset --langs 81 --model facebook/MEXMA
      mexma eval xsimpp NTREX --augmented hard --langs fra,deu
    """
    from mexma_cli.evaluation.augment import find_augmented
    from mexma_cli.evaluation.xsim import evaluate_xsimpp

    hard = find_augmented(data, augmented)
    with session.embedder(data.sentences + len(hard.lines)) as embed:
        return evaluate_xsimpp(data, hard, embed, settings)
