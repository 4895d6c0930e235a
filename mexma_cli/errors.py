"""The one exception that means: the user can mend this."""

from __future__ import annotations


class MexmaError(Exception):
    """A mistake in what was given to the tool: a file, a line, a key, a device.

    Args:
        message: What is wrong and where (file, line, byte, key).
        hint: What to do about it, if there is something to do.
    """

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
