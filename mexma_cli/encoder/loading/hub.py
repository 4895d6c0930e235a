"""Encoders from the Hugging Face hub: one question with a short patience, then a local snapshot."""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from mexma_cli.errors import MexmaError

log = logging.getLogger(__name__)

PATIENCE = 3.0
"""Seconds for the hub's first answer."""
SETTINGS = ("modules.json", "sentence_bert_config.json", "config_sentence_transformers.json")
"""Files that change the vectors, and that a cache may lack though the repository has them."""
_TEXT = {".json", ".txt", ".model"}
_OURS = {"spelling.safetensors", "README.md"}
"""What mexma's encoders have besides: n-grams of words, and the card that names the languages."""
_MODULE = re.compile(r"\d+_\w+")


def is_id(name: str) -> bool:
    """Whether a name can be one of the hub's, `owner/name`: not a folder that is written otherwise."""
    if name.count("/") != 1:
        return False
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.utils import validate_repo_id

    try:
        validate_repo_id(name)
    except HFValidationError:
        return False
    return True


def fetch(repository: str, trust_remote_code: bool = False) -> Path:
    """The local snapshot of an encoder's repository: newest where the hub answers, else the cached one.

    Only what an encoder is made of is downloaded: weights in one format, settings and the tokeniser.
    HF_HUB_OFFLINE is respected.

    Args:
        repository: Hub id, `owner/name`.
        trust_remote_code: Python files too.

    Raises:
        MexmaError: The hub has no such repository, or cannot be reached and the cache does not have all.
    """
    from huggingface_hub import HfApi, constants, snapshot_download
    from huggingface_hub.errors import HfHubHTTPError

    if constants.HF_HUB_OFFLINE:
        return _cached(repository, "HF_HUB_OFFLINE is set")
    try:
        siblings = HfApi().model_info(repository, timeout=PATIENCE).siblings or []
    except HfHubHTTPError as error:
        code = error.response.status_code
        if code in (401, 403, 404):
            raise _error(
                repository, "the hub has no such repository, or it is private or gated", str(error)
            ) from None
        return _cached(repository, f"the hub answers with error {code}", str(error))
    except Exception as error:  # whatever the client's HTTP library raises: no name, no route, too slow
        return _cached(repository, "the hub cannot be reached", str(error))
    names = wanted_files([sibling.rfilename for sibling in siblings], trust_remote_code)
    if _snapshot(repository) is None:
        log.info("downloading %s from the hub", repository)
    try:
        where = Path(snapshot_download(repository, allow_patterns=names))
    except Exception as error:
        raise _error(repository, "the download failed", str(error)) from None
    for name in SETTINGS:
        if name not in names:
            _note_absent(repository, name)
    return where


def wanted_files(names: Sequence[str], python: bool = False) -> list[str]:
    """Those of a repository's files that an encoder is loaded from, in its root and in `N_Module` folders."""
    chosen = []
    for name in names:
        path = PurePosixPath(name)
        if len(path.parts) > 2 or (len(path.parts) == 2 and not _MODULE.fullmatch(path.parts[0])):
            continue
        here = [other for other in map(PurePosixPath, names) if other.parent == path.parent]
        pickled = not any(other.match("model*.safetensors") for other in here)
        if (
            path.suffix in _TEXT
            or name in _OURS
            or path.match("model*.safetensors")
            or (pickled and path.match("pytorch_model*.bin"))
            or (python and path.suffix == ".py")
        ):
            chosen.append(name)
    return chosen


def _cached(repository: str, reason: str, details: str = "") -> Path:
    """The snapshot that the cache has, for want of a hub."""
    from huggingface_hub import try_to_load_from_cache

    where = _snapshot(repository)
    if where is None:
        raise _error(repository, f"it is not in the cache, and {reason}", details)
    for name in SETTINGS:
        # None: never asked for. Going on without it would mean guessing the pooling.
        if try_to_load_from_cache(repository, name) is None:
            raise _error(
                repository, f"the cache does not know whether it has a {name}, and {reason}", details
            )
    log.info("%s: the copy in the cache; %s", repository, reason)
    return where


def _snapshot(repository: str) -> Path | None:
    """Where the cache has an encoder's files; old ones have their config.json in a folder (0_Transformer)."""
    from huggingface_hub import try_to_load_from_cache

    found = (try_to_load_from_cache(repository, name) for name in ("config.json", "modules.json"))
    return next((Path(file).parent for file in found if isinstance(file, str)), None)


def _note_absent(repository: str, name: str) -> None:
    """Have the cache remember that a repository lacks a file, for later runs without a network."""
    from huggingface_hub import hf_hub_download, try_to_load_from_cache
    from huggingface_hub.errors import EntryNotFoundError, HfHubHTTPError

    if try_to_load_from_cache(repository, name) is None:
        try:
            hf_hub_download(repository, name, etag_timeout=PATIENCE)
        except (EntryNotFoundError, HfHubHTTPError, OSError):
            log.debug("%s has no %s", repository, name)


def _error(repository: str, reason: str, details: str = "") -> MexmaError:
    if details:
        log.debug("%s: %s", repository, details)
    return MexmaError(
        f"encoder {repository!r} cannot be loaded: {reason}",
        "check the name and the network, or name a folder that has the encoder",
    )
