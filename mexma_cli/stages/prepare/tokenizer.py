"""The tokeniser that `prepare` works with: the start encoder's, or one trained on the prepared text."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mexma_cli.encoder.loading.folder import check_whole, locate, written_aside
from mexma_cli.encoder.loading.settings import read_settings
from mexma_cli.encoder.loading.tokenizer import LazyTokenizer, put_in_lower_case, with_transformers
from mexma_cli.errors import MexmaError
from mexma_cli.files import read_json, write_json_atomic
from mexma_cli.objectives.bag.tokenizer import Weighed, train_tokenizer
from mexma_cli.settings.training import Recipe

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

log = logging.getLogger(__name__)

_NOTE = "training.json"


def tokenizer_path(recipe: Recipe) -> Path:
    """Where the tokeniser that `prepare` trained is."""
    return Path(recipe.data.store) / "tokenizer"


def load_tokenizer(where: str | Path) -> PreTrainedTokenizerFast:
    """A fast tokeniser from a folder.

    Raises:
        MexmaError: There is none, or it is not what was written.
    """
    check_whole(Path(where), _anew(where))
    try:
        tokenizer = with_transformers(where)
    except Exception as error:  # tokenizers raises plain Exception
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise MexmaError(
            f"no tokeniser in {str(where)!r}: {reason}",
            "if `mexma prepare` made it, delete it and run that again",
        ) from None
    if not getattr(tokenizer, "is_fast", False):
        raise MexmaError(f"{str(where)!r} has no fast tokeniser (tokenizer.json)")
    return tokenizer


def recipe_tokenizer(
    recipe: Recipe, settings: dict[str, Any], sentences: Callable[[], Iterator[Weighed]]
) -> LazyTokenizer:
    """The tokeniser that a recipe asks for; one that was trained with equal settings is taken again.

    Args:
        settings: All that decides the text; kept beside a trained tokeniser.
        sentences: Gives the text and its weights, as often as it is called.
    """
    wanted = recipe.encoder.tokenizer
    if recipe.encoder.start is not None or wanted is None:
        return _tokenizer_of(recipe.encoder.start or "mini", recipe.data.max_tokens)
    path = tokenizer_path(recipe)
    note = {"tokenizer": wanted.model_dump(), "text": settings}
    if (path / _NOTE).is_file() and read_json(path / _NOTE) == note:
        return read_tokenizer(path)
    if path.exists() and not (path / _NOTE).is_file():
        raise MexmaError(f"{path} is no tokeniser that mexma trained", "move it away, or change data.store")
    log.info("training a tokeniser of %s pieces", f"{wanted.vocabulary:,}")
    tokenizer = train_tokenizer(wanted, sentences)
    with written_aside(path) as aside:
        tokenizer.save_pretrained(aside)
        write_json_atomic(aside / _NOTE, note)
    return read_tokenizer(path)


def teachers_tokenizer(recipe: Recipe, tokenizer: str) -> tuple[str, str] | None:
    """The tokeniser of a recipe's teacher, and what that puts before every sentence.

    Args:
        tokenizer: The encoder's.

    Returns:
        None if there is no teacher, or if it reads text as the encoder does.
    """
    if recipe.teacher is None:
        return None
    found = as_text(_tokenizer_of(recipe.teacher, recipe.data.max_tokens), recipe.data.max_tokens)
    prefix = read_settings(locate(recipe.teacher)).prefix
    return None if found == tokenizer and not prefix else (found, prefix)


def as_text(tokens: LazyTokenizer, max_tokens: int) -> str:
    """A tokeniser as `tokenizers` writes it; it is cut to `max_tokens` if it keeps the end, and else not."""
    backend = tokens.unlimited
    if tokens.keeps_end:  # only the side is read from it
        backend.enable_truncation(max_tokens, direction="left")
    return str(backend.to_str())


def check_length(encoder: str, takes: int, wanted: int) -> None:
    """Refuse sentences (`data.max_tokens`) that are longer than an encoder takes."""
    if takes < wanted:
        raise MexmaError(
            f"data.max_tokens is {wanted}, and {encoder} takes {takes} tokens at most",
            f"set data.max_tokens to {takes} or less",
        )


def _tokenizer_of(encoder: str, max_tokens: int) -> LazyTokenizer:
    """The tokeniser that an encoder embeds with, if sentences of so many tokens are not too long for it."""
    settings = read_settings(locate(encoder))
    tokens = _read(settings.transformer)
    check_length(encoder, tokens.limit(encoder, settings.max_tokens), max_tokens)
    if settings.lower_case:
        put_in_lower_case(tokens.backend)
    return tokens


def read_tokenizer(folder: str | Path) -> LazyTokenizer:
    """A folder's tokeniser, without transformers if that is not needed."""
    check_whole(Path(folder), _anew(folder))
    return _read(folder)


def _read(folder: str | Path) -> LazyTokenizer:
    return LazyTokenizer.read(Path(folder), partial(load_tokenizer, folder))


def _anew(folder: str | Path) -> str:
    return f"delete {folder} and run `mexma prepare` again"
