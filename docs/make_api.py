"""Print docs/api.md: the public API, from its docstrings. `make docs` runs it, tests/test_docs.py compares.

tests/test_api.py runs the examples.
"""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Iterator
from typing import Any, get_type_hints

import mexma_cli
from mexma_cli.settings import keywords

HEADER = """\
# Python

Made by `make docs` from the docstrings; do not edit it here.

`import mexma_cli` imports nothing heavy; numpy and torch come with the first call that needs them. The
functions do what the commands of their names do, and examples/documents.ipynb uses most of them. A mistake in
what was given (a file that is missing, an argument of another type, and so on) is a `MexmaError`, an unknown
keyword a `TypeError`, and arrays of wrong shapes or values a `ValueError`. Types are in the code, where
editors find them. `on_progress` is called with what is done and how much there is.
"""
METHODS = {
    "EmbeddingStore": ["open", "sentences", "vectors", "blocks"],
    "SentenceEncoder": ["load", "embed", "encode", "save"],
}
"""Of the classes: what a user calls."""
SECTION = re.compile(r"^(Args|Returns|Raises|Attributes|Yields):$")
LEFT_OUT = ("Raises", "Attributes")
"""What the head of the page says, and what few need: both are in the code."""
ENTRY = re.compile(r"^    (\w+): (.*)$")


def signature(found: Any, name: str) -> str:
    """Names and defaults on one line, or on several of 88 characters; types are in the code, for editors."""
    whole = inspect.signature(found)
    named = [one.replace(annotation=one.empty) for key, one in whole.parameters.items() if key != "self"]
    shown = str(whole.replace(parameters=named, return_annotation=whole.empty))
    returned = str(whole.return_annotation).strip("'")
    return textwrap.fill(f"{name}{shown} -> {returned}", 88, subsequent_indent="    ")


def body(docstring: str, keywords: str = "") -> Iterator[str]:
    """A docstring of Google's style as Markdown; `keywords` are those that `settings` stands for."""
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
            if section not in LEFT_OUT:
                yield f"**{section}**\n"
        elif (section in LEFT_OUT and line.startswith(" ")) or (entry and entry[1] == "on_progress"):
            continue
        elif entry and section != "Returns":
            names = f": {keywords}." if entry[1] == "settings" else ""
            yield f"- `{entry[1]}`: {entry[2].removesuffix('.') if names else entry[2]}{names}"
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
        taken = re.findall(r"Unpack\[(\w+)\]", str(getattr(found, "__annotations__", {}).get("settings")))
        named = [f"`{name}`" for one in taken for name in get_type_hints(getattr(keywords, one))]
        parts.append("\n".join(body(inspect.getdoc(found) or "", ", ".join(named))))
        for method in METHODS.get(name, []):
            member = getattr(found, method)
            parts.append(f"### {name}.{method}\n\n```python\n{signature(member, method)}\n```\n")
            parts.append("\n".join(body(inspect.getdoc(member) or "")))
    page = re.sub(r"[ \t]+\n", "\n", "\n".join(parts))
    return re.sub(r"\n{3,}", "\n\n", page).rstrip("\n") + "\n"


if __name__ == "__main__":
    print(render(), end="")
