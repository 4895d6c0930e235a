"""Mining: F1 by cosine, and by margin and threshold."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import click

from mexma_cli.commands.eval_options import Result, Session, evaluation
from mexma_cli.commands.inputs import progress_bar
from mexma_cli.commands.options import options_of
from mexma_cli.settings.stages import ScoreSettings


@evaluation(
    "Mining sets",
    "F1 of mining translations from two texts, percent",
    "BUCC 2018, or mining sets in that layout",
)
@click.argument("folders", metavar="DIR...", nargs=-1, required=True, type=click.Path(path_type=Path))
@options_of(ScoreSettings)
def command(session: Session, folders: tuple[Path, ...], settings: ScoreSettings) -> Result:
    """Measure mining from two monolingual texts: F1 in percent.

    \b
    cosine f1    each gold source is searched in the whole target text; class-weighted F1 of the
                 nearest sentences, as in MTEB's BUCC and the MEXMA paper
    tuned f1     the best F1 of any threshold for the margin, with one-to-one candidates, as in
                 the DAP paper's Table 2
    held-out f1  F1 of a threshold from another split (sample for training), or, with one split
                 only, from the other half of the gold pairs
    test f1      the same with the training split's threshold on test (the DAP paper's Table 3)

    DIR, or a folder in it, holds BUCC 2018 (fr-en.training.fr, .en and .gold, from
    comparable.limsi.fr/bucc2018) or files in that layout (fra-eng.fra.tsv, fra-eng.eng.tsv,
    fra-eng.gold.tsv), compressed or not: `id TAB sentence`, and `source id TAB target id`.

    \b
    Examples:
      mexma eval bucc bucc2018 --model facebook/MEXMA
      mexma eval bucc mining/fra-eng mining/deu-eng -o bucc.json
    """
    from mexma_cli.evaluation.bucc import evaluate, read_sets

    sets = read_sets(folders)
    sentences = sum(len(one.sources) + len(one.targets) for one in sets)
    with ExitStack() as stack, session.embedder(sentences) as embed:
        return evaluate(sets, folders, embed, settings, progress_bar(stack, "mining"))
