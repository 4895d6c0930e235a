"""`mexma demo`: two small texts that come with the package, mined and measured."""

from __future__ import annotations

import shlex
import subprocess
import sys
import time
from itertools import islice
from pathlib import Path

import click

BEST = 10
"""Pairs that are shown."""


@click.command("demo")
@click.argument("folder", default="mexma-demo", type=click.Path(path_type=Path, file_okay=False))
def command(folder: Path) -> None:
    """Mine two small texts that come with mexma into FOLDER (mexma-demo), and measure the result.

    Each command is shown before it runs. The texts have 3,000 Spanish and 3,000 English lines, with 1,000
    translations hidden in them; FOLDER/README.md names their source. It takes about a minute and downloads
    nothing.
    """
    from mexma_cli.stages.demo import lay_out

    started = time.monotonic()
    for words in lay_out(folder):
        click.echo(f"\n$ {shlex.join(['mexma', *words])}")
        done = subprocess.run([sys.executable, "-m", "mexma_cli", *words])
        if done.returncode:
            sys.exit(done.returncode if done.returncode > 0 else 128 - done.returncode)
        if words[0] == "mine":
            pairs = folder / "pairs.tsv"
            click.echo(f"\n$ {shlex.join(['head', '-n', str(BEST), str(pairs)])}")
            with pairs.open(encoding="utf-8") as lines:
                click.echo("".join(islice(lines, BEST)), nl=False)
    click.echo(f"\n{time.monotonic() - started:.0f} s. All of it is in {folder}; all pairs: pairs.tsv there.")
