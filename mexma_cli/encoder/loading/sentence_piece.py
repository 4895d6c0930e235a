"""Tokenisers that run SentencePiece itself, as the programs of LASER and SONAR do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from mexma_cli.encoder.loading.tokenizer import LazyTokenizer, check_strings
from mexma_cli.encoder.loading.weights import damage_as_message
from mexma_cli.errors import MexmaError, installed_by

START, PADDING, END, UNKNOWN = range(4)
"""Ids of <s>, <pad>, </s> and <unk> in fairseq and in transformers' NLLB."""
LONGEST = 1 << 20
"""The length limit of an encoder that has none."""


class PieceTokenizer(LazyTokenizer):
    """A first token, if there is one, the pieces of a text, and </s>.

    Args:
        owner: Whose it is, for messages.
        spm: SentencePiece's model.
        first: Id of the first token.
    """

    def __init__(self, owner: str, spm: Path, first: int | None, max_tokens: int) -> None:
        try:
            from sentencepiece import SentencePieceProcessor
        except ImportError:
            hint = installed_by("laser")
            raise MexmaError(f"{owner} needs the library sentencepiece", hint) from None
        with damage_as_message(spm):
            self.pieces = SentencePieceProcessor(model_file=str(spm))
        self.owner, self.first, self._model = owner, first, spm.read_bytes()
        self.padding, self.max_tokens, self.keeps_end = PADDING, max_tokens, False

    def hash_into(self, digest: Any) -> None:
        """Put everything that decides the ids into a hash; see `LazyTokenizer.hash_into`."""
        digest.update(self._model)
        digest.update(repr(self.first).encode())

    def encode(self, texts: list[str]) -> list[np.ndarray]:
        """Token ids with the first token and </s>, int64, of texts of any length."""
        check_strings(texts)
        first = [] if self.first is None else [self.first]
        return [np.array([*first, *ids, END], np.int64) for ids in self.ids(texts)]

    def ids(self, texts: list[str]) -> list[list[int]]:
        """Ids of each text's pieces."""
        raise NotImplementedError

    @property
    def full(self) -> Any:
        """Transformers' tokeniser, of which there is none.

        Raises:
            MexmaError: Always.
        """
        raise MexmaError(f"{self.owner} has no tokeniser of transformers", "it embeds text, and no more")
