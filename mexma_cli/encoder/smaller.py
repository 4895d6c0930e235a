"""An encoder that spells with fewer tokens and n-grams: its spelling makes up for the words that it loses."""

from __future__ import annotations

import copy
import json

import numpy as np
import torch
from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerFast

from mexma_cli.encoder.encoder import SentenceEncoder
from mexma_cli.encoder.spelling import WORD_START, Spelling, ngram_keys
from mexma_cli.errors import MexmaError


def smaller(encoder: SentenceEncoder, uses: np.ndarray, tokens: int, ngrams: int) -> SentenceEncoder:
    """The encoder with the tokens that are used most and the n-grams that change most.

    Single letters stay, and all that is not of letters.

    Args:
        uses: How often each token is seen, [vocabulary].
        tokens: So many of two and more letters.

    Raises:
        MexmaError: The encoder does not spell, or its tokeniser is no Unigram model.
    """
    if encoder.spelling is None:
        raise MexmaError(f"{encoder.name!r} does not spell words: none of its tokens can be spared")
    kept = _kept(encoder, uses, tokens)
    model = copy.deepcopy(encoder.model)
    embeddings = model.get_input_embeddings()
    model.set_input_embeddings(
        torch.nn.Embedding.from_pretrained(embeddings.weight[kept], True, embeddings.padding_idx)
    )
    model.config.vocab_size = len(kept)
    return SentenceEncoder(
        encoder.name,
        model,
        _tokenizer(encoder.tokenizer, kept.tolist()),
        encoder.pooling,
        list(encoder.modules),
        encoder.max_tokens,
        prefix=encoder.prefix,
        spelling=_spelling(encoder, encoder.spelling, ngrams),
    )


def _kept(encoder: SentenceEncoder, uses: np.ndarray, tokens: int) -> np.ndarray:
    """Token ids, ascending."""
    pieces = encoder.tokenizer.convert_ids_to_tokens(range(len(encoder.tokenizer)))
    special = set(encoder.tokenizer.all_special_tokens)
    letters = [piece.removeprefix(WORD_START) if piece not in special else "" for piece in pieces]
    long = np.array([len(part) > 1 and part.isalpha() for part in letters])
    most_used = np.argsort(-uses, kind="stable")
    return np.sort(np.concatenate([np.flatnonzero(~long), most_used[long[most_used]][:tokens]]))


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


def _spelling(encoder: SentenceEncoder, spelling: Spelling, ngrams: int) -> Spelling:
    """The n-grams of long vectors that many tokens have."""
    pieces = encoder.tokenizer.convert_ids_to_tokens(range(len(encoder.tokenizer)))
    keys, _ = ngram_keys(pieces, spelling.sizes, spelling.consonants)
    known = keys[np.isin(keys, spelling.keys)]
    tokens_with = np.bincount(np.searchsorted(spelling.keys, known), minlength=len(spelling.keys))
    worth = tokens_with * spelling.vectors.float().norm(dim=1).numpy()
    kept = np.sort(np.argsort(-worth, kind="stable")[:ngrams])
    return Spelling(
        spelling.keys[kept],
        spelling.vectors[torch.from_numpy(kept)],
        spelling.sizes,
        spelling.consonants,
        spelling.power,
        spelling.unit,
    )
