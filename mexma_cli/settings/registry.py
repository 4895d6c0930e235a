"""The objectives that a recipe may name. Each is a class of settings, registered under its name.

The package's own are the folders of `mexma_cli/objectives`: importing a folder's `settings.py`, which needs
no torch, registers it. There is no other list of them. A user's own come from a file (`load_plugin`).
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar, Self, TypeVar

from mexma_cli.errors import MexmaError
from mexma_cli.files import refuse_pipe
from mexma_cli.settings.section import Section

_SYSTEMS = "mexma_cli.objectives"
_registered: dict[str, type[Registered]] = {}


@dataclass(frozen=True)
class Shape:
    """The shape of a transformer of BERT's kind; `positions` and `types` are rows of its other embeddings."""

    layers: int
    width: int
    ffn: int
    vocabulary: int
    positions: int = 514
    types: int = 1

    @property
    def products(self) -> int:
        """Weights of a layer's matrices: attention and feed-forward part."""
        return 4 * self.width**2 + 2 * self.width * self.ffn

    @property
    def of_layer(self) -> int:
        """Parameters of a layer, with biases and two LayerNorms."""
        return self.products + 9 * self.width + self.ffn

    @property
    def embeddings(self) -> int:
        """Parameters before the layers."""
        return (self.vocabulary + self.positions + self.types + 2) * self.width

    @property
    def parameters(self) -> int:
        """All parameters of the encoder, without a pooler."""
        return self.embeddings + self.layers * self.of_layer

    @property
    def vocabulary_head(self) -> int:
        """Parameters of a head of BERT's kind over the tokens, with the word embeddings of another."""
        return self.width**2 + 3 * self.width + self.vocabulary


@dataclass(frozen=True)
class Pass:
    """Layers of a shape over sequences of so many sentences, so many for each pair of these; `trained`: with
    a backward pass, which computes twice as much as the forward pass."""

    shape: Shape
    sequences: float
    sentences: int = 1
    trained: bool = True

    def tokens(self, length: float) -> float:
        """Tokens of a pair whose sentences have `length` tokens each."""
        return self.sequences * self.sentences * length

    def forward(self, length: float) -> float:
        """Operations (a multiplication and an addition are two): two a weight and token, and `attention`."""
        return self.shape.layers * self.tokens(length) * 2 * self.shape.products + self.attention(length)

    def attention(self, length: float) -> float:
        """Operations of a pair in the products of queries, keys and values."""
        a_token = 4 * self.sentences * length * self.shape.width
        return self.shape.layers * self.tokens(length) * a_token


@dataclass(frozen=True)
class Work:
    """The operations of an objective for a pair, and the parameters that it trains beside the encoder.

    Attributes:
        passes: Of the encoder, heads and teachers.
        guessed: Sentences of which every token is compared with the whole vocabulary; a share of them counts
            as a share.
        heads: Parameters that are trained beside the encoder's.
        frozen: Parameters that are there and not trained.
    """

    passes: tuple[Pass, ...]
    guessed: float = 0.0
    heads: int = 0
    frozen: int = 0

    def forward(self, length: float) -> float:
        """Operations of a pair's forward passes."""
        return sum(one.forward(length) for one in self.passes) + self._logits(length)

    def training(self, length: float) -> float:
        """Operations of a pair's forward and backward passes."""
        passes = sum((3 if one.trained else 1) * one.forward(length) for one in self.passes)
        return passes + 3 * self._logits(length)

    def _logits(self, length: float) -> float:
        shape = self.passes[0].shape
        return 2 * self.guessed * length * shape.width * shape.vocabulary


class Registered(Section):
    """A section whose `name` decides which class it is."""

    name: str
    """Chooses this objective."""
    _losses: ClassVar[type | str] = ""

    @classmethod
    def kinds(cls) -> dict[str, type[Section]]:
        """The registered classes that this one stands for, by name."""
        return {name: found for name, found in sorted(registered().items()) if issubclass(found, cls)}

    @classmethod
    def chosen(cls, raw: Any) -> Self:
        """The registered class that the key `name` says, with the keys as its values: the `PlainValidator` of
        fields of this type."""
        if isinstance(raw, cls):
            return raw
        if not isinstance(raw, dict):
            raise ValueError("should be a section, with `key: value` lines")
        if "name" not in raw:
            raise ValueError("`name` is missing")
        known, name = cls.kinds(), str(raw["name"])
        if name not in known:
            names = ", ".join(known)
            raise ValueError(f"`name` is {name!r}, none of {names}, or an objective of a --plugin FILE")
        found: Self = known[name].model_validate(raw)  # pyrefly: ignore[bad-assignment]
        return found

    @classmethod
    def losses(cls) -> Any:
        """The class that has the losses; what is registered by its place is imported now."""
        if not isinstance(cls._losses, str):
            return cls._losses
        module, _, name = cls._losses.partition(":")
        return getattr(importlib.import_module(module), name)


class ObjectiveSettings(Registered):
    """Settings of an objective that trains an encoder on pairs of sentences (`objectives.base.Objective`)."""

    def work(self, shape: Shape) -> Work | None:
        """The operations of a pair with an encoder of this shape; None where nobody has counted them."""
        return None


class DecomposerSettings(Registered):
    """Settings of an objective that trains two maps of stored vectors."""


S = TypeVar("S", bound=type[Registered])


def objective(name: str, losses: type | str) -> Callable[[S], S]:
    """Register a class of settings under the name that recipes call it by, with the class that has the losses
    or its place, `module:Class`, so that torch is not imported before it is needed. Refused if another
    objective has the name, or if the class is not derived from one of the two above."""

    def register(settings: S) -> S:
        if not issubclass(settings, Registered):
            raise MexmaError(f"{settings.__name__} is no subclass of ObjectiveSettings or DecomposerSettings")
        if name in _registered:
            raise MexmaError(f"there is an objective {name!r} already ({_registered[name].__module__})")
        settings._losses = losses
        _registered[name] = settings
        return settings

    return register


def registered() -> dict[str, type[Registered]]:
    """All objectives' settings by name, the package's own and those of plugins."""
    for found in pkgutil.iter_modules([str(Path(__file__).parent.parent / "objectives")]):
        if found.ispkg:
            importlib.import_module(f"{_SYSTEMS}.{found.name}.settings")
    return _registered


def load_plugin(path: str | Path) -> None:
    """Run a Python file, so that recipes may name the objectives that it registers; see `run_plugin`."""
    how = 'above the class of its settings: @objective("NAME", Class), from mexma_cli.settings.registry'
    run_plugin(path, registered(), lambda settings: settings.__module__, "objective", how)


def run_plugin(
    path: str | Path, known: dict[str, Any], module_of: Callable[[Any], str], what: str, how: str
) -> None:
    """Run a Python file that registers something of the user's own (`what`, and `how`, for messages) in a
    registry by name; `module_of` tells the name of the module that a thing was registered in.

    It is run again each time, and what it registers takes the place of what it registered before. Refused: no
    such file, one that does not run (the message has the line) or registers nothing, a name that another has.
    """
    file = Path(path)
    refuse_pipe(file)
    if not file.is_file():
        raise MexmaError(
            f"--plugin {path}: no such file", f"it is a Python file that registers one {what} or more"
        )
    name = str(file.resolve())
    for before in [key for key, one in known.items() if module_of(one) == name]:
        del known[before]
    module = ModuleType(name)
    module.__file__ = name
    sys.modules[name] = module  # where pydantic looks for what the types of fields are called
    try:
        exec(compile(file.read_bytes(), name, "exec", dont_inherit=True), vars(module))
    except Exception as error:
        said = " ".join(str(error).split())
        reason = said if isinstance(error, MexmaError) else f"{type(error).__name__}: {said}"
        raise MexmaError(f"--plugin {path}{line_of_error(error, name)}: {reason}") from error
    if name not in map(module_of, known.values()):
        raise MexmaError(f"--plugin {path} registers no {what}", how)


def line_of_error(error: Exception, file: str) -> str:
    """The line of the file that did not run."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    if isinstance(error, SyntaxError) and error.filename == file:
        lines.append(error.lineno)
    return f", line {lines[-1]}" if lines else ""
