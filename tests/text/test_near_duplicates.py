"""Sentences that are nearly equal, however long they are."""

from __future__ import annotations

import random
import string

import numpy as np

from mexma_cli.text.near_duplicates import RUN, Signatures, bands_of


def test_of_a_line_of_megabytes_the_beginning_is_compared() -> None:
    start = " ".join(map(str, range(20_000)))
    bands = Signatures(0.8).bands([start + "a" * (2 << 20), start + "b" * (2 << 20), start[::-1]])
    assert np.array_equal(bands[0], bands[1]) and not (bands[0] == bands[2]).any()


def test_as_many_pairs_share_a_band_as_their_similarities_say() -> None:
    rng, pairs, similarities = random.Random(1), [], []
    for _ in range(600):
        one = "".join(rng.choices(string.ascii_lowercase, k=100))
        places = {rng.randrange(100) for _ in range(rng.randint(0, 5))}
        other = "".join(letter.upper() + "_" if at in places else letter for at, letter in enumerate(one))
        pairs.append((one, other))
        first, second = (
            {text[at : at + RUN] for at in range(len(text) - RUN + 1)} for text in (one, other.lower())
        )
        similarities.append(len(first & second) / len(first | second))
    count, size = bands_of(0.8)
    expected = 1 - (1 - np.array(similarities) ** size) ** count
    signatures = Signatures(0.8)
    one, other = (signatures.bands(side) for side in zip(*pairs, strict=True))
    found = (one == other).any(axis=1)
    assert one.shape == (600, count)
    for half in (expected < 0.5, expected >= 0.5):
        assert half.sum() > 100
        error = np.sqrt((expected * (1 - expected))[half].sum())
        assert abs(found[half].sum() - expected[half].sum()) < 4 * error
