"""Parquet, as Hugging Face's `datasets` and data frames read it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from mexma_cli.errors import MexmaError, require
from mexma_cli.files import temporary_space
from mexma_cli.formats.bitext import (
    FIELDS,
    BitextFormat,
    OpenedPairs,
    Pair,
    RawText,
    as_first,
    begun,
    bitext_format,
    pair_of,
    typed,
)
from mexma_cli.formats.sides import sides_among, sides_named
from mexma_cli.text.compression import check_ratio

if TYPE_CHECKING:
    from mexma_cli.text.writing import Chunk

_ROWS = 1 << 16
_TEXT = 16 << 20
"""Bytes of text that become Python's strings together, or one row."""
_VALUE = 16
"""Bytes of any value in memory, at least."""
_TEXTS = ["source", "target"]


@bitext_format
class Parquet(BitextFormat):
    """A column a field of the pair, a group of rows every 65,536 pairs; sentences stay as they are."""

    name = "parquet"
    endings = (".parquet",)
    ids = "wanted"
    compressed = True
    about = "columns score, source, target (extra `parquet`)"
    magic = (b"PAR1",)

    def write(
        self, pairs: Iterable[Pair], languages: tuple[str, str], with_ids: bool = False
    ) -> Iterator[Chunk]:
        """It needs pyarrow."""
        require("pyarrow", "parquet", "Parquet")
        import pyarrow
        from pyarrow.parquet import ParquetWriter

        pairs = as_first(pairs)
        first = next(pairs, None)
        every = chain([first] if first else [], pairs)
        fields = (
            (first._fields if with_ids else first._fields[:3]) if first else ("score", "source", "target")
        )
        types = {
            str: pyarrow.string(),
            int: pyarrow.int64(),
            float: pyarrow.float64(),
            tuple: pyarrow.list_(pyarrow.int64()),
        }
        schema = pyarrow.schema([(field, types[FIELDS.get(field, str)]) for field in fields])
        sink = _Sink()
        with ParquetWriter(sink, schema, compression="zstd") as writer:
            while rows := list(islice(every, _ROWS)):
                columns = {field: [getattr(pair, field) for pair in rows] for field in fields}
                writer.write_table(pyarrow.table(columns, schema=schema))
                yield (sink.take(),), 0
        yield (sink.take(),), 0

    def read(self, *texts: RawText, languages: tuple[str, str]) -> OpenedPairs:
        """It needs pyarrow; refused: a damaged file, and one without texts `source` and `target`, or of two
        languages."""
        require("pyarrow", "parquet", "Parquet")
        (text,) = texts
        reader = _Reader(text, languages)
        pairs = ((None, pair) for pair in reader.pairs(text.pieces))
        return begun(self.name, pairs, lambda: reader.languages)


class _Reader:
    """The rows of a file.

    Attributes:
        languages: Of source and target, as far as they are known.
    """

    def __init__(self, text: RawText, languages: tuple[str, str]) -> None:
        self._where, self._text, self.languages = text.where, text, languages

    def pairs(self, pieces: Iterable[bytes]) -> Iterator[Pair]:
        from pyarrow import ArrowException
        from pyarrow.parquet import ParquetFile

        where = self._where
        with tempfile.TemporaryFile() as copy, temporary_space():  # a file names its columns at its end
            for piece in pieces:
                copy.write(piece)
            packed, size = copy.tell(), 0
            try:
                schema = ParquetFile(copy).schema_arrow
                texts = self._texts(schema)
                others = [name for name in schema.names if name in FIELDS]
                # Texts that repeat stay numbers of a dictionary, until it is known how much text they are.
                with closing(ParquetFile(copy, read_dictionary=texts)) as file:
                    check_ratio(_stated_size(file.metadata), packed, where)
                    self._count_others(file.metadata, texts)
                    for batch in file.iter_batches(batch_size=_ROWS, columns=[*texts, *others]):
                        for part in _parts(named := _named(batch, texts, others)):
                            size += part.text
                            check_ratio(size, packed, where)
                            for row in named.slice(part.first, part.rows).to_pylist():
                                known = typed(row)
                                unread = ((name, row[name]) for name in others if known[name] is None)
                                self._text.count_others(unread)
                                yield pair_of(known, row["source"] or "", row["target"] or "")
            except (ArrowException, UnicodeDecodeError) as error:
                raise MexmaError(f"{where} is damaged: {error}") from None
            except OSError as error:
                if error.errno is not None:
                    raise  # the disk failed, not the file
                raise MexmaError(f"{where} is damaged: {error}") from None

    def _count_others(self, metadata: Any, texts: Sequence[str]) -> None:
        """Count the values of columns that are not read."""
        for group in map(metadata.row_group, range(metadata.num_row_groups)):
            for column in map(group.column, range(group.num_columns)):
                name = column.path_in_schema
                if name not in texts and name.partition(".")[0] not in FIELDS:
                    nulls = column.statistics.null_count if column.is_stats_set else 0
                    self._text.others[name] += column.num_values - (nulls or 0)

    def _texts(self, schema: Any) -> list[str]:
        """The columns of source and target: of these names, or of languages, perhaps in `translation`."""
        from pyarrow import types

        names, inner, where = schema.names, "", self._where
        plain = [field.name for field in schema if not types.is_struct(field.type)]
        if not sides_named(tuple(plain), self.languages) and "translation" in {*names} - {*plain}:
            names = plain = [field.name for field in schema.field("translation").type]
            inner = "translation."
        texts = [plain[place] for place in sides_named(tuple(plain), self.languages) or ()]
        if not texts:
            texts, self.languages = sides_among(self.languages, names, where, self._text.options)
            if not all(texts) or len(texts) < 2:
                listed = f"it has {', '.join(names[:9])}"
                raise MexmaError(f"{where} has no columns source and target, or of two languages", listed)
        for name in texts:
            if names.count(name) > 1:
                raise MexmaError(f"{where} has several columns {name}", "give them different names")
            kind = (schema.field("translation").type if inner else schema).field(name).type
            kind = kind.value_type if types.is_dictionary(kind) else kind
            if not (types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind)):
                raise MexmaError(f"{where}: the column {name} is {kind}, and no text", "store it as strings")
        return [inner + name for name in texts]


def _named(batch: Any, texts: Sequence[str], others: Sequence[str]) -> Any:
    """A batch with `source` and `target` in place of the columns of texts."""
    from pyarrow import RecordBatch, compute

    columns = []
    for text in texts:
        name, *inner = text.split(".") if text not in batch.schema.names else [text]
        column = batch.column(batch.schema.get_field_index(name))
        columns.append(compute.struct_field(column, inner) if inner else column)
    columns += [batch.column(batch.schema.get_field_index(name)) for name in others]
    return RecordBatch.from_arrays(columns, names=[*_TEXTS, *others])


def _stated_size(metadata: Any) -> int:
    """Bytes of the columns before they are expanded, or `_VALUE` for each value if that is more."""
    groups = list(map(metadata.row_group, range(metadata.num_row_groups)))
    values = sum(group.column(at).num_values for group in groups for at in range(group.num_columns))
    return max(_VALUE * values, sum(group.total_byte_size for group in groups))


class _Part(NamedTuple):
    """Rows of a batch that may be in memory as Python's strings, and the bytes of their text."""

    first: int
    rows: int
    text: int


def _parts(batch: Any) -> Iterator[_Part]:
    sizes = sum(_lengths(batch.column(batch.schema.get_field_index(name))) for name in _TEXTS)
    ends = np.cumsum(sizes)
    first = 0
    while first < len(ends):
        before = int(ends[first - 1]) if first else 0
        last = max(first + 1, int(np.searchsorted(ends, before + _TEXT, side="right")))
        yield _Part(first, last - first, int(ends[last - 1]) - before)
        first = last


def _lengths(column: Any) -> np.ndarray:
    """Bytes of each text of a column, int64 [rows]."""
    from pyarrow import compute, types

    if types.is_dictionary(column.type):
        found = compute.binary_length(column.dictionary).take(column.indices)
    else:
        found = compute.binary_length(column)
    return np.asarray(compute.fill_null(found, 0), dtype=np.int64)


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
