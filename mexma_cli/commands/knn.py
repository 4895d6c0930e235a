"""`mexma knn`: neighbours in both directions, kept."""

from __future__ import annotations

import json
import logging
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mexma_cli.commands.inputs import check_inputs, command_line, opened, print_estimate, progress_bar
from mexma_cli.commands.options import (
    encoder_options,
    json_option,
    no_verify_option,
    output_option,
    overwrite_option,
    search_options,
)
from mexma_cli.files import check_parent
from mexma_cli.settings.stages import EncoderChoice, KnnSettings
from mexma_cli.text.amounts import counted

if TYPE_CHECKING:
    from mexma_cli.store.neighbours import NeighbourStore

log = logging.getLogger(__name__)


@click.command("knn")
@click.argument("source", type=click.Path(path_type=Path, allow_dash=True))
@click.argument("target", type=click.Path(path_type=Path, allow_dash=True))
@output_option("NAME.knn", "Folder for the neighbours.", required=True)
@overwrite_option
@json_option
@search_options(KnnSettings)
@encoder_options
@no_verify_option
def command(
    source: Path,
    target: Path,
    output: Path,
    overwrite: bool,
    as_json: bool,
    settings: KnnSettings,
    dry_run: bool,
    encoder: EncoderChoice,
) -> None:
    """Keep the nearest neighbours of two texts, in both directions, for `mexma mine --neighbours`.

    SOURCE and TARGET are text files with one sentence a line (`-` is stdin), or embedding stores that `mexma
    embed` made. NAME.knn is a folder with four NumPy arrays (cosines and row numbers, both ways) and a
    manifest. Cosines are exact, and without an --index no neighbour is missed. Of equal lines only the last
    has neighbours, and empty lines have none. The same command continues a killed search.

    \b
    Example:
      mexma knn fra.emb eng.emb -k 16 -o fra-eng.knn
    """
    check_inputs((source, target))
    from mexma_cli.stages.knn.knn import find_neighbours, kept_already
    from mexma_cli.store.neighbours import NeighbourStore

    if not overwrite and kept_already(output, (source, target), settings):
        log.info("%s is there already, of the same stores and settings: nothing to do", output)
        if as_json:
            _print_json(NeighbourStore.open(output))
        return
    NeighbourStore.check_replaceable(output, overwrite)
    if dry_run:
        print_estimate((source, target), settings.k, settings, encoder)
        return
    check_parent(output)
    started = time.monotonic()
    with ExitStack() as stack:
        stores = opened(stack, (source, target), encoder)
        found = find_neighbours(
            (stores[0], stores[1]),
            output,
            settings,
            argv=command_line(),
            overwrite=overwrite,
            on_progress=progress_bar(stack, "searching"),
        )
    _log_summary(found, settings.k, time.monotonic() - started)
    if as_json:
        _print_json(found)


def _print_json(found: NeighbourStore) -> None:
    manifest = found.manifest
    sides = {
        name: {"store": side.path, "rows": side.rows, "neighbours": kept}
        for name, side, kept in (
            ("source", manifest.source, manifest.forward_k),
            ("target", manifest.target, manifest.backward_k),
        )
    }
    about = {"neighbours": str(found.path), "k": manifest.k, "index": manifest.index}
    click.echo(json.dumps(about | {"recall": manifest.recall} | sides, ensure_ascii=False))


def _log_summary(found: NeighbourStore, k: int, seconds: float) -> None:
    manifest = found.manifest
    for kept, other in ((manifest.forward_k, manifest.target), (manifest.backward_k, manifest.source)):
        if kept < k:
            there = counted(kept, "sentence")
            log.warning("%s has %s to search in, fewer than -k %s", other.path, there, k)
    log.info(
        "%s: neighbours of %s and %s rows in %.1f s",
        found.path,
        f"{manifest.source.rows:,}",
        f"{manifest.target.rows:,}",
        seconds,
    )
