"""`mexma mine`: two texts in, their translations out."""

from __future__ import annotations

import logging
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from mexma_cli.commands.options import encoder_options, load_encoder, show_bars

if TYPE_CHECKING:
    from mexma_cli.encoder.encoder import SentenceEncoder
    from mexma_cli.store.embeddings import EmbeddingStore
    from mexma_cli.text.lines import FileScan

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
@click.option("--source-lang", default="und", help="Language of SOURCE, if it is a text.")
@click.option("--target-lang", default="und", help="Language of TARGET, if it is a text.")
@encoder_options
def command(
    source: Path,
    target: Path,
    margin: str,
    k: int,
    retrieval: str,
    threshold: float | None,
    output: Path | None,
    source_lang: str,
    target_lang: str,
    model: str | None,
    device: str,
    dtype: str,
) -> None:
    """Find the translations in SOURCE and TARGET, best first: score TAB source TAB target.

    Both are embedding stores (`mexma embed` makes them) or text files, one sentence a line, `-` for stdin,
    which are embedded on the way with --model. Lines that occur more than once in a file count once; empty
    lines never pair.

    \b
    Examples:
      mexma mine fra.emb eng.emb --margin ratio --threshold 1.06 -o pairs.tsv
      mexma mine fra.txt.gz eng.txt.gz -o pairs.tsv.gz
    """
    if str(source) == str(target) == "-":
        raise click.UsageError("SOURCE and TARGET cannot both be stdin.")
    typed = click.get_current_context().get_parameter_source("model") == ParameterSource.COMMANDLINE
    if typed and _is_store(source) and _is_store(target):
        raise click.UsageError("--model is for texts; SOURCE and TARGET are embedded already.")
    from tqdm import tqdm

    from mexma_cli.languages import resolve
    from mexma_cli.stages.bitext import check_output, write_pairs
    from mexma_cli.stages.mine import mine

    check_output(output)
    languages = resolve(source_lang), resolve(target_lang)
    started = time.monotonic()
    with ExitStack() as stack:
        stores = _opened(stack, (source, target), languages, model, device, dtype)
        bar = stack.enter_context(tqdm(desc="mining", unit=" tiles", leave=False, disable=not show_bars()))

        def on_progress(done: int, total: int) -> None:
            bar.total = total
            bar.update(done - bar.n)

        found = mine(
            *stores, margin=margin, k=k, retrieval=retrieval, threshold=threshold, on_progress=on_progress
        )
    replaced = write_pairs(output, found.pairs())
    log.info(
        "%s pairs in %.1f s; source: %s; target: %s",
        f"{len(found.candidates):,}",
        time.monotonic() - started,
        found.source,
        found.target,
    )
    if replaced:
        log.info("tabs or line breaks became spaces in %s sentences", f"{replaced:,}")
    if not len(found.candidates):
        log.warning("warning: no pair was found%s", "" if threshold is None else f" above {threshold}")


def _is_store(path: Path) -> bool:
    return path.is_dir() or path.suffix == ".emb"


def _opened(
    stack: ExitStack,
    paths: tuple[Path, Path],
    languages: tuple[str, str],
    model: str | None,
    device: str,
    dtype: str,
) -> tuple[EmbeddingStore, EmbeddingStore]:
    """Both sides as stores; texts are embedded into a folder that goes when the stack is closed.

    What can be refused is refused before anything is embedded.
    """
    from mexma_cli.stages.mine import check_encoder
    from mexma_cli.store.embeddings import EmbeddingStore
    from mexma_cli.text.lines import scan, spooled

    stores: list[EmbeddingStore | None] = [
        EmbeddingStore.open(path) if _is_store(path) else None for path in paths
    ]
    if None in stores:
        scans: list[FileScan | None] = []
        for path, store in zip(paths, stores, strict=True):
            scans.append(None if store else scan(stack.enter_context(spooled(path)), _label(path)))
        encoder = load_encoder(model, device, dtype)
        for store in filter(None, stores):
            check_encoder(store, encoder.name, encoder.fingerprint, "the text")
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mexma-")))
        for side, text in enumerate(scans):
            if text is not None:
                output = folder / f"{side}.emb"
                stores[side] = _embedded(encoder, text, _label(paths[side]), languages[side], output)
    source, target = stores
    assert source is not None and target is not None
    return source, target


def _label(path: Path) -> str:
    return "stdin" if str(path) == "-" else str(path)


def _embedded(
    encoder: SentenceEncoder, text: FileScan, label: str, language: str, output: Path
) -> EmbeddingStore:
    from tqdm import tqdm

    from mexma_cli.stages.embed import embed_file

    log.info("embedding %s into a temporary folder; `mexma embed` makes a store that stays", label)
    with tqdm(total=text.lines, desc="embedding", unit=" lines", leave=False, disable=not show_bars()) as bar:
        return embed_file(
            encoder,
            text,
            output,
            language,
            label=label,
            argv=[Path(sys.argv[0]).name, *sys.argv[1:]],
            on_progress=lambda done, _: bar.update(done - bar.n),
        )
