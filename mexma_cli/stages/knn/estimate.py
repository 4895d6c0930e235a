"""Estimates, before a search, of the memory, disk space and time that it will take."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from mexma_cli.knn.exact import seconds_needed
from mexma_cli.settings.stages import EncoderChoice, SearchSettings
from mexma_cli.stages.costs import LOADING, STARTING, Cost, slowness
from mexma_cli.stages.embed.inputs import is_store, load_encoder_of, open_store
from mexma_cli.stages.knn.search import fastest_memory, has_index, least_memory
from mexma_cli.store.embeddings import EmbeddingStore
from mexma_cli.text.amounts import size, size_option, time_needed
from mexma_cli.text.lines import label_of, read_lines, scan

if TYPE_CHECKING:
    from mexma_cli.encoder.encoder import SentenceEncoder

_FIRST, _SAMPLE, _ENOUGH = 16, 1 << 13, 0.5  # lines that are embedded at first, at most; enough seconds
_LOOKED_AT = 256  # lines of a store, to see how long they are
KEY_BYTES = 8
"""Of a neighbour in a list."""
STORED_BYTES = 2
"""Of a number in an embedding store."""
_ASSUMED = "a machine as busy as now, and random vectors"


@dataclass(frozen=True)
class SearchInput:
    """One side of a search."""

    label: str
    rows: int
    text: int
    """Bytes of all lines."""
    lines: Iterable[str] = ()
    """The lines, if they are not embedded yet."""


def estimate_search(
    inputs: tuple[SearchInput, SearchInput],
    dim: int,
    k: int,
    settings: SearchSettings,
    encoder: SentenceEncoder | None,
    judging: Callable[[int], int] = lambda rows: 0,
    pairs: Cost | None = None,
) -> list[tuple[str, str]]:
    """The cost of a search, and of embedding inputs with `lines`, in words: what, and how much of it. Takes a
    second or two, in which the machine should be as busy as it will be then. Refused if it does not fit into
    settings.memory, as the search would be. `judging` and `pairs` are those of `print_estimate`."""
    n, m = (side.rows for side in inputs)
    embedding, temporary = 0.0, 0
    for side in inputs:
        if side.lines:
            assert encoder is not None
            embedding += seconds_a_line(encoder, iter(side.lines)) * side.rows
            temporary += side.rows * dim * STORED_BYTES + side.text
    least = least_memory(settings, n, m, dim, k, judging(n + m))
    wanted = max(least, fastest_memory(n, m, dim, k, settings.index))
    memory = wanted if settings.memory is None else min(wanted, settings.memory)
    output = sum(side.text for side in inputs) + 24 * min(n, m)  # every line in a pair
    journal = KEY_BYTES * k * (n + m)
    making = pairs.start + pairs.of(1, n + m, 0) if pairs is not None else 0.0
    times = {"embedding": embedding, "pairs": making}
    if has_index(n, m, settings.index):  # how thoroughly it must be searched is found out on the way
        journal += sum(index_bytes(rows, dim, settings.index) for rows in (n, m))
        searching = [(f"neighbours ({settings.index})", "found out on the way")]
    else:
        times["neighbours (exact)"] = seconds_needed(n, m, dim, k)
        total = sum(times.values()) + slowness() * (STARTING + (LOADING if temporary else 0))
        searching = [("time, with its start", time_needed(total)), ("assumed", _ASSUMED)]
    return [
        ("memory", f"{size(memory)}; with --memory at least {size_option(least)}"),
        ("disk: output", f"at most {size(output)}"),
        ("disk: beside it", f"{size(journal)} until it is written, to go on after a kill"),
        *([("disk: temporary", size(temporary))] if temporary else []),
        *((what, time_needed(took)) for what, took in times.items() if took),
        *searching,
    ]


def seconds_a_line(encoder: SentenceEncoder, lines: Iterator[str]) -> float:
    """Seconds to embed one of these lines: of four times as many at a time, until they take long enough. The
    first few load what the encoder needs."""
    size, spent, found = _FIRST, 0.0, 0.0
    while size <= _SAMPLE and spent < _ENOUGH and (some := list(islice(lines, size))):
        if size == _FIRST:
            encoder.embed(some)
        began = time.perf_counter()
        encoder.embed(some)
        spent = time.perf_counter() - began
        found, size = spent / len(some), 4 * size
    return found


def index_bytes(rows: int, dim: int, index: str) -> int:
    """Bytes of an index over so many rows, without the centres of its lists."""
    from mexma_cli.knn import faiss_index

    return faiss_index.bytes_needed(rows, dim, index)


def look_at_inputs(
    paths: tuple[Path, Path], choice: EncoderChoice
) -> tuple[tuple[SearchInput, SearchInput], int, SentenceEncoder | None]:
    """Two stores or texts for `estimate_search`: the inputs, their dimension, and a text's encoder."""
    stores = [open_store(path) if is_store(path) else None for path in paths]
    encoder = load_encoder_of(stores, choice, "the text") if None in stores else None
    dim = encoder.dim if encoder else next(store.dim for store in stores if store is not None)
    source, target = (_input(path, store) for path, store in zip(paths, stores, strict=True))
    return (source, target), dim, encoder


def _input(path: Path, store: EmbeddingStore | None) -> SearchInput:
    if store is None:
        text = scan(path)
        return SearchInput(label_of(path), text.lines, text.bytes, read_lines(path))
    lines = list(islice(store.sentences(), _LOOKED_AT))
    text_bytes = sum(len(line.encode()) + 1 for line in lines) * store.rows // max(len(lines), 1)
    return SearchInput(label_of(path), store.rows, text_bytes)
