"""Files of weights: read without running code that is in them, no larger in memory than on the disk."""

from __future__ import annotations

import mmap
import pickle
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mexma_cli.errors import MexmaError, is_out_of_memory

if TYPE_CHECKING:
    import torch

FILES = ("model.safetensors", "pytorch_model.bin")
INDEX = ".index.json"
"""Behind one of these names: the list of the files among which large weights are divided."""


def read_weights(folder: Path, names: tuple[str, ...] = FILES) -> dict[str, torch.Tensor]:
    """The tensors in the first of these files that is there, whole or divided; code in it is never run.
    Refused: none of them, a damaged one, and one that holds more than tensors."""
    for name in names:
        if (folder / name).is_file():
            return read_tensors(folder / name)
        if (index := folder / f"{name}{INDEX}").is_file():
            parts = [read_tensors(folder / part) for part in _parts(index)]
            return {name: tensor for part in parts for name, tensor in part.items()}
    raise MexmaError(f"{folder} has no weights ({' or '.join(FILES)})")


def missing(report: dict[str, Any]) -> list[str]:
    """Weights that transformers filled with random numbers, by what it reports (`output_loading_info`):
    missing from the files, or of another shape."""
    return sorted([*report["missing_keys"], *(key for key, *_ in report["mismatched_keys"])])


def _parts(index: Path) -> list[str]:
    """The names of the files that an index lists: all beside it."""
    from mexma_cli.files import read_json

    with damage_as_message(index):
        found = sorted(set(read_json(index)["weight_map"].values()))
        if not found or any(Path(name).name != name for name in found):
            raise ValueError("it names no files beside it")
    return found


def read_tensors(path: Path) -> dict[str, torch.Tensor]:
    """The tensors in a file, of which there are some; code in it is never run. A damaged file is refused, and
    one that holds more than tensors."""
    import torch
    from safetensors.torch import load_file

    with damage_as_message(path):
        content = load_file(path) if path.suffix == ".safetensors" else read_pickled(path)
        if not isinstance(content, dict) or not content:
            raise ValueError("it holds no tensors")
        for name, value in content.items():
            if not isinstance(name, str) or not isinstance(value, torch.Tensor):
                raise ValueError(f"{str(name)[:40]!r} is no tensor")
    return content


def read_pickled(path: Path, *known: type) -> Any:
    """Read a file of `torch.save`; code in it is never run. Objects of `known` classes may be in it, beside
    tensors and Python's own. Refused: a file that is damaged, brings code along, or would be larger in memory
    than on the disk."""
    import torch

    with damage_as_message(path):
        size = path.stat().st_size
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                if sum(part.file_size for part in archive.infolist()) > size:
                    raise ValueError("its parts are packed, or lie upon one another")
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            if content.find(b"bytearray") >= 0:  # which would be made of any length
                raise ValueError("it has a bytearray, and weights are tensors")
        with torch.serialization.safe_globals(list(known)):
            found = torch.load(path, map_location="cpu", weights_only=True)
        _check_sizes(found, size)
    return found


def _check_sizes(content: Any, size: int) -> None:
    """Refuse tensors whose numbers are not all in their storage, and storages larger than the file."""
    import torch

    seen: set[int] = set()
    storages: dict[int, int] = {}
    left = [content]
    while left:
        value = left.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, torch.Tensor):
            plain = value.layout == torch.strided and value.is_cpu and not value.is_quantized
            if not plain or value.is_nested:
                raise ValueError("it has tensors of another kind than weights are")
            storage = value.untyped_storage()
            if value.numel() * value.element_size() > storage.nbytes():
                raise ValueError(f"a tensor of {list(value.shape)} stands for fewer numbers that are stored")
            storages[storage.data_ptr()] = storage.nbytes()
        elif isinstance(value, dict):
            left += value.values()
        elif isinstance(value, list | tuple | set):
            left += value
        elif hasattr(value, "__dict__"):
            left += vars(value).values()
    if sum(storages.values()) > size:
        raise ValueError(f"its tensors would take {sum(storages.values()):,} bytes, and it has {size:,}")


@contextmanager
def damage_as_message(path: Path) -> Iterator[None]:
    """Turn whatever a library raises over a file of weights, which may be anything, into a message."""
    try:
        yield
    except Exception as error:
        if isinstance(error, MexmaError) or is_out_of_memory(error):
            raise
        if isinstance(error, pickle.UnpicklingError):
            raise MexmaError(
                f"{path}: the pickled weights are damaged, or bring code along, which was not run",
                "weights in safetensors format are read without such doubts",
            ) from None
        raise MexmaError(
            f"{path} cannot be read: {reason(error)}", "is the file whole? fetch or save it anew"
        ) from None


def reason(error: Exception, last: bool = False) -> str:
    """The line that an exception of a library says first, or last."""
    lines = (str(error).strip() or type(error).__name__).splitlines()
    line = lines[-1].strip() if last else lines[0]
    if line.endswith(":") and len(lines) > 1:
        line += f" {lines[1].strip()}"
    return line
