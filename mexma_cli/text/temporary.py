"""Temporary files are on a disk that may be full, too."""

from __future__ import annotations

import errno
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from mexma_cli.errors import MexmaError


@contextmanager
def temporary_space() -> Iterator[None]:
    """Turn "disk full" while writing temporary files into a message for the user.

    A message that the disk of an output is full is replaced, too: nothing of a temporary file is kept, and
    the space is needed in another folder.
    """
    try:
        yield
    except (OSError, MexmaError) as error:
        full = error.__cause__ if isinstance(error, MexmaError) else error
        if not isinstance(full, OSError) or full.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise MexmaError(
            f"no space left for temporary files in {tempfile.gettempdir()}",
            "free some space there, or name a folder on another disk: TMPDIR=FOLDER mexma ...",
        ) from full
