"""A power cut at an operation: what was written and not synced is lost, or kept, or kept by half."""

from __future__ import annotations

import random
import shutil

from tests.faults.conftest import Campaign
from tests.faults.power import Disk
from tests.faults.running import differing, tree
from tests.faults.stand import Stand, untimed


def test_a_power_cut(campaign: Campaign, stand: Stand) -> None:
    """At any moment; after the command has ended, all that it made is there."""
    folder = stand.fresh()
    disk = Disk(stand.base, folder, stand.operations)
    shutil.rmtree(folder)
    disk.cut_off(disk.length, None, folder)
    assert not differing(untimed(tree(folder)), stand.whole), "the log of operations is not complete"

    def attempt(rng: random.Random) -> str:
        at = min(rng.randint(1, disk.length * 9 // 8), disk.length)
        shutil.rmtree(folder)
        disk.cut_off(at, rng, folder)
        try:
            stand.nothing_is_half(folder)
            if at == disk.length:
                stand.has_all(folder)
            else:
                stand.finish(folder)
        except AssertionError as error:
            raise AssertionError(f"before operation {at} of {disk.length}: {error}") from None
        return "after the end" if at == disk.length else "on the way"

    campaign(attempt, attempts=1)
