"""mexma: train cross-lingual sentence encoders and mine parallel text with them.

The public API is what `__all__` names. `import mexma_cli` imports nothing heavy: numpy, torch and the encoder
come with the first call that needs them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

# The functions `align` and `knn` have the names of folders. Python binds a subpackage to its name in the
# package once, when it is first imported: that is now, and the function then takes the name for good. The
# folders' modules are reached as everywhere here: `from mexma_cli.knn.exact import knn`.
import mexma_cli.align as _align  # noqa: F401
import mexma_cli.knn as _knn  # noqa: F401
from mexma_cli.api import (
    align,
    embed,
    evaluate,
    filter,
    knn,
    langid,
    mine,
    run,
    score,
    search,
    split,
    train,
    tune,
)
from mexma_cli.errors import MexmaError

if TYPE_CHECKING:
    from mexma_cli.encoder.encoder import SentenceEncoder
    from mexma_cli.store.embeddings import EmbeddingStore

__version__ = "0.1.0"

__all__ = [
    "EmbeddingStore",
    "MexmaError",
    "SentenceEncoder",
    "align",
    "embed",
    "evaluate",
    "filter",
    "knn",
    "langid",
    "mine",
    "run",
    "score",
    "search",
    "split",
    "train",
    "tune",
]

_CLASSES = {"EmbeddingStore": "mexma_cli.store.embeddings", "SentenceEncoder": "mexma_cli.encoder.encoder"}
"""Name -> the module that has it, imported when it is asked for."""


if not TYPE_CHECKING:  # a type checker knows the names above, and that there are no others

    def __getattr__(name: str) -> Any:
        if name not in _CLASSES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(_CLASSES[name]), name)


def __dir__() -> list[str]:
    return ["__version__", *__all__]
