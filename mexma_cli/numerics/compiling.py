"""How Numba compiles inner loops, and a message to the user who waits for it."""

from __future__ import annotations

import functools
import gc
import logging
import os
from collections.abc import Callable
from typing import Any

from numba import njit, types
from numba.core.event import Event, Listener, register
from numba.extending import intrinsic

from mexma_cli.numerics.numba_cache import Keeper, choose_folders

log = logging.getLogger(__name__)

_UNUSED: list[str] = []
_FOLDERS, _WRITABLE = choose_folders(_UNUSED.append)


def kept_in() -> str | None:
    """Where compiled loops are kept: in NUMBA_CACHE_DIR, the package or the user's cache folder; None: they
    cannot be kept in any of them, as in a container without a home."""
    return str(_FOLDERS[-1]) if _WRITABLE else None


def compiled(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Numba's `njit`, as a decorator with or without arguments, for loops that are kept."""
    if function is None:
        return functools.partial(compiled, **options)
    dispatcher = njit(nogil=True, error_model="numpy", no_cfunc_wrapper=True, **options)(function)
    if _FOLDERS:
        dispatcher._cache = Keeper(function, _FOLDERS)
    return dispatcher


# Called by other loops only: the code by which Python calls a loop takes time to compile, too.
inner = functools.partial(compiled, no_cpython_wrapper=True)
# Sums may be reordered, so that they become vector instructions. NaN is still handled correctly.
summing = functools.partial(compiled, fastmath={"reassoc", "contract", "nsz"})
# Always inlined. LLVM would otherwise inline a function or not, depending on whether it was in the cache of
# compiled code, and sums would differ in the last bit.
inlined = functools.partial(summing, inline="always")
# Both. If its first statement is `apart()`, it is compiled once for all loops that call it.
called = functools.partial(summing, no_cpython_wrapper=True)


@intrinsic
def apart(_: Any) -> Any:
    """Never inline the loop that says this, and compile it once for all loops that call it."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        builder.function.attributes.add("noinline")
        return context.get_dummy_value()

    return types.void(), code


@intrinsic
def as_bits(_: Any, number: Any, kind: Any) -> Any:
    """The bits of a number as one of another type: `number.view(kind)`, which takes longer to compile."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], context.get_value_type(signature.return_type))

    return kind.dtype(number, kind), code


class _FirstUse(Listener):
    """Says once why the first run is slow. Later runs find compiled code on the disk.

    Meanwhile Python does not look for garbage, which took a seventh of the time: nearly all that compiling
    makes is in use.
    """

    told, depth, collected = False, 0, False

    def on_start(self, event: Event) -> None:
        if not self.depth:
            self.collected = gc.isenabled()
            gc.disable()
        self.depth += 1
        if not self.told:
            then, why = "kept" if _WRITABLE else "not kept", ""
            if _UNUSED and (not _WRITABLE or "NUMBA_CACHE_DIR" in os.environ):
                why = f": {'; '.join(_UNUSED)}; let NUMBA_CACHE_DIR name a folder of yours"
            log.info("compiling inner loops for this processor: some seconds (%s%s)", then, why)
            self.told = True

    def on_end(self, event: Event) -> None:
        self.depth -= 1
        if self.collected and not self.depth:
            gc.enable()


register("numba:compile", _FirstUse())
