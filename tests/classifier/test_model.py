from __future__ import annotations

import json
import re
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from mexma_cli.classifier import model
from mexma_cli.classifier.features import FEATURES, columns, feature, spread_of
from mexma_cli.classifier.model import (
    Classifier,
    ClassifierWeights,
    bundled_weights,
    features_for,
    probabilities_of,
    probable,
)
from mexma_cli.classifier.pairs import Pairs, known_of
from mexma_cli.encoder.encoder import SentenceEncoder
from mexma_cli.errors import MexmaError
from mexma_cli.knn.exact import knn
from mexma_cli.knn.neighbours import Neighbours
from mexma_cli.mining.match import match
from mexma_cli.settings.stages import MineSettings

ROWS = 60


def two_texts() -> tuple[Neighbours, list[str], list[str]]:
    """Rows n of both sides are translations, though the vectors of every fifth are nearer to the next row."""
    random = np.random.default_rng(0)
    own = random.standard_normal((ROWS, 16)).astype(np.float32)
    other = own + 0.9 * random.standard_normal(own.shape).astype(np.float32)
    for row in range(0, ROWS - 1, 5):
        other[[row, row + 1]] = other[[row, row]] + 0.1 * random.standard_normal((2, 16)).astype(np.float32)
    sources = [f"Zeile {row * 7 + 100} von Annette{'x' * (row % 9)}" for row in range(ROWS)]
    targets = [f"line {row * 7 + 100} by Annette{'x' * (row % 9)}" for row in range(ROWS)]
    return knn(own, other, 4), sources, targets


def texts_of(*sides: list[str]) -> tuple[partial[object], partial[object]]:
    return partial(iter, sides[0]), partial(iter, sides[1])


def right(found: object) -> int:
    return int((found.source == found.target).sum())  # type: ignore[attr-defined]


def test_text_decides_where_vectors_cannot() -> None:
    near, *texts = two_texts()
    sides = known_of(near, texts_of(*texts))  # type: ignore[arg-type]
    found, _ = probable(bundled_weights().by["text"], near, sides, MineSettings())
    assert right(found) > right(match(near, MineSettings())) + 3
    assert len(set(found.source)) == len(set(found.target)) == len(found)
    assert (np.diff(found.scores) <= 0).all() and 0 <= found.scores.min() <= found.scores.max() <= 1


def test_blocks_do_not_change_probabilities(monkeypatch: pytest.MonkeyPatch) -> None:
    near, *texts = two_texts()
    sides = known_of(near, texts_of(*texts))  # type: ignore[arg-type]
    whole, errors = probable(bundled_weights().by["text"], near, sides, MineSettings())
    monkeypatch.setattr(model, "_AT_ONCE", 7)
    found, again = probable(bundled_weights().by["text"], near, sides, MineSettings())
    assert again == pytest.approx(errors)
    for name in ("scores", "source", "target"):
        np.testing.assert_array_equal(getattr(found, name), getattr(whole, name))


def test_given_pairs_have_the_probabilities_of_mined_ones() -> None:
    near, *texts = two_texts()
    sides = known_of(near, texts_of(*texts))  # type: ignore[arg-type]
    mined, errors = probable(bundled_weights().by["text"], near, sides, MineSettings())
    given, same = probabilities_of(bundled_weights().by["text"], near, sides, mined)
    np.testing.assert_allclose(given, mined.scores, atol=1e-5)
    assert same == pytest.approx(errors)


def test_words_are_compared_where_a_pair_is_possible_without(monkeypatch: pytest.MonkeyPatch) -> None:
    near, *texts = two_texts()
    pairs = Pairs(match(near, MineSettings(retrieval="all")), known_of(near, texts_of(*texts)))  # type: ignore[arg-type]
    screen, judge = Classifier(("margin",), (0.0,), (1.0,), (4.0,), -6.0), bundled_weights().by["text"]
    (cheap,), (dear,), (both,) = (
        list(one.scored(pairs)) for one in (screen, judge, replace(judge, screen=screen))
    )
    possible = cheap.scores > 0.002
    assert 0.1 < possible.mean() < 0.9
    wanted = np.where(possible, dear.scores, cheap.scores)
    np.testing.assert_allclose(both.scores, wanted, atol=1e-3)  # what is usual is found with the screen, too
    assert bundled_weights().by["words"].screen == bundled_weights().by["text"]


def test_features_are_compared_with_the_translations_of_the_texts() -> None:
    """A language that is twice as long, and has two commas for each, is no less probable."""
    near, *texts = two_texts()
    longer = [f"{text} {text}, ja," for text in texts[0]]
    values = []
    for sources in (texts[0], longer):
        pairs = Pairs(match(near, MineSettings(retrieval="all")), known_of(near, texts_of(sources, texts[1])))  # type: ignore[arg-type]
        names = ("length", "comma marks")
        right = pairs.candidates.source == pairs.candidates.target
        values.append(columns(pairs, names, spread_of(pairs, names, right))[right])
    assert np.median(values[0]) == pytest.approx(np.median(values[1]), abs=0.7) and np.median(values[1]) < 1.5


def test_the_bundled_weights_are_of_the_features_that_there_are_and_of_mini() -> None:
    for needs, one in bundled_weights().by.items():
        assert set(one.features) <= set(features_for(needs))  # type: ignore[arg-type]
        assert len(one.features) == len(one.means) == len(one.scales) == len(one.coefficients)
    assert set(bundled_weights().by) == {"vectors", "text", "words"}
    mini = SentenceEncoder.load("mini", "cpu")
    assert (bundled_weights().encoder, bundled_weights().fingerprint, bundled_weights().dim) == (
        "mini",
        mini.fingerprint,
        mini.dim,
    )


def test_weights_are_written_and_read(tmp_path: Path) -> None:
    one = Classifier(("margin", "length"), (1.0, 0.5), (2.0, 1.0), (3.0, -1.5), -0.25)
    weights = ClassifierWeights("by hand", "x", "f", 8, {"text": one})
    weights.write(tmp_path / "w.json")
    assert ClassifierWeights.read(tmp_path / "w.json") == weights
    content = json.loads((tmp_path / "w.json").read_text())
    assert content["classifiers"]["text"]["features"][1] == {
        "name": "length", "mean": 0.5, "scale": 1.0, "coefficient": -1.5,
    }  # fmt: skip
    np.testing.assert_allclose(one.of(np.array([[3, 1.5]], np.float32)), 1 / (1 + np.exp(-1.25)), rtol=1e-6)
    other = replace(weights, by={"text": replace(one, features=("margin", "glossary"))})
    other.write(tmp_path / "w.json")
    with pytest.raises(MexmaError, match="feature 'glossary'"):
        ClassifierWeights.read(tmp_path / "w.json")


@pytest.mark.parametrize(
    "content",
    ["[]", '{"about": "", "encoder": "", "fingerprint": "", "dim": 1, "classifiers": {"text": {}}}', "{}"],
)
def test_other_files_are_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "w.json").write_text(content)
    with pytest.raises(MexmaError, match=r"w\.json is no file of a classifier's weights"):
        ClassifierWeights.read(tmp_path / "w.json")


@pytest.mark.parametrize(
    ("key", "value"), [("scale", "0"), ("coefficient", "NaN"), ("intercept", "9" * 400), ("dim", "1e999")]
)
def test_numbers_that_are_none_are_refused(tmp_path: Path, key: str, value: str) -> None:
    text = model.WEIGHTS.read_text(encoding="utf-8")
    (tmp_path / "w.json").write_text(re.sub(rf'"{key}": [-.0-9]+', f'"{key}": {value}', text))
    with pytest.raises(MexmaError, match=r"w\.json is no file of a classifier's weights"):
        ClassifierWeights.read(tmp_path / "w.json")


def test_a_name_is_registered_once() -> None:
    with pytest.raises(ValueError, match="there is a feature 'length' already"):
        feature("length", "again")(lambda pairs: pairs.margins)
    assert "length" in FEATURES


@pytest.mark.parametrize("share", [0.03, 0.5])
def test_what_is_usual_in_translations_does_not_depend_on_their_share(share: float) -> None:
    random = np.random.default_rng(0)
    count = int(400 * share)
    own, other = (random.standard_normal((400, 16)).astype(np.float32) for _ in "ab")
    other[:count] = own[:count] + 0.3 * random.standard_normal((count, 16)).astype(np.float32)
    texts = [[f"Z {'x' * int(n)}" for n in random.integers(10, 90, 400)] for _ in "ab"]
    texts[1][:count] = texts[0][:count]
    near = knn(own, other, 4)
    pairs = Pairs(match(near, MineSettings(retrieval="all")), known_of(near, texts_of(*texts)))  # type: ignore[arg-type]
    judge, right = bundled_weights().by["text"], pairs.candidates.source == pairs.candidates.target
    right &= pairs.candidates.source < count
    known, found = (spread_of(pairs, judge.features, how) for how in (right, judge._of_pairs))
    assert found["length"].usual_spread < 0.1
    assert found["margin"].usual == pytest.approx(known["margin"].usual, abs=0.1)
    assert known["margin"].usual > known["margin"].rivals + 0.3


def test_copies_do_not_say_how_translations_look() -> None:
    """With the numbers of its verses on lines of their own, Jonah's sentences are as probable as without."""
    encoder, sums = SentenceEncoder.load("mini", "cpu"), []
    texts = [[line for part in "1234" for line in _jonah(code, part)] for code in ("fra", "eng")]
    for numbers in ([], [str(verse) for verse in range(1, 49)]):
        own, other = ([*numbers, *text] for text in texts)
        near = knn(encoder.embed(own), encoder.embed(other), 4)
        known = known_of(near, texts_of(own, other), encoder.embed)
        found, _ = probable(bundled_weights().by["words"], near, known, MineSettings())
        sums.append(found.scores[found.source >= len(numbers)].sum())
    assert sums[0] > 45 and sums[1] == pytest.approx(sums[0], rel=0.1)


def _jonah(code: str, part: str) -> list[str]:
    path = Path(__file__).parents[2] / "examples" / "jonah" / code / f"{part}.txt"
    return path.read_text(encoding="utf-8").splitlines()
