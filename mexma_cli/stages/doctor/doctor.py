"""A report on this machine and this installation, and advice on what would help."""

from __future__ import annotations

import platform
import re
import shlex
import shutil
import tempfile
from dataclasses import dataclass, field
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from mexma_cli.numerics.machine import processor_name
from mexma_cli.text.amounts import counted, size

_DISTRIBUTION = "mexma-cli"
_SHOWN = ("torch", "transformers", "numpy", "numba", "faiss-cpu")
_SECONDS = 3  # that the hub may take to answer
_LITTLE_MEMORY, _LITTLE_DISK = 2 << 30, 1 << 30


@dataclass
class Findings:
    """Facts by section and name, in the order in which they are shown, and advice: a line for each thing that
    is missing, or slow."""

    facts: dict[str, dict[str, Any]] = field(default_factory=dict)
    advice: list[str] = field(default_factory=list)


def examine() -> Findings:
    """Look at programs, processor, GPUs, memory, caches and the model hub."""
    found = Findings()
    for section, look in (
        ("programs", _programs),
        ("processor", _processor),
        ("GPUs", _gpus),
        ("memory and disk", _memory),
        ("caches", _caches),
        ("model hub", _hub),
    ):
        found.facts[section] = {
            name: value for name, value in look(found.advice).items() if value is not None
        }
    return found


def _programs(advice: list[str]) -> dict[str, Any]:
    facts: dict[str, Any] = {"mexma": metadata.version(_DISTRIBUTION), "python": platform.python_version()}
    facts |= {name: _version(name) for name in _SHOWN}
    missing = [extra for extra, needed in _extras().items() if not all(map(_version, needed))]
    facts["extras that are installed"] = [extra for extra in _extras() if extra not in missing]
    facts["extras that are not"] = missing
    return facts


@cache
def _extras() -> dict[str, list[str]]:
    """The packages of every extra but those for developers, from the installed package's own list."""
    found: dict[str, list[str]] = {}
    for line in metadata.requires(_DISTRIBUTION) or []:
        requirement, _, condition = line.partition(";")
        extra = condition.partition("extra ==")[2].strip(" '\"")
        if extra and extra != "dev":
            found.setdefault(extra, []).extend(re.findall(r"^[\w.-]+", requirement))
    return found


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _processor(advice: list[str]) -> dict[str, Any]:
    import torch

    from mexma_cli.numerics.threads import cores, threads
    from mexma_cli.numerics.torch_private import computes_bf16

    facts = {
        "name": processor_name(),
        "cores that may be used": cores(),
        "threads": threads(),
        "instructions": _instructions(),
        "encoders compute in": "bfloat16" if computes_bf16() else "float32",
    }
    if threads() < cores():
        used, there = counted(threads(), "thread"), counted(cores(), "core")
        advice.append(f"{used} for {there}: OMP_NUM_THREADS={cores()} uses all")
    if not computes_bf16() and not torch.cuda.is_available():
        advice.append(
            "this processor does not multiply bfloat16: embedding and training take several times as long as "
            "on one with AVX-512 BF16 or AMX"
        )
    return facts


def _instructions() -> list[str]:
    """The processor's instructions that make products fast, by their usual names."""
    import torch

    cpu = torch.cpu
    names = {
        "AVX2": cpu._is_avx2_supported,
        "AVX-512": cpu._is_avx512_supported,
        "AVX-512 VNNI": cpu._is_vnni_supported,
        "AVX-512 BF16": cpu._is_avx512_bf16_supported,
        "AMX": cpu._is_amx_tile_supported,
    }
    return [name for name, has in names.items() if has()]


def _gpus(advice: list[str]) -> dict[str, Any]:
    import torch

    count = torch.cuda.device_count()
    facts: dict[str, Any] = {"number": count}
    for number in range(count):
        properties = torch.cuda.get_device_properties(number)
        facts[f"cuda:{number}"] = f"{properties.name}, {size(properties.total_memory)}"
    if count:
        facts["attention"] = _attention(advice)
    elif shutil.which("nvidia-smi") and torch.version.cuda is None:
        advice.append("there is an NVIDIA driver, and this torch is without CUDA: install one with it")
    return facts


def _attention(advice: list[str]) -> str:
    import torch

    from mexma_cli.encoder.model.attention import choose_backend

    chosen = choose_backend("auto", torch.device("cuda"))
    if chosen != "xformers":
        advice.append("without xformers attention takes longer: pip install xformers, built for this torch")
    return chosen


def _memory(advice: list[str]) -> dict[str, Any]:
    from mexma_cli.numerics.machine import available_memory, memory_limit

    available, limit = available_memory(), memory_limit()
    disk = shutil.disk_usage(tempfile.gettempdir()).free
    if available is not None and available < _LITTLE_MEMORY:
        advice.append(
            f"{size(available)} of memory are free: give mine and knn --memory, and close other programs"
        )
    if disk < _LITTLE_DISK:
        advice.append(f"{size(disk)} are free in {tempfile.gettempdir()}: let TMPDIR name another disk")
    return {
        "memory that is free": available and size(available),
        "limit of the container": limit and size(limit),
        "free for temporary files": f"{size(disk)} in {tempfile.gettempdir()}",
    }


def _caches(advice: list[str]) -> dict[str, Any]:
    from huggingface_hub import constants

    from mexma_cli.evaluation.embedder import default_folder
    from mexma_cli.numerics.compiling import kept_in

    compiled = kept_in()
    if compiled is None:
        advice.append(
            "inner loops are compiled anew by every run: let NUMBA_CACHE_DIR name a folder that it can write"
        )
    vectors = default_folder()
    removal = [["rm", "-rf", str(vectors)]] if vectors else []
    if compiled is not None:  # among a checkout's sources, perhaps: those files and no others
        folder = Path(compiled)
        package = Path(__file__).parents[2]
        where = package if folder.is_relative_to(package) else folder.parent
        removal.append(["find", str(where), "-name", "*.nb[ic]", "-delete"])
    return {
        "compiled loops": compiled or "kept nowhere",
        "vectors of evaluations": str(vectors or "kept nowhere"),
        "to remove them": "; ".join(map(shlex.join, removal)) or "nothing to do",
        "models from the hub": str(Path(constants.HF_HUB_CACHE)),
    }


def _hub(advice: list[str]) -> dict[str, Any]:
    from huggingface_hub import constants

    if constants.HF_HUB_OFFLINE:
        return {"access": "none: HF_HUB_OFFLINE is set"}
    import urllib.error
    import urllib.request

    try:
        request = urllib.request.Request(constants.ENDPOINT, method="HEAD")
        urllib.request.urlopen(request, timeout=_SECONDS).close()
    except urllib.error.HTTPError:
        pass  # it answers
    except OSError as error:
        advice.append(
            f"{constants.ENDPOINT} does not answer: models are taken from folders, or from the cache; "
            "HF_HUB_OFFLINE=1 saves the waiting"
        )
        return {"access": f"none: {getattr(error, 'reason', error)}"}
    return {"access": constants.ENDPOINT}
