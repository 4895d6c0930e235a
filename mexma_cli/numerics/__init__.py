"""Compiled loops, threads, precisions."""

import os

# Else Numba colours its errors where colorama is installed, which then writes "\x1b[0m" at the end of stdout.
os.environ.setdefault("NUMBA_DISABLE_ERROR_MESSAGE_HIGHLIGHTING", "1")
