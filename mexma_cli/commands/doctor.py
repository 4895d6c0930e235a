"""`mexma doctor`: what this machine and this installation have."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import click

from mexma_cli.commands.options import json_option


@click.command("doctor")
@click.option(
    "--warm", is_flag=True, help="Compile all inner loops now, for instance for a container's image."
)
@json_option
def command(warm: bool, as_json: bool) -> None:
    """Print what is installed, what the machine has, and what would help.

    Versions and extras; processor, its fast instructions and threads; GPUs and their attention backends;
    memory and a container's limit; caches; whether the model hub answers.

    --warm compiles the loops that commands otherwise compile when they first need them, for this kind of
    processor.

    \b
    Example:
      mexma doctor --json
    """
    from mexma_cli.stages.doctor.doctor import examine

    if warm:
        from mexma_cli.stages.doctor.warm import compile_all

        compile_all()
    found = examine()
    if as_json:
        click.echo(json.dumps(dataclasses.asdict(found), ensure_ascii=False))
        return
    for section, facts in found.facts.items():
        click.echo(section)
        width = max(map(len, facts))
        for name, value in facts.items():
            click.echo(f"  {name.ljust(width)}  {_shown(value)}".rstrip())
    for line in found.advice:
        click.echo(f"advice: {line}")


def _shown(value: Any) -> str:
    return (", ".join(value) or "none") if isinstance(value, list) else str(value)
