"""The names of inputs in messages, and what the names of outputs promise."""

from __future__ import annotations

from mexma_cli.text.normalise import normal_form

OTHER_FORMATS = frozenset({
    ".7z", ".arrow", ".br", ".csv", ".db", ".docx", ".emb", ".feather", ".h5", ".hdf5", ".html",
    ".json", ".knn", ".lz4", ".lzma", ".npy", ".npz", ".ods", ".parquet", ".pdf", ".pickle", ".pkl",
    ".pt", ".rar", ".safetensors", ".sqlite", ".tar", ".tgz", ".xls", ".xlsx", ".xml", ".zip",
})  # fmt: skip
"""Endings of files that are neither text nor raw vectors: what is named so is opened by other programs."""


def label_of(path: object) -> str:
    """The name of an input in messages; `-` is stdin."""
    return "stdin" if str(path) == "-" else str(path)


def document_id(name: str) -> str:
    """A file's name, or an id that was given, as the id of a document.

    It is in NFC, so that a name is the same on every system, and what is no Unicode is written as an escape.
    """
    return normal_form("NFC", name.encode("utf-8", "backslashreplace").decode())
