"""`mexma doctor`: what this machine and this installation have."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import click

from mexma_cli.commands.options import json_option


@click.command("doctor")
@click.option("--warm", is_flag=True, help="Compile all inner loops now, as for a container's image.")
@json_option
def command(warm: bool, as_json: bool) -> None:
    """Say what is installed, what the machine has, and what would help, a line for each.

    Versions and extras; the processor, its fast instructions and threads; GPUs and how attention is computed
    there; memory, with a container's limit; where compiled loops and models are kept; whether the model hub
    answers.

    --warm compiles what embedding, mining, aligning and training would compile when they first need it. Kept
    loops are for one kind of processor: another one compiles its own.
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
