"""The tokeniser that `prepare` works with: the start encoder's, or one trained on the prepared text."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import xxhash
from tokenizers import Tokenizer

from mexma_cli.encoder.loading.folder import check_whole, locate, written_aside
from mexma_cli.encoder.loading.settings import read_settings
from mexma_cli.encoder.loading.tokenizer import (
    LazyTokenizer,
    panic_as_message,
    put_in_lower_case,
    with_transformers,
)
from mexma_cli.errors import MexmaError
from mexma_cli.evaluation.augment import negatives_of
from mexma_cli.files import read_json, write_json_atomic
from mexma_cli.objectives.bag.tokenizer import Weighed, train_tokenizer
from mexma_cli.settings.training import Corpus, Data, Recipe
from mexma_cli.store.pairs import ExtraSentences

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

log = logging.getLogger(__name__)

_NOTE = "training.json"


def tokenizer_path(recipe: Recipe) -> Path:
    """Where the tokeniser that `prepare` trained is."""
    return Path(recipe.data.store) / "tokenizer"


def load_fast_tokenizer(where: str | Path) -> PreTrainedTokenizerFast:
    """A fast tokeniser from a folder."""
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
    """The tokeniser that a recipe asks for; one that was trained with equal settings, which decide the text
    and are kept beside it, is taken again. `sentences` gives the text and its weights, as often as it is
    called."""
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
    """The tokeniser of a recipe's teacher, and what that puts before every sentence; None if there is no
    teacher, or if it reads text as the encoder does, whose `tokenizer` this is."""
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
    return LazyTokenizer.read(Path(folder), partial(load_fast_tokenizer, folder))


def _anew(folder: str | Path) -> str:
    return f"delete {folder} and run `mexma prepare` again"


Ids = list[int]
SEED = 42
"""Seed of the hard negatives that are made, and of the choice among them."""
Text = tuple[str, str, str]
"""Source, target, and what a tsv has behind them."""


class Tokens:
    """A tokeniser of the tokenizers library (which does not cut) that cuts sentences to `max_tokens` with <s>
    and </s>, or keeps their ends, and counts in `cuts` how many were longer."""

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
        """Ids of sentences, cut to the longest length that is taken."""
        self.cuts += sum(len(ids) > self._limit for ids in sentences)
        return [ids[self._kept] for ids in sentences]


@lru_cache(maxsize=2)
def load_backend(text: str) -> tuple[Any, bool, str]:
    """From a file's text: a tokeniser that does not cut, whether it would keep the end, its fingerprint."""
    backend = Tokenizer.from_str(text)
    keeps_end = backend.truncation is not None
    backend.no_truncation()
    return backend, keeps_end, xxhash.xxh3_128_hexdigest(text.encode())


class HardNegatives:
    """Hard negatives of one corpus: made by rule, or read from further columns. `counts` has how many are
    `kept`, and `alike`: left out because their tokens are their target's."""

    def __init__(self, data: Data, corpus: Corpus, tokens: Tokens) -> None:
        self._most, self._from_columns = data.negatives, corpus.negatives == "columns"
        self._tokens = tokens
        self.extra = ExtraSentences(each=data.negatives, vocabulary=tokens.vocabulary)
        self.counts = Counter(kept=0, alike=0)

    def of(self, batch: Sequence[Text], targets: Sequence[Ids]) -> list[list[Ids]]:
        """Token ids of each target's hard negatives; none is the target, or there twice. Names that stand in
        for others are the batch's own, so that the text need not be in memory."""
        texts = [own[: self._most] for own in self._texts(batch)]
        ids = iter(self._tokens.cut(self._tokens.of(chain.from_iterable(texts))))
        kept: list[list[Ids]] = []
        for target, own in zip(targets, texts, strict=True):
            different = {tuple(one): one for one in islice(ids, len(own)) if one and one != target}
            kept.append(list(different.values()))
            self.counts["kept"] += len(different)
            self.counts["alike"] += len(own) - len(different)
        return kept

    def _texts(self, batch: Sequence[Text]) -> Iterator[list[str]]:
        if self._from_columns:
            columns = ([column.strip() for column in further.split("\t")] for _, _, further in batch)
            return (list(filter(None, found)) for found in columns)
        made = negatives_of([target for _, target, _ in batch], self._most, SEED)
        return (made.get(target, []) for _, target, _ in batch)


@dataclass(frozen=True)
class Teacher:
    """A teacher that reads the targets otherwise than the encoder does: the file of its tokeniser, as
    `tokenizers` reads it, the digest of that, and what it has before every sentence."""

    tokenizer: Path
    digest: str
    prefix: str


class TeachersTargets:
    """The targets in a teacher's tokens."""

    def __init__(self, teacher: Teacher, max_tokens: int) -> None:
        backend, keeps_end, _ = load_backend(teacher.tokenizer.read_text(encoding="utf-8"))
        self._tokens, self._prefix = Tokens(backend, keeps_end, max_tokens), teacher.prefix
        self.extra = ExtraSentences(vocabulary=self._tokens.vocabulary)

    def of(self, batch: Sequence[Text], targets: Sequence[Ids]) -> list[list[Ids]]:
        """The ids of sentences, one sentence a pair."""
        texts = (self._prefix + target for _, target, _ in batch)
        return [[ids] for ids in self._tokens.cut(self._tokens.of(texts))]
