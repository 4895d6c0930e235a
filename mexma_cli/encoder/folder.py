"""The folder of an encoder: where it is, and what stands in it beside the weights.

The layout is Hugging Face's with sentence-transformers' `modules.json`, so that both load it.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from safetensors import SafetensorError

from mexma_cli.errors import MexmaError
from mexma_cli.store.manifest import aside, commit_folder, fsync_file, no_space_as_message

BUNDLED = Path(__file__).parent.parent / "models"
HONOURED = ("Transformer", "Pooling", "Normalize")


@dataclass(frozen=True)
class FolderSettings:
    """What a folder says besides config.json. `max_tokens` is None where it says nothing."""

    pooling: Literal["cls", "mean"] = "cls"
    normalised: bool = False
    max_tokens: int | None = None
    model_arguments: dict[str, Any] = field(default_factory=dict)


def locate(name_or_path: str) -> str:
    """The folder, or the hub id, that a name stands for.

    Raises:
        MexmaError: Neither a bundled name, nor a folder with an encoder, nor the form of a hub id.
    """
    bundled = BUNDLED / name_or_path
    if "/" not in name_or_path and (bundled / "config.json").is_file():
        return str(bundled)
    path = Path(name_or_path)
    if path.is_dir():
        if (path / "config.json").is_file():
            return str(path)
        inner = path / "encoder"
        if (inner / "config.json").is_file():  # a training run holds its encoder there
            return str(inner)
        raise MexmaError(f"{path} is not an encoder's folder: it has no config.json")
    if path.exists():
        raise MexmaError(f"{path} is a file, not an encoder's folder")
    parts = name_or_path.split("/")
    if len(parts) == 2 and all(parts) and not name_or_path.startswith("."):
        return name_or_path
    raise MexmaError(
        f"no encoder {name_or_path!r}",
        "`mini` (bundled), an encoder's folder, or a hub id such as facebook/MEXMA",
    )


def read_settings(where: str) -> FolderSettings:
    """Pooling, normalisation and length limit from sentence-transformers' files; CLS without them.

    Raises:
        MexmaError: The folder has a module that is not honoured; it is named.
    """
    modules = _read(where, "modules.json")
    arguments: dict[str, Any] = {}
    config = _read(where, "config.json")
    if config and config.get("model_type") in ("xlm-roberta", "bert", "roberta"):
        arguments["add_pooling_layer"] = False
    if not isinstance(modules, list):
        return FolderSettings(model_arguments=arguments)
    pooling: Literal["cls", "mean"] = "cls"
    normalised, max_tokens = False, None
    for module in modules:
        if not isinstance(module, dict):
            raise MexmaError(f"{where}: modules.json is not a list of modules")
        kind = str(module.get("type", "")).rsplit(".", 1)[-1]
        if kind not in HONOURED:
            raise MexmaError(f"{where}: the module {kind!r} ({module.get('type')}) is not supported")
        if kind == "Pooling":
            pooling = _pooling(where, _read(where, f"{module['path']}/config.json") or {})
        elif kind == "Normalize":
            normalised = True
        else:
            limit = (_read(where, "sentence_bert_config.json") or {}).get("max_seq_length")
            if not isinstance(limit, int | None):
                raise MexmaError(f"{where}: max_seq_length in sentence_bert_config.json is {limit!r}")
            max_tokens = limit or None
    return FolderSettings(pooling, normalised, max_tokens, arguments)


def _pooling(where: str, config: dict[str, Any]) -> Literal["cls", "mean"]:
    mode = config.get("pooling_mode")
    if mode is None:
        chosen = [
            key.removeprefix("pooling_mode_")
            for key, on in config.items()
            if key.startswith("pooling_mode_") and on
        ]
        mode = "+".join(chosen)
    mode = {"cls_token": "cls", "mean_tokens": "mean"}.get(mode, mode)
    if mode == "cls":
        return "cls"
    if mode == "mean":
        return "mean"
    raise MexmaError(f"{where}: pooling {mode!r} is not supported", "cls and mean are")


def _read(where: str, name: str) -> Any:
    """A JSON file of a folder or of a hub repository; None where the file is known not to be there."""
    path = Path(where) / name if Path(where).is_dir() else _from_hub(where, name)
    if path is None or not path.is_file():
        return None
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise MexmaError(f"{path}: not valid JSON ({error})") from None


def _from_hub(repository: str, name: str) -> Path | None:
    """A file of a hub repository, from the cache or fetched; None if the repository has no such file.

    Raises:
        MexmaError: The hub cannot be reached, or has no such repository. Going on without the file would
            mean guessing the pooling.
    """
    from huggingface_hub import _CACHED_NO_EXIST, hf_hub_download, try_to_load_from_cache
    from huggingface_hub.errors import EntryNotFoundError, HfHubHTTPError, LocalEntryNotFoundError

    cached = try_to_load_from_cache(repository, name)
    if cached is _CACHED_NO_EXIST:
        return None
    try:
        return Path(cached if isinstance(cached, str) else hf_hub_download(repository, name))
    except LocalEntryNotFoundError:
        reason = "it is not in the cache, and the hub cannot be reached"
    except EntryNotFoundError:
        return None
    except (HfHubHTTPError, OSError) as error:
        reason = str(error).splitlines()[0]
    raise MexmaError(
        f"encoder {repository!r} cannot be loaded: {reason}",
        "check the name and the network, or name a folder that has the encoder",
    )


def write_settings(where: Path, pooling: str, normalised: bool, max_tokens: int, dim: int) -> None:
    """Write sentence-transformers' files: modules.json, the pooling and the length limit."""
    kinds = ["Transformer", "Pooling"] + ["Normalize"] * normalised
    modules: list[dict[str, Any]] = [
        {
            "idx": i,
            "name": str(i),
            "path": f"{i}_{kind}" if i else "",
            "type": f"sentence_transformers.models.{kind}",
        }
        for i, kind in enumerate(kinds)
    ]
    _write(where / "modules.json", modules)
    _write(where / "sentence_bert_config.json", {"max_seq_length": max_tokens, "do_lower_case": False})
    for module in modules[1:]:
        (where / module["path"]).mkdir()
    modes = {"cls_token": pooling == "cls", "mean_tokens": pooling == "mean", "max_tokens": False}
    _write(
        where / "1_Pooling" / "config.json",
        {"word_embedding_dimension": dim} | {f"pooling_mode_{mode}": on for mode, on in modes.items()},
    )


def _write(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


@contextmanager
def written_aside(path: Path) -> Iterator[Path]:
    """A folder to fill; it takes its final name, in place of an older one, when everything is on disk.

    Raises:
        MexmaError: The disk is full; what had the name before is still there.
    """
    part = aside(path)
    shutil.rmtree(part, ignore_errors=True)
    try:
        with no_space_as_message(path):
            part.mkdir(parents=True)
            yield part
            for written in part.rglob("*"):
                if written.is_file():
                    written.chmod(0o644)  # safetensors makes its files private
                    with written.open("rb") as file:
                        fsync_file(file)
            commit_folder(part, path)
    except SafetensorError as error:  # how safetensors passes on a full disk
        raise MexmaError(f"{path} could not be written: {error}", "is the disk full?") from error
    finally:
        shutil.rmtree(part, ignore_errors=True)
