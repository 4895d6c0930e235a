"""Web pages from Jinja templates, which lie beside the code and escape all text that they are given."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from mexma_cli import __version__
from mexma_cli.files import whole_file
from mexma_cli.reporting.tables import names_in, shown_cell


def write_page(path: Path, template: str, **values: Any) -> None:
    """Write the page of a template, such as `reporting/results.html`, with the values that it names."""
    with whole_file(path) as file:
        # Names of files need not be UTF-8.
        file.write(page(template, **values).encode("utf-8", "backslashreplace"))


def page(template: str, **values: Any) -> str:
    """The HTML of a page; it refers to nothing outside. Arguments as of `write_page`."""
    return _environment().get_template(template).render(values, version=__version__)


@functools.cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parents[1]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {"shown": shown_cell, "number_columns": _number_columns}
    return environment


def _number_columns(table: Sequence[Sequence[str]]) -> list[int]:
    """The columns of a table that stand to the right: from the first numbers on, but those of words, such as
    sources."""
    columns = range(names_in(table), len(table[0]))
    return [place for place in columns if not any(row[place].strip()[:1].isalpha() for row in table[1:])]
