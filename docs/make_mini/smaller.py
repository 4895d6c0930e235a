"""Make an encoder smaller: fewer tokens and n-grams. Its n-gram embeddings replace the tokens that go."""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence

import numpy as np
import torch
from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerFast

from docs.make_mini.sums import Members, quantised_together
from mexma_cli.encoder.encoder import SentenceEncoder
from mexma_cli.encoder.ngrams.embeddings import NgramEmbeddings
from mexma_cli.encoder.ngrams.hashing import WORD_START, ngram_keys, pieces_of, tokens_to_keep
from mexma_cli.errors import MexmaError
from mexma_cli.numerics import trellis
from mexma_cli.numerics.trellis import QuantisedMatrix

_OVERHEAD = 7
"""Bytes of an n-gram beside its vector: its key, its scale, and its number of bits."""
_EVENED = 0.6
"""The power that an n-gram's importance is raised to. Leaving n-grams out does more harm than the sum of
their importances, since neighbouring n-grams point in similar directions; rounding errors point anywhere."""


def smaller(encoder: SentenceEncoder, tokens: int, inner: int, size: int) -> SentenceEncoder:
    """The encoder with the first tokens of its vocabulary, and with n-grams that fit into so many bytes.

    Single letters stay, and all tokens that are not only letters.

    Args:
        tokens: How many of the vocabulary's first tokens stay (the most frequent, in a tokeniser of words).
        inner: How many other tokens that do not begin a word stay. Programs without n-gram embeddings need
            them: to them, a removed word would otherwise be single letters.
        size: Bytes for n-grams as `int3` stores them. Important n-grams get more bits; the least important
            are left out.

    Raises:
        MexmaError: The encoder has no n-gram embeddings, or its tokeniser is no Unigram model.
    """
    if encoder.ngrams is None:
        raise MexmaError(f"{encoder.name!r} has no n-gram embeddings, so that it needs all of its tokens")
    pieces = pieces_of(encoder.fast_tokenizer.backend)
    wanted = tokens_to_keep(pieces, tokens)
    inside = ~wanted & [not piece.startswith(WORD_START) for piece in pieces]
    kept = np.flatnonzero(wanted | (inside & (inside.cumsum() <= inner)))
    model = copy.deepcopy(encoder.model)
    embeddings = model.get_input_embeddings()
    model.set_input_embeddings(
        torch.nn.Embedding.from_pretrained(embeddings.weight[kept], True, embeddings.padding_idx)
    )
    model.config.vocab_size = len(kept)
    tokenizer = _tokenizer(encoder.tokenizer, kept.tolist())
    ngrams = _most_important(pieces, encoder.ngrams, size)
    modules = list(encoder.modules)
    small = SentenceEncoder(
        encoder.name, model, tokenizer, encoder.pooling, modules, encoder.max_tokens, ngrams
    )
    small.prefix, small.prompts = encoder.prefix, encoder.prompts
    return small


def _tokenizer(tokenizer: PreTrainedTokenizerFast, kept: list[int]) -> PreTrainedTokenizerFast:
    """The tokeniser with only these tokens, renumbered in their order."""
    content = json.loads(tokenizer.backend_tokenizer.to_str())
    if content["model"]["type"] != "Unigram":
        raise MexmaError(f"only a Unigram tokeniser can be made smaller, not {content['model']['type']}")
    vocabulary, places = content["model"]["vocab"], {token: place for place, token in enumerate(kept)}
    content["model"]["vocab"] = [vocabulary[token] for token in kept if token < len(vocabulary)]
    for token in content["added_tokens"]:
        token["id"] = places[token["id"]]
    mask = tokenizer.added_tokens_decoder[tokenizer.mask_token_id]
    named = {**tokenizer.special_tokens_map, "mask_token": mask}
    return PreTrainedTokenizerFast(tokenizer_object=Tokenizer.from_str(json.dumps(content)), **named)


def _most_important(pieces: Sequence[str], ngrams: NgramEmbeddings, size: int) -> NgramEmbeddings:
    """The n-grams that matter most: they have long vectors, and are in many tokens with few other n-grams."""
    if isinstance(ngrams.vectors, QuantisedMatrix):
        raise MexmaError("n-grams that are already quantised cannot be made smaller")
    keys, counts = ngram_keys(pieces, ngrams.sizes, ngrams.consonants)
    known = np.isin(keys, ngrams.keys)
    places = np.searchsorted(ngrams.keys, keys[known])
    tokens = Members(places, np.repeat(np.arange(len(pieces)), counts)[known], len(pieces))
    importance = np.bincount(places, tokens.shares**2, len(ngrams.keys))
    importance *= ngrams.vectors.float().square().sum(dim=1).numpy()
    bits = allotted(importance**_EVENED, ngrams.vectors.shape[1], size)
    coded = quantised_together(ngrams.vectors, bits, tokens, ngrams.power)
    return NgramEmbeddings(
        ngrams.keys[bits > 0],
        coded,
        ngrams.sizes,
        ngrams.consonants,
        ngrams.power,
        ngrams.unit,
    )


def allotted(importance: np.ndarray, dim: int, size: int) -> np.ndarray:
    """Bits a number for each n-gram, uint8 [N], so that the total error is smallest; 0: left out.

    Greedy: of all steps from 0 bits to 1, to 2 and to 4, the one that saves most error a byte comes first.

    Args:
        importance: float64 [N], the error of leaving an n-gram out.
        dim: Length of a vector, at least 24: with a shorter one, the first bit costs more than it saves.
        size: Bytes in all.
    """
    saved = -np.diff([1, *trellis.ERRORS])
    costs = np.diff([0, *(-(dim * bits // -8) + _OVERHEAD for bits in trellis.BITS)])
    best_first = np.argsort(-(importance[:, None] * saved / costs).ravel(), kind="stable")
    spent = np.tile(costs, len(importance))[best_first].cumsum()
    steps = np.bincount(best_first[spent <= size] // len(costs), minlength=len(importance))
    return np.array([0, *trellis.BITS], np.uint8)[steps]
