"""The scripts that make `mini`: rows quantised so that their sums stay exact, and a smaller encoder."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors import safe_open

from docs.make_mini.smaller import allotted, smaller
from docs.make_mini.sums import Members, quantised_together
from mexma_cli.encoder.encoder import SentenceEncoder
from mexma_cli.encoder.loading.folder import NGRAMS_FILE
from mexma_cli.encoder.ngrams.embeddings import NgramEmbeddings
from mexma_cli.errors import MexmaError
from mexma_cli.numerics.trellis import BITS, QuantisedMatrix
from mexma_cli.objectives.bag.settings import BagSettings
from tests.examples import untrained_bag

DIM = 32
WORDS = 800


@pytest.fixture(scope="module")
def words() -> tuple[torch.Tensor, Members]:
    """1,000 n-grams, and 800 words of 4 to 12 of them, the first ones in most."""
    generator = np.random.default_rng(0)
    lengths = generator.integers(4, 13, WORDS)
    rows = np.concatenate([(1000 * generator.random(n) ** 2).astype(np.int64) for n in lengths])
    vectors = torch.randn(1000, DIM, generator=torch.Generator().manual_seed(0))
    return vectors, Members(rows, np.repeat(np.arange(WORDS), lengths), WORDS)


def off(found: torch.Tensor, expected: torch.Tensor) -> float:
    return float((found - expected).square().sum() / expected.square().sum())


def test_sums_are_over_the_root_of_their_number(words: tuple[torch.Tensor, Members]) -> None:
    vectors, members = words
    sums = members.of(vectors)
    for place in (0, 7, WORDS - 1):
        own = members.rows[members.sums == place]
        expected = vectors[torch.from_numpy(own)].sum(dim=0) / len(own) ** 0.5
        torch.testing.assert_close(sums[place], expected)


@pytest.mark.parametrize("left_out", [0, 150])
def test_sums_are_off_by_less(words: tuple[torch.Tensor, Members], left_out: int) -> None:
    """Of what they are off by when each row is stored as well as it can be; also when some are left out."""
    vectors, members = words
    bits = np.resize(np.array([1, 2, 1, 4], np.uint8), len(vectors))
    bits[len(bits) - left_out :] = 0
    kept = np.flatnonzero(bits)
    together = quantised_together(vectors, bits, members, power=1.0)
    apart = QuantisedMatrix.of(vectors[torch.from_numpy(kept)], bits[kept])
    assert np.array_equal(together.bits, apart.bits)
    expected, of_kept = members.of(vectors), members.only(kept)
    found = of_kept.of(together.restore())
    assert off(found, expected) < 0.7 * off(of_kept.of(apart.restore()), expected)


def test_lengths_matter_less_with_a_smaller_power(words: tuple[torch.Tensor, Members]) -> None:
    """Short sums are off by less of their length, since their directions count as others' do."""
    vectors, members = words
    vectors = vectors * torch.linspace(0.05, 2, len(vectors))[:, None]
    bits = np.ones(len(vectors), np.uint8)
    expected = members.of(vectors)
    lengths = expected.norm(dim=1)
    short = lengths < lengths.quantile(0.2)
    found = [
        members.of(quantised_together(vectors, bits, members, power).restore())[short] for power in (0.0, 1.0)
    ]
    relative = [((each - expected[short]).norm(dim=1) / expected[short].norm(dim=1)).mean() for each in found]
    assert relative[0] < relative[1]


def test_it_is_the_same_every_time(words: tuple[torch.Tensor, Members]) -> None:
    vectors, members = words
    bits = np.full(len(vectors), 2, np.uint8)
    one, other = (quantised_together(vectors, bits, members, 0.6).restore() for _ in range(2))
    assert torch.equal(one, other)


def test_a_smaller_encoder_embeds_the_words_that_it_lost(tmp_path: Path) -> None:
    """The first tokens keep their vectors, and so do tokens that n-grams cannot replace."""
    settings = BagSettings(name="bag", ngrams=[2, 3], consonants=[2], keep_ngrams=True, length_power=0.7)
    encoder = untrained_bag(settings).export()
    tokenizer, ngrams = encoder.tokenizer, encoder.ngrams
    assert ngrams is not None
    before = tokenizer.convert_ids_to_tokens(range(len(tokenizer)))
    small = smaller(encoder, tokens=20, inner=3, size=10**6)
    pieces = small.tokenizer.convert_ids_to_tokens(range(small.model.config.vocab_size))
    assert pieces[:20] == before[:20] and pieces[-1] == before[-1] == "<mask>"
    lost = [piece for piece in before if piece not in pieces]
    inside = [piece for piece in before[20:-1] if piece.isalpha() and len(piece) > 1]
    assert [piece for piece in pieces if piece in inside] == inside[:3] and len(inside) > 3
    assert lost and all(len(piece.strip("▁")) > 1 and piece.strip("▁").isalpha() for piece in lost)
    words = [piece.strip("▁") for piece in pieces[4:20] if piece.startswith("▁") and piece[1:].isalpha()]
    texts = [" ".join(words), "12!", "", f"zurbelnd {words[0]}"]
    found, expected = small.embed(texts), encoder.embed(texts)
    np.testing.assert_allclose(found[:3], expected[:3], atol=1e-4)
    assert found[3] @ expected[3] > 0.99 * np.linalg.norm(found[3]) * np.linalg.norm(expected[3])  # 4 bits
    fewer = smaller(encoder, tokens=20, inner=3, size=2000)
    assert fewer.ngrams is not None and set(fewer.ngrams.keys) < set(ngrams.keys)
    fewer.save(tmp_path, "int3")
    kept = bytes_of_table(tmp_path / NGRAMS_FILE, fewer.ngrams)
    assert 1900 < kept <= 2000
    loaded = SentenceEncoder.load(str(tmp_path), "cpu")
    assert loaded.tokenize(["de zurbelnd 漢"])[0].tolist() == fewer.tokenize(["de zurbelnd 漢"])[0].tolist()
    encoder.ngrams = None
    with pytest.raises(MexmaError, match="has no n-gram embeddings"):
        smaller(encoder, tokens=20, inner=3, size=2000)


def bytes_of_table(file: Path, ngrams: NgramEmbeddings) -> int:
    """Without the levels, whose size does not depend on the number of n-grams."""
    assert isinstance(ngrams.vectors, QuantisedMatrix)
    with safe_open(file, "pt") as stored:
        names = [name for name in stored.keys() if not name.startswith("levels")]  # noqa: SIM118
        assert {f"codes{bits}" for bits in ngrams.vectors.parts} <= set(names)
        return sum(stored.get_tensor(name).nbytes for name in names)


@given(
    st.lists(st.floats(0.01, 100), min_size=1, max_size=50),
    st.sampled_from([24, 32, 64, 320]),
    st.integers(0, 3000),
)
def test_more_bits_for_what_matters_more(importance: list[float], dim: int, size: int) -> None:
    """No n-gram has fewer bits than one that matters less, they fit, and nothing more would."""
    bits = allotted(np.array(importance), dim, size)
    in_order = bits[np.argsort(importance, kind="stable")]
    assert (np.diff(in_order.astype(int)) >= 0).all() or len(set(importance)) < len(importance)
    bytes_of = {0: 0} | {count: -(dim * count // -8) + 7 for count in BITS}
    spent = sum(bytes_of[int(count)] for count in bits)
    assert spent <= size
    assert (bits == 4).all() or spent + max(bytes_of.values()) > size
