from __future__ import annotations

import pytest

from mexma_cli.settings.stages import bytes_of
from mexma_cli.text.amounts import counted, size, size_option


def test_one_and_several() -> None:
    assert [counted(count, "line") for count in (0, 1, 2000)] == ["0 lines", "1 line", "2,000 lines"]
    assert [counted(count, "query", "queries") for count in (1, 2)] == ["1 query", "2 queries"]


@pytest.mark.parametrize(
    ("count", "words"),
    [
        (0, "0 bytes"), (1, "1 byte"), (1000, "1 kB"), (312_400, "312 kB"), (1_500_000, "1.5 MB"),
        (8_000_000_000, "8.0 GB"), (3_000_000_000_000, "3.0 TB"),
    ],
)  # fmt: skip
def test_a_size_has_a_number(count: int, words: str) -> None:
    assert size(count) == words


@pytest.mark.parametrize(
    ("count", "option"),
    [(1, "1K"), (1001, "2K"), (1_510_000, "1.6M"), (7_400_000_001, "7.5G"), (8_000_000_000, "8G")],
)
def test_a_size_for_an_option_is_never_less(count: int, option: str) -> None:
    assert size_option(count) == option
    assert bytes_of(option) >= count
