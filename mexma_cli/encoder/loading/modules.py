"""modules.json and the folders of Dense modules, as sentence-transformers reads and writes them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mexma_cli.encoder.loading import pq
from mexma_cli.encoder.loading.folder import NGRAMS_FILE
from mexma_cli.encoder.loading.settings import OWN_TRANSFORMER, FolderSettings, NotCovered, write_json
from mexma_cli.encoder.loading.weights import FILES, read_weights, reason
from mexma_cli.encoder.model.families import POOLING_KEYS, Pooling
from mexma_cli.errors import MexmaError

if TYPE_CHECKING:
    import torch

    from mexma_cli.encoder.model.pooling import Dense

ACTIVATIONS = ("Tanh", "Identity", "GELU", "ReLU")
"""The activations of torch.nn that may stand behind a Dense layer."""


def is_only_ours(folder: Path) -> bool:
    """Whether other libraries cannot honour what is in an encoder's folder: n-grams, or `pq` weights."""
    return any((folder / name).is_file() for name in (pq.FILE, NGRAMS_FILE))


def load_modules(
    name: str, settings: FolderSettings, width: int, pooler: Dense | None
) -> list[torch.nn.Module]:
    """The modules after the pooling of the encoder `name`, whose hidden states have this width: its pooler,
    if it has one here, Dense, Normalize. One that does not take the vectors that come to it is refused."""
    if pooler is None and not settings.modules:
        return []
    from mexma_cli.encoder.model.pooling import Normalize, check_widths

    modules: list[torch.nn.Module] = [] if pooler is None else [pooler]
    for kind, path, config in settings.modules:
        modules.append(load_dense(path, config) if kind == "Dense" else Normalize())
    check_widths(name, width, modules)
    return modules


def load_dense(folder: Path, config: dict[str, Any]) -> Dense:
    """A Dense module from its folder and its config.json, in float32. Refused: an activation that is not
    supported (`NotCovered` for one of torch's), and weights that are missing, damaged or of another shape."""
    import torch

    from mexma_cli.encoder.model.pooling import Dense

    name = str(config.get("activation_function", "torch.nn.modules.activation.Tanh"))
    kind = name.rpartition(".")[2]
    if not name.startswith("torch.nn.") or kind not in ACTIVATIONS:
        raise (NotCovered if name.startswith("torch.nn.") else MexmaError)(
            f"{folder}: the activation {name!r} is not supported", f"{', '.join(ACTIVATIONS)} of torch.nn are"
        )
    try:
        sizes = int(config["in_features"]), int(config["out_features"])
    except (KeyError, TypeError, ValueError, OverflowError):
        raise MexmaError(f"{folder}: config.json does not say in_features and out_features") from None
    weights = {key.removeprefix("linear."): tensor.float() for key, tensor in read_weights(folder).items()}
    try:
        with torch.device("meta"):  # sizes that are not those of the weights take no memory
            linear = torch.nn.Linear(*sizes, bias=bool(config.get("bias", True)))
        linear.load_state_dict(weights, assign=True)
    except (RuntimeError, TypeError, ValueError, ArithmeticError) as error:
        why = reason(error, last=True)
        raise MexmaError(f"{folder}: weights and config.json do not belong together: {why}") from None
    return Dense(linear, getattr(torch.nn, kind)())


def save_modules(
    where: Path, pooling: Pooling | None, width: int, modules: Sequence[Any], dtype: torch.dtype
) -> None:
    """Write modules.json and the modules' folders as sentence-transformers reads them.

    The pooler is written as a pooling of the first token and a Dense. If `is_only_ours`, the transformer is a
    module of mexma's, which sentence-transformers loads with `trust_remote_code`, and refuses without.
    Without a pooling it is a static encoder, whose first module pools. The width is that of the transformer's
    hidden states, and the type that of the stored weights.
    """
    first = ["StaticEmbedding"] if pooling is None else ["Transformer", "Pooling"]
    kinds = first + [type(module).__name__ for module in modules]
    paths = [f"{i}_{kind}" if i else "" for i, kind in enumerate(kinds)]
    entries = [
        {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for i, (kind, path) in enumerate(zip(kinds, paths, strict=True))
    ]
    if is_only_ours(where):
        entries[0]["type"] = OWN_TRANSFORMER
    write_json(where / "modules.json", entries)
    for path in paths[1:]:
        (where / path).mkdir()
    if pooling is not None:
        chosen = "cls" if pooling == "pooler" else pooling
        modes = {key: name == chosen for name, key in POOLING_KEYS.items()}
        write_json(
            where / paths[1] / "config.json",
            {"word_embedding_dimension": width} | {f"pooling_mode_{mode}": on for mode, on in modes.items()},
        )
    for path, kind, module in zip(paths[len(first) :], kinds[len(first) :], modules, strict=True):
        if kind == "Dense":
            save_dense(where / path, module, dtype)


def save_dense(folder: Path, module: Dense, dtype: torch.dtype) -> None:
    """Write config.json and the weights into a folder that is there; `load_dense` reads them."""
    from safetensors.torch import save_file

    kind = type(module.activation)
    linear = module.linear
    write_json(
        folder / "config.json",
        {
            "in_features": linear.in_features,
            "out_features": linear.out_features,
            "bias": linear.bias is not None,
            "activation_function": f"{kind.__module__}.{kind.__name__}",
        },
    )
    tensors = {
        f"linear.{key}": tensor.to("cpu", dtype).contiguous() for key, tensor in linear.state_dict().items()
    }
    save_file(tensors, folder / FILES[0], metadata={"format": "pt"})
