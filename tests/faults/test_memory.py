"""Address space that runs out (`ulimit -v`): a line says so, and the same command goes on."""

from __future__ import annotations

import random

from tests.faults.conftest import Campaign
from tests.faults.stand import Stand


def test_address_space_runs_out(campaign: Campaign, stand: Stand) -> None:
    def attempt(rng: random.Random) -> str:
        folder, headroom = stand.fresh(), rng.choice((5, 30, 120, 400)) * rng.random()
        try:
            ended = stand.run(stand.command.words, folder, headroom=headroom)
            assert ended.code in (0, 1), ended.err
            if ended.code:
                stand.finish(folder)
        except AssertionError as error:
            raise AssertionError(f"{headroom:.2f} MB: {error}") from None
        return "refused" if ended.code else "done"

    campaign(attempt, attempts=1)
