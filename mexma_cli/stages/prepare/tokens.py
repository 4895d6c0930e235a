"""Sentences to token ids of a limited length."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import xxhash
from tokenizers import Tokenizer

from mexma_cli.encoder.loading.tokenizer import panic_as_message

Ids = list[int]


class Tokens:
    """A tokeniser that counts the sentences that it cuts.

    Args:
        backend: Of the tokenizers library; it does not cut.
        keeps_end: Of a longer sentence the end is kept.
        max_tokens: Longest sentence with <s> and </s>.

    Attributes:
        cuts: Sentences that were longer.
    """

    def __init__(self, backend: Any, keeps_end: bool, max_tokens: int) -> None:
        self._backend, self._limit = backend, max_tokens - 2
        self._kept = slice(-self._limit, None) if keeps_end else slice(self._limit)
        self.cuts = 0

    @property
    def vocabulary(self) -> int:
        """Number of tokens."""
        return int(self._backend.get_vocab_size())

    def of(self, texts: Iterable[str]) -> list[Ids]:
        """Ids of sentences in full length, without <s> and </s>."""
        with panic_as_message():
            found = self._backend.encode_batch_fast(list(texts), add_special_tokens=False)
            return [encoding.ids for encoding in found]

    def cut(self, sentences: list[Ids]) -> list[Ids]:
        """The same, cut."""
        self.cuts += sum(len(ids) > self._limit for ids in sentences)
        return [ids[self._kept] for ids in sentences]


@lru_cache(maxsize=2)
def load_backend(text: str) -> tuple[Any, bool, str]:
    """From a file's text: a tokeniser that does not cut, whether it would keep the end, its fingerprint."""
    backend = Tokenizer.from_str(text)
    keeps_end = backend.truncation is not None
    backend.no_truncation()
    return backend, keeps_end, xxhash.xxh3_128_hexdigest(text.encode())
