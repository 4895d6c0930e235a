"""Fixtures for all rooms."""

from __future__ import annotations

from pathlib import Path

import pytest

SHARED = Path(__file__).resolve().parent.parent.parent / "shared"


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of reference numbers and corpora beside the checkout; without it the test is skipped."""
    if not (SHARED / "fixtures").is_dir():
        pytest.skip("no ../shared with the reference programs' numbers beside this checkout")
    return SHARED
