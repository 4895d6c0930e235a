from __future__ import annotations

import numpy as np

from mexma_cli.align.documents import WINDOWS, centre, coverage, document_vector, matched, sentence_weights


def unit(vectors: np.ndarray) -> np.ndarray:
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), np.float32)


def test_a_documents_vector_knows_the_order_of_its_sentences() -> None:
    sentences, lengths = np.eye(8, dtype=np.float32), np.full(8, 20)
    there, back = (document_vector(text, lengths) for text in (sentences, sentences[::-1]))
    assert there.shape == (WINDOWS * 8,) and there @ back < 0.5 * there @ there
    np.testing.assert_allclose(np.linalg.norm(there.reshape(WINDOWS, 8), axis=1), 1, rtol=1e-5)


def test_of_one_sentence_and_of_none() -> None:
    one = document_vector(np.eye(3, dtype=np.float32)[:1], np.array([7]))
    np.testing.assert_allclose(one.reshape(WINDOWS, 3), [[1, 0, 0]] * WINDOWS, atol=1e-6)
    assert not document_vector(np.zeros((0, 3), np.float32), np.zeros(0, np.int64)).any()
    assert not document_vector(np.zeros((1, 3), np.float32), np.zeros(1, np.int64)).any(), "a blank line"


def test_centring_takes_what_all_share_and_leaves_one_document_its_direction() -> None:
    alone = np.ones((1, 4), np.float32)
    centre(alone)
    np.testing.assert_allclose(alone, 0.5)
    many = np.eye(50, dtype=np.float32) + 9
    centre(many)
    assert np.abs(many).max() < 1.2


def test_coverage_is_the_mean_of_the_best_cosines_by_weight() -> None:
    x, y = unit(np.array([[1, 0], [0, 1]])), unit(np.array([[1, 0], [1, 1]]))
    weights = sentence_weights(np.array([9, 1])), sentence_weights(np.array([4, 4]))
    root = 0.5**0.5
    assert abs(coverage(x, y, weights) - (0.75 + 0.25 * root + 0.5 + 0.5 * root) / 2) < 1e-6


def test_documents_are_matched_once_and_only_if_they_stand_out() -> None:
    candidates = np.array([[0, 0], [0, 1], [1, 0], [1, 1], [2, 2]])
    assert matched(candidates, np.array([0.9, 0.2, 0.8, 0.1, 0.5])).tolist() == [0, 4]
    assert matched(candidates, np.array([0.5, 0.2, 0.2, 0.6, 0.04])).tolist() == [0, 3]
    assert matched(candidates, np.full(5, 0.3)).tolist() == [4], "it has no other candidate"
