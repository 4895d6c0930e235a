from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from mexma_cli.classifier import words
from mexma_cli.classifier.words import unexplained, words_of

MEANINGS = ["the", "a", "cat", "dog", "house", "runs", "sleeps", "green"]
FRENCH = ["le", "un", "chat", "chien", "maison", "court", "dort", "vert"]
PLACES = dict(zip([*FRENCH, *MEANINGS], [*range(8), *range(8)], strict=True))
OTHERS = [" ".join(f"{side}{number}" for number in range(50)) for side in "fe"]
TEXTS = (
    ["Le chat dort", "un chien court", "", OTHERS[0]],
    ["the cat sleeps", "a dog runs", "the green house", OTHERS[1]],
)


def embed(some: Sequence[str]) -> np.ndarray:
    """A word's vector is its meaning, with what all have in common."""
    places = [PLACES.setdefault(word, len(PLACES) - 8) for word in some]
    return np.eye(120, dtype=np.float32)[places] + np.float32(0.1)


@pytest.mark.parametrize("rows", [1 << 13, 20])
def test_words_without_counterpart_count_by_rarity(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(words, "_ROWS", rows)
    source, target = words_of(TEXTS, embed)
    found = unexplained(source, target, np.array([0, 0, 1, 2]), np.array([0, 2, 1, 0]))
    assert found[0, :2].tolist() == [0, 0] and found[2, :2].tolist() == [0, 0]
    # Of "le chat dort" and "the green house" only the first words are alike; "the" is in two sentences.
    assert found[1, 0] == pytest.approx(2 / 3)
    assert 2 / 3 < found[1, 1] < 1
    assert found[3, 0] == 0 and found[3, 2] == 0 < found[3, 3]


def test_words_beyond_the_vocabulary_are_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(words, "VOCABULARY", 3)
    source, target = words_of(TEXTS, embed)
    assert len(source.vectors) == len(target.vectors) == 3
    assert np.diff(source.words.ends).tolist() == [3, 0, 0, 0]
    assert np.diff(target.words.ends).tolist() == [3, 0, 1, 0]
