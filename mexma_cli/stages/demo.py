"""The demo's texts, which come with the package, and the commands that mine them."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from mexma_cli.errors import MexmaError
from mexma_cli.files import make_folder, shipped_folder, whole_file

TEXTS = "spa-eng"


def shipped_texts() -> Path:
    """The folder of the texts: Spanish and English sentences of Tatoeba, and which translate each other."""
    return shipped_folder("examples") / TEXTS


def lay_out(folder: Path) -> list[list[str]]:
    """Copy the texts into a folder, with the page that says whose they are.

    Returns:
        The commands that embed, mine and measure them, in their order, each as its words.

    Raises:
        MexmaError: The folder cannot be made, or holds anything else.
    """
    texts = {text.name: text.read_bytes() for text in sorted(shipped_texts().iterdir())}
    _check_ours(folder, texts)
    make_folder(folder)
    for name, text in texts.items():
        with whole_file(folder / name) as file:
            file.write(text)
    at = {name: str(folder / name) for name in ("spa.emb", "eng.emb", "pairs.tsv")}
    picture = ["--plot", str(folder / "scores.png")] if importlib.util.find_spec("matplotlib") else []
    return [
        ["embed", "--model", "mini", "--lang", "spa", str(folder / "spa.txt"), "-o", at["spa.emb"]],
        ["embed", "--model", "mini", "--lang", "eng", str(folder / "eng.txt"), "-o", at["eng.emb"]],
        ["mine", at["spa.emb"], at["eng.emb"], "-o", at["pairs.tsv"]],
        ["tune", at["pairs.tsv"], "--gold", str(folder / "gold.tsv"), *picture],
    ]


def _check_ours(folder: Path, texts: dict[str, bytes]) -> None:
    """Refuse a folder with other texts of these names, or with anything but the page, which is the first."""
    there = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    begun = {min(texts), f"{min(texts)}.partial"}
    others = [name for name in there.intersection(texts) if (folder / name).read_bytes() != texts[name]]
    if others or (there and not there & begun):
        raise MexmaError(f"{folder} holds {min(others or there)}, not of the demo", "name another folder")
