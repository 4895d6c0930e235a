"""Encoders from the Hugging Face hub, through huggingface_hub's own cache."""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path, PurePosixPath

from mexma_cli.errors import MexmaError

log = logging.getLogger(__name__)

PATIENCE = 3.0
"""Seconds to wait for the hub's first answer."""
SETTINGS = ("modules.json", "sentence_bert_config.json", "config_sentence_transformers.json")
"""Files that change the vectors. Another program may have cached a repository without them."""
_TEXT = {".json", ".txt", ".model"}
_OURS = {"spelling.safetensors", "README.md"}
"""Files of mexma's encoders: the n-gram embeddings, and the card that names the languages."""
_MODULE = re.compile(r"\d+_\w+")


def is_id(name: str) -> bool:
    """Whether a name has the form of a hub id, `owner/name`."""
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
    """The local snapshot of an encoder's repository: the newest if the hub answers, else the cached one.

    Only the files that an encoder needs are downloaded: weights in one format, settings and the tokeniser.
    HF_HUB_OFFLINE is respected.

    Args:
        repository: Hub id, `owner/name`.
        trust_remote_code: Download Python files, too.

    Raises:
        MexmaError: The hub has no such repository; or it cannot be reached, and the cache is not complete.
    """
    from huggingface_hub import HfApi, constants, hf_hub_download, snapshot_download, try_to_load_from_cache
    from huggingface_hub.errors import HfHubHTTPError

    if constants.HF_HUB_OFFLINE:
        return _cached(repository, "HF_HUB_OFFLINE is set")
    try:
        siblings = HfApi().model_info(repository, timeout=PATIENCE).siblings or []
    except HfHubHTTPError as error:
        code = error.response.status_code
        if code in (401, 403, 404):
            reason = "the hub has no such repository, or it is private or gated"
            raise _error(repository, reason, str(error)) from None
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
    for name in set(SETTINGS).difference(names):
        if try_to_load_from_cache(repository, name) is None:
            # The cache remembers the failure, so that `_cached` knows that the repository has no such file.
            with suppress(HfHubHTTPError, OSError):
                hf_hub_download(repository, name, etag_timeout=PATIENCE)
    return where


def wanted_files(names: Sequence[str], python: bool = False) -> list[str]:
    """The files in a repository's root and in its `N_Module` folders that an encoder is loaded from."""
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
    """The snapshot in the cache, since the hub cannot be asked."""
    from huggingface_hub import try_to_load_from_cache

    where = _snapshot(repository)
    if where is None:
        raise _error(repository, f"it is not in the cache, and {reason}", details)
    for name in SETTINGS:
        # None: nobody has asked for it yet. Without it the pooling would be a guess.
        if try_to_load_from_cache(repository, name) is None:
            unknown = f"the cache does not know whether it has a {name}, and {reason}"
            raise _error(repository, unknown, details)
    log.info("%s: the copy in the cache; %s", repository, reason)
    return where


def _snapshot(repository: str) -> Path | None:
    """The repository's folder in the cache; old encoders have their config.json in a folder of its own."""
    from huggingface_hub import try_to_load_from_cache

    found = (try_to_load_from_cache(repository, name) for name in ("config.json", "modules.json"))
    return next((Path(file).parent for file in found if isinstance(file, str)), None)


def _error(repository: str, reason: str, details: str = "") -> MexmaError:
    if details:
        log.debug("%s: %s", repository, details)
    return MexmaError(
        f"encoder {repository!r} cannot be loaded: {reason}",
        "check the name and the network, or name a folder that has the encoder",
    )
