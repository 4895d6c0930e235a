"""Print docs/api.md: the public API, from its docstrings. `make docs` runs it, tests/test_docs.py compares.

tests/test_api.py runs the examples.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Any

import mexma_cli

HEADER = """\
# Python

Made by `make docs` from the docstrings; do not edit it here.

`import mexma_cli` imports nothing heavy; numpy and torch come with the first call that needs them. The
functions do what the commands of their names do, and examples/documents.ipynb uses most of them. A mistake in
what was given (a file that is missing or damaged, stores of different encoders, and so on) is a `MexmaError`,
an unknown keyword a `TypeError`, and arrays of wrong shapes or values a `ValueError`.
"""
METHODS = {
    "EmbeddingStore": ["open", "sentences", "vectors", "take", "blocks", "verify"],
    "SentenceEncoder": ["load", "embed", "encode", "save", "push_to_hub"],
}
"""Of the classes: what a user calls."""
SECTION = re.compile(r"^(Args|Returns|Raises|Attributes|Yields):$")
ENTRY = re.compile(r"^    (\w+): (.*)$")


def signature(found: Any, name: str) -> str:
    """On one line, or one line a parameter; types as they are written."""
    shown = str(inspect.signature(found)).replace("'", "").replace("(self, ", "(").replace("(self)", "()")
    inside, _, returned = shown.removeprefix("(").rpartition(") -> ")
    if len(name + shown) <= 88:
        return name + shown
    parts = re.split(r", (?=\w+:|\*)", inside)
    return f"{name}(\n" + "".join(f"    {part},\n" for part in parts) + f") -> {returned}"


def body(docstring: str) -> Iterator[str]:
    """A docstring of Google's style as Markdown."""
    section, example = "", []
    for line in [*docstring.splitlines(), ""]:
        if example or line.startswith(">>> "):
            if line.strip():
                example.append(line)
                continue
            yield "\n".join(["```pycon", *example, "```"])
            example = []
        heading = SECTION.match(line)
        entry = ENTRY.match(line)
        if heading:
            section = heading[1]
            if section != "Raises":  # the page's head says it
                yield f"**{section}**\n"
        elif section == "Raises" and line.startswith(" "):
            continue
        elif entry and section != "Returns":
            yield f"- `{entry[1]}`: {entry[2]}"
        else:
            if line and not line.startswith(" "):
                section = ""
            yield line.strip() if not (section and section != "Returns") else "  " + line.strip()


def render() -> str:
    parts = [HEADER]
    for name in sorted(mexma_cli.__all__, key=lambda name: (name[0].isupper(), name)):
        found = getattr(mexma_cli, name)
        parts.append(f"## {name}\n")
        if not inspect.isclass(found):
            parts.append(f"```python\n{signature(found, name)}\n```\n")
        parts.append("\n".join(body(inspect.getdoc(found) or "")))
        for method in METHODS.get(name, []):
            member = getattr(found, method)
            parts.append(f"### {name}.{method}\n\n```python\n{signature(member, method)}\n```\n")
            parts.append("\n".join(body(inspect.getdoc(member) or "")))
    page = re.sub(r"[ \t]+\n", "\n", "\n".join(parts))
    return re.sub(r"\n{3,}", "\n\n", page).rstrip("\n") + "\n"


if __name__ == "__main__":
    print(render(), end="")
