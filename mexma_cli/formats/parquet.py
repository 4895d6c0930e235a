"""Parquet, as Hugging Face's `datasets` and data frames read it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from contextlib import closing
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

from mexma_cli.errors import MexmaError, require
from mexma_cli.formats.bitext import BitextFormat, Pair, bitext_format, pair_of
from mexma_cli.text.temporary import temporary_space

if TYPE_CHECKING:
    from mexma_cli.text.writing import Chunk

_ROWS = 1 << 16


@bitext_format
class Parquet(BitextFormat):
    """A column a field of the pair, a group of rows every 65,536 pairs; sentences stay as they are."""

    name = "parquet"
    endings = (".parquet",)
    ids = "wanted"
    about = "columns score, source, target (extra `parquet`)"
    magic = (b"PAR1",)

    def write(
        self, pairs: Iterable[Pair], languages: tuple[str, str], with_ids: bool = False
    ) -> Iterator[Chunk]:
        """Raises:
        MexmaError: pyarrow is not installed.
        """
        require("pyarrow", "parquet", "Parquet")
        import pyarrow
        from pyarrow.parquet import ParquetWriter

        pairs = iter(pairs)
        first = next(pairs, None)
        fields = (
            (first._fields if with_ids else first._fields[:3]) if first else ("score", "source", "target")
        )
        types = {"source": pyarrow.string(), "target": pyarrow.string()}
        schema = pyarrow.schema([(field, types.get(field) or _type(field)) for field in fields])
        sink = _Sink()
        with ParquetWriter(sink, schema, compression="zstd") as writer:
            for rows in _batches(chain([first] if first else [], pairs)):
                columns = {field: [getattr(pair, field) for pair in rows] for field in fields}
                writer.write_table(pyarrow.table(columns, schema=schema))
                yield (sink.take(),), 0
        yield (sink.take(),), 0

    def read_bytes(
        self, pieces: Iterator[bytes], where: str, languages: tuple[str, str]
    ) -> tuple[tuple[str, str], Iterator[Pair]]:
        """Raises:
        MexmaError: pyarrow is not installed, or the file is damaged or has no texts `source` and `target`.
        """
        require("pyarrow", "parquet", "Parquet")
        return languages, _read(pieces, where)


def _read(pieces: Iterator[bytes], where: str) -> Iterator[Pair]:
    from pyarrow import ArrowException
    from pyarrow.parquet import ParquetFile

    with tempfile.TemporaryFile() as copy, temporary_space():  # the end of a file says where its columns are
        for piece in pieces:
            copy.write(piece)
        try:
            with closing(ParquetFile(copy)) as file:
                names = set(file.schema_arrow.names)
                if not {"source", "target"} <= names:
                    raise MexmaError(
                        f"{where} has no columns source and target", f"it has {', '.join(names)}"
                    )
                for batch in file.iter_batches(batch_size=_ROWS):
                    for row in batch.to_pylist():
                        known = {
                            name: known
                            for name, value in row.items()
                            if (known := _known(name, value)) is not None
                        }
                        yield pair_of(known, str(row["source"] or ""), str(row["target"] or ""))
        except ArrowException as error:
            raise MexmaError(f"{where} is damaged: {error}") from None


def _known(name: str, value: Any) -> Any:
    """A value as it is in a pair; None if it is nothing of the kind."""
    if isinstance(value, list):
        return tuple(value)
    return value if isinstance(value, str if name.endswith("_document") else int | float) else None


def _type(field: str) -> Any:
    import pyarrow

    if field.endswith("_document"):
        return pyarrow.string()
    if field.endswith("_lines"):
        return pyarrow.list_(pyarrow.int64())
    return pyarrow.int64() if field.endswith(("_line", "_rank")) else pyarrow.float64()


def _batches(pairs: Iterable[Pair]) -> Iterator[list[Pair]]:
    pairs = iter(pairs)
    while batch := list(islice(pairs, _ROWS)):
        yield batch


class _Sink:
    """A file in memory, whose content is taken away on the way."""

    closed = False

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0

    def write(self, part: bytes) -> int:
        self._parts.append(bytes(part))
        self._size += len(part)
        return len(part)

    def tell(self) -> int:
        return self._size

    def flush(self) -> None:
        """Nothing is held back."""

    def close(self) -> None:
        """There is nothing to close."""

    def take(self) -> bytes:
        taken = b"".join(self._parts)
        self._parts.clear()
        return taken
