from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from mexma_cli.classifier.model import bundled_weights
from mexma_cli.classifier.training import Parallel, fit, train


def test_training_finds_what_tells_translations() -> None:
    random = np.random.default_rng(1)
    correct = np.arange(400) % 10 == 0
    told, noise = np.where(correct, 3.0, 0.0) + random.standard_normal(400), random.standard_normal(400)
    values = np.stack([told, noise], 1).astype(np.float32)
    found = fit(("margin", "shorter"), [values[:200], values[200:]], [correct[:200], correct[200:]])
    assert found.coefficients[0] > 1 > abs(found.coefficients[1])
    chance = found.of(values)
    assert chance[correct].mean() > 0.6 and chance.mean() == pytest.approx(0.1, abs=0.01)


def _numbered(count: int) -> Parallel:
    random = np.random.default_rng(0)
    own = random.standard_normal((count, 12)).astype(np.float32)
    own /= np.linalg.norm(own, axis=1, keepdims=True)
    other = own + 0.25 * random.standard_normal(own.shape).astype(np.float32)
    texts = [[f"{word} {row * 37 + 100} {word}" for row in range(count)] for word in ("Zeile", "line")]

    def embed(words: Sequence[str]) -> np.ndarray:
        return np.random.default_rng(len(words)).standard_normal((len(words), 12)).astype(np.float32)

    return Parallel((texts[0], texts[1]), (own, other), embed)


@pytest.mark.parametrize(("count", "translations"), [(300, 30), (700, 75)])
def test_a_classifier_of_ones_own_finds_more_than_the_margin(count: int, translations: int) -> None:
    """Numbers tell what vectors do not."""
    found = train(_numbered(count), bundled_weights(), 4)
    f1, error = found.measures.f1, found.measures.calibration
    assert found.pairs + found.held_out == count and found.translations == translations
    assert f1["trained"] > f1["margin"] + 3
    assert error["trained"] < 20
    same = found.weights.by["text"].features == bundled_weights().by["text"].features
    assert same and found.weights.by["text"] != bundled_weights().by["text"]


def test_the_bundled_classifier_is_compared_with_words_where_the_encoder_is_its_own() -> None:
    text, words = (bundled_weights().by[needs] for needs in ("text", "words"))
    blind = replace(text, coefficients=(0.0,) * len(text.features))
    start = replace(bundled_weights(), by={"text": blind, "words": words})
    own, other = (
        train(_numbered(120), one, 4).measures.f1["bundled"]
        for one in (start, replace(start, fingerprint="of another encoder"))
    )
    assert own > other + 10


def test_a_feature_that_is_the_same_for_every_pair_has_no_weight(caplog: pytest.LogCaptureFixture) -> None:
    values = np.column_stack([np.linspace(-1, 1, 40), np.full(40, 0.3)]).astype(np.float32)
    found = fit(("cosine", "glossary"), [values], [np.arange(40) > 20])
    assert found.coefficients[0] > 0 and found.coefficients[1] == 0 and found.scales[1] == 1
    assert np.isfinite(found.of(values)).all()
    assert "glossary is the same for every pair, so it has no weight" in caplog.text
