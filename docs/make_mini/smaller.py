"""An encoder that spells with fewer tokens and n-grams: its spelling makes up for the words that it loses."""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence

import numpy as np
import torch
from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerFast

from docs.make_mini.sums import Members, coded_together
from mexma_cli.encoder.encoder import SentenceEncoder
from mexma_cli.encoder.ngrams.embeddings import NgramEmbeddings
from mexma_cli.encoder.ngrams.hashing import WORD_START, ngram_keys, pieces_of, tokens_to_keep
from mexma_cli.errors import MexmaError
from mexma_cli.numerics import trellis
from mexma_cli.numerics.trellis import Coded

_OVERHEAD = 7
"""Bytes of an n-gram beside its vector's: its key, its scale and how many bits it has."""
_EVENED = 0.6
"""What an n-gram's worth is raised to. An n-gram that is left out costs more than its share, since those
beside it point where it does; what is off in few bits points anywhere."""


def smaller(encoder: SentenceEncoder, tokens: int, inner: int, size: int) -> SentenceEncoder:
    """The encoder with the vocabulary's first tokens, and its n-grams in so many bytes once they are stored.

    Single letters stay, and all that is not of letters.

    Args:
        tokens: The first of the vocabulary (the most frequent, in a tokeniser of words).
        inner: So many of the others that do not begin a word, for programs that do not spell: without them a
            word that is lost would be single letters to these.
        size: Bytes for n-grams as `int3` stores them: they get the more bits the more they matter, or are
            left out.

    Raises:
        MexmaError: The encoder does not spell, or its tokeniser is no Unigram model.
    """
    if encoder.ngrams is None:
        raise MexmaError(f"{encoder.name!r} does not spell words: none of its tokens can be spared")
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
    """The tokeniser with these tokens of its own, renumbered in their order."""
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


def _most_important(pieces: Sequence[str], spelling: NgramEmbeddings, size: int) -> NgramEmbeddings:
    """The n-grams that matter most: those of long vectors, in many tokens, with few others beside them."""
    if isinstance(spelling.vectors, Coded):
        raise MexmaError("n-grams that are stored small cannot be made smaller")
    keys, counts = ngram_keys(pieces, spelling.sizes, spelling.consonants)
    known = np.isin(keys, spelling.keys)
    places = np.searchsorted(spelling.keys, keys[known])
    tokens = Members(places, np.repeat(np.arange(len(pieces)), counts)[known], len(pieces))
    worth = np.bincount(places, tokens.shares**2, len(spelling.keys))
    worth *= spelling.vectors.float().square().sum(dim=1).numpy()
    bits = allotted(worth**_EVENED, spelling.vectors.shape[1], size)
    coded = coded_together(spelling.vectors, bits, tokens, spelling.power)
    return NgramEmbeddings(
        spelling.keys[bits > 0],
        coded,
        spelling.sizes,
        spelling.consonants,
        spelling.power,
        spelling.unit,
    )


def allotted(worth: np.ndarray, dim: int, size: int) -> np.ndarray:
    """Bits for a number of each n-gram, uint8 [N], so that the least of their worth is lost; 0: left out.

    Step by step, from no bits to 1, to 2 and to 4, always the one that saves most for its bytes.

    Args:
        worth: float64 [N], what is lost with the whole vector.
        dim: Numbers of a vector, at least 24: of fewer, the first bit costs more than it saves.
        size: Bytes in all.
    """
    saved = -np.diff([1, *trellis.ERRORS])
    costs = np.diff([0, *(-(dim * bits // -8) + _OVERHEAD for bits in trellis.BITS)])
    best_first = np.argsort(-(worth[:, None] * saved / costs).ravel(), kind="stable")
    spent = np.tile(costs, len(worth))[best_first].cumsum()
    steps = np.bincount(best_first[spent <= size] // len(costs), minlength=len(worth))
    return np.array([0, *trellis.BITS], np.uint8)[steps]
