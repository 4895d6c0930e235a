"""The one exception that means: the user can mend this."""

from __future__ import annotations

import importlib.util


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


def require(package: str, extra: str, what: str) -> None:
    """Find out before the work that a package is there.

    Args:
        package: As it is imported.
        extra: Of ours, that brings it.
        what: Needs it, for the message.

    Raises:
        MexmaError: It is not installed.
    """
    if importlib.util.find_spec(package) is None:
        name = {"sklearn": "scikit-learn"}.get(package, package)
        raise MexmaError(f"{what} needs {name}, which is not installed", installed_by(extra))


def installed_by(extra: str) -> str:
    """The pip command that installs what an extra of ours brings: by name, since ours may be on no index."""
    import shlex
    from importlib import metadata

    try:
        lines = metadata.requires("mexma-cli") or []
    except metadata.PackageNotFoundError:  # run from a checkout, without being installed
        lines = []
    wanted = [line.partition(";")[0].strip() for line in lines if line.endswith(f"extra == '{extra}'")]
    return "pip install " + " ".join(map(shlex.quote, wanted or [f"mexma-cli[{extra}]"]))
