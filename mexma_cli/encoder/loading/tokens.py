"""Tokenisers: of the tokenizers library, with transformers' object around one only once it is asked for."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tokenizers import Tokenizer
from tokenizers.normalizers import Lowercase, Sequence

from mexma_cli.errors import MexmaError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

_SPECIAL = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")
_SETTINGS = {
    *_SPECIAL,
    "added_tokens_decoder",
    "backend",
    "is_local",
    "local_files_only",
    "model_max_length",
    "tokenizer_class",
}
"""With no other key than these in tokenizer_config.json, transformers takes tokenizer.json as it is."""


def check_strings(texts: Iterable[object]) -> None:
    """Refuse what no tokeniser takes.

    Raises:
        MexmaError: One is no string, or has what Python makes of other bytes in a command line.
    """
    for text in texts:
        if not isinstance(text, str):
            raise MexmaError(f"{text!r} is no sentence, which is a string")
        if re.search("[\ud800-\udfff]", text):
            raise MexmaError(f"{text!r} is not UTF-8", "is the terminal in another encoding?")


class Tokens:
    """A tokeniser.

    Args:
        backend: Of the tokenizers library, which does the work.
        load: Gives transformers' object around it.
        padding: Id of the padding token, if there is one.
        max_tokens: Length limit.
        keeps_end: Whether of a longer sentence the end is kept, not the beginning (`truncation_side: left`).
    """

    def __init__(
        self,
        backend: Tokenizer,
        load: Callable[[], PreTrainedTokenizerFast],
        padding: int | None,
        max_tokens: int,
        keeps_end: bool = False,
    ) -> None:
        self.backend = backend
        self._load = load
        self.padding = padding
        self.max_tokens = max_tokens
        self.keeps_end = keeps_end

    @classmethod
    def of(cls, tokenizer: PreTrainedTokenizerFast) -> Tokens:
        """Of one that is there."""
        backend, padding = tokenizer.backend_tokenizer, tokenizer.pad_token_id
        keeps_end = tokenizer.truncation_side == "left"
        return cls(backend, lambda: tokenizer, padding, tokenizer.model_max_length, keeps_end)

    @classmethod
    def plain(cls, folder: Path, load: Callable[[], PreTrainedTokenizerFast]) -> Tokens | None:
        """A folder's; None where transformers would not take tokenizer.json as it is, or cannot."""
        try:
            config = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8"))
            if not set(config) <= _SETTINGS or config["tokenizer_class"] != "TokenizersBackend":
                return None
            backend = Tokenizer.from_file(str(folder / "tokenizer.json"))
            added = backend.get_added_tokens_decoder()
            known = {token.content: id for id, token in added.items() if token.special}
            named = {config[name] for name in _SPECIAL if name in config}
            if backend.post_processor is None or backend.truncation or backend.padding or named - set(known):
                return None
            return cls(backend, load, known.get(config.get("pad_token")), int(config["model_max_length"]))
        except Exception:  # tokenizers raises plain Exception
            return None

    @classmethod
    def read(cls, folder: Path, load: Callable[[], PreTrainedTokenizerFast]) -> Tokens:
        """A folder's: `plain`, or else of what `load` gives."""
        return cls.plain(folder, load) or cls.of(load())

    def limit(self, name: str, stated: int | None) -> int:
        """Tokens of the longest sentence that the encoder `name` takes: what it states, or its tokeniser.

        Raises:
            MexmaError: The tokeniser has no room for a sentence.
        """
        limit = stated or self.max_tokens
        if not isinstance(limit, int | float) or limit < 2:
            raise MexmaError(f"{name!r}: model_max_length in tokenizer_config.json is {limit!r}")
        return int(limit)

    @cached_property
    def full(self) -> PreTrainedTokenizerFast:
        """Transformers' tokeniser, for training and for other programs' files."""
        return self._load()


def put_in_lower_case(backend: Tokenizer) -> None:
    """As sentence-transformers does for `do_lower_case`: before all else, unless it is done anyway.

    A second time it changes nothing.
    """
    steps = _steps(backend)
    done = any(isinstance(step, Lowercase) for step in steps)
    backend.normalizer = Sequence(steps if done else [Lowercase(), *steps])


def puts_in_lower_case(backend: Tokenizer) -> bool:
    """Whether it does so before all else, which a folder has to say apart.

    BERT's and RoBERTa's tokenisers lose that step when transformers reads them again.
    """
    return any(isinstance(step, Lowercase) for step in _steps(backend)[:1])


def _steps(backend: Tokenizer) -> list[Any]:
    """What it does to a text before it cuts it, step by step."""
    normalizer = backend.normalizer
    if isinstance(normalizer, Sequence):
        return [normalizer[i] for i in range(len(normalizer))]
    return [normalizer] if normalizer else []


def with_transformers(folder: str | Path, own_code: bool = False) -> PreTrainedTokenizerFast:
    """A folder's tokeniser as transformers reads it.

    Args:
        own_code: The folder's own Python code may be run.
    """
    from transformers import AutoTokenizer

    quieten()
    return AutoTokenizer.from_pretrained(folder, trust_remote_code=own_code)


def quieten() -> None:
    """Transformers' bars and reports are about files, not about the user's text."""
    from transformers.utils import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()
