"""The demo's texts, which come with the package, and the commands that mine them."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from mexma_cli.files import make_folder, whole_file

TEXTS = "spa-eng"


def shipped_texts() -> Path:
    """The folder of the texts: Spanish and English sentences of Tatoeba, and which translate each other."""
    here = Path(__file__).parents[2]
    folder = here / "examples" if (here / "examples").is_dir() else here.parent / "examples"
    return folder / TEXTS


def lay_out(folder: Path) -> list[list[str]]:
    """Copy the texts into a folder, with the page that says whose they are.

    Returns:
        The commands that embed, mine and measure them, in their order, each as its words.

    Raises:
        MexmaError: The folder cannot be made.
    """
    make_folder(folder)
    for text in sorted(shipped_texts().iterdir()):
        with whole_file(folder / text.name) as file:
            file.write(text.read_bytes())
    at = {name: str(folder / name) for name in ("spa.emb", "eng.emb", "pairs.tsv")}
    picture = ["--plot", str(folder / "scores.png")] if importlib.util.find_spec("matplotlib") else []
    return [
        ["embed", "--lang", "spa", str(folder / "spa.txt"), "-o", at["spa.emb"]],
        ["embed", "--lang", "eng", str(folder / "eng.txt"), "-o", at["eng.emb"]],
        ["mine", at["spa.emb"], at["eng.emb"], "-o", at["pairs.tsv"]],
        ["tune", at["pairs.tsv"], "--gold", str(folder / "gold.tsv"), *picture],
    ]
