"""Static encoders: folders of model2vec (potion), and sentence-transformers' StaticEmbedding.

The vector of a sentence is the mean of its tokens' vectors, without special tokens; zeros if it has none.
model2vec itself leaves out unknown tokens; sentence-transformers, and so mexma, does not.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from tokenizers import Tokenizer

from mexma_cli.encoder.loading.settings import FolderSettings, NotCovered
from mexma_cli.encoder.loading.tokenizer import LazyTokenizer, panic_as_message
from mexma_cli.encoder.loading.weights import FILES, damage_as_message, read_weights
from mexma_cli.encoder.model.bag import TokenVectors
from mexma_cli.encoder.model.families import TABLE
from mexma_cli.errors import MexmaError

if TYPE_CHECKING:
    import torch


def read_table(settings: FolderSettings) -> TokenVectors:
    """The token vectors, float32 [tokens, dim]. Refused: damaged ones, and (`NotCovered`) numbers that
    sentence-transformers may read in another way."""
    folder = settings.transformer
    weights = read_weights(folder)
    with damage_as_message(folder / FILES[0]):
        table = weights.get(TABLE, weights.get("embeddings"))
        if table is None or table.ndim != 2 or not table.numel():
            raise ValueError(f"it has no {TABLE} and no embeddings [tokens, dim]")
        rows, scales = weights.get("mapping"), weights.get("weights")
        if TABLE not in weights and rows is not None:
            table = table[rows.long()]
        if TABLE not in weights and scales is not None:
            table = table.float() * scales.float()[:, None]
    if not table.is_floating_point():
        raise NotCovered(f"{folder}: token vectors of the type {table.dtype} are not supported")
    return TokenVectors(np.ascontiguousarray(table.float().numpy()))


class StaticTokenizer(LazyTokenizer):
    """A tokeniser that puts no special tokens around a sentence."""

    @panic_as_message()
    def encode(self, texts: list[str]) -> list[np.ndarray]:
        """Token ids, int64, of texts of any length."""
        encodings = self.unlimited.encode_batch_fast(texts, add_special_tokens=False)
        return [np.asarray(encoding.ids, dtype=np.int64) for encoding in encodings]

    @property
    def special(self) -> tuple[int, int]:
        """None before and none behind a sentence."""
        return 0, 0


def read_static_tokenizer(name: str, settings: FolderSettings, vocabulary: int) -> StaticTokenizer:
    """The tokeniser of a static encoder; refused where it is damaged, or has more tokens than there are
    vectors."""
    path = settings.transformer / "tokenizer.json"
    if not path.is_file():
        raise MexmaError(f"{name!r} cannot be loaded as an encoder: it has no tokeniser (tokenizer.json)")
    try:
        with panic_as_message():
            backend = Tokenizer.from_file(str(path))
    except MexmaError:
        raise
    except Exception as error:  # tokenizers raises plain Exception
        raise MexmaError(f"{path} cannot be read: {error}", "fetch the folder anew") from None
    highest = max(backend.get_vocab(with_added_tokens=True).values(), default=0)
    if highest >= vocabulary:
        raise MexmaError(
            f"{name!r}: the tokeniser does not belong to the weights: it has token ids up to {highest:,}, "
            f"and there are {vocabulary:,} vectors",
            "take both from the same folder",
        )
    cut = backend.truncation or {}  # which sentence-transformers leaves on, as it does not for a transformer
    limit, keeps_end = cut.get("max_length", sys.maxsize), cut.get("direction") == "left"

    def no_object() -> Any:
        raise MexmaError("a static encoder has no tokeniser of transformers'", "it embeds, and is exported")

    return StaticTokenizer(backend, no_object, None, limit, keeps_end)


def save_table(where: Path, weights: dict[str, torch.Tensor], words: LazyTokenizer, limit: int) -> None:
    """Write what sentence-transformers' StaticEmbedding reads: token vectors, and the tokeniser, which cuts
    there."""
    from safetensors.torch import save_file

    save_file(weights, where / FILES[0], metadata={"format": "pt"})
    backend = words.unlimited
    if limit < sys.maxsize:
        backend.enable_truncation(limit, direction="left" if words.keeps_end else "right")
    backend.save(str(where / "tokenizer.json"))
