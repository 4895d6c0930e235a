"""Make an encoder smaller: fewer tokens and n-grams. Its n-gram embeddings replace the tokens that go."""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence

import numpy as np
import torch
from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerFast

from mexma_cli.encoder.encoder import SentenceEncoder
from mexma_cli.encoder.ngrams import (
    WORD_START,
    NgramEmbeddings,
    ngram_keys,
    pieces_of,
    tokens_to_keep,
)
from mexma_cli.errors import MexmaError


def smaller(encoder: SentenceEncoder, tokens: int, inner: int, ngrams: int) -> SentenceEncoder:
    """The encoder with the first tokens of its vocabulary, and with the n-grams that matter most.

    Single letters stay, and all tokens that are not only letters.

    Args:
        tokens: How many of the vocabulary's first tokens stay (the most frequent, in a tokeniser of words).
        inner: How many other tokens that do not begin a word stay. Programs without n-gram embeddings need
            them: to them, a removed word would otherwise be single letters.
        ngrams: How many n-grams stay, at most.

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
    kept_ngrams = _most_important(pieces, encoder.ngrams, ngrams)
    modules = list(encoder.modules)
    small = SentenceEncoder(
        encoder.name, model, tokenizer, encoder.pooling, modules, encoder.max_tokens, kept_ngrams
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


def _most_important(pieces: Sequence[str], ngrams: NgramEmbeddings, count: int) -> NgramEmbeddings:
    """The n-grams that matter most: they have long vectors, and are in many tokens with few other n-grams."""
    keys, counts = ngram_keys(pieces, ngrams.sizes, ngrams.consonants)
    known = np.isin(keys, ngrams.keys)
    places, tokens = (
        np.searchsorted(ngrams.keys, keys[known]),
        np.repeat(np.arange(len(pieces)), counts)[known],
    )
    shares = 1 / np.bincount(tokens)[tokens]
    importance = np.bincount(places, shares, len(ngrams.keys))
    importance *= np.square(ngrams.vectors[:], dtype=np.float32).sum(axis=1)
    kept = np.sort(np.argsort(-importance, kind="stable")[:count])
    return NgramEmbeddings(
        ngrams.keys[kept], ngrams.vectors[kept], ngrams.sizes, ngrams.consonants, ngrams.power, ngrams.unit
    )
