"""Folders that the sentence-transformers library loads, because mexma has no code of its own for them."""

from __future__ import annotations

import json
import logging
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
from mexma_cli.encoder.loading.weights import reason, weight_files
from mexma_cli.encoder.model.library import LibraryModel
from mexma_cli.encoder.quiet import quieten_transformers
from mexma_cli.errors import MexmaError, installed_by

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

log = logging.getLogger(__name__)


def load_by_library(
    name: str, where: Path, refusal: NotCovered, trust_remote_code: bool
) -> tuple[LibraryModel, LibraryTokenizer]:
    """A folder's model as the library makes it, in float32 on the processor; which is said in the log.

    Args:
        refusal: Why mexma does not compute it.
        trust_remote_code: Run the folder's own Python code.

    Raises:
        MexmaError: The library is not installed, or cannot load it either; some weights are missing; it would
            take code from elsewhere.
    """
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
        library = SentenceTransformer(
            str(where),
            device="cpu",
            trust_remote_code=trust_remote_code,
            local_files_only=True,
            model_kwargs={"dtype": torch.float32},
        )
        _check_weights(library, trust_remote_code)
        model = LibraryModel(library)
    except Exception as error:  # the library, and a folder's own code, raise whatever they like
        raise MexmaError(
            refusal.message, f"sentence-transformers cannot load it either: {reason(error)}"
        ) from None
    log.info("%s: run by sentence-transformers, since mexma does not: %s", name, refusal.message)
    return model, LibraryTokenizer(library)


def _check_sizes(where: Path) -> None:
    """Refuse sizes that are not those of the weights before they take memory.

    Raises:
        ValueError: A config.json describes a model that is much larger than the weights beside it.
    """
    import torch
    from transformers import CONFIG_MAPPING, AutoModel

    from mexma_cli.encoder.model.hugging_face import config_of

    for path in where.rglob("config.json"):
        content = read_json_object(path) or {}
        kind = content.get("model_type")
        stored = sum(file.stat().st_size for file in weight_files(path.parent))
        if not stored or not isinstance(kind, str) or kind not in CONFIG_MAPPING or "auto_map" in content:
            continue
        with torch.device("meta"):
            described = sum(part.numel() for part in AutoModel.from_config(config_of(content)).parameters())
        if described > 4 * stored + _SLACK:
            raise ValueError(
                f"config.json describes a model of {described:,} numbers; the weights have {stored:,} bytes"
            )


_SLACK = 1 << 22


def _check_weights(library: SentenceTransformer, trust_remote_code: bool) -> None:
    """Refuse a model of which transformers has filled in some weights with random numbers.

    It is loaded a second time for it: the library does not pass on what transformers says of it.

    Raises:
        ValueError: There are such weights.
    """
    from transformers import PreTrainedModel

    found = [module for module in library.modules() if isinstance(module, PreTrainedModel)]
    inner = {id(part) for module in found for part in list(module.modules())[1:]}
    for module in found:
        where = Path(module.config.name_or_path)
        if id(module) in inner or not where.is_dir():
            continue
        loader: Any = type(module)
        _, report = loader.from_pretrained(
            where, config=module.config, output_loading_info=True, trust_remote_code=trust_remote_code
        )
        absent = sorted([*report["missing_keys"], *(key for key, *_ in report["mismatched_keys"])])
        if absent := [key for key in absent if not key.startswith("pooler.")]:
            raise ValueError(f"{len(absent)} weights are missing or have another shape, such as {absent[0]}")


@contextmanager
def with_code(where: Path, revision: str | None) -> Iterator[Path]:
    """A folder in which code of other pages of the hub lies beside the rest, as long as it is being loaded.

    Args:
        revision: The commit at which that code is taken; None: the folder stays as it is.

    Raises:
        MexmaError: The code cannot be fetched, or two files have the same name.
    """
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


class LibraryTokenizer(LazyTokenizer):
    """The tokeniser of such a model, whatever it is: for counting, and for the fingerprint."""

    def __init__(self, library: SentenceTransformer) -> None:
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
        if isinstance(self._tokenizer, Tokenizer):
            encoded = self._tokenizer.encode_batch(texts, add_special_tokens=False)
            found = [one.ids for one in encoded]
        elif isinstance(self._tokenizer, PreTrainedTokenizerBase) and texts:
            found = self._tokenizer(texts, truncation=False, padding=False)["input_ids"]
        elif hasattr(self._tokenizer, "tokenize"):
            found = [self._tokenizer.tokenize(text) for text in texts]
        return [np.asarray(ids, dtype=np.int64) for ids in found]

    def cut(self, ids: np.ndarray, length: int) -> np.ndarray:
        """As many of the first ids."""
        return ids[:length]
