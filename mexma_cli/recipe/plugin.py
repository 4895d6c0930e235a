"""A user's own objectives: a Python file, anywhere, that registers them as the package's own are."""

from __future__ import annotations

import sys
import traceback
from pathlib import Path
from types import ModuleType

from mexma_cli.errors import MexmaError
from mexma_cli.recipe.registry import registered


def load_plugin(path: str | Path) -> None:
    """Run a Python file, so that recipes may name the objectives that it registers.

    It is run again each time, and its objectives take the place of those that it registered before.

    Raises:
        MexmaError: There is no such file, or it does not run (the message has the line), or it registers no
            objective, or one by a name that another has.
    """
    file = Path(path)
    if not file.is_file():
        raise MexmaError(f"--plugin {path}: no such file", "it is a Python file that registers an objective")
    name = str(file.resolve())
    known = registered()
    for before in [key for key, settings in known.items() if settings.__module__ == name]:
        del known[before]
    module = ModuleType(name)
    module.__file__ = name
    sys.modules[name] = module  # where pydantic looks for what the types of fields are called
    try:
        exec(compile(file.read_bytes(), name, "exec", dont_inherit=True), vars(module))
    except Exception as error:
        said = " ".join(str(error).split())
        what = said if isinstance(error, MexmaError) else f"{type(error).__name__}: {said}"
        raise MexmaError(f"--plugin {path}{_line(error, name)}: {what}") from error
    if name not in {settings.__module__ for settings in known.values()}:
        raise MexmaError(
            f"--plugin {path} registers no objective",
            'above the class of its settings stands @objective("NAME", Class), from mexma_cli.recipe',
        )


def _line(error: Exception, file: str) -> str:
    """The line of the file that did not run."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    if isinstance(error, SyntaxError) and error.filename == file:
        lines.append(error.lineno)
    return f", line {lines[-1]}" if lines else ""
