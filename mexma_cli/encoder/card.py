"""An encoder's model card: README.md, which says at its head what languages the encoder was trained on."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import yaml

FILE = "README.md"
_HEAD = re.compile(r"---\n(.*?\n)---\n", re.DOTALL)


def head(languages: Iterable[str], license: str | None = None) -> str:
    """The lines between `---` that the Hugging Face hub reads.

    Args:
        languages: FLORES-200 codes. `language` has them as the hub wants them, by ISO 639-3 alone;
            `language_details` with their scripts, as the cards of NLLB-200 do.
    """
    listed = sorted(languages)
    facts = {"license": license} if license else {}
    facts |= {"library_name": "mexma", "pipeline_tag": "sentence-similarity"}
    facts["language"] = ", ".join(dict.fromkeys(code.partition("_")[0] for code in listed)).join("[]")
    facts["language_details"] = ", ".join(listed)
    return "".join(["---\n", *(f"{key}: {value}\n" for key, value in facts.items()), "---\n"])


def languages(folder: Path) -> tuple[str, ...]:
    """FLORES-200 codes of the languages that a folder's encoder was trained on; () if its card has none."""
    try:
        found = _HEAD.match((folder / FILE).read_text(encoding="utf-8"))
        facts = yaml.safe_load(found[1]) if found else None
    except (OSError, UnicodeDecodeError, yaml.YAMLError):
        return ()
    listed = facts.get("language_details") if isinstance(facts, dict) else None
    return tuple(listed.replace(",", " ").split()) if isinstance(listed, str) else ()


def write(folder: Path, languages: Iterable[str]) -> None:
    """A card that says no more than that, for a folder that has none."""
    (folder / FILE).write_text(
        f"{head(languages)}\nA sentence encoder trained with mexma: `mexma embed --model FOLDER`.\n",
        encoding="utf-8",
    )
