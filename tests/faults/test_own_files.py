"""Files of the user's in folders of ours, and under names like ours: they stay as they are."""

from __future__ import annotations

import random
from pathlib import Path

from tests.faults.conftest import Campaign
from tests.faults.running import Fault
from tests.faults.stand import Stand

NAMES = ("notes.txt", "thesis.tmp-old", "manifest.json.bak", ".hidden", "index-1", "vectors-00099.npy")
ENDINGS = (".tmp-1", ".replaced-1", ".lock", ".partial")
NAMED = ("hard/", "switched/", "kept/", "rest/", "p.spa.", "p.eng.", "p.00001-of-")
"""Files that a name in the command stands for; they are replaced, as that is."""
INSIDE = ("notes.txt", "before", "progress.json", "vectors-00000.npy", "found.keys")


def test_a_file_of_the_users(campaign: Campaign, stand: Stand) -> None:
    """Whether the command goes on beside it or is refused, also where a run was killed before."""
    units = sorted({name.partition("/")[0] for name in {*stand.whole} - {*stand.before}})
    units += ["run/encoder", "data/own.spa_Latn"] if {"run", "data"} & {*stand.whole} else []
    implied = sorted(
        {name for name, data in stand.whole.items() if data} - {*stand.before, *stand.command.words}
    )

    implied = [name for name in implied if not name.startswith(NAMED)]

    def a_name(rng: random.Random, folder: Path) -> str:
        folders = [str(path.relative_to(folder)) for path in sorted(folder.rglob("*")) if path.is_dir()]
        unit = rng.choice([*units, *(name for name in folders if not name.endswith(".partial"))])
        work = [name for name in folders if name.endswith(".partial") and name.count(".partial") == 1]
        if work:  # deeper inside, nothing tells the user's files from what a killed run has left there
            return f"{rng.choice(work)}/{rng.choice(NAMES)}"
        inside = f"{unit}.partial/{rng.choice([*INSIDE, Path(unit).name])}"
        places = [f"{rng.choice(['.', *folders])}/{rng.choice(NAMES)}", unit + rng.choice(ENDINGS), inside]
        new = [name for name in implied if not (folder / name).exists()]
        return rng.choice([*places, *(rng.choice(new) for _ in new[:1])])

    def attempt(rng: random.Random) -> str:
        folder, words = stand.fresh(), stand.command.words
        if killed := rng.random() < 0.3:
            stand.mexma(words, folder, Fault.KILL, rng.randint(1, len(stand.operations)))
            words = stand.command.second(folder)
        name = a_name(rng, folder)
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("my own\n")
        ended = stand.mexma(words, folder)
        try:
            ended.plain()
            assert path.is_file() and path.read_text() == "my own\n", f"it is gone ({ended.code})"
        except AssertionError as error:
            raise AssertionError(f"{name}{' after a kill' * killed}: {error}") from None
        return "beside it" if ended.code == 0 else "refused"

    campaign(attempt, attempts=1)
