"""Whether the vectors of two embedding stores can be compared."""

from __future__ import annotations

import logging

from mexma_cli.errors import MexmaError
from mexma_cli.store.embeddings import EmbeddingStore

log = logging.getLogger(__name__)

RAW_FINGERPRINT = "unknown"
"""Encoder fingerprint of a store that was made from raw vectors."""
_ADVICE = "embed both texts with the same --model, --pooling, --max-tokens and --dim"
_RAW_ADVICE = "vectors from `mexma convert` can be compared with others from there, and with no text"


def check_comparable(source: EmbeddingStore, target: EmbeddingStore, any_prompts: bool = False) -> None:
    """Refuse stores whose vectors do not live in one space.

    Args:
        any_prompts: They may have been embedded with different prompts, as queries and passages.

    Raises:
        MexmaError: naming both dimensions, both encoders or both prompts.
    """
    if source.manifest.encoder == target.manifest.encoder and source.dim != target.dim:
        raise _of_other_dimensions(source, target)
    check_encoder(source, target.manifest.encoder, target.manifest.fingerprint, str(target.path))
    if source.dim != target.dim:
        raise _of_other_dimensions(source, target)
    if source.manifest.prefix != target.manifest.prefix and not any_prompts:
        said = [f"{store.manifest.prefix!r} for {store.path}" for store in (source, target)]
        raise MexmaError(
            f"different prompts: {', '.join(said)}",
            "embed both texts with the same --prompt; `mexma search` takes queries and passages",
        )
    if source.manifest.clean != target.manifest.clean:
        both = (source, target) if source.manifest.clean else (target, source)
        log.warning(
            "%s was embedded with --clean and %s was not: translations may be further apart",
            *(store.path for store in both),
        )


def _of_other_dimensions(source: EmbeddingStore, target: EmbeddingStore) -> MexmaError:
    return MexmaError(
        f"different dimensions: {source.path} has {source.dim}, {target.path} has {target.dim}", _ADVICE
    )


def check_encoder(store: EmbeddingStore, encoder: str, fingerprint: str, other: str) -> None:
    """Refuse a store whose vectors are not from the encoder that made, or is about to make, `other`.

    Raises:
        MexmaError: naming both encoders, and their fingerprints where the names are equal.
    """
    manifest = store.manifest
    if manifest.fingerprint == fingerprint:
        return
    names = (manifest.encoder, encoder)
    if names[0] == names[1]:
        names = (f"{names[0]} ({manifest.fingerprint[:12]})", f"{names[1]} ({fingerprint[:12]})")
    advice = _RAW_ADVICE if RAW_FINGERPRINT in (manifest.fingerprint, fingerprint) else _ADVICE
    raise MexmaError(f"different encoders: {names[0]} for {store.path}, {names[1]} for {other}", advice)
