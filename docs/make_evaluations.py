"""Print docs/evaluation.md with a new table of evaluations: a row for each command that is registered.

`make docs` runs it, tests/test_docs.py compares.
"""

from __future__ import annotations

import re
from pathlib import Path

from mexma_cli.commands.eval import headings

PAGE = Path(__file__).with_name("evaluation.md")
TABLE = re.compile(r"(?<=<!-- evaluations -->\n)(?:\|.*\n)+")


def render() -> str:
    rows = [["command", "needs", "prints"], ["---"] * 3]
    for name, heading in headings().items():
        command = f"[`mexma eval {name}`](cli.md#mexma-eval-{name})"
        rows.append([command, heading.needs, heading.numbers])
    table = "".join(f"| {' | '.join(row)} |\n" for row in rows)
    return TABLE.sub(lambda _: table, PAGE.read_text(encoding="utf-8"))


if __name__ == "__main__":
    print(render(), end="")
