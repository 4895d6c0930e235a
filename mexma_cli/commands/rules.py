"""The rules that drop sentences or pairs, for the help of commands."""

from __future__ import annotations

from collections.abc import Sequence

from mexma_cli.text.rules import RULES


def rule_epilog(of: Sequence[str]) -> str:
    """The rules that look at what `of` says, for the help."""
    rules = [rule for rule in RULES.values() if rule.of in of]
    lines = [f"  {rule.name:<19} {rule.says()}" for rule in rules]
    on, off = (
        [line for line, rule in zip(lines, rules, strict=True) if rule.on == on] for on in (True, False)
    )
    return "\n".join(["\b", "Rules that are on:", *on, "Rules that are off:", *off])
