"""Encoders from the Hugging Face hub, through huggingface_hub's own cache.

A name is a hub id, `owner/name`, or one with a revision (a commit, tag or branch), `owner/name@revision`.
"""

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
_MODULE = re.compile(r"(\w+_)?\d+_\w+")
"""A module's folder: `1_Pooling`; within a Router `query_0_Transformer`."""
_COMMIT = re.compile("[0-9a-f]{40}")


def is_id(name: str) -> bool:
    """Whether a name has the form of a hub id, with or without a revision."""
    repository, at, revision = name.partition("@")
    if repository.count("/") != 1 or (at and not revision):
        return False
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.utils import validate_repo_id

    try:
        validate_repo_id(repository)
    except HFValidationError:
        return False
    return True


def pinned(name: str, where: Path) -> str:
    """A hub id with the commit of its snapshot, as manifests have it; any other name as it is."""
    if where.parent.name != "snapshots" or Path(name).exists():
        return name
    return f"{name.partition('@')[0]}@{where.name}"


def fetch(name: str, trust_remote_code: bool = False) -> Path:
    """The local snapshot of an encoder's repository: the newest if the hub answers, else the cached one.
    Without a revision in the name the main branch is taken; with `trust_remote_code` Python files are
    downloaded, too, of a commit alone.

    Only the files that an encoder needs are downloaded, by name: patterns of `snapshot_download` cannot say
    "pickled weights where there are no others". The cache is asked for `SETTINGS`: without a hub,
    `snapshot_download` returns what another program cached, with or without them. HF_HUB_OFFLINE counts.
    Refused: an unknown repository or revision, and an unreachable hub where the cache is not complete.
    """
    from huggingface_hub import HfApi, constants, hf_hub_download, snapshot_download, try_to_load_from_cache
    from huggingface_hub.errors import HfHubHTTPError

    repository, revision = _parts(name)
    if trust_remote_code and not _COMMIT.fullmatch(revision or ""):
        raise MexmaError(
            f"Python code of {name!r} is run at a pinned revision only: what is read today may change",
            "read the code on the hub, and give --revision COMMIT, with all of its 40 letters and digits",
        )
    if constants.HF_HUB_OFFLINE:
        return _cached(name, "HF_HUB_OFFLINE is set")
    # Else it asks the hub first, with a patience of its own, which programs there are that it may be run by.
    constants.HF_HUB_DISABLE_TELEMETRY = True
    try:
        siblings = HfApi().model_info(repository, revision=revision, timeout=PATIENCE).siblings or []
    except HfHubHTTPError as error:
        code = error.response.status_code
        if code in (401, 403, 404):
            reason = "the hub has no such repository or revision, or it is private or gated"
            raise _error(name, reason, str(error)) from None
        return _cached(name, f"the hub answers with error {code}", str(error))
    except Exception as error:  # whatever the client's HTTP library raises: no name, no route, too slow
        return _cached(name, "the hub cannot be reached", str(error))
    names = wanted_files([sibling.rfilename for sibling in siblings], trust_remote_code)
    if snapshot(name) is None:
        log.info("downloading %s from the hub", name)
    try:
        where = Path(snapshot_download(repository, revision=revision, allow_patterns=names))
    except Exception as error:
        raise _error(name, "the download failed", str(error)) from None
    for file in set(SETTINGS).difference(names):
        if try_to_load_from_cache(repository, file, revision=revision) is None:
            # The cache remembers the failure, so that `_cached` knows that the repository has no such file.
            with suppress(HfHubHTTPError, OSError):
                hf_hub_download(repository, file, revision=revision, etag_timeout=PATIENCE)
    return where


def upload(folder: Path, repository: str, private: bool, message: str) -> str:
    """Make a folder's files those of a repository, which is made if need be; returns its name and the
    commit."""
    from huggingface_hub import HfApi, constants

    constants.HF_HUB_DISABLE_TELEMETRY = True  # as in `fetch`
    try:
        api = HfApi()
        api.create_repo(repository, private=private, exist_ok=True)
        done = api.upload_folder(repo_id=repository, folder_path=folder, commit_message=message)
    except Exception as error:  # as in `fetch`
        log.debug("%s: %s", repository, error)
        raise MexmaError(
            f"{repository!r} cannot be uploaded: {' '.join(str(error).split())[:120]}",
            "check the name, the network, and the login (`hf auth login`)",
        ) from None
    return f"{repository}@{done.oid}"


def fetch_code(repository: str, revision: str) -> Path:
    """A folder with the Python files of a repository at a commit; a tag or a branch is refused."""
    from huggingface_hub import constants, snapshot_download

    if not _COMMIT.fullmatch(revision):
        raise MexmaError(f"--code-revision {revision}: a commit has 40 letters and digits")
    constants.HF_HUB_DISABLE_TELEMETRY = True  # as in `fetch`
    try:
        return Path(snapshot_download(repository, revision=revision, allow_patterns=["*.py"]))
    except Exception as error:  # as in `fetch`
        raise _error(f"{repository}@{revision}", "its code cannot be fetched", str(error)) from None


def wanted_files(names: Sequence[str], python: bool = False) -> list[str]:
    """The files in a repository's root and in its modules' folders that an encoder is loaded from."""
    chosen = []
    for name in names:
        path = PurePosixPath(name)
        if not all(map(_MODULE.fullmatch, path.parts[:-1])):
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


def _cached(name: str, reason: str, details: str = "") -> Path:
    """The snapshot in the cache, since the hub cannot be asked."""
    from huggingface_hub import try_to_load_from_cache

    repository, revision = _parts(name)
    where = snapshot(name)
    if where is None:
        raise _error(name, f"it is not in the cache, and {reason}", details)
    for file in SETTINGS:
        # None: nobody has asked for it yet. Without it the pooling would be a guess.
        if try_to_load_from_cache(repository, file, revision=revision) is None:
            unknown = f"the cache does not know whether it has a {file}, and {reason}"
            raise _error(name, unknown, details)
    log.info("%s: the copy in the cache; %s", name, reason)
    return where


def snapshot(name: str) -> Path | None:
    """The repository's folder in the cache; None if it is not there. Nothing is fetched.

    Old encoders have their config.json in a folder of its own.
    """
    from huggingface_hub import try_to_load_from_cache

    repository, revision = _parts(name)
    files = ("config.json", "modules.json")
    found = (try_to_load_from_cache(repository, file, revision=revision) for file in files)
    return next((Path(file).parent for file in found if isinstance(file, str)), None)


def _parts(name: str) -> tuple[str, str | None]:
    """Hub id and revision."""
    repository, _, revision = name.partition("@")
    return repository, revision or None


def _error(name: str, reason: str, details: str = "") -> MexmaError:
    if details:
        log.debug("%s: %s", name, details)
    return MexmaError(
        f"encoder {name!r} cannot be loaded: {reason}",
        "check the name and the network, or name a folder that has the encoder",
    )
