"""Files of every reader, damaged: one line says so, in little memory, and nothing wrong is written."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.faults.commands import A2, CONVERT, MAPS, MINE, PREPARE, TRAIN, TUNE
from tests.faults.conftest import Campaign
from tests.faults.running import differing, tree
from tests.faults.stand import Everything

HUGE = "an integer of 4500 digits, which Python neither reads nor writes"
VALUES: list[Any] = [
    *(None, True, "", "x", "../../secret", "/etc/passwd", "a\0b", "\ud800", "9" * 5000, "x" * 100_000),
    *(-1, 0, 1, 2**31, 2**63, HUGE, -(10**30), 0.5, 1e308, float("nan"), float("inf")),
    *([], {}, [[]], [None], {"a": 1}),
]


@dataclass(frozen=True)
class Reader:
    """Files, and the commands that read them; `checked` ones have checksums, or are JSON."""

    name: str
    files: str
    commands: tuple[tuple[str, ...], ...]
    checked: bool = False


READERS = [
    Reader("store", "a.emb/*", (MINE, ("info", "a.emb"), ("merge", "a.emb", "-o", "m.emb"), CONVERT), True),
    Reader("neighbours", "ab.knn/*", ((*MINE, "--neighbours", "ab.knn"), ("info", "ab.knn")), True),
    Reader("unfinished store", "a2.emb.partial/*", (A2,), True),
    Reader("journal", "pairs.tsv.partial/*", (MINE,), True),
    Reader("encoder", "enc/*", (A2, ("info", "enc"))),
    Reader("recipe", "*.yaml", (PREPARE, (*TRAIN, "--resume"), MAPS)),
    Reader("prepared pairs", "data/*/*", ((*TRAIN, "--set", "run=other"), ("info", "data"), PREPARE)),
    Reader("run", "run/*", ((*TRAIN, "--resume"), ("info", "run"), ("report", "run"))),
    Reader("checkpoint", "run/*/checkpoints/*/*", ((*TRAIN, "--resume"), ("info", "run"))),
    Reader("maps", "maps/*", (("project", "a.emb", "--with", "maps"), ("info", "maps"))),
    Reader("texts", "*.t*", (A2, TUNE, ("score", "gold.tsv", "--model", "enc", "-o", "scored.tsv"))),
    Reader("vectors", "v.npy", (("convert", "v.npy", "--text", "a.txt", "-o", "v.emb"), ("info", "v.npy"))),
]


@pytest.mark.parametrize("reader", READERS, ids=lambda reader: str(reader.name))
def test_a_damaged_file(campaign: Campaign, reader: Reader, everything: Everything) -> None:
    def attempt(rng: random.Random) -> str:
        words = rng.choice(reader.commands)
        whole = everything.undamaged(words) if reader.checked else {}
        folder = everything.fresh()
        path = rng.choice(sorted(file for file in folder.glob(reader.files) if file.is_file()))
        name = str(path.relative_to(folder))
        is_json = path.suffix == ".json" and rng.random() < 0.7
        how = (_other_value if is_json else _damage)(path, rng)
        ended = everything.mexma(words, folder, seconds=60)
        try:
            ended.plain()
            if reader.checked and ended.code == 0 and path.suffix != ".json":
                now = tree(folder)
                wrong = [other for other in differing(now, whole) if not other.startswith(name)]
                assert not wrong, f"it ended well, and wrote {wrong[:5]}"
        except AssertionError as error:
            raise AssertionError(f"{name} {how}, {' '.join(words)}: {error}") from None
        return "taken" if ended.code == 0 else "refused"

    campaign(attempt, attempts=3)


def _damage(path: Path, rng: random.Random) -> str:
    """A bit, a byte, some or all bytes are others, or gone, or too many."""
    data = bytearray(path.read_bytes())
    at, size = rng.randrange(len(data) + 1), rng.choice((1, 8, 64, 1024))
    ways: dict[str, Callable[[], object]] = {
        "with another bit": lambda: data.__setitem__(
            at % len(data), data[at % len(data)] ^ 1 << rng.randrange(8)
        ),
        "with another byte": lambda: data.__setitem__(at % len(data), rng.randrange(256)),
        "cut short": lambda: data.__delitem__(slice(at, None)),
        "without some bytes": lambda: data.__delitem__(slice(at, at + size)),
        "longer": lambda: data.extend(rng.randbytes(size)),
        "with zeros": lambda: data.__setitem__(slice(at, at + size), bytes(min(size, len(data) - at))),
        "with noise": lambda: data.__setitem__(slice(at, at + size), rng.randbytes(size)),
        "empty": lambda: data.clear(),
    }
    how = rng.choice(list(ways)) if data else "longer"
    ways[how]()
    path.write_bytes(data)
    return f"{how} at {at}"


def _other_value(path: Path, rng: random.Random) -> str:
    """One value is another, or gone."""
    content = json.loads(path.read_bytes())
    places = list(_places(content, ()))
    if not places:
        return _damage(path, rng)
    *way, last = rng.choice(places)
    inside = content
    for key in way:
        inside = inside[key]
    if rng.random() < 0.2:
        del inside[last]
        how = "gone"
    else:
        value = rng.randrange(len(VALUES))
        inside[last] = VALUES[value]
        how = f"is value {value}"
    path.write_text(json.dumps(content).replace(f'"{HUGE}"', "9" * 4500))
    return f"{'.'.join(map(str, (*way, last)))} {how}"


def _places(content: Any, way: tuple[Any, ...]) -> Any:
    """The ways to all values in JSON; of long lists to the first few."""
    inside = (
        content.items()
        if isinstance(content, dict)
        else enumerate(content)
        if isinstance(content, list)
        else ()
    )
    for key, value in [*inside][:20]:
        yield (*way, key)
        yield from _places(value, (*way, key))
