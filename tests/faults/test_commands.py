"""Every command that writes is among those under faults, with every option that names what is written."""

from __future__ import annotations

from collections.abc import Iterator

import click

from mexma_cli.main import cli
from tests.faults.commands import COMMANDS, READING

WRITTEN = {"--output", "--log-file", "--report", "--rejects", "--unaligned", "--plot", "--picture", "--cache"}
WRITTEN |= {"--save-threshold"}
READ = {
    *(
        "--augmented",
        "--background",
        "--classifier",
        "--dictionary",
        "--docs",
        "--document-pairs",
        "--exclude",
        "--gold",
    ),
    *("--lid-model", "--neighbours", "--plugin", "--senteval", "--source", "--sts", "--target", "--text"),
    *("--thresholds", "--with", "--within", "--xsim"),
}
ASK = {"--labels"}
"""What `tune` writes for somebody at a terminal."""
ON_ALL, OF_EVALUATIONS = {"--log-file"}, {"--output", "--cache"}
"""What the same code writes for all commands, and for all evaluations."""


def _commands(group: click.Group, name: str = "") -> Iterator[tuple[str, click.Command]]:
    """All commands, by the words that call them."""
    context = click.Context(group)
    for word in group.list_commands(context):
        command = group.get_command(context, word)
        assert command is not None
        if isinstance(command, click.Group):
            yield from _commands(command, f"{name}{word} ")
        else:
            yield f"{name}{word}", command


def _paths(command: click.Command) -> Iterator[set[str]]:
    """The spellings of each option that takes a path."""
    for option in command.params:
        is_path = isinstance(option.type, click.Path) or WRITTEN & {*option.opts}
        if isinstance(option, click.Option) and is_path:
            yield {*option.opts}


def test_every_command_is_driven_or_only_reads() -> None:
    names = set(cli.list_commands(click.Context(cli)))
    driven = {next(word for word in command.words if word in names) for command in COMMANDS}
    assert driven | READING == names and not driven & READING


def test_every_option_that_writes_is_driven() -> None:
    missing = []
    for name, command in _commands(cli):
        typed = [{*one.words} for one in COMMANDS if name in " ".join(one.words)]
        for flags in _paths(command):
            known = [flags & kind for kind in (WRITTEN, READ, ASK)]
            assert any(known), f"mexma {name} {flags}: is it read, or written?"
            same = flags & ON_ALL or (name.startswith("eval ") and flags & OF_EVALUATIONS)
            if known[0] and not same and not any(flags & words for words in typed):
                missing.append(f"{name} {min(flags)}")
    assert not missing
