from __future__ import annotations

import pickle
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mexma_cli.errors import MexmaError
from mexma_cli.store import spool
from mexma_cli.store.spool import Spool, Table, TextSpool, distinct, gathered, repeats, scattered
from tests.full_disk import full_temporary_disk

_SMALL = st.integers(1, 9)
RECORD = np.dtype([("score", "<f4"), ("row", "<i8"), ("number", "<i8")])
Rows = list[list[tuple[int, int]]]
ROWS = st.lists(st.lists(st.tuples(st.integers(-3, 3), st.integers(0, 5)), max_size=20), max_size=5)


def filled(rows: Rows, together: int) -> tuple[Table, list[tuple[int, int, int]]]:
    """A table of pairs of score and row, and its records, both with the number in which they came."""
    table, records = Table(RECORD, "-score", "row", together=together), []
    for part in rows:
        numbers = range(len(records), len(records) + len(part))
        scores, own = np.array(part).reshape(-1, 2).T
        table.append(score=scores, row=own, number=np.array(numbers))
        records += [(*pair, number) for pair, number in zip(part, numbers, strict=True)]
    return table, sorted(records, key=lambda record: (-record[0], record[1]))


@given(rows=ROWS, together=st.integers(1, 2), buffer=_SMALL)
def test_records_are_sorted_and_those_with_equal_keys_come_together(
    rows: Rows, together: int, buffer: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spool, "BUFFER", buffer * RECORD.itemsize)
        table, wanted = filled(rows, together)
        blocks = list(table.sorted())
    assert [tuple(record) for block in blocks for record in block.tolist()] == wanted
    assert all(map(len, blocks))
    keys = [[tuple(record)[:together] for record in block[[0, -1]].tolist()] for block in blocks]
    assert all(last[1] != first[0] for last, first in pairwise(keys))


def test_repeated_keys_are_found() -> None:
    records = np.array([(1, 1, 0), (1, 1, 1), (1, 2, 2), (0, 2, 3)], RECORD)
    assert repeats(records, "score").tolist() == [False, True, True, False]
    assert repeats(records, "score", "row").tolist() == [False, True, False, False]
    assert not repeats(records[:0], "row").size
    assert distinct(records["row"]).tolist() == sorted({*records["row"].tolist()})


@given(data=st.data(), count=st.integers(1, 40), sizes=st.tuples(_SMALL, _SMALL, _SMALL))
def test_values_are_put_and_looked_up_in_any_order(
    data: st.DataObject, count: int, sizes: tuple[int, int, int]
) -> None:
    places = st.lists(st.tuples(st.integers(0, count - 1), st.integers(-9, 9)), max_size=20)
    wanted = np.full(count, -10)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spool, "_SPAN", sizes[0])
        patch.setattr(spool, "GATHERED", sizes[1])
        patch.setattr(spool, "BUFFER", 16 * sizes[2])
        blocks = data.draw(st.lists(places, max_size=4))
        for place, value in (pair for part in blocks for pair in part):
            wanted[place] = value
        columns = (np.array(part, dtype=np.int64).reshape(-1, 2).T for part in blocks)
        found = scattered(count, np.int64, -10, ((own, values) for own, values in columns))
        assert found.tolist() == wanted.tolist()
        asked = np.array(data.draw(st.lists(st.integers(0, count - 1), min_size=2, max_size=9)))
        assert gathered(found, asked[:, None]).tolist() == wanted[asked][:, None].tolist()


@full_temporary_disk
def test_a_full_temporary_disk_is_a_message() -> None:
    with pytest.raises(MexmaError, match="no space left for temporary files in"):
        table = Table(RECORD, "row")
        table.append(score=1, row=np.zeros(1 << 20), number=0)


def test_a_pickled_copy_has_a_file_of_its_own() -> None:
    """Both are appended to behind the same bytes."""
    numbers, texts = Spool("<i4"), TextSpool()
    copies = pickle.loads(pickle.dumps((numbers, texts)))
    for spool_, value in ((numbers, 1), (copies[0], 2), (numbers, 3)):
        spool_.write(np.array([value]))
    numbers, other = pickle.loads(pickle.dumps((numbers, copies[0])))
    numbers.write(np.array([4]))
    assert [one.read(0, one.rows).tolist() for one in (numbers, other)] == [[1, 3, 4], [2]]
    texts.write(["é"])
    more = pickle.loads(pickle.dumps(texts))
    texts.write(["x"]), more.write(["yz"])
    ends = np.array([2, 3])
    assert [one.read(ends, np.array([2, 1])) for one in (texts, more)] == [["é", "x"], ["é", "y"]]
