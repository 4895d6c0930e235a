"""Texts from other file systems (s3://, gs://, whatever fsspec knows), and results that go there.

Work is done on files of the run's folder: texts are copied there first, results are copied away at the end.
A copy that was begun is gone on with, after an error at once, after a kill by the next run.
"""

from __future__ import annotations

import json
import logging
import os
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import xxhash

from mexma_cli.errors import MexmaError, installed_by, require
from mexma_cli.files import (
    MANIFEST,
    PROGRESS,
    Unfinished,
    check_parent,
    checksum_file,
    clear,
    commit,
    fingerprint,
    fsync_file,
    fsync_folder,
    make_folder,
    make_parent,
    no_space_as_message,
    read_json,
    stays_inside,
    whole_file,
    workplace,
    workplace_path,
    write_json_atomic,
)
from mexma_cli.languages import UNSTATED
from mexma_cli.settings.corpus import CorpusRecipe, LanguageText
from mexma_cli.stages.mine.thresholds import FILE
from mexma_cli.stages.run.page import PAGE
from mexma_cli.stages.run.units import ANEW, BITEXT, in_the_way
from mexma_cli.stages.split.inputs import with_text
from mexma_cli.store.journal import GrowingFile
from mexma_cli.text.lines import reading_order

log = logging.getLogger(__name__)

_COPY = 16 << 20  # bytes of a file that are in memory
_RANGE = 64 << 20  # bytes of a copy after which it is noted how far it is
_HADOOP = "install Java and Hadoop, and set JAVA_HOME, HADOOP_HOME and CLASSPATH"
_OF_A_FILE = ("size", "mtime", "modify", "ETag", "Last-Modified")
"""Keys by which file systems describe a file's content. fsspec's own key is also
of the last access with SFTP, and never changes with HTTP."""


_NAMES = re.compile(rf"{BITEXT}/[^/]+/[^/]+|{re.escape(PAGE)}|{re.escape(FILE)}", re.DOTALL)
"""The names of all files that runs send."""
_IN_WORK, _FILES = "in-work.json", "in-work"


def is_remote(path: str) -> bool:
    """Whether it is a URL."""
    return "://" in path


def with_copies(recipe: CorpusRecipe) -> CorpusRecipe:
    """The recipe with copies of its texts, in the run's folder, in place of URLs."""
    folder = Path(recipe.run).absolute() / "inputs"
    at_url = is_remote(recipe.root)

    def local(key: str, pattern: str, language: str) -> list[str]:
        if not is_remote(pattern) and not at_url:
            return [pattern]
        url = pattern if is_remote(pattern) else f"{recipe.root.rstrip('/')}/{pattern}"
        try:
            return [str(copy) for copy in fetch(url, folder, language)]
        except MexmaError as error:
            raise MexmaError(f"`languages.{key}`: {error.message}", error.hint) from None

    def copied(code: str, text: LanguageText) -> LanguageText:
        paths = tuple(path for pattern in text.input for path in local(f"{code}.input", pattern, code))
        return text.model_copy(update={"input": paths})

    wanted = {code for pair in recipe.language_pairs() for code in pair}
    texts = {code: copied(code, text) for code, text in recipe.languages.items() if code in wanted}
    return recipe.model_copy(
        update={"languages": recipe.languages | texts, "root": "." if at_url else recipe.root}
    )


def fetch(url: str, folder: Path, language: str = UNSTATED) -> list[Path]:
    """Copies of the files that a URL names: a file, a folder (all files in it and below, but hidden ones) or
    a pattern with `*`; in `reading_order`, for a language as for `find_inputs`.

    A copy that was made before stays as long as the file system says that the file is the same. The copies
    are in folders like those there, so that the ids of documents, which are made of names, are the same.
    """
    with _file_system(url) as (system, place):
        within = folder / fingerprint(url.rstrip("/").replace(place, "", 1))
        found = [_copied(system, path, within) for path in _named(system, place, language)]
    if not found:
        raise MexmaError(f"{url}: no such file", "name files, folders, or patterns with `*`")
    return found


def _named(system: Any, place: str, language: str) -> list[str]:
    """The files that a path there names."""
    try:
        info = system.info(place)
        if info["type"] == "file":
            return [place]
    except FileNotFoundError:
        if "*" not in place:
            raise
        info = None
    found = system.find(place) if info else system.glob(place, detail=True)
    files: list[str] = [path for path in found if info or found[path]["type"] == "file"]
    if "/." not in place:  # as in folders and patterns here
        fixed = place.partition("*")[0].rpartition("/")[0] if info is None else place
        files = [path for path in files if "/." not in path.removeprefix(fixed)]
    by_path = {Path(path): path for path in sorted(files, key=reading_order)}
    return [by_path[path] for path in with_text(list(by_path), language, Counter())]


def _copied(system: Any, path: str, folder: Path) -> Path:
    """The copy of a file, made anew where the file has changed."""
    parts = [part for part in path.split("/") if part]
    if {".", ".."} & set(parts):
        raise MexmaError(f"{path}: no name of a file", "leave it out")
    copy = folder.joinpath("files", *parts)
    noted = folder.joinpath("states", *parts).with_name(f"{parts[-1]}.json")
    state, before = _state(system, path), {}
    if noted.is_file():
        before = read_json(noted)
        if not isinstance(before, dict) or before.keys() != {"state", "checksum"}:
            raise in_the_way(noted)
    if not copy.is_file() or before.get("state") != state:
        for new in (copy, noted):
            make_parent(new)
        if os.path.lexists(copy):
            ours = {before.get("checksum")}
            with suppress(MexmaError):  # a run was killed when the copy had its name
                ours.add(Unfinished.read(workplace_path(copy)).facts.get("checksum"))
            if not copy.is_file() or (found := checksum_file(copy)) not in ours:
                raise in_the_way(copy)
            if found != before.get("checksum"):
                write_json_atomic(noted, {"state": {}, "checksum": found})
        _copy(system, path, state, copy, noted)
    return copy


def check_copies(folder: Path, sums: Mapping[str, str]) -> None:
    """Compare the copies that `with_copies` made in a folder with what was copied; `sums` are files, which
    may be others, too, and their checksums now."""
    inputs = folder / "inputs"
    for name, checksum in sums.items():
        parts = Path(name).relative_to(inputs).parts if Path(name).is_relative_to(inputs) else ()
        if parts[1:2] == ("files",):
            noted = inputs.joinpath(parts[0], "states", *parts[2:]).with_name(f"{parts[-1]}.json")
            if noted.is_file() and read_json(noted).get("checksum", checksum) != checksum:
                raise MexmaError(f"{name} is damaged: it is not what was copied", "remove it, and run again")


def _state(system: Any, path: str) -> dict[str, Any]:
    """The facts about a file that differ once it has changed."""
    info = system.info(path)
    found = {key: str(info[key]) for key in _OF_A_FILE if info.get(key) is not None}
    return found if len(found) > 1 else {**found, "key": system.ukey(path)}


def _copy(system: Any, path: str, state: dict[str, Any], copy: Path, noted: Path) -> None:
    """Copy a file from where it was left, if it was, and note its state and checksum; goes on after errors as
    long as each time more comes. A file that has changed meanwhile is refused."""
    run, folder = Unfinished(by="run", of=state), workplace_path(copy)
    with no_space_as_message(copy), workplace(copy) as part:
        with part.open("a+b") as file:
            left = run.left_in(folder)
            there = GrowingFile(file, left.facts if left else {})
            if not there.is_whole:
                there = GrowingFile(file, {})
            while True:
                before = there.bytes
                run.enter(folder, **there.facts())
                try:
                    for _ in _received(system, path, there):
                        run.enter(folder, **there.facts())
                    break
                except Exception as error:  # every cloud's library has exceptions of its own
                    if there.bytes == before:
                        raise
                    log.warning("%s: %s; going on after %s bytes", path, error, f"{there.bytes:,}")
        system.invalidate_cache(path)
        if _state(system, path) != state or state.get("size", str(there.bytes)) != str(there.bytes):
            (folder / PROGRESS).unlink()
            raise MexmaError(f"{path} has changed while it was copied", "run the same command again")
        commit(copy)
        write_json_atomic(noted, {"state": state, "checksum": there.checksum})
        (folder / PROGRESS).unlink()


def _received(system: Any, path: str, there: GrowingFile) -> Iterator[None]:
    """Append to a copy what it lacks yet, in parts."""
    with system.open(path, "rb") as source:
        try:
            source.seek(there.bytes)
        except (OSError, ValueError, NotImplementedError):  # a stream: what is there already is read again
            left = there.bytes
            while left and (block := source.read(min(left, _COPY))):
                left -= len(block)
        noted = there.bytes
        while block := source.read(_COPY):
            there.append(block)
            if there.bytes - noted >= _RANGE:
                yield
                noted = there.bytes
    yield
    if (size := system.info(path).get("size")) is not None and there.bytes < size:
        raise ConnectionError("it ended early")


def check_destination(url: str, names: Collection[str]) -> None:
    """Find out before the work that a URL can be reached, that a local one can be written, and that nothing
    else has one of the names below it that may be sent."""
    with _file_system(url, written=True) as (system, place):
        if _is_local(system):
            check_parent(Path(place, MANIFEST))
        _sent(system, place.rstrip("/"), url, names)


def send(files: Mapping[str, tuple[Path, str]], url: str, whole: bool = True) -> None:
    """Copy files (names below the URL -> what has them, and its checksum) to a URL: all of them or, after an
    error, none; a manifest with their checksums comes last. With `whole`, files that an earlier run has sent,
    and this one does not have, are removed at the end.

    Nothing is copied that is there with the checksum and length that it has here. What was copied is read
    again, and compared. A list of what is in work is there meanwhile, with the checksums that each file may
    have after a kill. Refused: a URL that cannot be written, a file there that would be lost and is not as a
    run has sent it, a file that is damaged.
    """
    sums = {name: checksum for name, (_, checksum) in files.items()}
    with _file_system(url, written=True) as (system, place):
        place = place.rstrip("/")
        before, begun = _sent(system, place, url, sums)
        there = {name for name in before | begun if system.lexists(f"{place}/{name}")}
        # What was in work may be there or not, and old or new.
        new = {
            name
            for name, (path, checksum) in files.items()
            if name not in there
            or name in begun
            or before[name] != checksum
            or system.size(f"{place}/{name}") != path.stat().st_size
        }
        gone = there - sums.keys() if whole else set()
        ours = {
            name: sorted({of[name] for of in (before, sums) if name in of}.union(begun.get(name, ())))
            for name in new | gone | begun.keys()
        }
        for name in sorted(there & (new | gone)):
            _check_sent(system, f"{place}/{name}", f"{url}/{name}", ours[name], files.get(name))
        after = {name: before[name] for name in before.keys() & there - gone} | sums
        if new or gone:
            _make_folder(system, place)
            _write(system, f"{place}/{_IN_WORK}", ours)
            with _at_once(system, place, sorted(new)) as folder:
                try:
                    for name in sorted(new):
                        _upload(system, *files[name], f"{folder}/{name}")
                except BaseException:  # nothing is there yet
                    if not begun:
                        system.rm_file(f"{place}/{_IN_WORK}")
                    raise
            system.invalidate_cache()
            for name in sorted(new):
                with system.open(f"{place}/{name}", "rb") as file:
                    if (found := _copied_bytes(file)) != sums[name]:
                        ours[name].append(found)
                        _write(system, f"{place}/{_IN_WORK}", ours)
                        raise MexmaError(
                            f"{url}/{name} is not what was sent there", "run the same command again"
                        )
        if before != after:
            _write(system, f"{place}/{MANIFEST}", after)
        for name in sorted(gone):
            system.rm_file(f"{place}/{name}")
        if begun and _is_local(system):
            clear(Path(place, _FILES))
        if left := {name: ours[name] for name in begun.keys() & there - new - gone}:
            _write(system, f"{place}/{_IN_WORK}", left)
        elif new or gone or begun:
            system.rm_file(f"{place}/{_IN_WORK}")


def _is_local(system: Any) -> bool:
    return "file" in ((system.protocol,) if isinstance(system.protocol, str) else system.protocol)


def _make_folder(system: Any, path: str) -> None:
    if _is_local(system):
        make_folder(Path(path))
    else:
        system.makedirs(path, exist_ok=True)


@contextmanager
def _at_once(system: Any, place: str, names: Sequence[str]) -> Iterator[str]:
    """Let files that are written in the block get their names at its end: all or, after an error in it, none.

    Yields:
        The folder to write them in. A local one is not on the disk of temporary files: what is moved from
        there may be copied, and a kill cuts it.
    """
    if not _is_local(system):
        with system.transaction:
            yield place
        return
    with workplace(Path(place, _FILES)) as part:
        yield str(part)
        for name in names:
            with (part / name).open("rb") as file:
                fsync_file(file)
        finals = [Path(place, name) for name in names]
        for name, final in zip(names, finals, strict=True):
            make_parent(final)
            (part / name).replace(final)
        for folder in {final.parent for final in finals}:
            fsync_folder(folder)


def _upload(system: Any, path: Path, checksum: str, there: str) -> None:
    _make_folder(system, there.rpartition("/")[0])
    with path.open("rb") as source, system.open(there, "wb") as file:
        if _copied_bytes(source, file) != checksum:
            raise MexmaError(f"{path} is damaged: it is not what the run has made", ANEW)


def _copied_bytes(source: IO[bytes], to: IO[bytes] | None = None) -> str:
    """The checksum of a file that is read, and perhaps copied."""
    digest = xxhash.xxh3_128()
    while block := source.read(_COPY):
        digest.update(block)
        if to is not None:
            to.write(block)
    return digest.hexdigest()


def _check_sent(
    system: Any, there: str, url: str, sums: Collection[str], file: tuple[Path, str] | None
) -> None:
    """Refuse a file that is to be replaced, by `file` of here, or removed, and has none of the checksums of
    what runs have sent; a kill may have left the beginning of what is sent now."""
    digest = xxhash.xxh3_128()
    with system.open(there, "rb") as found, ExitStack() as stack:
        whole = stack.enter_context(file[0].open("rb")) if file else None
        begins = whole is not None
        while block := found.read(_COPY):
            digest.update(block)
            begins = begins and whole is not None and whole.read(len(block)) == block
    if not begins and digest.hexdigest() not in sums:
        raise _not_sent(url)


def _not_sent(url: str) -> MexmaError:
    return MexmaError(
        f"{url} is not what a run has sent there, and would be lost",
        "move it away, or name another `output.to`",
    )


def _write(system: Any, manifest: str, files: Mapping[str, Any]) -> None:
    """Write a manifest, whole or not at all."""
    text = (json.dumps({"kind": "corpus", "files": files}, indent=1, sort_keys=True) + "\n").encode()
    if _is_local(system):
        with whole_file(Path(manifest)) as file:
            file.write(text)
    else:
        with system.transaction:
            system.pipe_file(manifest, text)


def _sent(
    system: Any, place: str, url: str, names: Collection[str]
) -> tuple[dict[str, str], dict[str, list[str]]]:
    """The files that runs have sent, with their checksums, and those that a killed run was sending, with the
    checksums that they may have; a manifest of something else, or another's file of one of the names, is
    refused."""
    system.invalidate_cache()
    before, begun = (_listed(system, f"{place}/{name}", f"{url}/{name}") for name in (MANIFEST, _IN_WORK))
    for name in sorted(set(names) - before.keys() - begun.keys()):
        if system.lexists(f"{place}/{name}"):
            raise _not_sent(f"{url}/{name}")
    return before, begun


def _listed(system: Any, manifest: str, url: str) -> dict[str, Any]:
    """The files and checksums in a manifest that `send` wrote; nothing where there is none."""
    if not system.exists(manifest):
        return {}
    try:
        found = json.loads(system.cat_file(manifest))
        files = dict[str, Any](found["files"]) if found["kind"] == "corpus" else {"": ""}
        if all(stays_inside(name) and _NAMES.fullmatch(name) for name in files):
            return files
    except (ValueError, KeyError, TypeError, AttributeError):
        pass
    raise MexmaError(
        f"{url} is of something else, and results would go beside it", "name another `output.to`"
    )


_NOT_WRITABLE = (405, 501)
"""The answers of a web server that takes no files."""


@contextmanager
def _file_system(url: str, written: bool = False) -> Iterator[tuple[Any, str]]:
    """The file system of a URL that is read, or also `written`, and the path there; whatever its library
    raises becomes a message."""
    require("fsspec", "remote", url)
    from fsspec.core import url_to_fs

    try:
        yield url_to_fs(url)
    except MexmaError:
        raise
    except ImportError as error:
        raise MexmaError(f"{url}: {error}", f"for s3:// and gs://: {installed_by('remote')}") from None
    except FileNotFoundError as error:
        raise MexmaError(f"{url}: no such file ({error.__cause__ or error})") from None
    except Exception as error:  # every cloud's library has exceptions of its own
        lacking = isinstance(error, NotImplementedError) or getattr(error, "status", 0) in _NOT_WRITABLE
        if written and lacking:
            raise MexmaError(f"{url}: nothing can be written there", "name another `output.to`") from None
        first = str(error).partition("\n")[0]
        hint = _HADOOP if "libjvm" in first or "libhdfs" in first else None
        raise MexmaError(f"{url}: {type(error).__name__}: {first}", hint) from error
