"""The names of inputs in messages."""

from __future__ import annotations


def label_of(path: object) -> str:
    """The name of an input in messages; `-` is stdin."""
    return "stdin" if str(path) == "-" else str(path)
