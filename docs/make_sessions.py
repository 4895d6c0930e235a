"""Run the shell sessions of Markdown files and write what they print back into them.

    python docs/make_sessions.py [PAGE...]

A block that starts with ```console and follows a line `<!-- session -->` is a session: its lines that begin
with `$ ` are run, one after the other, in a folder with a copy of examples/ that all sessions of a page share
(`cd` lasts to the end of the block); everything else in it is replaced by their output. tests/test_docs.py
runs the same commands on less text. So no number in them is typed by hand. Any other block of commands has a
line before it that says why it is not run.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SESSION = re.compile(r"(?<=<!-- session -->\n)```console\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def commands(block: str) -> list[str]:
    """The commands of a session, a line that ends in a backslash joined with the next."""
    lines = block.replace("\\\n", "\\\0").split("\n")
    return [line.removeprefix("$ ").replace("\0", "\n") for line in lines if line.startswith("$ ")]


def run(block: str, folder: Path) -> str:
    """The session again, with what its commands print now. Raises RuntimeError when one fails."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    shown = []
    for typed in commands(block):
        # The folder where the command left the shell comes after its output.
        script = f"set -e -o pipefail\n{typed}\nprintf '\\0'; pwd"
        done = subprocess.run(
            ["bash", "-c", script],
            cwd=folder,
            env={**os.environ, "PATH": path},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
        )
        if done.returncode:
            raise RuntimeError(f"exit code {done.returncode}: $ {typed}\n{done.stdout}")
        output, _, where = done.stdout.rpartition("\0")
        folder = Path(where.strip())
        shown.append(f"$ {typed}\n{output}")
    return "".join(shown)


def main(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    if not SESSION.search(text):
        return
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(ROOT / "examples", Path(folder) / "examples")

        def refill(match: re.Match[str]) -> str:
            printed = run(match[1], Path(folder)).replace(f"{folder}/", "")  # as a reader would name it
            return f"```console\n{printed}```"

        path.write_text(SESSION.sub(refill, text), encoding="utf-8")


if __name__ == "__main__":
    for name in sys.argv[1:] or ["README.md", *sorted(map(str, Path("docs").glob("**/*.md")))]:
        main(Path(name))
