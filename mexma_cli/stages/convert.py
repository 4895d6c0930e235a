"""Vectors from and to other tools: LASER's files, the numbers row after row and nothing else, and NumPy's."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from io import BytesIO
from itertools import islice
from pathlib import Path
from typing import cast

import numpy as np

from mexma_cli.errors import MexmaError
from mexma_cli.files import whole_file
from mexma_cli.settings.stages import ConvertSettings, StoreType
from mexma_cli.store.arrays import load_array
from mexma_cli.store.embeddings import RAW_FINGERPRINT, EmbeddingStore
from mexma_cli.store.layout import EmbeddingSettings, Source
from mexma_cli.store.writer import EmbeddingWriter, made_already
from mexma_cli.text.amounts import counted
from mexma_cli.text.lines import label_of, read_again, scan, spooled

RAW_ENCODER = "unknown (raw vectors)"
_BLOCK = 1 << 13


def raw_to_store(
    raw: Path,
    settings: ConvertSettings,
    text: str | Path,
    output: Path,
    *,
    language: str,
    argv: Sequence[str],
    overwrite: bool = False,
    on_progress: Callable[[int, int], object] | None = None,
) -> EmbeddingStore:
    """Make an embedding store of raw vectors [rows, dim], LASER's or NumPy's, and the text that they are of.
    A killed run goes on after its last whole shard.

    A raw file does not say who made it: the store's encoder is `RAW_ENCODER`, and it is mined with other such
    stores only. Refused: a file that is no whole number of rows, or has other rows than the text has lines,
    or a row that is not a number; what a killed run left of other vectors.
    """
    if is_npy(raw):
        vectors = open_npy(raw, settings.dim)
    else:
        assert settings.dim is not None
        vectors = open_raw(raw, settings.dim, settings.dtype)
    width, kind = vectors.shape[1], cast(StoreType, vectors.dtype.name)
    label = label_of(text)
    with spooled(text) as copy:
        found = scan(copy, label=label)
        if found.lines != len(vectors):
            raise MexmaError(
                f"{raw} has {counted(len(vectors), 'row')} of {width} x {kind}, "
                f"{label} has {counted(found.lines, 'line')}",
                "row i must be the vector of line i: check --dim, --dtype and the text",
            )
        wanted = EmbeddingSettings(
            fingerprint=RAW_FINGERPRINT,
            pooling="unknown",
            dim=width,
            dtype=kind,
            precision="float32",
            normalised=False,
            language=language,
            source_checksum=found.checksum,
        )
        source = Source(path=label, checksum=found.checksum, lines=found.lines)
        if not overwrite and (done := made_already(output, wanted)) is not None:
            _check_same(done.take, vectors, output, raw)
            return done
        with EmbeddingWriter(
            output, wanted, source, encoder=RAW_ENCODER, argv=argv, overwrite=overwrite, by="convert"
        ) as writer:
            _check_same(writer.stored, vectors[: writer.rows_done], output, raw)
            lines = writer.go_on(read_again(found))
            for start in range(writer.rows_done, len(vectors), _BLOCK):
                block = np.asarray(vectors[start : start + _BLOCK])
                _check_numbers(block, start, raw)
                writer.write(block, list(islice(lines, len(block))))
                if on_progress is not None:
                    on_progress(start + len(block), len(vectors))
            deque(lines, maxlen=0)  # to the end, which tells whether the text has changed
            return writer.finish(truncated=0)


def _check_numbers(block: np.ndarray, start: int, raw: Path) -> None:
    good = np.isfinite(block).all(axis=1)
    if not good.all():
        raise MexmaError(
            f"{raw}: the vector of line {start + int(np.argmin(good)) + 1} is not a number",
            "check --dim and --dtype of a raw file, or put zeros there: such a line is kept, and never mined",
        )


def _check_same(
    stored: Callable[[np.ndarray], np.ndarray], vectors: np.ndarray, output: Path, raw: Path
) -> None:
    """Compare the rows that an earlier run wrote: the text may be that of several raw files."""
    for start in range(0, len(vectors), _BLOCK):
        rows = np.arange(start, min(start + _BLOCK, len(vectors)))
        if not np.array_equal(stored(rows), vectors[rows], equal_nan=True):
            raise MexmaError(
                f"{output} is there, or was begun, with other vectors than those of {raw}",
                "give those, or name another output, or --overwrite to make it anew",
            )


def store_to_raw(
    store: EmbeddingStore,
    output: Path,
    settings: ConvertSettings,
    *,
    on_progress: Callable[[int, int], object] | None = None,
) -> None:
    """Write a store's vectors as LASER does, row after row without a header, or as NumPy's file (.npy)."""
    done = 0
    with whole_file(output) as out:
        if output.suffix == ".npy":
            out.write(npy_header(store.rows, store.dim, settings.dtype))
        for block in store.blocks(_BLOCK):
            out.write(to_raw(block, settings.dtype))
            done += len(block)
            if on_progress is not None:
                on_progress(done, store.rows)
        store.check_unchanged()


def open_raw(path: Path, dim: int, dtype: str) -> np.ndarray:
    """Map a raw file into memory: [rows, dim] of `dtype` ("float32" or "float16"), little-endian. LASER's own
    reader cuts a file that is no whole number of rows; here it is refused."""
    if path.is_dir():
        raise MexmaError(f"{path} is a folder, not a file of raw vectors")
    if not path.exists():
        raise MexmaError(f"{path}: no such file")
    kind = np.dtype(dtype).newbyteorder("<")
    size, row = path.stat().st_size, dim * kind.itemsize
    if size == 0:
        raise MexmaError(f"{path} is empty: it has no vectors")
    if size % row:
        raise MexmaError(
            f"{path} has {size:,} bytes, no whole number of rows of {dim} x {dtype} ({row:,} bytes each)",
            "check --dim and --dtype: LASER's vectors have 1024 dimensions, in float16 if made with --fp16",
        )
    return np.memmap(path, dtype=kind, mode="r", shape=(size // row, dim))


def is_npy(path: Path) -> bool:
    """Whether a file is NumPy's, whatever its name."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(len(np.lib.format.MAGIC_PREFIX)) == np.lib.format.MAGIC_PREFIX


def open_npy(path: Path, dim: int | None = None) -> np.ndarray:
    """Map NumPy's file into memory: [rows, dim], float32 or float16. Refused: other arrays, and another `dim`
    than the user says."""
    try:
        vectors = load_array(path, "r")
    except ValueError as error:
        raise MexmaError(f"{path} is no array that can be read: {error}") from None
    if vectors.ndim != 2 or vectors.dtype.name not in ("float32", "float16") or not vectors.size:
        raise MexmaError(
            f"{path} is an array of {vectors.dtype.name} with the shape {vectors.shape}",
            "wanted are rows of vectors in float32 or float16: numpy.save(NAME, array.astype('float32'))",
        )
    if dim not in (None, vectors.shape[1]):
        raise MexmaError(
            f"{path} has {vectors.shape[1]} numbers in a row, not {dim}",
            "leave out --dim: a .npy file says it itself",
        )
    return vectors


def npy_header(rows: int, dim: int, dtype: str) -> bytes:
    """The header of a .npy file, which stands before `to_raw`'s bytes."""
    header = BytesIO()
    descr = np.dtype(dtype).newbyteorder("<").str
    np.lib.format.write_array_header_1_0(
        header, {"descr": descr, "fortran_order": False, "shape": (rows, dim)}
    )
    return header.getvalue()


def to_raw(vectors: np.ndarray, dtype: str) -> bytes:
    """The bytes of [n, dim] vectors in a raw file; numbers too large for float16 are refused."""
    with np.errstate(over="ignore"):
        converted = vectors.astype(np.dtype(dtype).newbyteorder("<"))
    if not np.isfinite(converted).all() and np.isfinite(vectors).all():
        raise MexmaError("a vector has numbers too large for float16", "write float32 instead")
    return converted.tobytes()
