"""A pretended GPU: its tensors are computed on the processor, and what a GPU refuses is refused.

    python -m tests.gpu.pretended NEIGHBOURS RECIPE KEY=VALUE ...

searches there, writes what it found to NEIGHBOURS, and trains there. An operation on a tensor of the device
and one of the processor is an error, as on a GPU, so a run that ends has moved all that has to be moved. It
is set up once for a process, which is then good for nothing else: it takes torch's place for devices of
others (`privateuseone`).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import safetensors.torch
import torch
import transformers.pytorch_utils
from torch.utils._python_dispatch import TorchDispatchMode, return_and_correct_aliasing
from torch.utils._pytree import tree_leaves, tree_map
from torch.utils.backend_registration import (
    _DummyBackendModule,
    _setup_privateuseone_for_python_backend,
)

from mexma_cli.knn import exact_search
from mexma_cli.knn.device import OnDevice
from mexma_cli.knn.exact import knn

NAME = "pretended"
aten = torch.ops.aten
BOTH = {aten._to_copy.default, aten.copy_.default}
"""Operations between the device and the processor."""
PLACES_OF_BOTH = {aten.index.Tensor, aten.index_put_.default, aten._index_put_impl_.default}
"""Operations whose places may be on the processor."""
LOWER = ("linear", "matmul", "mm", "addmm", "bmm", "baddbmm", "scaled_dot_product_attention")
"""What autocast computes in its lower precision."""


class There(torch.Tensor):
    """A tensor of the device; `here` has its numbers."""

    here: torch.Tensor
    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, here: torch.Tensor) -> There:
        like = {"dtype": here.dtype, "layout": here.layout, "device": torch.device(NAME, 0)}
        shape = {"strides": here.stride(), "storage_offset": here.storage_offset()}
        made: There = torch.Tensor._make_wrapper_subclass(cls, here.size(), **shape, **like)
        made.here = here
        return made

    @classmethod
    def __torch_dispatch__(cls, op: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return compute(op, args, kwargs or {})

    def __tensor_flatten__(self) -> tuple[list[str], None]:
        return ["here"], None

    @staticmethod
    def __tensor_unflatten__(parts: dict[str, torch.Tensor], *_: Any) -> There:
        return There(parts["here"])

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self.here.detach().__reduce_ex__(protocol)

    def __repr__(self) -> str:  # type: ignore[override]
        return f"{NAME}: {self.here}"

    def tolist(self) -> Any:
        return self.here.tolist()

    def numpy(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError(f"{NAME} has no numpy: take it to the processor first")

    __array__ = numpy


class OnThere(TorchDispatchMode):
    """New tensors that are asked for on the device are made there."""

    def __torch_dispatch__(self, op: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return compute(op, args, kwargs or {})


def compute(op: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """An operation on the processor, for tensors of the device if it has some."""
    leaves = tree_leaves((args, kwargs))
    tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
    there = [tensor for tensor in tensors if isinstance(tensor, There)]
    asked = next((leaf.type for leaf in leaves if isinstance(leaf, torch.device)), None)
    if there and op not in BOTH:
        _refuse_two_devices(op, args, tensors)
    plain_args, plain = tree_map(_here, (args, kwargs))
    found = op(*plain_args, **plain)
    if op is aten.copy_.default:
        return args[0]
    if op is aten._local_scalar_dense.default or asked not in (None, NAME) or not (there or asked):
        return found
    moved = tree_map(lambda leaf: There(leaf) if isinstance(leaf, torch.Tensor) else leaf, found)
    if torch.is_inference_mode_enabled():  # no aliases are kept there: only what is changed is itself
        return args[0] if op._schema.name.endswith("_") else moved
    return return_and_correct_aliasing(op, args, kwargs, moved) if there else moved


def _refuse_two_devices(op: Any, args: Any, tensors: list[torch.Tensor]) -> None:
    if op in PLACES_OF_BOTH and isinstance(args[0], There):
        return
    wrong = [tuple(t.shape) for t in tensors if not isinstance(t, There) and t.dim()]
    if wrong:
        raise RuntimeError(f"{op}: tensors of {NAME}, and on the processor {wrong}")


def _here(value: Any) -> Any:
    """What stands for a tensor of the device, or for the device, on the processor."""
    if isinstance(value, There):
        return value.here
    there = isinstance(value, torch.device) and value.type == NAME
    return torch.device("cpu") if there else value


class _Device(_DummyBackendModule):  # type: ignore[misc]
    def get_amp_supported_dtype(self) -> list[torch.dtype]:
        return [torch.bfloat16, torch.float16]

    def is_available(self) -> bool:
        return True

    def current_device(self) -> int:
        return 0


def kernels() -> Iterator[torch.library.Library]:
    """What torch asks the device itself for, past `compute`; they hold as long as they are kept."""
    rest = torch.library.Library("_", "IMPL")
    rest.fallback(torch.library.fallthrough_kernel, "AutocastPrivateUse1")
    yield rest
    own = torch.library.Library("aten", "IMPL")

    def empty(size: Any, dtype: Any = None, **_: Any) -> There:
        return There(torch.empty(size, dtype=dtype))

    def empty_strided(size: Any, stride: Any, dtype: Any = None, **_: Any) -> There:
        return There(torch.empty_strided(size, stride, dtype=dtype))

    def copy_from(source: torch.Tensor, target: torch.Tensor, _: bool = False) -> torch.Tensor:
        _here(target).copy_(_here(source))
        return target

    made = {"empty.memory_format": empty, "empty_strided": empty_strided, "_copy_from": copy_from}
    for name, kernel in made.items():
        own.impl(name, kernel, "PrivateUse1")
    for name in LOWER:
        own.impl(name, _lower(getattr(aten, name)), "AutocastPrivateUse1")
    yield own


def _lower(op: Any) -> Callable[..., Any]:
    def lowered(*args: Any, **kwargs: Any) -> Any:
        dtype = torch.get_autocast_dtype(NAME)

        def lower(value: Any) -> Any:
            return value.to(dtype) if isinstance(value, torch.Tensor) and value.is_floating_point() else value

        with torch.autocast(NAME, enabled=False):
            return op(*map(lower, args), **{key: lower(value) for key, value in kwargs.items()})

    return lowered


def files_of_the_device() -> None:
    """safetensors copies a GPU's tensors by itself; these it cannot look into."""
    save, pointer, size = (
        getattr(safetensors.torch, n) for n in ("save_file", "storage_ptr", "storage_size")
    )

    def save_file(tensors: dict[str, torch.Tensor], *args: Any, **kwargs: Any) -> None:
        save({name: _here(tensor) for name, tensor in tensors.items()}, *args, **kwargs)

    safetensors.torch.save_file = save_file
    for module in (safetensors.torch, transformers.pytorch_utils):
        module.storage_ptr = lambda tensor: pointer(_here(tensor))  # type: ignore[attr-defined]
        module.storage_size = lambda tensor: size(_here(tensor))  # type: ignore[attr-defined]


def _score(encoder: Any) -> dict[str, float]:
    return {"xsim": float(len(encoder.embed(["One line.", "Another one."])))}


def sides() -> tuple[np.ndarray, np.ndarray]:
    """What is searched."""
    both = np.random.default_rng(0).standard_normal((2, 700, 24)).astype(np.float32) + 1
    return both[0], both[1]


def search(output: str) -> None:
    """Write the neighbours that the exact search finds on the device."""
    exact_search.choose_product = lambda sides, *_: OnDevice((sides[0].sample(), sides[1].sample()), NAME)
    np.savez(output, **vars(knn(*sides(), 4)))


def main(neighbours: str, recipe: str, *overrides: str) -> None:
    """Search; and train a recipe whose text is prepared, with a dev score after every phase's last step."""
    _setup_privateuseone_for_python_backend(NAME, backend_module=_Device())
    kept = list(kernels())
    files_of_the_device()
    from mexma_cli.settings.load import load
    from mexma_cli.stages.train.train import train
    from mexma_cli.training import distributed

    distributed.pick_device = lambda wanted: torch.device("cpu" if wanted == "cpu" else NAME)
    with OnThere():
        search(neighbours)
        train(
            load(recipe, overrides), dev_score=lambda encoder: {"xsim": float(len(encoder.embed(["One."])))}
        )
    assert kept


if __name__ == "__main__":
    main(*sys.argv[1:])
