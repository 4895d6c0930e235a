"""Print docs/cli.md: what every command does and its options, from its own --help.

`make docs` runs it, tests/test_docs.py compares.

An option that several commands have is printed once, at the end, and so are the rules.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import click

from mexma_cli.lazy import LazyGroup, SectionedCommand
from mexma_cli.main import cli
from mexma_cli.text.rules import OF_SENTENCES, RULES, SELECTABLE

HEADER = """\
# The commands

Made by `make docs` from the commands' own `--help`; do not edit it here. Options after "Also" belong to
several commands and are explained once, [at the end](#shared-options). `mexma COMMAND --help` also explains
the arguments, and has examples.
"""
MEASURES = "How each of them measures is on the page [Evaluation](evaluation.md).\n"
RULES_HEADER = """\
## Rules

`mexma split` drops sentences that break a rule, and `mexma filter` drops pairs, by most rules if either
side breaks them. `--on` and `--off` turn rules on and off. In brackets: off by default, or of one command.
"""
WIDTH = 90
TAKE = {"split": OF_SENTENCES, "filter": SELECTABLE}
"""Which rules a command has."""
OWN = "Options"
"""The section of options that the help lists under no heading of their own."""
Option = tuple[str, str]
"""How the help writes an option, and what it says of it."""
Sections = dict[str, list[Option]]


def commands(group: LazyGroup, parent: click.Context) -> Iterator[tuple[str, click.Command, click.Context]]:
    """Each command of a group with the heading of its purpose."""
    for purpose, table in group.tables.items():
        for name in table:
            command = group.get_command(parent, name)
            assert command is not None
            yield (
                purpose,
                command,
                click.Context(command, info_name=name, parent=parent, **command.context_settings),
            )


def render() -> str:
    root = click.Context(cli, info_name="mexma", **cli.context_settings)
    found = list(commands(cli, root))
    inside = [
        one for _, command, ctx in found if isinstance(command, LazyGroup) for one in commands(command, ctx)
    ]
    shared = shared_options(
        command.sections(ctx) for _, command, ctx in found + inside if isinstance(command, SectionedCommand)
    )
    parts, last = [HEADER, group_help(cli, root)], ""
    for purpose, command, ctx in found:
        parts += [f"## {purpose}\n"] * (purpose != last)
        last = purpose
        parts.append(f"### {ctx.command_path}\n")
        if isinstance(command, SectionedCommand):
            parts += own_help(command, ctx, shared)
        elif isinstance(command, LazyGroup):
            parts.append(group_help(command, ctx))
            parts += [MEASURES] * (command.name == "eval")
            for _, one, inner in commands(command, ctx):
                assert isinstance(one, SectionedCommand)
                parts += [f"#### {inner.command_path}\n", *own_help(one, inner, shared)]
    out = formatter()
    out.write_dl(list(rules()))
    parts += [RULES_HEADER, block(out), "## Shared options\n"]
    for section, options in shared.items():
        out = formatter()
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
    """The usage, what the command does, its own options, and the names of the others."""
    out = formatter()
    out.write_usage(ctx.command_path, " ".join(command.collect_usage_pieces(ctx)[1:]), prefix="")
    write(out, command.texts()[0].partition("\n\n")[0])
    elsewhere = []
    for section, options in command.sections(ctx).items():
        options = [option for option in options if name(option) != "-h"]
        own = [option for option in options if option not in shared.get(section, [])]
        if own:
            with out.section(section):
                out.write_dl(own)
        common = [option for option in options if option not in own]
        if len(common) == len(shared.get(section, [])) > 2:
            elsewhere.append(f"[{title(section).lower()}](#{title(section).lower().replace(' ', '-')})")
        else:
            elsewhere += [f"`{name(option)}`" for option in common]
    yield block(out)
    epilog = command.epilog or ""
    elsewhere += ["[rules](#rules)"] * ("Rules" in epilog)
    elsewhere += ["[formats](formats.md#mined-pairs)"] * ("Formats" in epilog)
    if elsewhere:
        yield f"Also {', '.join(elsewhere)}.\n"


def rules() -> Iterator[Option]:
    """Each rule and what it drops, and where it is not on in both commands."""
    for rule in RULES.values():
        of = [command for command, names in TAKE.items() if {rule.of, rule.name} & set(names)]
        if of:
            notes = ["off"] * (not rule.on) + [f"{of[0]} alone"] * (len(of) == 1)
            yield rule.name, rule.says() + (f"  [{', '.join(notes)}]" if notes else "")


def name(option: Option) -> str:
    """`-o` of `-o, --output PATH`."""
    return option[0].replace(",", "").split()[0]


def formatter() -> click.HelpFormatter:
    return click.HelpFormatter(width=WIDTH)


def write(out: click.HelpFormatter, text: str) -> None:
    out.write_paragraph()
    with out.indentation():
        out.write_text(text)


def group_help(group: LazyGroup, ctx: click.Context) -> str:
    """The help of a group but for its list of commands, each of which has a heading here."""
    out = formatter()
    group.format_usage(ctx, out)
    group.format_help_text(ctx, out)
    with out.section("Options"):
        out.write_dl([record for param in group.get_params(ctx) if (record := param.get_help_record(ctx))])
    return block(out)


def block(out: click.HelpFormatter) -> str:
    return f"```text\n{out.getvalue().strip(chr(10))}\n```\n"


if __name__ == "__main__":
    print(render(), end="")
