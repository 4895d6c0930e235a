"""`mexma eval`: a group, one file a subcommand.

A file here is listed by itself: its name is the command's, and the first line of its docstring is the help.
"""

from __future__ import annotations

import ast
import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mexma_cli.lazy import LazyGroup

if TYPE_CHECKING:
    from mexma_cli.reporting.result import Heading


def _table() -> dict[str, str]:
    """The commands in the files of this folder, which are read as text and not imported."""
    files = sorted(path for path in Path(__file__).parent.glob("*.py") if path.stem != "__init__")
    docstrings = {path.stem: ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) for path in files}
    return {name: (docstring or "").partition("\n")[0] for name, docstring in docstrings.items()}


def headings() -> Mapping[str, Heading]:
    """The heading of each evaluation on the page of results, by name. This imports all commands here."""
    for name in TABLE:
        importlib.import_module(f"{__name__}.{name}")
    from mexma_cli.commands.eval_options import HEADINGS

    return {name: HEADINGS[name] for name in TABLE if name in HEADINGS}  # whichever was imported first


TABLE = _table()

EPILOG = """\b
Examples:
  mexma eval xsim flores200_dataset --langs 81 --model facebook/MEXMA -o xsim.json
  mexma report results/*.json -o page.html

Every command prints a table, with published numbers beside it where the task is the same. -o writes the
result for `mexma report`."""


@click.group("eval", cls=LazyGroup, tables={"Commands": TABLE}, package=__name__, epilog=EPILOG)
def command() -> None:
    """Measure an encoder as the papers do, on the published files of the benchmarks.

    Each command says which files it needs and where they are published. Only mteb downloads its data.
    """
