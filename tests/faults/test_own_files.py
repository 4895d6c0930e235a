"""Files of the user's in folders of ours, and under names like ours: they stay as they are."""

from __future__ import annotations

import random

from tests.faults.commands import Stand
from tests.faults.conftest import Campaign

NAMES = ("notes.txt", "thesis.tmp-old", "manifest.json.bak", ".hidden", "index-1", "vectors-00099.npy")
ENDINGS = (".tmp-1", ".replaced-1", ".partial", ".partial/notes.txt", ".partial/vectors-00000.npy", ".lock")


def test_a_file_of_the_users(campaign: Campaign, stand: Stand) -> None:
    """Whether the command goes on beside it or is refused."""
    units = sorted({name.partition("/")[0] for name in {*stand.whole} - {*stand.before}})
    units += ["run/encoder", "data/own.spa_Latn"] if {"run", "data"} & {*stand.whole} else []
    folders = [".", *sorted(name for name, data in stand.before.items() if data is None)]

    def attempt(rng: random.Random) -> str:
        folder = stand.fresh()
        inside = f"{rng.choice(folders)}/{rng.choice(NAMES)}"
        name = rng.choice([inside, rng.choice([*units, *folders[1:]]) + rng.choice(ENDINGS)])
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("my own\n")
        ended = stand.mexma(stand.command.words, folder)
        try:
            ended.plain()
            assert path.is_file() and path.read_text() == "my own\n", f"it is gone ({ended.code})"
        except AssertionError as error:
            raise AssertionError(f"{name}: {error}") from None
        return "beside it" if ended.code == 0 else "refused"

    campaign(attempt, attempts=3)
