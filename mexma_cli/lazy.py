"""A group of commands that are imported only when they are run or their own help is asked for."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Mapping
from typing import Any

import click

from mexma_cli.errors import choice


class LocalPath(click.Path):
    """A path on this machine. An address is refused as it was written: `Path` would make one slash of two."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, str) and re.match(r"[A-Za-z][A-Za-z0-9+.-]+://", value):
            self.fail(
                f"{value} is not on this machine. Copy it here first, or put it through a pipe: `-` is stdin "
                "or stdout.",
                param,
                ctx,
            )
        return super().convert(value, param, ctx)


class OutputPath(LocalPath):
    """A file or folder that is written. With `allow_dash`, `-` is stdout; else it is refused."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if str(value) == "-" and not self.allow_dash:
            self.fail("This does not go to stdout (-): name another output.", param, ctx)
        return super().convert(value, param, ctx)


class SectionOption(click.Option):
    """An option that the help of its command lists under a heading of its own."""

    def __init__(self, *args: Any, section: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.section = section


class SectionedCommand(click.Command):
    """A command whose help lists its own options first, then each section's, and ends with examples."""

    def invoke(self, ctx: click.Context) -> Any:
        program = ctx.find_root().command
        if isinstance(program, LazyGroup):
            program.begin(ctx)
        return super().invoke(ctx)

    def sections(self, ctx: click.Context) -> dict[str, list[tuple[str, str]]]:
        """The help of each option, by section."""
        found: dict[str, list[tuple[str, str]]] = {"Options": []}
        for param in self.get_params(ctx):
            if isinstance(param, click.Option) and (record := param.get_help_record(ctx)):
                found.setdefault(getattr(param, "section", "Options"), []).append(record)
        return found

    def texts(self) -> tuple[str, ...]:
        """The help's text and its examples."""
        about, mark, examples = inspect.cleandoc(self.help or "").partition("\b\nExample")
        return (about, mark + examples) if mark else (about,)

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        _write(formatter, self.texts()[0])

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for heading, records in self.sections(ctx).items():
            with formatter.section(heading):
                formatter.write_dl(records)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for text in (self.epilog or "", *self.texts()[1:]):
            if text:
                _write(formatter, text)


def _write(formatter: click.HelpFormatter, text: str) -> None:
    formatter.write_paragraph()
    with formatter.indentation():
        formatter.write_text(text)


class LazyGroup(click.Group):
    """A group whose help is printed from its tables alone.

    Args:
        tables: By heading, one line of help for each command, in the order of the help.
        package: Has a module for each command, with `_` for `-`, in which it is called `command`.
    """

    def __init__(
        self, *args: Any, tables: Mapping[str, Mapping[str, str]], package: str, **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        self.tables, self.package = tables, package
        self.table = {name: line for table in tables.values() for name, line in table.items()}

    def begin(self, ctx: click.Context) -> None:
        """Called before a command of this group runs, when its parameters are known."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.table:
            return None
        command = importlib.import_module(f"{self.package}.{cmd_name.replace('-', '_')}").command
        assert isinstance(command, click.Command)
        if type(command) is click.Command:
            command = _extended(command, SectionedCommand)
        for param in command.params:
            if type(param.type) is click.Path:
                param.type = _extended(param.type, LocalPath)
        everywhere = getattr(ctx.find_root().command, "everywhere", [])
        command.params.extend(option for option in everywhere if option not in command.params)
        if ctx.auto_envvar_prefix:
            _name_in_environment(command, f"{ctx.auto_envvar_prefix}_{cmd_name}")
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(map(len, self.table))
        for heading, table in self.tables.items():
            with formatter.section(heading):
                formatter.write_dl([(name.ljust(width), line) for name, line in table.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in self.table and not name.startswith("-") and not ctx.resilient_parsing:
            advice = choice(name, self.table, "commands")
            raise click.UsageError(f"No such command '{name}'. {advice[:1].upper()}{advice[1:]}", ctx)
        return super().resolve_command(ctx, args)


def _extended(plain: Any, kind: type) -> Any:
    """An object of a class that extends Click's, with the attributes of one of Click's."""
    made = object.__new__(kind)
    vars(made).update(vars(plain))
    return made


def _name_in_environment(command: click.Command, prefix: str) -> None:
    """Let options be set by the names that users know; Click's own are those of the parameters."""
    for option in command.params:
        if getattr(option, "hidden", False):
            continue
        longest = max(option.opts, key=len) if isinstance(option, click.Option) else ""
        if longest.startswith("--"):
            option.envvar = f"{prefix}_{longest[2:]}".replace("-", "_").upper()
