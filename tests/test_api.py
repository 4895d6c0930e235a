"""The public API: what it names, that it is quick to import, and the examples in its docstrings."""

from __future__ import annotations

import doctest
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

import mexma_cli
from mexma_cli.main import cli

ROOT = Path(__file__).parent.parent


def python(code: str) -> str:
    """What a new Python prints."""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, text=True, capture_output=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_importing_it_imports_nothing_heavy() -> None:
    heavy = "numpy", "torch", "transformers", "numba", "pydantic", "yaml", "click", "tqdm"
    assert python(f"import sys, mexma_cli; print(set(sys.modules) & set({heavy}))") == "set()\n"


@pytest.mark.parametrize("order", [1, pytest.param(-1, marks=pytest.mark.slow)])
def test_knn_is_the_function_in_both_orders(order: int) -> None:
    """The room of the same name is imported before it or after it."""
    lines = ["from mexma_cli import knn", "from mexma_cli.knn import estimate"][::order]
    code = "\n".join([*lines, "import mexma_cli", "import mexma_cli.knn.effort"])
    code += "\nprint(knn.__module__, mexma_cli.knn is knn, estimate.__name__)"
    assert python(code) == "mexma_cli.api True mexma_cli.knn.estimate\n"


def test_other_names_are_refused() -> None:
    assert set(mexma_cli.__all__) <= set(dir(mexma_cli))
    with pytest.raises(AttributeError, match="has no attribute 'nosuch'"):
        mexma_cli.nosuch  # type: ignore[attr-defined]  # noqa: B018


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With the repository's examples, and the store that an example opens."""
    path = tmp_path_factory.mktemp("api")
    shutil.copytree(ROOT / "examples", path / "examples")
    text = path / "examples/spa-eng/spa.txt"
    assert CliRunner().invoke(cli, ["embed", str(text), "-o", str(path / "spa.emb")]).exit_code == 0
    return path


@pytest.mark.parametrize("name", mexma_cli.__all__)
def test_examples_run(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    (found,) = (
        test
        for test in doctest.DocTestFinder(recurse=False).find(getattr(mexma_cli, name), name)
        if test.examples
    )
    assert doctest.DocTestRunner().run(found).failed == 0
