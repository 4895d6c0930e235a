"""`mexma eval sts`: similarity of sentences, as people judge it."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

import click

from mexma_cli.commands.eval.options import cached_embedding, check_result_output, result_options
from mexma_cli.commands.options import EncoderChoice, encoder_options, load_encoder
from mexma_cli.text.amounts import counted

if TYPE_CHECKING:
    from mexma_cli.evaluation.aligned import Embed
    from mexma_cli.evaluation.sts_files import Pairs

log = logging.getLogger(__name__)

PUBLISHED = {"STS12": 3108, "STS13": 1500, "STS14": 3750, "STS15": 3000, "STS16": 1186, "STSBenchmark": 1379}
"""Data sets of the paper's Table 27 that are one file, and how many pairs they have there."""
ALIASES = {"sts-test": "STSBenchmark"}


@click.command("sts")
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="FILE|DIR...")
@result_options
@encoder_options
def command(
    paths: tuple[Path, ...], cache: Path | None, as_json: bool, output: Path | None, encoder: EncoderChoice
) -> None:
    """Correlate cosines of sentence pairs with people's scores: Spearman and Pearson, in percent.

    \b
    Layouts that are read (also compressed); DIR stands for all such files in it:
      score TAB sentence TAB sentence [TAB part], one file a data set
      sts-dev.csv, sts-test.csv of the STS benchmark; stsb-de-test.csv of stsb-multi-mt
      STS.input.NAME.txt beside STS.gs.NAME.txt, as SemEval publishes them
      SICK.txt, SICK_test_annotated.txt with their header line

    A file with parts has a row for each and one for all its pairs together, which is what MTEB and the
    papers report; the mean is over files. Published at http://ixa2.si.ehu.eus/stswiki (STS 2012-2017 and
    the benchmark) and https://zenodo.org/record/2787612 (SICK).

    \b
    Examples:
      mexma eval sts stsb/dev.*.tsv.gz --model facebook/MEXMA
      mexma eval sts sts-test.csv STS12.tsv --json
    """
    from mexma_cli.evaluation.sts_files import find_files, read_pairs
    from mexma_cli.reporting.results import Result, describe, print_result

    sets = [read_pairs(path) for path in find_files(paths)]
    check_result_output(output)
    loaded = load_encoder(encoder)
    rows: list[dict[str, Any]] = []
    with cached_embedding(loaded, cache, 2 * sum(len(pairs.gold) for pairs in sets)) as embed:
        for pairs in sets:
            rows += _rows(pairs, embed)
    whole = [row for row in rows if row["part"] == "all"]
    scores = {}
    for key in ("spearman", "pearson"):
        if found := [row[key] for row in whole if row[key] is not None]:
            scores[key] = fmean(found)
    settings = {"files": [str(path) for path in paths], "similarity": "cosine"}
    print_result(Result("sts", describe(loaded), settings, scores, rows, "sts"), as_json, output)


def _rows(pairs: Pairs, embed: Embed) -> Iterator[dict[str, Any]]:
    """A data set's row, after one for each of its parts."""
    import numpy as np

    from mexma_cli.evaluation.sts import score_pairs

    name = ALIASES.get(pairs.name, pairs.name)
    if len(pairs.gold) != PUBLISHED.get(name, len(pairs.gold)):
        count, whole = f"{len(pairs.gold):,}", f"{PUBLISHED[name]:,}"
        log.info("%s has %s pairs here and %s where it is published: not compared", name, count, whole)
        name += " (part)"
    left, right = embed(pairs.left), embed(pairs.right)
    parts = np.array(pairs.parts)
    groups = {part: np.flatnonzero(parts == part) for part in dict.fromkeys(pairs.parts)}
    groups = groups if len(groups) > 1 else {}
    for part, places in (groups | {"all": np.arange(len(pairs.gold))}).items():
        if len(set(pairs.gold[places].tolist())) < 2:
            continue  # a part with one score correlates with nothing
        found = score_pairs(left[places], right[places], pairs.gold[places])
        if found.spearman is None:
            log.warning("warning: %s, %s: all cosines are equal, which correlates with nothing", name, part)
        yield {
            "data set": name,
            "part": part,
            "pairs": len(places),
            "spearman": found.spearman,
            "pearson": found.pearson,
        }
    if pairs.unscored:
        log.info("%s: left out as published without a score: %s", name, counted(pairs.unscored, "pair"))
