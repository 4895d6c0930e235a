"""How many sentences documents have, about: those of a sample, which is split, for its share of the bytes."""

from __future__ import annotations

import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from mexma_cli.errors import MexmaError
from mexma_cli.stages.split.chunk import ChunkWorker
from mexma_cli.stages.split.inputs import LONGEST, DocumentChunk, Inputs, RawDocument, Splitting, kind_to_read
from mexma_cli.text.compression import plain_name
from mexma_cli.text.lines import read_pieces

_FILES, _TEXT, _MARKED_UP = 16, 1 << 20, 4 << 20
"""Files that are looked at, at most; bytes of all, of text and of what has more than sentences in it. Of one
file a quarter is read."""


class Sample(NamedTuple):
    """Sentences of a sample that were kept, its bytes (unpacked), and the seconds that splitting it took."""

    sentences: list[str]
    bytes: int
    seconds: float


def sampled(inputs: Inputs, how: Splitting) -> Sample:
    """Split the beginnings of some files, spread over all of them. Refused: what `mexma split` refuses of
    files that are as short as that."""
    worker = ChunkWorker(how)
    worker.check()
    documents, size, step = list[RawDocument](), 0, -(-len(inputs.files) // _FILES)
    for path, name in zip(inputs.files[::step], inputs.names[::step], strict=True):
        most = _TEXT if kind_to_read(path, how.settings) == "text" else _MARKED_UP
        if size < most:
            found, read = _beginning(path, name, how, most // 4)
            documents, size = documents + found, size + read
    worker.work(DocumentChunk(0, documents[:1]))  # which loads what is needed
    began = time.perf_counter()
    found = worker.work(DocumentChunk(0, documents))
    spent = time.perf_counter() - began
    if "duplicate" not in how.limits:
        return Sample(found.text, size, spent)
    return Sample(list(dict(zip(found.hashes.tolist(), found.text, strict=True)).values()), size, spent)


def _beginning(path: Path, name: str, how: Splitting, most: int) -> tuple[list[RawDocument], int]:
    """The documents in the first bytes of a file, at least the first line of JSONL; and how many bytes these
    are."""
    start, pieces = b"", read_pieces(path, str(path))
    line = LONGEST if kind_to_read(path, how.settings) == "jsonl" else most  # of an object, all or nothing
    while len(start) <= (most if b"\n" in start else line) and (piece := next(pieces, b"")):
        start += piece
    cut = len(start) > most
    if cut:
        start = start[: start.rfind(b"\n", 0, most) + 1 or start.find(b"\n", 0, line) + 1 or line]
    documents = list[RawDocument]()
    with tempfile.TemporaryDirectory(prefix="mexma-") as folder:
        file = Path(folder, plain_name(path.name))
        file.write_bytes(start)
        with suppress(*[MexmaError] if cut else ()):  # of what is cut off at the end
            documents.extend(Inputs([file], [name]).documents(how))
    return documents, len(start)
