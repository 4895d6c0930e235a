"""The script that makes `mini`: an encoder with fewer tokens and n-grams."""

from __future__ import annotations

import numpy as np
import pytest

from docs.make_mini.rounding import rounded
from docs.make_mini.smaller import smaller
from mexma_cli.encoder.ngrams import pieces_of
from mexma_cli.errors import MexmaError
from mexma_cli.numerics.quantised import QuantisedRows
from mexma_cli.objectives.bag.settings import BagSettings
from tests.examples import untrained_bag


def test_a_smaller_encoder_embeds_the_words_that_it_lost() -> None:
    """The first tokens keep their vectors, and so do tokens that n-grams cannot replace."""
    settings = BagSettings(name="bag", ngrams=[2, 3], consonants=[2], keep_ngrams=True, length_power=0.7)
    encoder = untrained_bag(settings).export()
    tokenizer, ngrams = encoder.tokenizer, encoder.ngrams
    assert ngrams is not None
    before = tokenizer.convert_ids_to_tokens(range(len(tokenizer)))
    small = smaller(encoder, tokens=20, inner=3, ngrams=10**6)
    pieces = small.tokenizer.convert_ids_to_tokens(range(small.model.config.vocab_size))
    assert pieces[:20] == before[:20] and pieces[-1] == before[-1] == "<mask>"
    lost = [piece for piece in before if piece not in pieces]
    inside = [piece for piece in before[20:-1] if piece.isalpha() and len(piece) > 1]
    assert [piece for piece in pieces if piece in inside] == inside[:3] and len(inside) > 3
    assert lost and all(len(piece.strip("▁")) > 1 and piece.strip("▁").isalpha() for piece in lost)
    words = [piece.strip("▁") for piece in pieces[4:20] if piece.startswith("▁") and piece[1:].isalpha()]
    texts = [" ".join(words), "12!", "", f"zurbelnd {words[0]}"]
    np.testing.assert_allclose(small.embed(texts), encoder.embed(texts), atol=1e-4)
    fewer = smaller(encoder, tokens=20, inner=3, ngrams=50)
    assert fewer.ngrams is not None and set(fewer.ngrams.keys) < set(ngrams.keys)
    lengths = np.linalg.norm(ngrams.vectors[:], axis=1)
    assert fewer.ngrams.vectors.shape == (50, encoder.dim)
    assert np.linalg.norm(fewer.ngrams.vectors[:], axis=1).mean() > lengths.mean()
    encoder.ngrams = None
    with pytest.raises(MexmaError, match="has no n-gram embeddings"):
        smaller(encoder, tokens=20, inner=3, ngrams=50)


def test_ngrams_make_up_for_one_anothers_rounding() -> None:
    """Of words that have many; and for n-grams that are left out."""
    settings = BagSettings(name="bag", ngrams=[2, 3], consonants=[2], keep_ngrams=True)
    encoder = untrained_bag(settings).export()
    words, whole = pieces_of(encoder.fast_tokenizer.backend), encoder.ngrams
    kept = smaller(encoder, tokens=20, inner=3, ngrams=200).ngrams
    assert whole is not None and kept is not None

    def off(vectors: QuantisedRows) -> float:
        kept.vectors = vectors
        return float(np.square(kept.embed(words)[0] - whole.embed(words)[0]).sum())

    plain, fitted = QuantisedRows.of(kept.vectors[:].astype(np.float32), 6), rounded(whole, kept, words, 6)
    assert fitted.codes.shape == plain.codes.shape and off(fitted) < 0.8 * off(plain)
