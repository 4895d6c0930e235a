"""The options of commands that drop sentences or pairs by rules."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar, cast

import click

from mexma_cli.text.identify import IDENTIFIERS
from mexma_cli.text.rules import RULES, chosen_limits

Command = TypeVar("Command", bound=Callable[..., Any])


def rule_options(of: Sequence[str]) -> Callable[[Command], Command]:
    """--on and --off, for rules that look at what `of` says; the command gets their `limits`."""

    def decorated(command: Command) -> Command:
        @functools.wraps(command)
        def gathered(*, on: tuple[str, ...], off: tuple[str, ...], **options: Any) -> Any:
            return command(limits=chosen_limits(on, off, of), **options)

        gathered = click.option(
            "--off",
            multiple=True,
            metavar="RULE",
            help="Turn a rule off; `all`: all but those of --on.",
        )(gathered)
        gathered = click.option(
            "--on",
            multiple=True,
            metavar="RULE[=LIMIT]",
            help="Turn a rule on, or change its limit.",
        )(gathered)
        return cast(Command, gathered)

    return decorated


def rule_epilog(of: Sequence[str]) -> str:
    """The rules that look at what `of` says, for the help."""
    rules = [rule for rule in RULES.values() if rule.of in of]
    lines = [f"  {rule.name:<19} {rule.says()}" for rule in rules]
    on, off = (
        [line for line, rule in zip(lines, rules, strict=True) if rule.on == on] for on in (True, False)
    )
    return "\n".join(["\b", "Rules that are on:", *on, "Rules that are off:", *off])


def lid_options(command: Command) -> Command:
    """Add --lid and --lid-model."""
    name = click.option(
        "--lid",
        type=click.Choice(IDENTIFIERS),
        default=IDENTIFIERS[0],
        show_default=True,
        help="Language identifier; heliport needs the extra `heliport`.",
    )
    model = click.option(
        "--lid-model",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="Identify languages with this fastText model, such as GlotLID (extra `fasttext`).",
    )
    return cast(Command, name(model(command)))
