"""Parquet of other programs: what is no text, or far more text than the file can hold, is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from mexma_cli.errors import MexmaError
from mexma_cli.formats.bitext import open_pairs

pa = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")


def read(path: Path) -> list[tuple[str, str]]:
    return [(pair.source, pair.target) for pair in open_pairs(path).pairs]


def test_texts_come_as_they_are(tmp_path: Path) -> None:
    table = pa.table({"source": ["eins", None, "drei"], "target": ["one", "two", None], "x": [1, None, 3]})
    parquet.write_table(table, tmp_path / "a.parquet")
    assert read(tmp_path / "a.parquet") == [("eins", "one"), ("", "two"), ("drei", "")]
    assert open_pairs(tmp_path / "a.parquet").others == {"x": 2}


def test_columns_of_languages_as_in_hugging_faces_datasets(tmp_path: Path) -> None:
    rows = [{"de": "a", "en": "b"}, {"de": "c", "en": None}]
    path = tmp_path / "a.parquet"
    for columns in ({"id": ["1", "2"], "translation": rows}, {"de": ["a", "c"], "en": ["b", None]}):
        parquet.write_table(pa.table(columns), path)
        assert open_pairs(path).languages == ("deu_Latn", "eng_Latn")
        assert read(path) == [("a", "b"), ("c", "")]
        turned = open_pairs(path, languages=("eng", "deu")).pairs
        assert [(pair.source, pair.target) for pair in turned] == [("b", "a"), ("", "c")]
    with pytest.raises(MexmaError, match="no columns source and target, or of two languages"):
        open_pairs(path, languages=("eng", "fra"))


def test_a_column_that_is_no_text_is_refused(tmp_path: Path) -> None:
    parquet.write_table(pa.table({"source": [b"\xff"], "target": ["one"]}), tmp_path / "a.parquet")
    with pytest.raises(MexmaError, match="the column source is binary, and no text"):
        read(tmp_path / "a.parquet")


def test_a_dictionary_that_becomes_gigabytes_is_refused(tmp_path: Path) -> None:
    long = pa.array(["x" * (1 << 20)])
    texts = pa.DictionaryArray.from_arrays(pa.array([0] * 2048, pa.int32()), long)
    parquet.write_table(
        pa.table({"source": texts, "target": texts}), tmp_path / "a.parquet", compression="zstd"
    )
    assert (tmp_path / "a.parquet").stat().st_size < 1 << 20
    with pytest.raises(MexmaError, match=r"a\.parquet is no text: over .* are packed into"):
        read(tmp_path / "a.parquet")
