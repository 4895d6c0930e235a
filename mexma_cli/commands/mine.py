"""`mexma mine`: two texts in, their translations out."""

from __future__ import annotations

import logging
import sys
import time
from pathlib import Path

import click
from tqdm import tqdm

log = logging.getLogger(__name__)


@click.command("mine")
@click.argument("source", type=click.Path(path_type=Path, allow_dash=True))
@click.argument("target", type=click.Path(path_type=Path, allow_dash=True))
@click.option(
    "--margin",
    type=click.Choice(["ratio", "distance", "absolute"]),
    default="ratio",
    show_default=True,
    help="Score of a pair: its cosine divided by, or minus, the mean of its neighbourhoods; or as it is.",
)
@click.option(
    "-k",
    "--neighbours",
    "k",
    type=click.IntRange(min=1),
    default=4,
    show_default=True,
    help="Nearest sentences that make up a neighbourhood.",
)
@click.option(
    "--retrieval",
    type=click.Choice(["max", "intersect", "forward", "backward"]),
    default="max",
    show_default=True,
    help="max: best pairs first, each sentence in one at most. intersect: pairs that chose each other. "
    "forward, backward: the best target of every source, or the other way round.",
)
@click.option(
    "--threshold",
    type=float,
    help="Print pairs with a score above this.  [default: 0 with max, none with the others]",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, allow_dash=True),
    help="File for the pairs, compressed if named .gz, .xz or .zst.  [default: stdout]",
)
def command(
    source: Path,
    target: Path,
    margin: str,
    k: int,
    retrieval: str,
    threshold: float | None,
    output: Path | None,
) -> None:
    """Find the translations in SOURCE and TARGET, best first: score TAB source TAB target.

    Both are embedding stores (`mexma embed` makes them) or text files, one sentence a line, which are
    embedded on the way. Lines that occur more than once in a file count once; empty lines never pair.

    \b
    Examples:
      mexma mine fra.emb eng.emb --margin ratio --threshold 1.06 -o pairs.tsv
      mexma mine fra.txt.gz eng.txt.gz -o pairs.tsv.gz
    """
    from mexma_cli.stages.bitext import write_pairs
    from mexma_cli.stages.mine import mine
    from mexma_cli.store.embeddings import EmbeddingStore

    stores = [EmbeddingStore.open(path) for path in (source, target)]
    started = time.monotonic()
    with tqdm(desc="mining", unit=" tiles", leave=False, disable=not _bars()) as bar:

        def on_progress(done: int, total: int) -> None:
            bar.total = total
            bar.update(done - bar.n)

        found = mine(
            stores[0],
            stores[1],
            margin=margin,
            k=k,
            retrieval=retrieval,
            threshold=threshold,
            on_progress=on_progress,
        )
    replaced = write_pairs(output, found.pairs())
    seconds = time.monotonic() - started
    log.info(
        "%s pairs in %.1f s; source: %s; target: %s",
        f"{len(found.candidates):,}",
        seconds,
        found.source,
        found.target,
    )
    if replaced:
        log.info("tabs or line breaks became spaces in %s sentences", f"{replaced:,}")
    if not len(found.candidates):
        log.warning("warning: no pair was found%s", "" if threshold is None else f" above {threshold}")


def _bars() -> bool:
    return sys.stderr.isatty() and log.isEnabledFor(logging.INFO)
