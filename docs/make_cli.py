"""Print docs/cli.md: every command's own --help. `make docs` runs it, tests/test_docs.py compares."""

from __future__ import annotations

import click

from mexma_cli.main import COMMANDS, cli

HEADER = """\
# The commands

Made by `make docs` from the commands' own `--help`; do not edit it here.
"""
WIDTH = 90


def help_of(command: click.Command, name: str, parent: click.Context | None) -> str:
    settings = {**command.context_settings, "terminal_width": WIDTH, "max_content_width": WIDTH}
    ctx = click.Context(command, info_name=name, parent=parent, **settings)
    return command.get_help(ctx).rstrip()


def render() -> str:
    root = click.Context(cli, info_name="mexma", **cli.context_settings)
    parts = [HEADER, f"```text\n{help_of(cli, 'mexma', None)}\n```\n"]
    for name in COMMANDS:
        command = cli.get_command(root, name)
        assert command is not None
        parts.append(f"## mexma {name}\n\n```text\n{help_of(command, name, root)}\n```\n")
        if isinstance(command, click.Group):
            group = click.Context(command, info_name=name, parent=root)
            for sub in command.list_commands(group):
                found = command.get_command(group, sub)
                assert found is not None
                parts.append(f"### mexma {name} {sub}\n\n```text\n{help_of(found, sub, group)}\n```\n")
    return "\n".join(parts)


if __name__ == "__main__":
    print(render(), end="")
