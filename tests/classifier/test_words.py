from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from mexma_cli.classifier import words
from mexma_cli.classifier.words import paired, words_of

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
def test_words_with_a_counterpart_count_by_rarity(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(words, "_ROWS", rows)
    source, target = words_of(TEXTS, embed)
    found = paired(source, target, np.array([0, 0, 1, 2]), np.array([0, 2, 1, 0]))
    assert found[[0, 2], :2] == pytest.approx(1)
    # Of "le chat dort" and "the green house" only the first words are alike; "the" is in two sentences.
    assert found[1, 0] == pytest.approx(1 / 3)
    assert 0 < found[1, 1] < 1 / 3
    assert found[3, [0, 1, 3]].tolist() == [0, 0, 0] and found[3, 4] > 0


def test_counterparts_in_other_places_are_apart() -> None:
    source, target = words_of(
        (["le chat vert dort", ""], ["the cat green sleeps", "sleeps green cat the"]), embed
    )
    same, turned, none = paired(source, target, np.array([0, 0, 1]), np.array([0, 1, 0]))[:, 2]
    assert same < 0.3 < turned < 0.5  # between one word at 0.3 and the mean of 3/4, 1/4, 1/4, 3/4
    assert none == pytest.approx(0.3)


def test_a_word_has_one_counterpart() -> None:
    source, target = words_of((["chat chat chat", OTHERS[0]], ["cat runs", OTHERS[1]]), embed)
    assert paired(source, target, np.array([0]), np.array([0]))[0, 0] == pytest.approx(1 / 3)


def test_a_word_is_embedded_once_when_a_pair_needs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def counted(some: Sequence[str]) -> np.ndarray:
        asked.extend(some)
        return embed(some)

    monkeypatch.setattr(words, "_ROWS", 2)  # of which what is common is taken
    monkeypatch.setattr(words, "_SAMPLE", 1)
    source, target = words_of(TEXTS, counted)
    for _ in range(2):
        paired(source, target, np.array([0]), np.array([0]))
    assert asked.count("dort") == asked.count("sleeps") == 1 and len(asked) == len(set(asked))
    assert not {"chien", "dog", "house"} & set(asked)


def test_words_beyond_the_vocabulary_are_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(words, "VOCABULARY", 3)
    source, target = words_of(TEXTS, embed)
    assert len(source.rarity) == len(target.rarity) == 3
    assert np.diff(source.words.ends).tolist() == [3, 0, 0, 0]
    assert np.diff(target.words.ends).tolist() == [3, 0, 1, 0]
