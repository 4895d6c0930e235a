"""Where compiled loops are kept, and how: in one folder a processor, which another user cannot have filled.

Numba's own cache has one index for all processors that share it, which two processes may overwrite at the
same time; it trusts every folder that can be written to; and does not use one that can only be read, such as
that in the image of a container. Its files are pickled, so whoever writes them runs code here.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import hashlib
import os
import pickle
import stat
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from numba import config
from numba.core import codegen
from numba.core.caching import CompileResultCacheImpl, FunctionCache
from numba.core.runtime import rtsys

from mexma_cli.numerics.machine import cache_folder

_PACKAGE = Path(__file__).parents[1]
_UNREADABLE = (OSError, EOFError, pickle.UnpicklingError, ImportError, AttributeError)
"""What a damaged file raises, and one that names a class of an older version of this package."""


def _places() -> Iterator[Path]:
    """Where loops may be kept, best first."""
    if config.CACHE_DIR:
        yield Path(config.CACHE_DIR)
    yield _PACKAGE / "__pycache__" / "loops"
    if user := cache_folder():
        yield user / "mexma-loops"


def _processor() -> str:
    """A name for all processors that run the same code: LLVM's, and a hash of its list of instructions."""
    features = hashlib.sha256(codegen.get_host_cpu_features().encode()).hexdigest()
    return f"{codegen.ll.get_host_cpu_name()}-{features[:12]}"


def _distrusted(folder: Path) -> str | None:
    """Why others could have put something into a folder; None: they could not, or it is not there yet."""
    try:
        found = folder.stat()
    except OSError:
        return None
    if found.st_uid not in (0, os.geteuid(), _PACKAGE.stat().st_uid):
        return "belongs to another user"
    return "can be written to by everybody" if found.st_mode & stat.S_IWOTH else None


def choose_folders(told: Callable[[str], object]) -> tuple[list[Path], bool]:
    """The folders of this processor's loops, and whether new ones can be kept: in the last of them.

    Args:
        told: Called with each folder that is not used, and why.
    """
    found: list[Path] = []
    for place in _places():
        folder = place / _processor()
        if why := _distrusted(place) or _distrusted(folder):
            told(f"{place} {why}")
            continue
        with contextlib.suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
        if os.access(folder, os.W_OK | os.X_OK):
            return [*found, folder], True
        told(f"{place} cannot be written to")
        if folder.is_dir() and any(folder.iterdir()):  # as in an image, whose maker has compiled all
            found.append(folder)
    return found, False


@functools.cache
def _stamp(folder: Path) -> bytes:
    """A hash of a folder's Python files: their times change when a package is copied."""
    found = hashlib.sha256()
    for path in sorted(folder.glob("*.py")):
        found.update(path.read_bytes())
    return found.digest()


class Keeper(FunctionCache):
    """Numba's cache of one function, in a folder; what cannot be read is compiled, what cannot be written is
    not kept.

    Args:
        folders: As from `choose_folders`, at least one.
    """

    def __init__(self, function: Callable[..., Any], folders: Sequence[Path]) -> None:
        *others, own = folders
        self._others = Keeper(function, others) if others else None
        self._impl_class = functools.partial(_Kept, own)
        super().__init__(function)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The function for these types, as it is kept; None if it is not.

        Numba would load all that compiling needs first, SciPy included, which takes a second; machine code
        needs no more than the runtime that it calls.
        """
        if self._others and (found := self._others.load_overload(sig, target_context)) is not None:
            return found
        rtsys.initialize(target_context)
        try:
            return self._load_overload(sig, target_context)
        except _UNREADABLE:
            with contextlib.suppress(OSError):
                self.flush()  # so that what is compiled now can be kept
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep the function for these types; one process writes at a time."""
        with contextlib.suppress(*_UNREADABLE):
            os.makedirs(self.cache_path, exist_ok=True)
            with open(os.path.join(self.cache_path, "lock"), "w") as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                super().save_overload(sig, data)


class _Kept(CompileResultCacheImpl):
    """Numba's names of files, in our folder."""

    def __init__(self, folder: Path, function: Callable[..., Any]) -> None:
        self._locator_classes = [_Locator(folder)]
        super().__init__(function)


class _Locator:
    """The interface that Numba asks for of a cache's folder, for one function."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def from_function(self, function: Callable[..., Any], file: str) -> _Locator:
        """This locator, told of a function and its source file, as Numba asks for one."""
        self._file, self._line = file, function.__code__.co_firstlineno
        return self

    def ensure_cache_path(self) -> None:
        """Do nothing: the folder is made before (`Keeper.save_overload`)."""

    def get_cache_path(self) -> str:
        """A folder for each of the package's, since modules may have equal names."""
        return str(self._folder / Path(self._file).parent.name)

    def get_source_stamp(self) -> bytes:
        """Changes with the function and with all that it calls, which is in its folder or in this one."""
        return _stamp(Path(self._file).parent) + _stamp(Path(__file__).parent)

    def get_disambiguator(self) -> str:
        """Tell functions of one name in one file apart."""
        return str(self._line)
