"""The campaign: attempts with seeds of their own, few in `make test`, for an hour with `pytest -m faults`."""

from __future__ import annotations

import os
import random
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.faults.commands import COMMANDS, Command, inputs
from tests.faults.running import Mexma
from tests.faults.stand import Everything, Stand

SEED = int(os.environ.get("FAULTS_SEED", "1"))
MINUTES = float(os.environ.get("FAULTS_MINUTES", "60"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put together what is done with a command, so that one process prepares it, and leave long ones out."""
    places = [place for place, item in enumerate(items) if "stand" in getattr(item, "fixturenames", ())]
    found = sorted((items[place] for place in places), key=lambda item: item.callspec.indices["stand"])
    for place, item in zip(places, found, strict=True):
        items[place] = item
    kinds = sorted({item.originalname for item in found})
    left_out = {item for item in found if _is_left_out(item, kinds)}
    items[:] = [item for item in items if item not in left_out]


def _is_left_out(item: Any, kinds: Sequence[str]) -> bool:
    """Whether it is only in the long campaign; of `kinds` of faults each command has one in the short one."""
    place, params = item.callspec.indices["stand"], item.callspec.params
    turn = kinds[place % len(kinds)]
    return params["campaign"] == "short" and (params["stand"].long or item.originalname != turn)


@pytest.fixture(scope="session")
def mexma(tmp_path_factory: pytest.TempPathFactory, tiny_encoder: Path) -> Iterator[Mexma]:
    """The program, in a warm process."""
    program = Mexma(tmp_path_factory.mktemp("shim"), tiny_encoder)
    yield program
    program.close()


@pytest.fixture(scope="session")
def base(
    mexma: Mexma, tiny_encoder: Path, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[Sequence[Sequence[str]]], Path]:
    """From commands to a folder in which they have been given, one after the other; it is to be copied."""
    made: dict[tuple[Sequence[str], ...], Path] = {}

    def after(commands: Sequence[Sequence[str]]) -> Path:
        *before, last = (None, *commands)
        if (key := tuple(commands)) not in made:
            folder = tmp_path_factory.mktemp("base") / "here"
            if last is None:
                folder.mkdir()
                inputs(folder, tiny_encoder)
            else:
                shutil.copytree(after(before[1:]), folder)
                done = mexma(last, folder)
                assert done.code == 0, done.err
            made[key] = folder
        return made[key]

    return after


@pytest.fixture(scope="session")
def _stands() -> dict[str, Stand]:
    return {}


@pytest.fixture(
    params=[
        pytest.param(command, marks=pytest.mark.faults if command.long else (), id=command.name)
        for command in COMMANDS
    ]
)
def stand(
    request: pytest.FixtureRequest,
    mexma: Mexma,
    base: Callable[[Sequence[Sequence[str]]], Path],
    tmp_path_factory: pytest.TempPathFactory,
    _stands: dict[str, Stand],
) -> Stand:
    """Each of the commands in turn."""
    command: Command = request.param
    if command.name not in _stands:
        _stands[command.name] = Stand(mexma, command, tmp_path_factory.mktemp(command.name), base)
    return _stands[command.name]


@pytest.fixture(scope="session")
def everything(mexma: Mexma, tiny_encoder: Path, tmp_path_factory: pytest.TempPathFactory) -> Everything:
    return Everything(mexma, tmp_path_factory.mktemp("everything"), tiny_encoder)


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
    """What was tried in the long campaign: a line a test, with how its attempts ended, and a table."""
    lines, cases, tried, defects = [], Counter[str](), Counter[str](), Counter[str]()
    kinds = ("passed", "failed", "xfailed", "xpassed")
    for report in (report for kind in kinds for report in terminalreporter.stats.get(kind, ())):
        for name, ended in getattr(report, "user_properties", ()):
            if name == "attempts" and "[long" in report.nodeid:
                words = ", ".join(f"{count} {word}" for word, count in sorted(ended.items()))
                lines.append(f"{report.nodeid.partition('::')[2]}: {sum(ended.values())} ({words})")
                what = report.nodeid.partition("::test_")[2].partition("[")[0].replace("_", " ")
                cases[what] += 1
                tried[what] += sum(ended.values())
                defects[what] += ended.get("defect", 0)
    lines += ["", "| tried | with | attempts | of which found a defect |", "| --- | --- | --- | --- |"]
    lines += [f"| {what} | {cases[what]} | {tried[what]:,} | {defects[what]} |" for what in sorted(cases)]
    if cases:
        terminalreporter.section(f"attempts, FAULTS_SEED={SEED}, FAULTS_MINUTES={MINUTES:g}")
        terminalreporter.write("\n".join(lines) + "\n")
