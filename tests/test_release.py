"""What goes into a release: nothing without a licence, and no file that is not meant."""

from __future__ import annotations

import re
import subprocess
import tomllib
from fnmatch import fnmatch
from pathlib import Path

import pytest
import yaml

from mexma_cli import __version__

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def bundled() -> list[str]:
    """Text, weights and settings that git has and a wheel takes along."""
    folders = ("mexma_cli", "recipes", "examples/spa-eng")
    done = subprocess.run(["git", "ls-files", *folders], cwd=ROOT, text=True, capture_output=True)
    if done.returncode:
        pytest.skip("this is no git checkout")
    return [name for name in done.stdout.splitlines() if not name.endswith(".py")]


def licensed() -> dict[str, str]:
    """Pattern and SPDX name of each row of LICENSES.md."""
    rows = re.findall(r"^\| `(\S+)` \|.*\| (\S+) \|$", (ROOT / "LICENSES.md").read_text("utf-8"), re.M)
    return dict(rows)


def covers(pattern: str, name: str) -> bool:
    deep = pattern.endswith("/**")
    return fnmatch(name, pattern) and (deep or pattern.count("/") == name.count("/"))


def test_every_bundled_file_has_a_licence(bundled: list[str]) -> None:
    bare = [name for name in bundled if not any(covers(pattern, name) for pattern in licensed())]
    assert not bare, "LICENSES.md has no row for them"
    assert len(bundled) > 40


def test_every_row_of_the_licences_is_of_a_file(bundled: list[str]) -> None:
    for pattern, name in licensed().items():
        assert any(covers(pattern, file) for file in bundled), pattern
        assert name in ("Apache-2.0", "CC0-1.0", "CC-BY-2.0", "CC-BY-4.0", "CC-BY-SA-4.0")


def test_the_package_says_that_it_is_typed(bundled: list[str]) -> None:
    assert "mexma_cli/py.typed" in bundled  # and so in the wheel, as all files of the package


def test_the_source_distribution_has_what_a_wheel_is_made_of() -> None:
    build = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["hatch"]["build"]["targets"]
    assert set(build["sdist"]["only-include"]) >= {"mexma_cli", *build["wheel"]["force-include"]}


def test_the_citation_has_the_version_and_the_date_of_the_changelog() -> None:
    """And no date before the release."""
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    newest = re.search(r"^## (\S+) \((.+)\)$", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.M)
    assert newest is not None and newest[1] == __version__
    assert newest.groups() == (cited["version"], str(cited.get("date-released", "unreleased")))
