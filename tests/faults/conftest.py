"""The campaign: attempts with seeds of their own, few in `make test`, for an hour with `pytest -m faults`."""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.faults.commands import COMMANDS, Command, Stand
from tests.faults.running import Mexma

SEED = int(os.environ.get("FAULTS_SEED", "1"))
MINUTES = float(os.environ.get("FAULTS_MINUTES", "60"))


@pytest.fixture(scope="session")
def mexma(tmp_path_factory: pytest.TempPathFactory, tiny_encoder: Path) -> Iterator[Mexma]:
    """The program, in a warm process."""
    program = Mexma(tmp_path_factory.mktemp("shim"), tiny_encoder)
    yield program
    program.close()


@pytest.fixture(scope="session")
def _stands() -> dict[str, Stand]:
    return {}


@pytest.fixture(params=COMMANDS, ids=[command.name for command in COMMANDS])
def stand(
    request: pytest.FixtureRequest,
    mexma: Mexma,
    tiny_encoder: Path,
    tmp_path_factory: pytest.TempPathFactory,
    _stands: dict[str, Stand],
) -> Stand:
    """Each of the commands in turn."""
    command: Command = request.param
    if command.name not in _stands:
        folder = tmp_path_factory.mktemp(command.name)
        _stands[command.name] = Stand(mexma, command, folder, tiny_encoder)
    return _stands[command.name]


class Campaign:
    """Makes attempts, each with a seed of its own, and goes on after those that find a defect.

    Attributes:
        seconds: How long; 0: as many attempts as the test says.
    """

    def __init__(self, name: str, seconds: float, record: Callable[[str, Any], None]) -> None:
        self.name, self.seconds, self._record = name, seconds, record
        self.ended: Counter[str] = Counter()

    def __call__(self, attempt: Callable[[random.Random], str], attempts: int) -> None:
        """Make attempts.

        Args:
            attempt: Returns a word on how it ended; raises AssertionError if it finds a defect.
            attempts: So many where time does not decide.
        """
        until, number, defects = time.monotonic() + self.seconds, 0, []
        while time.monotonic() < until or (number < attempts and not self.seconds):
            try:
                self.ended[attempt(random.Random(f"{SEED} {self.name} {number}"))] += 1
            except AssertionError as error:
                defects.append(f"FAULTS_SEED={SEED}, attempt {number}: {error}")
                self.ended["defect"] += 1
            number += 1
        self._record("attempts", dict(self.ended))
        if defects:
            pytest.fail("\n\n".join([*defects[:10], f"{len(defects)} of {number} attempts"]), pytrace=False)


@pytest.fixture(params=["short", pytest.param("long", marks=pytest.mark.faults)])
def campaign(
    request: pytest.FixtureRequest, record_property: Callable[[str, Any], None]
) -> Iterator[Campaign]:
    """For a moment, or for this test's share of the hour."""
    long = [item for item in request.session.items if item.get_closest_marker("faults")]
    share = 60 * MINUTES / max(1, len(long)) if request.param == "long" else 0
    return Campaign(request.node.name.replace("long", "short"), share, record_property)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """What was tried in the long campaign: a line a test, and how its attempts ended."""
    lines = []
    kinds = ("passed", "failed", "xfailed", "xpassed")
    for report in (report for kind in kinds for report in terminalreporter.stats.get(kind, ())):
        for name, ended in getattr(report, "user_properties", ()):
            if name == "attempts" and "long" in report.nodeid:
                words = ", ".join(f"{count} {word}" for word, count in sorted(ended.items()))
                lines.append(f"{report.nodeid.partition('::')[2]}: {sum(ended.values())} ({words})")
    if lines:
        terminalreporter.section(f"attempts, FAULTS_SEED={SEED}, FAULTS_MINUTES={MINUTES:g}")
        terminalreporter.write("\n".join(lines) + "\n")
