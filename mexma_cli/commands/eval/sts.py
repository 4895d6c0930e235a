"""Semantic similarity: correlation with people's scores."""

from __future__ import annotations

from pathlib import Path

import click

from mexma_cli.commands.eval_options import Result, Session, evaluation


@evaluation(
    "Similarity of sentences",
    "correlation of cosines with people's scores, percent",
    "scored pairs: STS 2012 to 2017, STS benchmark, SICK",
)
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="FILE|DIR...")
def command(session: Session, paths: tuple[Path, ...]) -> Result:
    """Correlate cosines of sentence pairs with people's scores: Spearman and Pearson, in percent.

    \b
    FILE, compressed or not, has one of these layouts; DIR stands for all such files in it:
      score TAB sentence TAB sentence [TAB part], one file a data set
      sts-dev.csv, sts-test.csv of the STS benchmark; stsb-de-test.csv of stsb-multi-mt
      STS.input.NAME.txt beside STS.gs.NAME.txt, as SemEval publishes them
      SICK.txt, SICK_test_annotated.txt with their header line

    A file with parts has a row for each part, and one for all its pairs, as MTEB and the papers report it.
    The mean is over files. Published at http://ixa2.si.ehu.eus/stswiki (STS 2012-2017 and the benchmark) and
    https://zenodo.org/record/2787612 (SICK).

    \b
    Examples:
      mexma eval sts stsb/dev.*.tsv.gz --model facebook/MEXMA
      mexma eval sts sts-test.csv STS12.tsv --json
    """
    from mexma_cli.evaluation.sts import evaluate, find_files, read_pairs

    sets = [read_pairs(path) for path in find_files(paths)]
    with session.embedder(2 * sum(len(pairs.gold) for pairs in sets)) as embed:
        return evaluate(sets, paths, embed)
