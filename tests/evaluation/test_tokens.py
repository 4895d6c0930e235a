"""Nearest tokens: the streaming search against all tokens at once, with transformers' own states."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModel

from mexma_cli.encoder.encoder import SentenceEncoder
from mexma_cli.evaluation import tokens
from mexma_cli.evaluation.tokens import CLASSES, Nearest, pick_queries, token_blocks


@pytest.fixture
def encoder(tiny_encoder: Path) -> SentenceEncoder:
    return SentenceEncoder.load(str(tiny_encoder), dtype="float32")


def all_tokens(
    encoder: SentenceEncoder, folder: Path, texts: list[list[str]]
) -> tuple[np.ndarray, np.ndarray]:
    """Unit vectors [n, dim] and (language, line, place) [n, 3], one sentence at a time by transformers."""
    model = AutoModel.from_pretrained(folder).eval()
    vectors, keys = [], []
    for language, lines in enumerate(texts):
        for line, ids in enumerate(encoder.tokenize(lines)):
            with torch.inference_mode():
                states = model(torch.from_numpy(ids)[None]).last_hidden_state[0].numpy()
            for place in range(1, len(ids) - 1):
                vectors.append(states[place] / np.linalg.norm(states[place]))
                keys.append((language, line, place))
    return np.array(vectors), np.array(keys)


def test_the_nearest_are_those_among_all(
    encoder: SentenceEncoder,
    tiny_encoder: Path,
    sentences: dict[str, list[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tokens, "TOKENS_PER_BATCH", 40)  # several blocks a language
    turned = [" ".join(reversed(line.split())) for line in sentences["eng"][2:]]
    texts = [sentences["eng"], sentences["fra"], ["", "x", *turned]]
    vectors, keys = all_tokens(encoder, tiny_encoder, texts)
    queries = pick_queries(encoder, texts[0])
    assert len(queries.lines) == 3 * 8
    nearest = Nearest(queries, 0)
    for language, lines in enumerate(texts):
        blocks = list(token_blocks(encoder, lines))
        assert len(blocks) > 1
        for block in blocks:
            nearest.add(language, block)
    assert nearest.seen == len(vectors)
    counts = {k: dict.fromkeys((*CLASSES, "same token"), 0) for k in (1, 5)}
    for number, (line, place, token) in enumerate(queries.places.tolist()):
        own = int(np.flatnonzero((keys == (0, line, place)).all(axis=1))[0])
        cosines = vectors @ vectors[own]
        cosines[own] = -np.inf
        order = np.argsort(-cosines, kind="stable")[:5]
        assert nearest.cosines[number].numpy() == pytest.approx(cosines[order], abs=1e-5)
        for rank, found in enumerate(order):
            language, other, at = keys[found]
            same_token = encoder.tokenize(texts[language])[other][at] == token
            names = {
                (True, True): "same sentence", (False, True): "translation",
                (True, False): "same language", (False, False): "other",
            }  # fmt: skip
            for k in counts:
                name = names[language == 0, other == line]
                counts[k][name] += rank < k
                counts[k]["same token"] += rank < k and name == "same language" and same_token
    assert 0 < counts[5]["same token"] < counts[5]["same language"]
    for k, count in counts.items():
        expected = {name: 100 * value / (k * 24) for name, value in count.items()}
        assert nearest.shares(k) == pytest.approx(expected)


def test_queries_are_the_same_every_time_and_never_the_ends(
    encoder: SentenceEncoder, sentences: dict[str, list[str]]
) -> None:
    first, again = pick_queries(encoder, sentences["eng"]), pick_queries(encoder, sentences["eng"])
    assert torch.equal(first.places, again.places)
    lengths = [len(ids) for ids in encoder.tokenize(sentences["eng"])]
    for line, place, _ in first.places.tolist():
        assert 0 < place < lengths[line] - 1
    other = pick_queries(encoder, sentences["eng"], seed=1)
    assert not torch.equal(first.places, other.places)


def test_fewer_tokens_than_wanted(encoder: SentenceEncoder) -> None:
    one = next(token_blocks(encoder, ["a"]))
    nearest = Nearest(one, 0)
    nearest.add(0, one)
    there = len(one.lines) - 1
    assert int(torch.isfinite(nearest.cosines[0]).sum()) == there
    assert nearest.shares(5)["same sentence"] == (100.0 if there else 0.0)
