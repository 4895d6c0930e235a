"""What comes after the transformer: pooling, then sentence-transformers' Dense and Normalize."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from mexma_cli.encoder.loading.folder import write_json
from mexma_cli.encoder.model.packing import PackedBatch
from mexma_cli.errors import MexmaError

Pooling = Literal["cls", "mean", "pooler"]
ACTIVATIONS: dict[str, type[torch.nn.Module]] = {
    kind.__name__: kind for kind in (torch.nn.Tanh, torch.nn.Identity, torch.nn.GELU, torch.nn.ReLU)
}
WEIGHTS = ("model.safetensors", "pytorch_model.bin")


class Dense(torch.nn.Module):
    """A linear layer and its activation, float32 [B, in] to [B, out]."""

    def __init__(self, linear: torch.nn.Linear, activation: torch.nn.Module) -> None:
        super().__init__()
        self.linear = linear
        self.activation = activation

    def forward(self, vectors: torch.Tensor) -> torch.Tensor:
        """One layer up."""
        return self.activation(self.linear(vectors))

    def __repr__(self) -> str:
        kind = type(self.activation).__name__
        return f"Dense({self.linear.in_features}, {self.linear.out_features}, {kind})"


class Normalize(torch.nn.Module):
    """Vectors to unit length."""

    def forward(self, vectors: torch.Tensor) -> torch.Tensor:
        """float32 [B, dim], as it came but for the length."""
        return torch.nn.functional.normalize(vectors, dim=-1)


def pool(hidden: torch.Tensor, batch: PackedBatch, pooling: Pooling) -> torch.Tensor:
    """Sentence vectors [B, dim] from packed hidden states [T, dim]: the first token, or the mean of all.

    `pooler` is the first token too: its layer is the first of the encoder's modules.
    """
    starts = batch.cu_seqlens[:-1].long()
    if pooling != "mean":
        return hidden[starts]
    # Of what is on the device already, and with its size named, so that nothing waits for the device.
    lengths = batch.cu_seqlens.diff().long()
    rows = torch.arange(len(lengths), device=hidden.device)
    rows = rows.repeat_interleave(lengths, output_size=len(hidden))
    sums = torch.zeros(len(lengths), hidden.shape[1], dtype=hidden.dtype, device=hidden.device)
    return sums.index_add(0, rows, hidden) / lengths[:, None]


def load_dense(folder: Path, config: dict[str, Any]) -> Dense:
    """A Dense module from its folder, in float32.

    Args:
        config: Its config.json.

    Raises:
        MexmaError: The activation is not known, or the weights are missing, damaged or of another shape.
    """
    name = str(config.get("activation_function", "torch.nn.modules.activation.Tanh"))
    activation = ACTIVATIONS.get(name.rsplit(".", 1)[-1]) if name.startswith("torch.nn.") else None
    if activation is None:
        raise MexmaError(
            f"{folder}: the activation {name!r} is not supported", f"{', '.join(ACTIVATIONS)} of torch.nn are"
        )
    try:
        sizes = int(config["in_features"]), int(config["out_features"])
    except (KeyError, TypeError, ValueError):
        raise MexmaError(f"{folder}: config.json does not say in_features and out_features") from None
    linear = torch.nn.utils.skip_init(torch.nn.Linear, *sizes, bias=bool(config.get("bias", True)))
    weights = {key.removeprefix("linear."): tensor.float() for key, tensor in read_weights(folder).items()}
    try:
        linear.load_state_dict(weights)
    except RuntimeError as error:
        reason = str(error).splitlines()[-1].strip()
        raise MexmaError(f"{folder}: weights and config.json do not belong together: {reason}") from None
    return Dense(linear, activation())


def check_widths(name: str, width: int, modules: Sequence[torch.nn.Module]) -> None:
    """Refuse a Dense module of the encoder `name` that does not take the vectors that come to it.

    Args:
        width: Of the transformer's hidden states.
    """
    for module in modules:
        if isinstance(module, Dense):
            if module.linear.in_features != width:
                raise MexmaError(f"{name!r}: {module} does not take vectors of {width} numbers")
            width = module.linear.out_features


def read_weights(folder: Path) -> dict[str, torch.Tensor]:
    """The tensors of `model.safetensors`, or of `pytorch_model.bin` without running what is in it.

    Raises:
        MexmaError: Neither is there, or it is damaged, or it holds more than tensors.
    """
    for name in WEIGHTS:
        path = folder / name
        if not path.is_file():
            continue
        try:
            if path.suffix == ".safetensors":
                return load_file(path)
            return torch.load(path, map_location="cpu", weights_only=True)
        except (SafetensorError, pickle.UnpicklingError, RuntimeError, OSError, EOFError) as error:
            raise damaged(path, error) from None
    raise MexmaError(f"{folder} has no weights ({' or '.join(WEIGHTS)})")


def damaged(path: Path | str, error: Exception) -> MexmaError:
    """The message for weights that cannot be read."""
    if isinstance(error, pickle.UnpicklingError):
        return MexmaError(
            f"{path}: the pickled weights are damaged, or bring code along, which was not run",
            "weights in safetensors format are read without such doubts",
        )
    return MexmaError(
        f"{path} cannot be read: {str(error).splitlines()[0]}", "is the file whole? fetch or save it anew"
    )


def save_modules(
    where: Path, pooling: Pooling, width: int, modules: Sequence[Any], dtype: torch.dtype
) -> None:
    """Write modules.json and the modules' folders as sentence-transformers reads them.

    The pooler is written as what it is: the first token and a Dense.

    Args:
        width: Of the transformer's hidden states.
        modules: `Dense` and `Normalize`, in order.
        dtype: Of the stored weights.
    """
    kinds = ["Transformer", "Pooling", *(type(module).__name__ for module in modules)]
    paths = [f"{i}_{kind}" if i else "" for i, kind in enumerate(kinds)]
    entries = [
        {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for i, (kind, path) in enumerate(zip(kinds, paths, strict=True))
    ]
    write_json(where / "modules.json", entries)
    for path in paths[1:]:
        (where / path).mkdir()
    modes = {"cls_token": pooling != "mean", "mean_tokens": pooling == "mean", "max_tokens": False}
    write_json(
        where / paths[1] / "config.json",
        {"word_embedding_dimension": width} | {f"pooling_mode_{mode}": on for mode, on in modes.items()},
    )
    for path, module in zip(paths[2:], modules, strict=True):
        if isinstance(module, Dense):
            save_dense(where / path, module, dtype)


def save_dense(folder: Path, module: Dense, dtype: torch.dtype) -> None:
    """Write config.json and the weights into a folder that is there; `load_dense` reads them."""
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
    save_file(tensors, folder / WEIGHTS[0], metadata={"format": "pt"})
