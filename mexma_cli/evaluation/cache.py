"""Vectors of evaluation texts that are kept, so that the next measurement does not embed them again."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import xxhash

from mexma_cli.errors import MexmaError
from mexma_cli.files import whole_file

if TYPE_CHECKING:
    from mexma_cli.encoder.encoder import SentenceEncoder

log = logging.getLogger(__name__)


def default_folder() -> Path:
    """`mexma/eval` in the user's cache folder (XDG_CACHE_HOME, else ~/.cache)."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if base else Path.home() / ".cache") / "mexma" / "eval"


def embed_cached(
    encoder: SentenceEncoder,
    sentences: Sequence[str],
    key_parts: Sequence[str] = (),
    folder: Path | None = None,
    on_progress: Callable[[int, int], object] | None = None,
) -> np.ndarray:
    """`encoder.embed(sentences)`, from the folder if it has been done before, else kept there.

    What is kept goes by the encoder's fingerprint, precision and prefix, `key_parts` and a checksum of the
    text. A file is written whole or not at all; one that is damaged is made again.

    Args:
        key_parts: What else the vectors depend on, where the caller changed the encoder.
        folder: None: nothing is kept.
        on_progress: As for `embed`; called once, with all sentences and 0 tokens, for what was kept.

    Returns:
        float32 [N, dim].
    """
    if folder is None:
        return encoder.embed(sentences, on_progress)
    path = folder / f"{_key(encoder, sentences, key_parts)}.npy"
    kept = _read(path, (len(sentences), encoder.dim))
    if kept is not None:
        if on_progress:
            on_progress(len(sentences), 0)
        return kept
    vectors = encoder.embed(sentences, on_progress)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with whole_file(path) as file:
            np.save(file, vectors)
    except (OSError, MexmaError) as error:  # the measurement does not need it
        log.warning("warning: vectors are not kept in %s: %s", folder, error)
    return vectors


def _key(encoder: SentenceEncoder, sentences: Sequence[str], key_parts: Sequence[str]) -> str:
    digest = xxhash.xxh3_128()
    for part in (encoder.fingerprint, str(encoder.precision), encoder.prefix, *key_parts):
        # What is no UTF-8 in a prefix is refused by `embed`, with a message.
        digest.update(f"{len(part)} {part}".encode(errors="surrogatepass"))
    digest.update("\n".join(sentences).encode("utf-8"))  # a sentence is a line: it has no line end
    return digest.hexdigest()


def _read(path: Path, shape: tuple[int, int]) -> np.ndarray | None:
    try:
        vectors = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError):
        return None
    return vectors if vectors.shape == shape and vectors.dtype == np.float32 else None
