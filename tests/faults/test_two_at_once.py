"""Two processes that write the same output at once: one of them does it, or both do, never a mixture."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.faults.commands import FOUND, MINE_TEXT, PREPARE, RUN, SPLIT, TEXTS, A, Command
from tests.faults.conftest import Campaign
from tests.faults.running import Mexma, differing, tree
from tests.faults.stand import Stand, untimed

ALIGN = (*TEXTS, "p.tsv", "--report", "p.report.json")
PAIRS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "split": (SPLIT, (*SPLIT, "--on", "long=60")),
    "align": (ALIGN, (*ALIGN, "--keep", "1-1")),
    "align-find": (FOUND, (*FOUND, "--max-size", "1")),
    "run": (RUN, (*RUN, "--set", "mine.threshold=1")),
    "mine": (MINE_TEXT, (*MINE_TEXT, "--threshold", "1")),
    "embed": (A, (*A, "--max-tokens", "10")),
    "prepare": (PREPARE, (*PREPARE, "--set", "data.max_tokens=20")),
}
"""Two commands with the same outputs, of different content."""


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.slow if name == "mine" else ()) for name in PAIRS],  # as align
)
def test_two_at_once(
    campaign: Campaign,
    name: str,
    mexma: Mexma,
    base: Callable[[Sequence[Sequence[str]]], Path],
    tmp_path: Path,
) -> None:
    """The same command twice, or two that differ, each stopped at any operation for the other to go on."""
    stands = []
    for place, words in enumerate(PAIRS[name]):
        (tmp_path / str(place)).mkdir()
        stands.append(Stand(mexma, Command(name, words), tmp_path / str(place), base))

    def attempt(rng: random.Random) -> str:
        one, other = rng.choice(stands), rng.choice(stands)
        at = rng.randint(1, len(one.operations))
        other_at = rng.choice((0, rng.randint(1, len(other.operations))))
        folder = one.fresh()
        both = mexma.two(folder, one.command.words, at, other.command.words, other_at)
        try:
            for ended in both:
                ended.plain()
                assert ended.code in (0, 1), ended.err
            codes = [ended.code for ended in both]
            assert 0 in codes, [ended.err for ended in both]
            now = untimed(tree(folder))
            done = [stand for stand, code in zip((one, other), codes, strict=True) if code == 0]
            wrong = [differing(now, stand.whole) for stand in done]
            assert [] in wrong, f"neither the one nor the other: {wrong}"
        except AssertionError as error:
            which = "the same twice" if one is other else "two that differ"
            raise AssertionError(f"{which}, stopped at {at} and {other_at}: {error}") from None
        return "both" if codes == [0, 0] else "one"

    campaign(attempt, attempts=1)
