"""Token embeddings, and the transformer that they are written into."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from pydantic import ValidationError

from mexma_cli.encoder.encoder import SentenceEncoder
from mexma_cli.encoder.model.weighted_embeddings import weight_axis_and_basis
from mexma_cli.encoder.ngrams import PairTokens, is_whole, ngram_keys, pieces_of, tokens_to_keep
from mexma_cli.objectives.bag.loss import Bag, principal, token_ngrams, write_bag
from mexma_cli.objectives.bag.settings import BagSettings
from mexma_cli.objectives.contrastive.loss import Contrastive
from mexma_cli.objectives.contrastive.settings import ContrastiveSettings
from mexma_cli.settings.training import NewEncoder
from tests.objectives.formulas import info_nce, unit
from tests.objectives.pairs import views_of

TOLERANCE = 2e-3
"""Between cosines; LayerNorm's epsilon and a head's share of the width are all that differs."""


@pytest.fixture
def encoder(tiny_encoder: Path) -> SentenceEncoder:
    tokenizer = SentenceEncoder.load(str(tiny_encoder), "cpu").tokenizer
    shape = NewEncoder(layers=2, width=64, heads=4, ffn=128, dropout=0.0)
    return SentenceEncoder.new(shape, tokenizer, max_tokens=60, seed=0)


@pytest.fixture
def texts(sentences: dict[str, list[str]]) -> list[str]:
    return [*sentences["fra"], *sentences["eng"]]


def cosines(x: np.ndarray) -> np.ndarray:
    return unit(x) @ unit(x).T


def bags(encoder: SentenceEncoder, texts: list[str], vectors: np.ndarray) -> np.ndarray:
    """The sums of the tokens' vectors, which special ones have none of."""
    table = vectors.copy()
    table[encoder.tokenizer.all_special_ids] = 0
    return np.stack([table[ids].sum(axis=0) for ids in encoder.tokenize(texts)])


def assert_embeds_bags(encoder: SentenceEncoder, texts: list[str], vectors: np.ndarray) -> None:
    """The encoder's cosines are those of these vectors' sums."""
    expected = cosines(bags(encoder, texts, vectors))
    assert np.abs(cosines(encoder.embed(texts)) - expected).max() < TOLERANCE


@pytest.mark.parametrize("spread", [0.0, 0.5, 1.0])
def test_the_encoders_cosines_are_the_bags(spread: float, encoder: SentenceEncoder, texts: list[str]) -> None:
    """With token vectors of equal and of very different lengths."""
    torch.manual_seed(1)
    size = encoder.model.config.vocab_size
    vectors = torch.randn(size, encoder.dim - 2) * torch.exp(spread * torch.randn(size, 1))
    write_bag(encoder.model, vectors, encoder.tokenizer.all_special_ids)
    assert_embeds_bags(encoder, [*texts, "Oui"], vectors.numpy())


@pytest.mark.parametrize("width", [4, 16, 24, 32])
def test_a_narrow_encoder_holds_lengths_as_far_as_it_can(
    width: int, encoder: SentenceEncoder, sentences: dict[str, list[str]]
) -> None:
    """The logarithm of a weight takes its part of a row, whose length is that of all rows."""
    shape = NewEncoder(layers=1, width=width, heads=2, ffn=8, dropout=0.0)
    narrow = SentenceEncoder.new(shape, encoder.tokenizer, max_tokens=60, seed=0)
    lengths = torch.linspace(-9, 9, narrow.model.config.vocab_size).exp()
    write_bag(narrow.model, torch.randn(len(lengths), width - 2) * lengths[:, None], [])
    rows = narrow.model.get_input_embeddings().weight
    assert torch.allclose(rows.norm(dim=1), torch.tensor(width**0.5), rtol=1e-3)
    assert np.isfinite(narrow.embed(sentences["fra"])).all()


def test_a_small_step_from_the_bag_is_a_small_step(
    encoder: SentenceEncoder, sentences: dict[str, list[str]]
) -> None:
    """A phase that trains on from here must not bury the sum: LayerNorm blows up what is next to nothing."""
    torch.manual_seed(1)
    vectors = torch.randn(encoder.model.config.vocab_size, encoder.dim - 2)
    write_bag(encoder.model, vectors, encoder.tokenizer.all_special_ids)
    before = encoder.embed(sentences["fra"])
    with torch.no_grad():
        for parameter in encoder.model.embeddings.parameters():
            parameter += 0.003 * torch.randn_like(parameter).sign()
    after = encoder.embed(sentences["fra"])
    assert (unit(before) * unit(after)).sum(axis=1).min() > 0.99


def test_what_layer_0_attends_to_can_be_learned_and_is_no_part_of_the_bag(
    encoder: SentenceEncoder, sentences: dict[str, list[str]], texts: list[str]
) -> None:
    """The keys that a bag does not need have gradients; the queries that they meet change no bit of it."""
    write_bag(encoder.model, torch.randn(encoder.model.config.vocab_size, encoder.dim - 2), [])
    attention = encoder.model.encoder.layer[0].attention.self
    unused = torch.arange(encoder.dim) % (encoder.dim // attention.num_attention_heads) > 0
    phase = Contrastive(encoder, ContrastiveSettings(name="contrastive"))
    phase(views_of(phase, sentences))["contrastive"].backward()
    assert (attention.key.weight.grad[unused].abs().amax(dim=1) > 0).all()
    before = encoder.embed(texts)
    with torch.no_grad():
        attention.query.weight.zero_()
    assert np.array_equal(before, encoder.embed(texts))


@pytest.mark.parametrize("margin", [0.0, 0.3])
def test_the_objective_exports_its_bag(
    margin: float, encoder: SentenceEncoder, sentences: dict[str, list[str]], texts: list[str]
) -> None:
    bag = Bag(encoder, BagSettings(name="bag", margin=margin))
    vectors = bag.vectors.detach().numpy()
    assert_embeds_bags(bag.export(), texts, vectors)
    sums = bags(encoder, texts, vectors)
    expected = np.mean(info_nce(sums[:8], sums[8:], 0.05, margin))
    loss = bag(views_of(bag, sentences))["contrastive"].detach()
    assert float(loss) == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("power", [0.5, 1.0])
def test_lengths_and_variances_are_evened_in_the_encoder(
    power: float, encoder: SentenceEncoder, sentences: dict[str, list[str]], texts: list[str]
) -> None:
    """The encoder's cosines are those of the sums of vectors whose lengths are raised, then whitened."""
    bag = Bag(encoder, BagSettings(name="bag", length_power=power, whitening=0.4))
    with torch.no_grad():
        bag.vectors *= torch.exp(torch.randn(len(bag.vectors), 1))
    for _ in range(3):
        bag(views_of(bag, sentences))
    moment = bag.moment.numpy().astype(np.float64)
    vectors = bag.vectors.detach().numpy()
    raised = vectors * np.linalg.norm(vectors, axis=1, keepdims=True) ** (power - 1)
    values, axes = np.linalg.eigh(moment / np.trace(moment) * len(moment))
    assert_embeds_bags(bag.export(), texts, raised @ (axes * values**-0.2) @ axes.T)


def test_tokens_without_vectors_of_their_own_are_their_ngrams(encoder: SentenceEncoder) -> None:
    """In the encoder too, as they were trained; and those with vectors are not changed."""
    settings = BagSettings(name="bag", ngrams=[2, 3], own_tokens=20, keep_ngrams=True)
    bag = Bag(encoder, settings)
    pieces = pieces_of(encoder.fast_tokenizer.backend)
    own = tokens_to_keep(pieces, 20)
    assert bag.vectors.shape[0] == own.sum() < len(pieces)
    tokens = torch.arange(len(pieces))
    before = bag.table(tokens).detach()
    with torch.no_grad():
        bag.vectors.zero_()
    after = bag.table(tokens).detach()
    assert torch.equal((before != after).any(dim=1), torch.from_numpy(own))
    known = [piece for piece in np.array(pieces)[~own] if piece.startswith("▁")]
    assert known
    kept = bag.export().ngrams
    assert kept is not None
    rows, has_ngrams = kept.embed(known)
    table = encoder.model.get_input_embeddings().weight[encoder.tokenizer.convert_tokens_to_ids(known)]
    assert has_ngrams.mean() > 0.9 and not rows[~has_ngrams].any()
    torch.testing.assert_close(
        torch.from_numpy(rows[has_ngrams]), table.detach()[has_ngrams], atol=2e-2, rtol=1e-2
    )


def test_tokens_without_anything_are_refused() -> None:
    with pytest.raises(ValidationError, match="`own_tokens` needs `ngrams`"):
        BagSettings(name="bag", own_tokens=20)


def test_whole_whitening_makes_variances_equal() -> None:
    vectors = torch.randn(500, 8) @ torch.randn(8, 8)
    moment = vectors.T @ vectors / len(vectors)
    white = vectors @ principal(moment, 8, -0.5)
    after = white.T @ white / len(white)
    assert torch.allclose(after / after.trace() * 8, torch.eye(8), atol=1e-3)


def test_what_is_wider_in_training_gives_its_main_directions(
    encoder: SentenceEncoder, texts: list[str]
) -> None:
    """The encoder's cosines are those of the sums, without the directions in which they hardly differ."""
    bag = Bag(encoder, BagSettings(name="bag", width=100))
    assert bag.vectors.shape[1] == 100
    kept = encoder.dim - 2
    with torch.no_grad():
        bag.vectors[:, kept:] *= 1e-3
        turned = torch.linalg.qr(torch.randn(100, 100))[0]
        bag.vectors.copy_(bag.vectors @ turned)
    vectors = bag.vectors.detach()
    flat = vectors[np.concatenate([ids[1:-1] for ids in encoder.tokenize(texts)])]
    bag.moment.copy_(flat.T @ flat / len(flat))
    assert_embeds_bags(bag.export(), texts, vectors.numpy())


def test_the_second_moment_is_of_training_only_and_saved(
    encoder: SentenceEncoder, sentences: dict[str, list[str]]
) -> None:
    bag = Bag(encoder, BagSettings(name="bag", whitening=0.1))
    views = views_of(bag, sentences)
    before = bag.moment.clone()
    bag.eval()
    bag(views)
    assert torch.equal(bag.state_dict()["moment"], before)
    bag.train()
    bag(views)
    assert not torch.equal(bag.state_dict()["moment"], before)


def test_length_makes_long_and_short_sentences_less_alike(encoder: SentenceEncoder) -> None:
    """By the share of </s>, in a direction that no other token has."""
    bag = Bag(encoder, BagSettings(name="bag", length=1.0))
    bag.moment += torch.randn(len(bag.moment), len(bag.moment)).square().diag().diag() / len(bag.moment)
    texts = ["Oui Oui", "Oui Oui Oui Oui Oui Oui Oui Oui", "Oui Oui"]
    found = cosines(bag.export().embed(texts))
    assert found[0, 2] > 0.9999 and found[0, 1] < 0.99
    table = encoder.model.get_input_embeddings().weight
    alone = table - table.mean(dim=1, keepdim=True)
    end = alone[encoder.tokenizer.sep_token_id]
    axis = torch.from_numpy(weight_axis_and_basis(encoder.dim)[0]).float()
    end = end - (end @ axis) * axis
    words = [token for token in range(len(table)) if token not in encoder.tokenizer.all_special_ids]
    assert (alone[words] @ end).abs().max() < 1e-3 * end.norm() * alone[words].norm(dim=1).max()


def test_pairs_of_signs_are_tokens_that_are_trained(encoder: SentenceEncoder) -> None:
    """Where both stand side by side, and in the sentence that has them."""
    bag = Bag(encoder, BagSettings(name="bag"))
    first = len(bag.places) - 6
    bag.pairs = PairTokens([*["x"] * first, "▁日", "▁本", "▁語", "▁日▁本", "▁本▁日", "<mask>"])
    day, base, word, both, turned = range(first, first + 5)
    ids = torch.tensor([0, day, base, word, 2, 0, base, 7, day, 2, 0, base, day, 2])
    found, starts = bag._bags(ids, torch.tensor([0, 5, 10, 14]))
    assert found.tolist() == [day, base, word, both, base, 7, day, base, day, turned]
    assert starts.tolist() == [0, 4, 7]


def test_dropout_is_for_training_only(encoder: SentenceEncoder, sentences: dict[str, list[str]]) -> None:
    bag = Bag(encoder, BagSettings(name="bag", token_dropout=0.5))
    views = views_of(bag, sentences)

    def loss() -> float:
        return float(bag(views)["contrastive"].detach())

    bag.eval()
    assert loss() == loss()
    bag.train()
    assert loss() != loss()


@pytest.mark.parametrize("share", [1.0, 0.6])
def test_ngrams_are_in_what_is_exported(share: float, encoder: SentenceEncoder, texts: list[str]) -> None:
    """A token's vector is its own and those of its n-grams, each trained, and the encoder has their sum."""
    bag = Bag(encoder, BagSettings(name="bag", ngrams=[2, 3], own_share=share))
    assert bag.ngrams is not None
    group = bag.groups()
    assert {id(parameter) for parameter in group["rows"]} == {id(bag.vectors), id(bag.ngram_vectors)}
    tokens = torch.arange(len(bag.vectors))
    own, ngram_vectors = bag.vectors.detach(), bag.ngram_vectors.detach()
    table = torch.stack(
        [
            share * own[i]
            + ngram_vectors[bag.ngrams.of(i[None])[0]].sum(dim=0) / max(1, int(bag.ngrams.counts[i])) ** 0.5
            for i in tokens
        ]
    )
    assert_embeds_bags(bag.export(), texts, table.numpy())


def test_tokens_inside_a_word_weigh_less(encoder: SentenceEncoder, texts: list[str]) -> None:
    """Their vectors times `inner_weight`, and those at a word's start as they are."""
    bag = Bag(encoder, BagSettings(name="bag", inner_weight=0.25))
    table = bag.vectors.detach().numpy().copy()
    pieces = encoder.tokenizer.convert_ids_to_tokens(range(len(table)))
    inner = [not piece.startswith("▁") for piece in pieces]
    table[inner] *= 0.25
    assert any(inner[token] for row in encoder.tokenize(texts) for token in row[1:-1])
    assert_embeds_bags(bag.export(), texts, table)


@pytest.fixture(scope="module")
def mini() -> SentenceEncoder:
    return SentenceEncoder.load("mini", "cpu")


@pytest.mark.slow
def test_tokens_with_a_common_ngram_have_it_in_common(mini: SentenceEncoder) -> None:
    """For tokens in any order; those of one token alone are left out."""
    table, keys = token_ngrams(mini, [2, 3], [2])
    assert (np.diff(keys.astype(int)) > 0).all()
    pieces = mini.tokenizer.convert_ids_to_tokens(range(mini.model.config.vocab_size))
    special = set(mini.tokenizer.all_special_tokens)
    tokens = torch.randperm(len(pieces), generator=torch.Generator().manual_seed(0))[:100].tolist()
    every, counts = ngram_keys(pieces, [2, 3], [2])
    of_each = np.split(every, np.cumsum(counts)[:-1])
    tokens_with = Counter(
        key for piece, own in zip(pieces, of_each, strict=True) if piece not in special for key in {*own}
    )
    flat, starts = table.of(torch.tensor(tokens))
    assert table.counts[tokens].sum() == len(flat)
    for token, part in zip(tokens, torch.tensor_split(flat, starts[1:]), strict=True):
        alone = is_whole(pieces[token])  # has no other n-gram
        shared = [key for key in of_each[token].tolist() if tokens_with[key] > 1 or alone]
        assert keys[part.numpy()].tolist() == ([] if pieces[token] in special else shared)
    assert len(flat) < sum(len(of_each[token]) for token in tokens)  # one token's own are out
