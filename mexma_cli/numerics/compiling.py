"""How Numba compiles inner loops, and a message to the user who waits for it."""

from __future__ import annotations

import functools
import logging

from numba import njit
from numba.core.event import Event, Listener, register

log = logging.getLogger(__name__)


def kept_in() -> str | None:
    """Where Numba keeps compiled loops: in NUMBA_CACHE_DIR, the package or the user's cache folder; None: it
    cannot write to any of them, as in a container without a home."""
    try:
        return str(njit(cache=True)(kept_in)._cache.cache_path)
    except RuntimeError:
        return None


KEPT = kept_in() is not None
compiled = functools.partial(njit, nogil=True, cache=KEPT, error_model="numpy")
# Sums may be reordered, so that they become vector instructions. NaN is still handled correctly.
summing = functools.partial(compiled, fastmath={"reassoc", "contract", "nsz"})
# Always inlined. LLVM would otherwise inline a function or not, depending on whether it was in the cache of
# compiled code, and sums would differ in the last bit.
inlined = functools.partial(summing, inline="always")


class _FirstUse(Listener):
    """Says once why the first run is slow. Later runs find compiled code on the disk."""

    told = False

    def on_start(self, event: Event) -> None:
        if not self.told:
            then = "kept" if KEPT else "not kept: NUMBA_CACHE_DIR names no folder that can be written to"
            log.info("compiling inner loops for this processor: up to half a minute (%s)", then)
            self.told = True

    def on_end(self, event: Event) -> None:
        """Nothing to say."""


register("numba:compile", _FirstUse())
