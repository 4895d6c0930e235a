"""Sentences to token ids of a limited length, and the extra columns of pairs: hard negatives of the targets,
and the targets as a teacher reads them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, islice
from pathlib import Path
from typing import Any

import xxhash
from tokenizers import Tokenizer

from mexma_cli.encoder.loading.tokenizer import panic_as_message
from mexma_cli.evaluation.augment import negatives_of
from mexma_cli.settings.training import Corpus, Data
from mexma_cli.store.pairs import ExtraSentences

Ids = list[int]
SEED = 42
"""Seed of the hard negatives that are made, and of the choice among them."""
Text = tuple[str, str, str]
"""Source, target, and what a tsv has behind them."""


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


class HardNegatives:
    """Hard negatives of one corpus: made by rule, or read from further columns.

    Args:
        tokens: The tokeniser of the pairs.

    Attributes:
        counts: How many are `kept`; and `alike`, left out because their tokens are their target's.
    """

    def __init__(self, data: Data, corpus: Corpus, tokens: Tokens) -> None:
        self._most, self._from_columns = data.negatives, corpus.negatives == "columns"
        self._tokens = tokens
        self.part = ExtraSentences(each=data.negatives, vocabulary=tokens.vocabulary)
        self.counts = Counter(kept=0, alike=0)

    def of(self, batch: Sequence[Text], targets: Sequence[Ids]) -> list[list[Ids]]:
        """Token ids of each target's hard negatives; none is the target, or there twice.

        Names that stand in for others are the batch's own, so that the text need not be in memory.
        """
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
    """A teacher that reads the targets otherwise than the encoder does.

    Attributes:
        tokenizer: Its tokeniser, a file as `tokenizers` reads it.
        digest: Of that file.
        prefix: What it has before every sentence.
    """

    tokenizer: Path
    digest: str
    prefix: str


class TeachersTargets:
    """The targets in a teacher's tokens."""

    def __init__(self, teacher: Teacher, max_tokens: int) -> None:
        backend, keeps_end, _ = load_backend(teacher.tokenizer.read_text(encoding="utf-8"))
        self._tokens, self._prefix = Tokens(backend, keeps_end, max_tokens), teacher.prefix
        self.part = ExtraSentences(vocabulary=self._tokens.vocabulary)

    def of(self, batch: Sequence[Text], targets: Sequence[Ids]) -> list[list[Ids]]:
        """Their ids, one sentence a pair."""
        texts = (self._prefix + target for _, target, _ in batch)
        return [[ids] for ids in self._tokens.cut(self._tokens.of(texts))]
