"""Options of commands that write pairs (format, whether ids go with them), and the rules, for the help."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from mexma_cli.formats.bitext import DEFAULT, formats, named_format

Command = TypeVar("Command", bound=Callable[..., Any])


def format_options(ids: str, alignments: bool = False) -> Callable[[Command], Command]:
    """Add --format and --with-ids, which adds `ids`; `alignments`: formats of these are among them."""
    with_ids = click.option("--with-ids", is_flag=True, help=f"Add to {_with('wanted', alignments)}: {ids}.")

    def added(command: Command) -> Command:
        return format_option(alignments)(with_ids(command))

    return added


def format_option(alignments: bool = False, otherwise: str = DEFAULT) -> Callable[[Command], Command]:
    """Add --format; `otherwise` is what it is where neither this option nor the output's name says it."""
    return click.option(
        "--format",
        metavar="NAME",
        type=click.Choice(list(formats(alignments))),
        help=f"Format of the output, see below.  [default: by the output's name, else {otherwise}]",
    )


def format_epilog(alignments: bool = False) -> str:
    """The formats, for the help."""
    known = formats(alignments)
    return "\n".join(["\b", "Formats:", *(f"  {name:<8} {found.about}" for name, found in known.items())])


def chosen_format(
    format: str | None, output: Path | None, with_ids: bool, alignments: bool = False
) -> tuple[str, bool]:
    """The format that is asked for or that the output's name says, and whether ids are written. Refused: ids
    that it has no place for, and two files on stdout."""
    known = formats(alignments)
    format = named_format(output, format, alignments).name
    if known[format].two_files and (output is None or str(output) == "-"):
        raise click.UsageError(f"--format {format} writes two files: name them with --output.")
    if with_ids and known[format].ids == "never":
        others = ", ".join(name for name, found in known.items() if found.ids != "never")
        raise click.UsageError(f"--with-ids: {format} files have no place for ids; these have: {others}.")
    return format, with_ids or known[format].ids == "always"


def _with(ids: str, alignments: bool) -> str:
    """The names of the formats that write ids `wanted`, `always` or `never`."""
    return ", ".join(name for name, found in formats(alignments).items() if found.ids == ids)


def rule_epilog(of: Sequence[str]) -> str:
    """The rules that look at what `of` says, for the help."""
    from mexma_cli.text.rules import rules_about

    rules = rules_about(of)
    lines = [f"  {rule.name:<19} {rule.says()}" for rule in rules]
    on, off = (
        [line for line, rule in zip(lines, rules, strict=True) if rule.on == on] for on in (True, False)
    )
    return "\n".join(["\b", "Rules that are on:", *on, "Rules that are off:", *off])
