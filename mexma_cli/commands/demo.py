"""`mexma demo`: two small texts that come with the package, mined and measured."""

from __future__ import annotations

import importlib.util
import shlex
import subprocess
import sys
import time
from itertools import islice
from pathlib import Path

import click

from mexma_cli.errors import MexmaError
from mexma_cli.files import make_folder, shipped_folder, whole_file
from mexma_cli.lazy import OutputPath

BEST = 10
"""Pairs that are shown."""
TEXTS = "spa-eng"


@click.command("demo")
@click.argument("folder", default="mexma-demo", type=OutputPath(path_type=Path, file_okay=False))
def command(folder: Path) -> None:
    """Mine two small texts that come with mexma into FOLDER (mexma-demo), and measure the result.

    Each command is shown before it runs. The texts have 3,000 Spanish and 3,000 English lines, with 1,000
    translations hidden in them; FOLDER/README.md names their source. It takes about a minute and downloads
    nothing.
    """
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


def shipped_texts() -> Path:
    """The folder of the texts: Spanish and English sentences of Tatoeba, and which translate each other."""
    return shipped_folder("examples") / TEXTS


def lay_out(folder: Path) -> list[list[str]]:
    """Copy the texts into a folder, with the page that says whose they are. Returns the commands that embed,
    mine and measure them, in their order, each as its words."""
    texts = {text.name: text.read_bytes() for text in sorted(shipped_texts().iterdir())}
    _check_ours(folder, texts)
    make_folder(folder)
    for name, text in texts.items():
        with whole_file(folder / name) as file:
            file.write(text)
    at = {name: str(folder / name) for name in ("spa.emb", "eng.emb", "pairs.tsv")}
    picture = ["--plot", str(folder / "scores.png")] if importlib.util.find_spec("matplotlib") else []
    return [
        ["embed", "--model", "mini", "--lang", "spa", str(folder / "spa.txt"), "-o", at["spa.emb"]],
        ["embed", "--model", "mini", "--lang", "eng", str(folder / "eng.txt"), "-o", at["eng.emb"]],
        ["mine", at["spa.emb"], at["eng.emb"], "-o", at["pairs.tsv"]],
        ["tune", at["pairs.tsv"], "--gold", str(folder / "gold.tsv"), *picture],
    ]


def _check_ours(folder: Path, texts: dict[str, bytes]) -> None:
    """Refuse a folder with other texts of these names, or with anything but the page, which is the first."""
    there = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    begun = {min(texts), f"{min(texts)}.partial"}
    others = [name for name in there.intersection(texts) if (folder / name).read_bytes() != texts[name]]
    if others or (there and not there & begun):
        raise MexmaError(f"{folder} holds {min(others or there)}, not of the demo", "name another folder")
