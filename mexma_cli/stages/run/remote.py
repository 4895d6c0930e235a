"""Texts from other file systems (s3://, gs://, whatever fsspec knows), and results that go there.

Work is done on files of the run's folder: texts are copied there first, results are copied away at the end.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mexma_cli.errors import MexmaError, require
from mexma_cli.files import (
    MANIFEST,
    checksum_file,
    fingerprint,
    make_parent,
    read_json,
    whole_file,
    write_json_atomic,
)
from mexma_cli.recipe import CorpusRecipe
from mexma_cli.recipe.corpus import LanguageText

_COPY = 16 << 20  # bytes of a file that are in memory
_STAGED = ".json"


def is_remote(path: str) -> bool:
    """Whether it is a URL."""
    return "://" in path


def with_copies(recipe: CorpusRecipe) -> CorpusRecipe:
    """The recipe with copies of its texts, in the run's folder, in place of URLs.

    Raises:
        MexmaError: As `fetch`; the message names the key.
    """
    folder = Path(recipe.run).absolute() / "inputs"
    at_url = is_remote(recipe.root)

    def local(key: str, pattern: str) -> list[str]:
        if not is_remote(pattern) and not at_url:
            return [pattern]
        url = pattern if is_remote(pattern) else f"{recipe.root.rstrip('/')}/{pattern}"
        try:
            return [str(copy) for copy in fetch(url, folder)]
        except MexmaError as error:
            raise MexmaError(f"`languages.{key}`: {error.message}", error.hint) from None

    def copied(code: str, text: LanguageText) -> LanguageText:
        found: dict[str, Any] = {
            "input": tuple(path for pattern in text.input for path in local(f"{code}.input", pattern))
        }
        if text.known is not None:
            found["known"] = local(f"{code}.known", text.known)[0]
        return text.model_copy(update=found)

    wanted = {code for pair in recipe.language_pairs() for code in pair}
    texts = {code: copied(code, text) for code, text in recipe.languages.items() if code in wanted}
    return recipe.model_copy(
        update={"languages": recipe.languages | texts, "root": "." if at_url else recipe.root}
    )


def fetch(url: str, folder: Path) -> list[Path]:
    """Copies of the files that a URL names, in the order of their names.

    A copy that was made before stays as long as the file system says that the file is the same.

    Args:
        url: `*` stands for any part of a name.
        folder: For the copies.

    Raises:
        MexmaError: There is no such file, or it cannot be read.
    """
    found = []
    with _file_system(url) as (system, place):
        paths = sorted(system.glob(place)) if "*" in place else [place]
        for path in paths:
            info = system.info(path)
            if info["type"] != "file":
                continue
            copy = folder / fingerprint([url, path]) / path.rpartition("/")[2]
            state, noted = system.ukey(path), copy.with_name(copy.name + _STAGED)
            if not (copy.is_file() and noted.is_file() and read_json(noted) == state):
                make_parent(copy)
                noted.unlink(missing_ok=True)
                with system.open(path, "rb") as source, whole_file(copy) as file:
                    shutil.copyfileobj(source, file, _COPY)
                    if file.tell() != info["size"]:
                        raise MexmaError(f"{url}: {path} ended early", "run the same command again")
                write_json_atomic(noted, state)
            found.append(copy)
    if not found:
        raise MexmaError(f"{url}: no such file")
    return found


def send(files: Mapping[str, Path], url: str) -> None:
    """Copy files to a URL: all of them or, after an error, none; a manifest with their checksums comes last.

    Nothing is copied that the manifest there says is the same. Files of an earlier run that this one does not
    have are removed when the new ones are there.

    Args:
        files: Names below the URL -> what has them.

    Raises:
        MexmaError: It cannot be written.
    """
    sums = {name: checksum_file(path) for name, path in files.items()}
    with _file_system(url) as (system, place):
        place = place.rstrip("/")
        manifest, before = f"{place}/{MANIFEST}", dict[str, str]()
        if system.exists(manifest):
            before = _sums_in(system.cat_file(manifest), url)
        there = {name for name in before if system.exists(f"{place}/{name}")}
        new = {name: sum_ for name, sum_ in sums.items() if name not in there or before[name] != sum_}
        if new:
            system.makedirs(place, exist_ok=True)
            with system.transaction:
                for name in new:
                    system.makedirs(f"{place}/{name}".rpartition("/")[0], exist_ok=True)
                    with files[name].open("rb") as source, system.open(f"{place}/{name}", "wb") as file:
                        shutil.copyfileobj(source, file, _COPY)
        if before != sums:
            system.pipe_file(manifest, _manifest(sums))
        for name in there - set(sums):
            system.rm_file(f"{place}/{name}")


def _manifest(sums: Mapping[str, str]) -> bytes:
    return (json.dumps({"kind": "corpus", "files": sums}, indent=1, sort_keys=True) + "\n").encode()


def _sums_in(manifest: bytes, url: str) -> dict[str, str]:
    """Names and checksums in a manifest that `send` wrote."""
    try:
        found = json.loads(manifest)
        if found["kind"] == "corpus":
            return dict(found["files"])
    except (ValueError, KeyError, TypeError):
        pass
    raise MexmaError(f"{url}/{MANIFEST} is of something else, and results would go beside it", "name another")


@contextmanager
def _file_system(url: str) -> Iterator[tuple[Any, str]]:
    """The file system of a URL, and the path there; whatever its library raises becomes a message."""
    require("fsspec", "remote", url)
    from fsspec.core import url_to_fs

    try:
        yield url_to_fs(url)
    except MexmaError:
        raise
    except ImportError as error:
        raise MexmaError(
            f"{url}: {error}", "pip install 'mexma-cli[remote]' has it for s3:// and gs://"
        ) from None
    except FileNotFoundError as error:
        raise MexmaError(f"{url}: no such file ({error})") from None
    except Exception as error:  # every cloud's library has exceptions of its own
        raise MexmaError(f"{url}: {type(error).__name__}: {error}") from error
