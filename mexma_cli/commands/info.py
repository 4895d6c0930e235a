"""`mexma info`: what a file or folder is, and whether it is whole."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Any

import click

from mexma_cli.commands.completion import ENCODER
from mexma_cli.commands.options import json_option, plugin_option
from mexma_cli.errors import MexmaError, in_a_line

if TYPE_CHECKING:
    from mexma_cli.stages.info import Info


@click.command("info")
@click.argument("path", type=ENCODER)
@plugin_option
@json_option
def command(path: str, plugins: tuple[str, ...], as_json: bool) -> None:
    """Describe a file or folder, and compare it with its checksums if it has any.

    PATH is an embedding store, prepared pairs or a folder of them, a training run, a checkpoint, an encoder
    (folder, LASER's or SONAR's file, or `mini`), sentence pairs in any format, or a text. The exit code is 1
    if anything is broken.

    \b
    Examples:
      mexma info fra.emb
      mexma info mini
    """
    from mexma_cli.settings.registry import load_plugin
    from mexma_cli.stages.info import inspect

    for plugin in plugins:
        load_plugin(plugin)
    info = inspect(path)
    problems = info.all_problems()
    if as_json:
        click.echo(json.dumps(dataclasses.asdict(info) | {"whole": not problems}, ensure_ascii=False))
    else:
        show(info)
        if not problems:
            for kind, right in info.checked().items():
                click.echo(f"checked {kind}: {right}")
    if problems:
        raise MexmaError("; ".join(problems))


_DETAILS = {"format_version", "tool_version", "settings", "tokenizer_fingerprint"}
"""Left out where many things are listed."""


def show(info: Info, indent: str = "") -> None:
    """Print the facts, a line each, the table, and those of the parts further in."""
    from mexma_cli.reporting.tables import aligned_columns, row_table

    click.echo(f"{indent}{in_a_line(info.path)}: {info.kind}")
    facts = {
        key: value
        for key, value in info.facts.items()
        if value is not None and (not indent or key not in _DETAILS)
    }
    width = max((len(key) for key in facts), default=0)
    for key, value in facts.items():
        click.echo(f"{indent}  {key.ljust(width)}  {in_a_line(_shown(key, value))}")
    for line in aligned_columns(row_table(info.rows), 2) if info.rows else []:
        click.echo(f"{indent}    {line}")
    for part in info.parts:
        show(part, indent + "  ")


def _shown(name: str, value: Any) -> str:
    from mexma_cli.reporting import curves

    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return curves.shown_point(name.removeprefix("last "), value)
    if isinstance(value, dict):
        there = {key: inner for key, inner in value.items() if inner is not None}
        return ", ".join(f"{key} {_shown(key, inner)}" for key, inner in there.items()) or "none"
    if isinstance(value, list):
        between = "; " if any(isinstance(inner, dict) for inner in value) else " "
        return between.join(_shown(name, inner) for inner in value)
    return str(value)
