"""Checks that commands make before they begin, how they open their inputs, and their progress bars."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from mexma_cli.commands.progress import follow, progress
from mexma_cli.settings.stages import EncoderChoice, SearchSettings
from mexma_cli.stages.embed.inputs import is_store, open_inputs, overwriting

if TYPE_CHECKING:
    from tqdm import tqdm

    from mexma_cli.stages.costs import Cost
    from mexma_cli.store.embeddings import EmbeddingStore


def is_typed(name: str) -> bool:
    """Whether an option, by the name of its parameter, is on the command line."""
    return click.get_current_context().get_parameter_source(name) == ParameterSource.COMMANDLINE


def check_inputs(paths: Sequence[Path]) -> None:
    """Raise click.UsageError for stdin given twice, or for an encoder's option where no input is a text."""
    if sum(str(path) == "-" for path in paths) > 1:
        raise click.UsageError("Only one of the inputs can be stdin.")
    if all(is_store(path) for path in paths):
        for name in EncoderChoice.model_fields:
            if name != "device" and is_typed(name):
                option = "--" + name.replace("_", "-")
                done = " and ".join(map(str, paths))
                raise click.UsageError(f"{option} is for texts; {done} are embedded already.")


def check_bitext(bitext: Sequence[Path]) -> None:
    """Raise click.UsageError for more than two files."""
    if len(bitext) > 2:
        raise click.UsageError(f"BITEXT is one file of pairs or two files, not {len(bitext)} files.")


def check_outputs(outputs: Iterable[Path | None], inputs: Iterable[Path]) -> None:
    """Raise click.UsageError for an output over another one, an input or the text of a store, or in a
    store."""
    if found := overwriting(filter(None, outputs), inputs):
        raise click.UsageError(f"{found}: name another output.")


def check_stdout(files: Sequence[Path], others: Mapping[str, Path | None]) -> None:
    """Raise click.UsageError for two outputs on stdout: the result, unless it goes to `files`, and those of
    other options."""
    named = ["-o"] * (not files) + [option for option, path in others.items() if str(path) == "-"]
    if len(named) > 1:
        raise click.UsageError(f"{' and '.join(named)} go to stdout: name a file for all but one.")


def row_outputs(
    output: Path | None, inputs: Iterable[Path] = (), as_json: bool = False
) -> tuple[list[Path], str]:
    """The file that rows of scores and sentences are written to, none for stdout, which can be written and is
    no input; and its format, by its name unless `as_json`."""
    from mexma_cli.formats.bitext import format_of, outputs_of
    from mexma_cli.formats.csv import ROWS
    from mexma_cli.text.writing import prepare_output

    kind = format_of(output, ROWS)
    prepare_output(output)
    outputs = outputs_of(output)
    check_outputs(outputs, inputs)
    return outputs, "jsonl" if as_json else kind


def opened(
    stack: ExitStack, paths: Sequence[Path], encoder: EncoderChoice, **how: Any
) -> list[EmbeddingStore]:
    """`open_inputs`, with a bar while texts are embedded."""
    return open_inputs(stack, paths, encoder, **how, on_progress=progress_bar(stack, "embedding", "line"))


def progress_bar(stack: ExitStack, description: str, unit: str = "tile", **how: Any) -> Callable[..., None]:
    """A function to call with what is done, how much there is, and perhaps of what: it shows a bar on the
    terminal, from the first call until all is done or the stack is closed. `how` is for `progress`."""
    bar: tqdm[Any] | None = None

    def report_progress(done: int, total: int, at: str = "") -> None:
        nonlocal bar
        if bar is None:
            bar = stack.enter_context(progress(desc=description, unit=unit, initial=done, total=total, **how))
        follow(bar)(done, total, at)
        if done >= total:
            bar.close()
            bar = None

    return report_progress


def summary_of(store: EmbeddingStore) -> dict[str, Any]:
    """The facts about a new store that --json prints."""
    manifest = store.manifest
    counts = ("rows", "dim", "dtype", "language", "encoder", "truncated", "empty", "duplicates")
    return {"store": str(store.path)} | {name: getattr(manifest, name) for name in counts}


def command_line() -> list[str]:
    """The command as it was typed, for manifests."""
    return ["mexma", *sys.argv[1:]]


def print_estimate(
    paths: tuple[Path, Path],
    k: int,
    settings: SearchSettings,
    choice: EncoderChoice,
    judging: Callable[[int], int] = lambda rows: 0,
    pairs: Cost | None = None,
) -> None:
    """Print memory, disk and time for a search in two stores or texts; stdin, which could not be read again,
    is refused. `judging` says the bytes that probabilities take, by the rows of both sides together, and
    `pairs` is the cost of what follows the search."""
    if any(str(path) == "-" for path in paths):
        raise click.UsageError("--dry-run reads its inputs, so they must be files.")
    from mexma_cli.stages.knn.estimate import estimate_search, look_at_inputs

    inputs, dim, encoder = look_at_inputs(paths, choice)
    for side in inputs:
        click.echo(f"{side.label:<24} {side.rows:>14,} lines x {dim}")
    for name, value in estimate_search(inputs, dim, k, settings, encoder, judging, pairs):
        click.echo(f"{name:<24} {value}")
