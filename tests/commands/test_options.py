"""Options mean the same, and have the same names, in every command."""

from __future__ import annotations

from collections.abc import Iterator

import click
from click.testing import CliRunner

from mexma_cli.main import cli


def commands(group: click.Group, context: click.Context) -> Iterator[click.Command]:
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        yield command
        if isinstance(command, click.Group):
            yield from commands(command, click.Context(command, parent=context))


def test_k_has_one_name() -> None:
    root = click.Context(cli, info_name="mexma")
    named = {
        str(command.name): parameter.opts
        for command in commands(cli, root)
        for parameter in command.params
        if "-k" in parameter.opts or parameter.name == "k"
    }
    assert {"mine", "score", "search", "knn", "tune", "xsim"} <= set(named)
    assert all(options == ["-k", "--neighbourhood"] for options in named.values()), named


def test_k_by_its_long_name() -> None:
    refused = CliRunner().invoke(cli, ["knn", "a.emb", "b.emb", "-o", "ab.knn", "--neighbourhood", "0"])
    assert refused.exit_code == 2 and "'-k' / '--neighbourhood': 0 is not in the range" in refused.stderr
