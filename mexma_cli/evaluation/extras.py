"""Packages that some evaluations need, and that `pip install mexma-cli` alone does not bring."""

from __future__ import annotations

import importlib.util

from mexma_cli.errors import MexmaError


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
        raise MexmaError(f"{what} needs {name}, which is not installed", f"pip install 'mexma-cli[{extra}]'")
