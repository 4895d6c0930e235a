"""`--dry-run`: what a command would take, printed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from mexma_cli.text.amounts import size, size_option

if TYPE_CHECKING:
    from mexma_cli.settings.stages import EncoderChoice, SearchSettings
    from mexma_cli.stages.knn.estimate import SearchEstimate


_ASSUMED = "a machine as busy as now, and random vectors"


def print_estimate(paths: tuple[Path, Path], k: int, settings: SearchSettings, choice: EncoderChoice) -> None:
    """Print memory, disk and time for a search in two stores or texts.

    Raises:
        click.UsageError: An input is stdin, which could not be read again.
    """
    if any(str(path) == "-" for path in paths):
        raise click.UsageError("--dry-run reads its inputs, so they must be files.")
    from mexma_cli.stages.knn.estimate import estimate, look_at

    inputs, dim, encoder = look_at(paths, choice)
    for side in inputs:
        click.echo(f"{side.label:<24} {side.rows:>14,} lines x {dim}")
    for name, value in estimated(estimate(inputs, dim, k, settings, encoder), settings):
        click.echo(f"{name:<24} {value}")


def estimated(found: SearchEstimate, settings: SearchSettings) -> list[tuple[str, str]]:
    """An estimate in words: what, and how much."""
    time = [("embedding", time_needed(found.embedding))] if found.embedding else []
    searching = "found out on the way" if found.searching is None else time_needed(found.searching)
    return [
        ("memory", f"{size(found.memory)}; with --memory at least {size_option(found.least_memory)}"),
        ("disk: output", f"at most {size(found.output)}"),
        ("disk: beside it", f"{size(found.journal)} until it is written, to go on after a kill"),
        *([("disk: temporary", size(found.temporary))] if found.temporary else []),
        *time,
        (f"neighbours ({settings.index if found.searching is None else 'exact'})", searching),
        *([("assumed", _ASSUMED)] if found.searching is not None else []),
    ]


def time_needed(seconds: float) -> str:
    """In words, as exactly as such an estimate is."""
    if seconds < 90:
        return f"about {max(seconds, 0.1):.1f} s"
    if seconds < 5400:
        return f"about {seconds / 60:.0f} minutes"
    return f"about {seconds / 3600:.1f} hours" if seconds < 172800 else f"about {seconds / 86400:.1f} days"
