"""The encoder as evaluations use it: kept vectors, languages that it takes, languages that it knows."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np
import xxhash

from mexma_cli import languages
from mexma_cli.errors import MexmaError, as_ours
from mexma_cli.files import clear, whole_file
from mexma_cli.numerics.machine import cache_folder
from mexma_cli.reporting.result import Result, describe
from mexma_cli.store.arrays import load_array
from mexma_cli.text.amounts import counted

if TYPE_CHECKING:
    from mexma_cli.encoder.encoder import SentenceEncoder

log = logging.getLogger(__name__)


def default_folder() -> Path | None:
    """`mexma/eval` in the user's cache folder; None: vectors are not kept, since the user has no home."""
    base = cache_folder()
    return base and base / "mexma" / "eval"


class Embed(Protocol):
    """A function as an `Embedder` is one."""

    def __call__(self, sentences: Sequence[str], language: str | None = None, /) -> np.ndarray:
        """From N sentences, in a language or in an unknown one, to their vectors, float32 [N, dim]."""


class Embedder:
    """An encoder whose vectors are kept in a folder, and found there if they are needed again.

    They are kept under a checksum of the text and all else that they depend on: the encoder's fingerprint,
    precision and prefix, and the language where the encoder takes it. A file is written whole or not at all;
    a damaged one is made again.

    Args:
        folder: None: nothing is kept.
        on_batch: As for `encoder.embed`; called once, with all sentences and 0 tokens, for vectors that
            were kept.
    """

    def __init__(
        self,
        encoder: SentenceEncoder,
        folder: Path | None = None,
        on_batch: Callable[[int, int], object] | None = None,
    ) -> None:
        self.encoder = encoder
        self.folder = folder
        self.on_batch = on_batch

    def __call__(
        self, sentences: Sequence[str], language: str | None = None, key_parts: Sequence[str] = ()
    ) -> np.ndarray:
        """The sentences' vectors, float32 [N, dim]; `key_parts` is what else they depend on. The language is
        in any spelling, None if it is not known; an encoder that has to know it, or has no token for it,
        refuses."""
        if self.encoder.takes_language:
            self.encoder.set_language(language and languages.resolve(language))
            key_parts = (*key_parts, self.encoder.language or "")
        if self.folder is None:
            return self.encoder.embed(sentences, self.on_batch)
        path = self.folder / f"{_key(self.encoder, sentences, key_parts)}.npy"
        kept = _read(path, (len(sentences), self.encoder.dim))
        if kept is not None:
            with suppress(OSError, MexmaError):  # a run was killed when it had just kept them
                clear(path)
            if self.on_batch:
                self.on_batch(len(sentences), 0)
            return kept
        vectors = self.encoder.embed(sentences, self.on_batch)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with whole_file(path) as file:
                np.save(file, vectors)
        except (OSError, MexmaError) as error:  # the measurement does not need it
            log.warning("vectors are not kept in %s: %s", self.folder, as_ours(error).message)
        return vectors

    def takes(self, language: str) -> bool:
        """Whether it embeds text in this language, in any spelling: SONAR has no token for some."""
        if not self.encoder.takes_language:
            return True
        try:
            self.encoder.set_language(languages.resolve(language))
        except MexmaError:
            return False
        return True

    @property
    def languages(self) -> tuple[str, ...]:
        """Languages that the encoder knows; () where that is not stated."""
        return self.encoder.languages

    def describe(self) -> dict[str, Any]:
        """`Result.encoder`."""
        return describe(self.encoder)


def _key(encoder: SentenceEncoder, sentences: Sequence[str], key_parts: Sequence[str]) -> str:
    digest = xxhash.xxh3_128()
    for part in (encoder.fingerprint, str(encoder.precision), encoder.prefix, *key_parts):
        # What is no UTF-8 in a prefix is refused by `embed`, with a message.
        digest.update(f"{len(part)} {part}".encode(errors="surrogatepass"))
    digest.update("\n".join(sentences).encode("utf-8"))  # a sentence is a line: it has no line end
    return digest.hexdigest()


def _read(path: Path, shape: tuple[int, int]) -> np.ndarray | None:
    try:
        vectors = load_array(path)
    except (OSError, ValueError):
        return None
    return vectors if vectors.shape == shape and vectors.dtype == np.float32 else None


COLUMN = "known"
_T = TypeVar("_T")


def taken(texts: Mapping[str, _T], embed: Embedder) -> dict[str, _T]:
    """The texts to measure, by language, without the languages that the encoder has no token for, which a
    warning names; some must be left."""
    lacking = [language for language in texts if not embed.takes(language)]
    if lacking:
        what = f"{embed.encoder.name!r} has no token for {counted(len(lacking), 'language')}"
        if len(lacking) == len(texts):
            raise MexmaError(f"{what}, and there are no others: {', '.join(lacking)}")
        log.warning("%s, left out: %s", what, ", ".join(lacking))
    return {language: text for language, text in texts.items() if language not in lacking}


def mark_unknown(result: Result, known: Sequence[str]) -> Result:
    """The result of a measurement by language, with what an encoder does in the languages that it knows.

    Args:
        result: Its rows have the key `language`.
        known: FLORES-200 codes of the languages on the encoder's card; (): nobody has said.

    Returns:
        The same result if the encoder knows all languages or nobody has said. Else rows say in their last
        column whether the language is known, and beside each score that is the mean of a column is the mean
        over the languages that are.
    """
    marks = ["yes" if languages.known(row["language"]) in known else "no" for row in result.rows]
    target = result.settings.get("target")
    if known and target is not None and languages.known(target) not in known:
        log.warning("the encoder does not know the target language, %s", target)
    if not known or "no" not in marks:
        return result
    log.info(
        "the encoder does not know %s of the %s languages, which are marked", marks.count("no"), len(marks)
    )
    scores = {}
    for score, mean in result.scores.items():
        scores[score] = mean
        if score in result.rows[0] and "yes" in marks:
            values = [row[score] for row, mark in zip(result.rows, marks, strict=True) if mark == "yes"]
            scores[f"{score}, known languages"] = fmean(values)
    rows = [row | {COLUMN: mark} for row, mark in zip(result.rows, marks, strict=True)]
    return replace(result, scores=scores, rows=rows)
