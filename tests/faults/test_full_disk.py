"""A disk that is really full, also under files that are mapped into memory: a file system of its own."""

from __future__ import annotations

import random
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.conftest import Campaign
from tests.faults.stand import Stand

ROOM = 1 << 30


class Disk:
    """A file system in memory, whose size can be changed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        self._mount("-t", "tmpfs", "-o", f"size={ROOM}", "tmpfs")

    def leave(self, size: int) -> None:
        """From here on there is room for so many bytes more."""
        now = shutil.disk_usage(self.folder).used
        self._mount("-o", f"remount,size={now + size}")

    def _mount(self, *words: str) -> None:
        subprocess.run(["mount", *words, self.folder], check=True, capture_output=True)

    def close(self) -> None:
        subprocess.run(["umount", "--lazy", self.folder], check=True)


@pytest.fixture(scope="session")
def disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Disk]:
    try:
        found = Disk(tmp_path_factory.mktemp("full") / "disk")
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("a disk that fills up needs root, to mount one")
    yield found
    found.close()


def test_a_disk_that_is_full(campaign: Campaign, stand: Stand, disk: Disk) -> None:
    """Temporary files are on it, too."""
    here = disk.folder / "here"
    disk.leave(ROOM)
    stand.fresh(here)
    before = shutil.disk_usage(disk.folder).used
    assert stand.mexma(stand.command.words, here).code == 0
    need = shutil.disk_usage(disk.folder).used - before

    def attempt(rng: random.Random) -> str:
        disk.leave(ROOM)
        stand.fresh(here)
        room = int(rng.choice((0.3, 1, 1.5, 3)) * rng.random() * max(need, 1 << 15))
        try:
            disk.leave(room)
            ended = stand.run(stand.command.words, here)
            assert ended.code in (0, 1), ended.err
            stand.nothing_is_left(here)
            if ended.code:
                assert "no space left" in ended.err.lower(), f"it does not say why: {ended.err}"
                disk.leave(ROOM)
                stand.finish(here)
            else:
                stand.is_whole(here)
        except AssertionError as error:
            raise AssertionError(f"{room:,} of {need:,} bytes: {error}") from None
        return "refused" if ended.code else "done"

    campaign(attempt, attempts=1)
    disk.leave(ROOM)
    shutil.rmtree(here)
