"""Encoders that the sentence-transformers library runs, because mexma has no code of its own for them."""

from __future__ import annotations

import json
import logging
import math
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from mexma_cli.encoder.loading import hub
from mexma_cli.encoder.loading.settings import (
    ELSEWHERE,
    NotCovered,
    check_fetches_nothing,
    check_no_adapter,
    code_names,
    read_json_object,
)
from mexma_cli.encoder.loading.tokenizer import LazyTokenizer, check_strings
from mexma_cli.encoder.loading.weights import missing, reason
from mexma_cli.encoder.model.transformer import EmbedBatch, Sentences, Weights, quieten_transformers
from mexma_cli.errors import MexmaError, installed_by

if TYPE_CHECKING:
    import torch
    from sentence_transformers import SentenceTransformer

    from mexma_cli.encoder.model.families import Pooling

log = logging.getLogger(__name__)

KIND = "sentence-transformers"
"""The model type of such an encoder."""


def load_by_library(
    name: str, where: Path, refusal: NotCovered, trust_remote_code: bool
) -> tuple[LibraryModel, LibraryTokenizer]:
    """A folder's model as the library makes it, in float32 on the processor; which is said in the log, with
    why mexma does not compute it (`refusal`). Refused: a library that is not installed or cannot load it
    either, missing weights, code from elsewhere."""
    check_no_adapter(where)
    check_fetches_nothing(where)
    try:
        from sentence_transformers import SentenceTransformer
    except ImportError:
        hint = f"sentence-transformers may run it: {installed_by('sentence-transformers')}"
        raise MexmaError(refusal.message, hint) from None
    import torch

    quieten_transformers()
    logging.getLogger("sentence_transformers").setLevel(logging.ERROR)
    try:
        _check_sizes(where)
        with _nothing_made_up():
            library = SentenceTransformer(
                str(where),
                device="cpu",
                trust_remote_code=trust_remote_code,
                local_files_only=True,
                model_kwargs={"dtype": torch.float32},
            )
        config = read_json_object(where / "config.json") or {}
        model = LibraryModel(library, config.get("lora_adaptations"))
    except Exception as error:  # the library, and a folder's own code, raise whatever they like
        raise MexmaError(
            refusal.message, f"sentence-transformers cannot load it either: {reason(error)}"
        ) from None
    log.info("%s: run by sentence-transformers, since mexma does not: %s", name, refusal.message)
    return model, LibraryTokenizer(model)


def _check_sizes(where: Path) -> None:
    """Refuse sizes that are not those of the weights before they take memory."""
    import torch
    from transformers import CONFIG_MAPPING, AutoModel

    from mexma_cli.encoder.model.hugging_face import config_of

    for path in where.rglob("config.json"):
        content = read_json_object(path) or {}
        kind = content.get("model_type")
        files = (file for kind in ("*.safetensors", "*.bin") for file in path.parent.glob(kind))
        stored = sum(file.stat().st_size for file in files)
        if not stored or not isinstance(kind, str) or kind not in CONFIG_MAPPING or "auto_map" in content:
            continue
        with torch.device("meta"):
            described = sum(part.numel() for part in AutoModel.from_config(config_of(content)).parameters())
        if described > 4 * stored + _SLACK:
            raise ValueError(
                f"config.json describes a model of {described:,} numbers; the weights have {stored:,} bytes"
            )


_SLACK = 1 << 22


@contextmanager
def _nothing_made_up() -> Iterator[None]:
    """Refuse a model for which transformers fills in some weights with random numbers.

    The library does not pass on what transformers says of it.
    """
    from transformers import PreTrainedModel

    loader = PreTrainedModel.__dict__["from_pretrained"]

    def from_pretrained(kind: Any, *given: Any, output_loading_info: bool = False, **named: Any) -> Any:
        model, report = loader.__func__(kind, *given, output_loading_info=True, **named)
        absent = [key for key in missing(report) if not key.startswith("pooler.")]
        if absent:
            raise ValueError(f"{len(absent)} weights are missing or have another shape, such as {absent[0]}")
        return (model, report) if output_loading_info else model

    PreTrainedModel.from_pretrained = classmethod(from_pretrained)
    try:
        yield
    finally:
        PreTrainedModel.from_pretrained = loader


@contextmanager
def with_code(where: Path, revision: str | None) -> Iterator[Path]:
    """A folder in which code of other pages of the hub, at a commit, lies beside the rest, as long as it is
    being loaded; without a revision the folder as it is. Refused: code that cannot be fetched, and two files
    of one name."""
    texts = {path: path.read_text("utf-8") for path in code_names(where)} if revision else {}
    pages = {found[1] for text in texts.values() for found in ELSEWHERE.finditer(text)}
    if revision is None or not pages:
        yield where
        return
    with tempfile.TemporaryDirectory(prefix="mexma-") as made:
        folder = Path(made) / where.name
        folder.mkdir()
        for path in sorted(where.rglob("*")):
            target = folder / path.relative_to(where)
            if path.is_dir():
                target.mkdir()
            elif path in texts:
                target.write_text(ELSEWHERE.sub(r'"\2"', texts[path]), "utf-8")
            else:
                target.symlink_to(os.path.abspath(path))
        for page in sorted(pages):
            for file in sorted(hub.fetch_code(page, revision).glob("*.py")):
                if (folder / file.name).exists():
                    raise MexmaError(f"{where}: {file.name} is there, and is on the page {page}, too")
                (folder / file.name).symlink_to(file.resolve())
        yield folder


class LibraryModel(Weights):
    """A model of sentence-transformers with all of its modules.

    Args:
        adapters: Names of the tasks that its module takes, as the folder has them (jina-embeddings-v3).

    Attributes:
        turn: Held by whoever uses it, which is not for several threads at once.
        pooling: The modes of its Pooling; of a model without one, the names of its modules.
    """

    library: SentenceTransformer
    pools = True
    computed_by = "the sentence-transformers library, sentences padded"

    def __init__(self, library: SentenceTransformer, adapters: object) -> None:
        from sentence_transformers.base.modules import Router

        self.library, self.turn = library.eval(), Lock()
        library.truncate_dim = None  # `SentenceEncoder` does that
        modules = [module for module in library.modules() if hasattr(module, "get_config_dict")]
        modes = [getattr(module, "pooling_mode", None) for module in modules]
        named = [mode if isinstance(mode, str) else "+".join(mode) for mode in modes if mode]
        kinds = [type(module).__name__ for module in library]
        self.pooling = cast("Pooling", "+".join(named) or "+".join(kinds))  # not only those that mexma knows
        self.normalised = kinds[-1] == "Normalize"
        described = [(type(module).__name__, module.get_config_dict()) for module in modules]
        self.settings = json.dumps(described, sort_keys=True, default=str)
        routes = [name for module in modules if isinstance(module, Router) for name in module.sub_modules]
        if isinstance(adapters, list) and "task" in library.get_model_kwargs():
            routes += map(str, adapters)
        self.tasks = tuple(routes)
        width = int(library.encode(["a"], prompt="", show_progress_bar=False).shape[1])
        self._config = SimpleNamespace(model_type=KIND, hidden_size=width)

    @property
    def config(self) -> Any:
        """The model's `model_type`, and the length of its vectors as `hidden_size`."""
        return self._config

    @property
    def weights(self) -> dict[str, torch.Tensor]:
        """The tensors of all modules."""
        return self.library.state_dict()

    @property
    def device(self) -> torch.device:
        return self.library.device

    def to(self, device: torch.device, dtype: torch.dtype) -> None:
        self.library.to(device=device, dtype=dtype)

    def embedding(self, prefix: str, max_tokens: int, most: int | None, low: bool) -> EmbedBatch:
        return LibraryEncoder(self, prefix, max_tokens, most or 32, low).embed  # 32 is its default


@dataclass
class LibraryEncoder:
    """Vectors by the library (`Weights.embedding`), in batches that are padded after sorting by length."""

    model: LibraryModel
    prefix: str
    max_tokens: int
    batch: int
    low: bool

    def embed(self, some: Sentences) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Rows and vectors (`transformer.EmbedBatch`), batch by batch.

        The batches are the library's own: with some models the vector of a text depends on the padding, and
        so on the others. A batch of texts without tokens gets another text, since many models refuse it.
        """
        order = np.argsort([-len(sentence) for sentence in some.texts])  # not stable, as the library's
        for start in range(0, len(order), self.batch):
            rows = order[start : start + self.batch]
            beside = [] if any(len(some.tokens[row]) for row in rows) else ["a"]
            texts = [some.texts[row] for row in rows]
            yield rows, self._vectors([*texts, *beside])[: len(rows)]

    def _vectors(self, texts: list[str]) -> np.ndarray:
        import torch

        library = self.model.library
        named = {} if self.model.task is None else {"task": self.model.task}
        with self.model.turn, torch.autocast("cpu", torch.bfloat16, enabled=self.low):
            limit = library.max_seq_length
            lowered = limit is not None and self.max_tokens < limit < math.inf  # that of StaticEmbedding
            try:
                if lowered:
                    library.max_seq_length = self.max_tokens
                given = {"prompt": self.prefix, "batch_size": len(texts), **named}
                found = library.encode(texts, show_progress_bar=False, **given)
            finally:
                if lowered:
                    library.max_seq_length = limit
        return np.asarray(found, np.float32)


class LibraryTokenizer(LazyTokenizer):
    """The tokeniser of such a model, whatever it is: for counting, and for the fingerprint."""

    def __init__(self, model: LibraryModel) -> None:
        library, self._turn = model.library, model.turn
        self._tokenizer: Any = getattr(library[0], "tokenizer", None)
        self.keeps_end = False
        self.max_tokens = int(min(library.max_seq_length or sys.maxsize, sys.maxsize))

    def hash_into(self, digest: Any) -> None:
        """Put its vocabulary into a hash, and of a fast one all else."""
        backend = getattr(self._tokenizer, "backend_tokenizer", self._tokenizer)
        if hasattr(backend, "to_str"):
            digest.update(backend.to_str().encode())
        elif hasattr(backend, "get_vocab"):
            vocabulary = backend.get_vocab()
            digest.update(json.dumps(vocabulary, sort_keys=True, default=str).encode())

    def encode(self, texts: list[str]) -> list[np.ndarray]:
        """Token ids of texts of any length; without a tokeniser, none."""
        from tokenizers import Tokenizer
        from transformers import PreTrainedTokenizerBase

        check_strings(texts)
        found: list[Any] = [[]] * len(texts)
        with self._turn:
            if isinstance(self._tokenizer, Tokenizer):
                encoded = self._tokenizer.encode_batch(texts, add_special_tokens=False)
                found = [one.ids for one in encoded]
            elif isinstance(self._tokenizer, PreTrainedTokenizerBase) and texts:
                found = self._tokenizer(texts, truncation=False, padding=False)["input_ids"]
            elif hasattr(self._tokenizer, "tokenize"):
                found = [self._tokenizer.tokenize(text) for text in texts]
        return [np.asarray(ids, dtype=np.int64) for ids in found]

    def cut(self, ids: np.ndarray, length: int) -> np.ndarray:
        return ids[:length]
