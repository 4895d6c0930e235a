"""A model that the sentence-transformers library runs, where mexma has no code of its own for it."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from mexma_cli.encoder.model.transformer import LazyTransformer
from mexma_cli.errors import MexmaError

if TYPE_CHECKING:
    import torch
    from sentence_transformers import SentenceTransformer
    from transformers import PreTrainedModel

    from mexma_cli.encoder.model.families import Pooling

KIND = "sentence-transformers"
"""The model type of such an encoder."""
BATCH = 32
"""Sentences that are padded to one length, after sorting by length: the library's default."""
_TOGETHER = 32 * BATCH  # sentences that are sorted together, and after which progress is told


class LibraryModel(LazyTransformer):
    """All of a model of sentence-transformers, modules and all.

    Attributes:
        pooling: The modes of its Pooling; of a model without one, the names of its modules.
        normalised: Whether its vectors have length 1.
        settings: What its modules are, and how they are set.
    """

    def __init__(self, library: SentenceTransformer) -> None:
        self._library = library.eval()
        modules = [module for module in library.modules() if hasattr(module, "get_config_dict")]
        modes = [getattr(module, "pooling_mode", None) for module in modules]
        named = [mode if isinstance(mode, str) else "+".join(mode) for mode in modes if mode]
        kinds = [type(module).__name__ for module in library]
        self.pooling = cast("Pooling", "+".join(named) or "+".join(kinds))  # not only those that mexma knows
        self.normalised = kinds[-1] == "Normalize"
        described = [(type(module).__name__, module.get_config_dict()) for module in modules]
        self.settings = json.dumps(described, sort_keys=True, default=str)
        width = int(library.encode([""], prompt="", show_progress_bar=False).shape[1])
        self._config = SimpleNamespace(model_type=KIND, hidden_size=width)

    @property
    def library(self) -> SentenceTransformer:
        """The library's own object."""
        return self._library

    @property
    def model(self) -> PreTrainedModel:
        """None that mexma could run or train.

        Raises:
            MexmaError: Always.
        """
        raise MexmaError(
            "this encoder is run by the sentence-transformers library, and only embeds",
            "`mexma info` says which encoders mexma runs itself",
        )

    @property
    def config(self) -> Any:
        """Its `model_type`, and as `hidden_size` the length of its vectors."""
        return self._config

    @property
    def weights(self) -> dict[str, torch.Tensor]:
        """The tensors of all modules."""
        return self._library.state_dict()

    @property
    def stored(self) -> None:
        """None: its weights are tensors."""

    @property
    def arrays(self) -> None:
        """None: no engine of mexma's takes them."""

    @property
    def is_bert(self) -> bool:
        """False: it is computed by the library, whatever it is."""
        return False

    @property
    def is_static(self) -> bool:
        """False: it is computed by the library, whatever it is."""
        return False

    @property
    def first_position(self) -> int:
        """Not known, and not needed."""
        return 0

    @property
    def positions(self) -> int:
        """As many as its length limit allows."""
        return sys.maxsize

    @property
    def device(self) -> torch.device:
        """Where it computes."""
        return self._library.device

    def to(self, device: torch.device, dtype: torch.dtype) -> None:
        """Move and cast all weights."""
        self._library.to(device=device, dtype=dtype)

    def embed(
        self, sentences: Sequence[str], prompt: str, sizes: tuple[int, int], low: bool
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Rows and their vectors, float32.

        Args:
            prompt: Before every sentence.
            sizes: Tokens that a sentence is cut to, and sentences that are padded to one length.
            low: Compute products in bfloat16, on a processor.
        """
        import torch

        library: Any = self._library
        max_tokens, batch = sizes
        if library.max_seq_length is not None and library.max_seq_length > max_tokens:
            library.max_seq_length = max_tokens
        order = np.argsort([-len(sentence) for sentence in sentences], kind="stable")
        for start in range(0, len(order), _TOGETHER):
            rows = order[start : start + _TOGETHER]
            texts = [sentences[row] for row in rows]
            with torch.autocast("cpu", torch.bfloat16, enabled=low):
                found = library.encode(texts, prompt=prompt, batch_size=batch, show_progress_bar=False)
            yield rows, np.asarray(found, np.float32)
