"""Print docs/cli.md: every command's own --help. `make docs` runs it, tests/test_docs.py compares.

An option that several commands have is printed once, at the end, and so are the rules.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import click

from mexma_cli.lazy import SectionedCommand
from mexma_cli.main import cli
from mexma_cli.text.rules import OF_SENTENCES, RULES, SELECTABLE

HEADER = """\
# The commands

Made by `make docs` from the commands' own `--help`; do not edit it here. `mexma COMMAND --help` has all
options of a command in one place. Here, options of several commands are [once, at the end](#shared-options).
"""
RULES_HEADER = """\
## Rules

What `mexma split` drops from sentences, and `mexma filter` from pairs. Most rules drop a pair if either side
breaks them. `--on` and `--off` turn rules on and off.

| rule | drops | `split` | `filter` |
| --- | --- | --- | --- |
"""
WIDTH = 90
OWN = "Options"
"""The section of options that the help lists under no heading of their own."""
Option = tuple[str, str]
"""How the help writes an option, and what it says of it."""
Sections = dict[str, list[Option]]


def commands(
    group: click.Group, names: Iterator[str], parent: click.Context, heading: str
) -> Iterator[tuple[str, click.Command, click.Context]]:
    """Each command with its heading, groups before what is in them."""
    for name in names:
        command = group.get_command(parent, name)
        assert command is not None
        ctx = click.Context(command, info_name=name, parent=parent, **command.context_settings)
        yield f"{heading} {ctx.command_path}\n", command, ctx
        if isinstance(command, click.Group):
            yield from commands(command, iter(command.list_commands(ctx)), ctx, f"{heading}#")


def render() -> str:
    root = click.Context(cli, info_name="mexma", **cli.context_settings)
    found = list(commands(cli, iter(cli.table), root, "##"))
    shared = shared_options(
        command.sections(ctx) for _, command, ctx in found if isinstance(command, SectionedCommand)
    )
    parts = [HEADER, whole_help(cli, root)]
    for heading, command, ctx in found:
        parts.append(heading)
        if isinstance(command, SectionedCommand):
            parts += own_help(command, ctx, shared)
        else:
            parts.append(whole_help(command, ctx))
    parts += [RULES_HEADER + "".join(rules()), "## Shared options\n"]
    for section, options in shared.items():
        out = formatter()
        with out.section(section):
            out.write_dl(options)
        parts += [f"### {title(section)}\n", block(out)]
    return "\n".join(parts)


def shared_options(commands: Iterator[Sections]) -> Sections:
    """What several commands say in the same words, by section: three of them where it has no heading."""
    times = Counter(
        (section, option) for found in commands for section, options in found.items() for option in options
    )
    shared: Sections = {}
    for (section, option), count in times.items():
        if count > (2 if section == OWN else 1) and name(option) != "-h":
            shared.setdefault(section, []).append(option)
    return shared


def title(section: str) -> str:
    return "Options of several commands" if section == OWN else section


def own_help(command: SectionedCommand, ctx: click.Context, shared: Sections) -> Iterator[str]:
    """The help with the command's own options, and links to the others."""
    out = formatter()
    command.format_usage(ctx, out)
    about, *examples = command.texts()
    write(out, about)
    elsewhere = []
    for section, options in command.sections(ctx).items():
        options = [option for option in options if name(option) != "-h"]
        own = [option for option in options if option not in shared.get(section, [])]
        if own:
            with out.section(section):
                out.write_dl(own)
        if common := [option for option in options if option not in own]:
            whole = len(common) == len(shared[section]) > 4
            names = "" if whole else ": " + ", ".join(f"`{name(option)}`" for option in common)
            link = title(section).lower().replace(" ", "-")
            elsewhere.append(f"[{title(section).lower()}](#{link}){names}")
    for text in examples:
        write(out, text)
    yield block(out)
    epilog = command.epilog or ""
    elsewhere += ["[rules](#rules)"] * ("Rules" in epilog)
    elsewhere += ["[formats](formats.md#mined-pairs)"] * ("Formats" in epilog)
    if elsewhere:
        yield f"Also {'; '.join(elsewhere)}.\n"


def rules() -> Iterator[str]:
    for rule in RULES.values():
        cells = [
            ("on" if rule.on else "off") if {rule.of, rule.name} & set(of) else ""
            for of in (OF_SENTENCES, SELECTABLE)
        ]
        if any(cells):
            yield f"| `{rule.name}` | {rule.says()} | {' | '.join(cells)} |\n"


def name(option: Option) -> str:
    """`-o` of `-o, --output PATH`."""
    return option[0].replace(",", "").split()[0]


def formatter() -> click.HelpFormatter:
    return click.HelpFormatter(width=WIDTH)


def write(out: click.HelpFormatter, text: str) -> None:
    out.write_paragraph()
    with out.indentation():
        out.write_text(text)


def whole_help(command: click.Command, ctx: click.Context) -> str:
    out = formatter()
    command.format_help(ctx, out)
    return block(out)


def block(out: click.HelpFormatter) -> str:
    return f"```text\n{out.getvalue().strip(chr(10))}\n```\n"


if __name__ == "__main__":
    print(render(), end="")
