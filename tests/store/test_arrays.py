"""NumPy's files: whatever is in one, it is an array of the shape that was asked for, or damaged."""

from __future__ import annotations

import os
import resource
from pathlib import Path

import numpy as np
import pytest

from mexma_cli.errors import MexmaError, lines_of
from mexma_cli.stages.convert import open_npy
from mexma_cli.store.arrays import mapped

HEADERS = {
    "negative": "{'descr': '<f4', 'fortran_order': False, 'shape': (-1, 2)}",
    "huge": "{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775807, 32)}",
    "of fractions": "{'descr': '<f4', 'fortran_order': False, 'shape': (1.5, 2)}",
    "of truth": "{'descr': '<f4', 'fortran_order': False, 'shape': (True, 2)}",
    "power": "{'descr': '<f4', 'fortran_order': False, 'shape': (9**9**9,)}",
    "deep": "(" * 9000,
    "open": "{'descr': '",
    "no type": "{'descr': 'nothing', 'fortran_order': False, 'shape': (2, 2)}",
    "objects": "{'descr': '|O', 'fortran_order': False, 'shape': (2, 2)}",
    "list": "[]",
    "another key": "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2), 'x': 1}",
}


@pytest.mark.parametrize("shape", [(4, 2), (0, 2)])
@pytest.mark.parametrize("header", HEADERS.values(), ids=HEADERS)
def test_an_impossible_header_is_damage(header: str, shape: tuple[int, int], tmp_path: Path) -> None:
    path, text = tmp_path / "v.npy", header.encode() + b"\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + bytes(32))
    with pytest.raises(MexmaError, match=r"v\.npy is damaged"):
        mapped(path, shape, "float32", "make it anew")
    if header != HEADERS["of truth"]:  # one row
        with pytest.raises(MexmaError, match=r"v\.npy is (?:no array|an array)"):
            open_npy(path)


def test_what_cannot_be_mapped_is_too_little_memory_and_named(tmp_path: Path) -> None:
    path = tmp_path / "v.npy"
    np.save(path, np.zeros((1, 2), np.float32))
    array = np.lib.format.open_memmap(path, "w+", np.float32, (1 << 28, 2))  # 2 GB, of which none is written
    del array
    held = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    limits = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (held + (1 << 29), limits[1]))
    try:
        with pytest.raises(OSError) as found:
            mapped(path, (1 << 28, 2), "float32", "make it anew")
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)
    first, hint = lines_of(found.value)
    assert first == f"error: not enough memory: {path}: Cannot allocate memory" and "ulimit -v" in hint
