"""Mining: F1 by cosine, and by margin and threshold."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import click

from mexma_cli.commands.eval_options import Result, Session, evaluation
from mexma_cli.commands.inputs import progress_bar
from mexma_cli.commands.options import margin_option, neighbourhood_option


@evaluation(
    "Mining sets",
    "F1 of mining translations from two texts, percent",
    "BUCC 2018, or mining sets in that layout",
)
@click.argument("folders", metavar="DIR...", nargs=-1, required=True, type=click.Path(path_type=Path))
@margin_option
@neighbourhood_option
def command(session: Session, folders: tuple[Path, ...], margin: str, k: int) -> Result:
    """F1 of mining translations from two monolingual texts.

    \b
    cosine f1    every gold source is searched in the whole other side; class-weighted F1 of the nearest
                 sentences, as in the MTEB benchmark's BUCC and the MEXMA paper
    tuned f1     the best F1 that any threshold for the margin gives, with its precision and recall, as in
                 the DAP paper's Table 2; candidates are one to one, equal scores kept or dropped together
    held-out f1  F1 of a threshold that was tuned on another split: on training for test (then it is called
                 test f1; the DAP paper's Table 3), or on sample for training; with one split only, on one
                 half of the gold pairs for the other

    DIR, or the folders in it, hold BUCC 2018's files (fr-en.training.fr, .en and .gold;
    comparable.limsi.fr/bucc2018) or others in that layout (fra-eng.fra.tsv, fra-eng.eng.tsv,
    fra-eng.gold.tsv), compressed or not: `id TAB sentence`, and `source id TAB target id`.

    \b
    Examples:
      mexma eval bucc bucc2018 --model facebook/MEXMA
      mexma eval bucc mining/fra-eng mining/deu-eng -o bucc.json
    """
    from mexma_cli.evaluation.bucc import evaluate
    from mexma_cli.evaluation.readers.mining import read_sets

    sets = read_sets(folders)
    sentences = sum(len(one.sources) + len(one.targets) for one in sets)
    with ExitStack() as stack, session.embedder(sentences) as embed:
        return evaluate(sets, folders, embed, margin, k, progress_bar(stack, "mining"))
