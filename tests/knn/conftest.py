"""Searches here are so small that NumPy would do them all."""

import pytest

from mexma_cli.knn import small


@pytest.fixture(autouse=True)
def _large(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Let the search for many rows do them, outside the tests of the other one."""
    if request.module.__name__.rpartition(".")[2] != "test_small":
        monkeypatch.setattr(small, "WORK", 0)
