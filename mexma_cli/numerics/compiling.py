"""How Numba compiles the inner loops of all rooms, and a word to those who wait for it."""

from __future__ import annotations

import functools
import logging

from numba import njit
from numba.core.event import Event, Listener, register

log = logging.getLogger(__name__)


def _kept() -> bool:
    """Whether there is a place for compiled loops: NUMBA_CACHE_DIR, the package, the user's cache folder."""
    try:
        njit(cache=True)(_kept)
    except RuntimeError:  # as in a container without a home
        return False
    return True


KEPT = _kept()
compiled = functools.partial(njit, nogil=True, cache=KEPT, error_model="numpy")
# Sums may be reordered, so that they become vector instructions; not-a-number keeps its meaning.
summing = functools.partial(compiled, fastmath={"reassoc", "contract", "nsz"})
# A part of the function that calls it: compiled apart it would be merged with it or not, and sums differ in
# the last bit, by whether another process has left it in the cache.
inlined = functools.partial(summing, inline="always")


class _FirstUse(Listener):
    """Says once why an installation's first run is slow; later ones find compiled code on the disk."""

    told = False

    def on_start(self, event: Event) -> None:
        if not self.told:
            then = "kept" if KEPT else "not kept: NUMBA_CACHE_DIR names no folder that can be written to"
            log.info("compiling inner loops for this processor: up to half a minute (%s)", then)
            self.told = True

    def on_end(self, event: Event) -> None:
        """Nothing to say."""


register("numba:compile", _FirstUse())
