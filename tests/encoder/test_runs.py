"""Vectors of runs of sentences: from sums the same as from the joined text."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mexma_cli.encoder.encoder import SentenceEncoder
from mexma_cli.encoder.runs import JoinedRuns, SummedRuns, document_encoder, stored_vectors
from tests.examples import demo_pairs


@pytest.fixture(scope="module")
def mini() -> SentenceEncoder:
    return SentenceEncoder.load("mini", "cpu")


@pytest.fixture(scope="module")
def tiny(tiny_encoder: Path) -> SentenceEncoder:
    return SentenceEncoder.load(tiny_encoder, "cpu")


def all_runs(count: int, most: int) -> tuple[np.ndarray, np.ndarray]:
    found = [(start, size) for size in range(2, most + 1) for start in range(count - size + 1)]
    starts, sizes = np.array(found, np.int64).T
    return starts, sizes


def test_sums_give_minis_vectors_of_the_joined_text(mini: SentenceEncoder) -> None:
    """Of words that it knows, that it spells, with punctuation at the borders, and of a blank line."""
    lines = [side for pair in demo_pairs(30) for side in pair.split("\t")]
    lines[3:3] = ["", "Zwölf Donaudampfschiffe!?", "(»…«", "…) 3.14", "   "]
    starts, sizes = all_runs(len(lines), 4)
    known = [None]
    (summed, runs), (joined, texts) = (
        way.documents([lines], known)[0] for way in (SummedRuns(mini), JoinedRuns(mini))
    )
    blank = [not line.strip() for line in lines]
    assert not summed[blank].any() and not joined[blank].any()
    np.testing.assert_allclose(summed, joined, atol=1e-3)
    np.testing.assert_allclose(runs(starts, sizes), texts(starts, sizes), atol=1e-3)
    np.testing.assert_allclose(np.linalg.norm(summed[np.invert(blank)], axis=1), 1, atol=1e-5)


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_stored_vectors_of_any_length_have_length_one() -> None:
    vectors = np.random.default_rng(0).normal(size=(3, 8)).astype(np.float32)
    wanted = stored_vectors(["a", "b", "c"], vectors)
    np.testing.assert_allclose(np.linalg.norm(wanted, axis=1), 1, atol=1e-6)
    scaled = vectors * np.float32([[2.0**100], [2.0**-100], [1]])
    np.testing.assert_array_equal(stored_vectors(["a", "b", "c"], scaled), wanted)


def test_which_encoders_are_bags(mini: SentenceEncoder, tiny: SentenceEncoder) -> None:
    assert isinstance(document_encoder(mini), SummedRuns)
    assert isinstance(document_encoder(tiny), JoinedRuns), "it has two layers"
    one_layer = SentenceEncoder.load("mini", "cpu")
    one_layer.prefix = "query: "
    assert isinstance(document_encoder(one_layer), JoinedRuns), "a run has the prefix once"
    one_layer.prefix = ""
    weights = one_layer.transformer.weights
    weights["embeddings.position_embeddings.weight"][2, 0] += 1
    assert isinstance(document_encoder(one_layer), JoinedRuns), "its vectors depend on the order"


def test_runs_of_any_encoder_are_those_of_the_joined_text(tiny: SentenceEncoder) -> None:
    lines = ["Il pleut.", "", "Ce livre est plus.", "Où ?"]
    stored = np.full((2, tiny.dim), 2.0, np.float32)
    (vectors, runs), (given, _) = JoinedRuns(tiny).documents([lines, ["a", " "]], [None, stored])
    wanted = tiny.embed(["Il pleut.", "Ce livre est plus.", "Où ?", "Il pleut.  Ce livre est plus."])
    wanted /= np.linalg.norm(wanted, axis=1, keepdims=True)
    np.testing.assert_allclose(vectors[[0, 2, 3]], wanted[:3], atol=1e-5)
    np.testing.assert_allclose(runs(np.array([0]), np.array([3])), wanted[3:], atol=1e-5)
    assert not vectors[1].any()
    np.testing.assert_allclose(given, [np.full(tiny.dim, tiny.dim**-0.5), np.zeros(tiny.dim)], rtol=1e-5)
