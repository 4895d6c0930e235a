"""What the package says when its inner loops are compiled."""

from __future__ import annotations

import importlib
import os
import pickle
import subprocess
import sys
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from numba import njit
from numba.core.dispatcher import Dispatcher

import mexma_cli
from mexma_cli.numerics import numba_cache

PACKAGE = Path(mexma_cli.__file__).parent

LOOP = """
from mexma_cli.numerics.compiling import compiled

@compiled
def twice(x):
    return 2 * x
"""
TWICE = "from loop import twice; print(twice(4), twice(4.0))"
"""Compiled twice, for two types."""

NOT_IN_THE_PACKAGE = (
    "from mexma_cli.numerics import numba_cache; from pathlib import Path; "
    "numba_cache._PACKAGE = Path('/dev/null');"
)


def ran(script: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    (folder / "loop.py").write_text(LOOP)
    return subprocess.run(
        [sys.executable, "-c", f"import logging; logging.basicConfig(level='INFO'); {script}"],
        cwd=folder,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=True,
    )


def test_the_first_use_says_what_it_waits_for(tmp_path: Path) -> None:
    """Once, and not where the compiled code is on the disk already, for which nothing of SciPy is loaded."""
    script = f"{TWICE}; import sys; print('scipy.linalg' in sys.modules)"
    runs = [ran(script, tmp_path, NUMBA_CACHE_DIR=str(tmp_path)) for _ in "ab"]
    assert [run.stderr.count("compiling inner loops") for run in runs] == [1, 0]
    assert runs[1].stdout == "8 8.0\nFalse\n"


@pytest.mark.slow
def test_what_is_kept_is_compiled_again_once_a_loop_beside_it_has_changed(tmp_path: Path) -> None:
    """The other may be part of it."""
    (tmp_path / "caller.py").write_text(
        "from loop import twice; from mexma_cli.numerics.compiling import compiled\n"
        "@compiled\ndef four_times(x):\n    return twice(twice(x))\n"
    )
    script = "from caller import four_times; print(four_times(1))"
    # Python's own compiled code would still stand for a file that changes within a second.
    fresh = {"NUMBA_CACHE_DIR": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
    assert ran(script, tmp_path, **fresh).stdout == "4\n"
    changed = (
        "import pathlib; path = pathlib.Path('loop.py'); path.write_text(path.read_text().replace('2', '3'));"
    )
    assert ran(changed + script, tmp_path, **fresh).stdout == "9\n"


def test_loops_call_only_those_beside_them_and_in_numerics() -> None:
    """So a change of any is noticed."""
    files = [path for path in PACKAGE.rglob("*.py") if "numerics.compiling import" in path.read_text()]
    assert len(files) > 9
    for path in files:
        module = importlib.import_module(".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts))
        called = [value for value in vars(module).values() if isinstance(value, Dispatcher)]
        for folder in {Path(loop.py_func.__code__.co_filename).parent for loop in called}:
            assert folder in (path.parent, PACKAGE / "numerics"), path


@pytest.mark.slow
def test_nowhere_to_keep_what_is_compiled(tmp_path: Path) -> None:
    """As for a user without a home, in a package that is not the user's."""
    (tmp_path / "file").touch()
    nowhere = str(tmp_path / "file" / "cache")
    homeless = dict.fromkeys(("NUMBA_CACHE_DIR", "HOME", "XDG_CACHE_HOME"), nowhere)
    found = ran(NOT_IN_THE_PACKAGE + TWICE, tmp_path, **homeless)
    assert found.stdout == "8 8.0\n"
    assert found.stderr.count("(not kept: ") == 1 and "let NUMBA_CACHE_DIR name a folder" in found.stderr


def test_which_folder_is_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not one that anybody can write to, nor another user's; one that can only be read, if it has loops."""
    told: list[str] = []
    mine, others = tmp_path / "mine", tmp_path / "others"
    monkeypatch.setattr(numba_cache, "_places", lambda: [others, mine])
    others.mkdir()
    others.chmod(0o777)
    folders, writable = numba_cache.choose_folders(told.append)
    folder = mine / numba_cache._processor()
    assert folders == [folder] and writable
    assert told == [f"{others} can be written to by everybody"]
    others.chmod(0o755)
    assert numba_cache.choose_folders(told.append) == ([others / numba_cache._processor()], True)
    with monkeypatch.context() as patch:
        patch.setattr(numba_cache, "_PACKAGE", Path("/"))
        patch.setattr("os.geteuid", lambda: others.stat().st_uid + 1)
        if others.stat().st_uid:
            assert numba_cache.choose_folders(told.append) == ([], False)
            assert told[-1] == f"{mine} belongs to another user"
    monkeypatch.setattr("os.access", lambda path, mode: False)
    assert numba_cache.choose_folders(told.append) == ([], False)
    (folder / "loop.nbi").touch()
    assert numba_cache.choose_folders(told.append) == ([folder], False)
    assert told[-1] == f"{mine} cannot be written to"


def test_what_is_damaged_or_cannot_be_written_is_compiled(tmp_path: Path) -> None:
    """And another processor's loops lie elsewhere."""

    def twice(x: int) -> int:
        return 2 * x

    def kept_loop(folder: Path, *others: Path) -> Any:
        loop = njit(twice)
        loop._cache = numba_cache.Keeper(twice, [*others, folder])
        return loop

    assert kept_loop(tmp_path)(2) == 4
    again = kept_loop(tmp_path)
    assert again(2) == 4 and sum(again._cache_hits.values()) == 1
    (data,) = tmp_path.rglob("*.nbc")
    (index,) = tmp_path.rglob("*.nbi")
    version = index.read_bytes()[: len(pickle.dumps(pickle.loads(index.read_bytes()), -1))]
    of_before = [b"cmexma_cli.moved_away\nPairs\n.", b"cmexma_cli.knn.cosines\nRenamed\n."]
    for (damaged, start), content in product(((data, b""), (index, version)), [b"", *of_before]):
        damaged.write_bytes(start + content)
        again = kept_loop(tmp_path)
        assert again(2) == 4 and not again._cache_hits
        again = kept_loop(tmp_path)
        assert again(2) == 4 and again._cache_hits
    (tmp_path / "file").touch()
    assert kept_loop(tmp_path / "file" / "below")(2) == 4
    both = kept_loop(tmp_path / "own", tmp_path)
    assert both(2) == 4 and both._cache_hits and both(2.0) == 4.0
    assert kept_loop(tmp_path / "own")(2.0) == 4.0 and len(list((tmp_path / "own").rglob("*.nbc"))) == 1
