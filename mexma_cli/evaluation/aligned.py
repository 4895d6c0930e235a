"""xsim over the languages of a folder of line-aligned files."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from mexma_cli.errors import MexmaError
from mexma_cli.evaluation.files import (
    PUBLISHED_LISTS,
    aligned_folder,
    both_filled,
    language_list,
    read_aligned,
    read_sentences,
)
from mexma_cli.evaluation.xsim import XsimResult, xsim
from mexma_cli.languages import name
from mexma_cli.reporting.results import Result
from mexma_cli.text.amounts import counted

log = logging.getLogger(__name__)

Embed = Callable[[Sequence[str]], np.ndarray]
"""N sentences -> float32 [N, d]."""

FLORES_LINES = {"dev": 997, "devtest": 1012}


@dataclass(frozen=True)
class AlignedTexts:
    """What xsim is measured on: the target's lines, and those of every language, all equally many."""

    folder: Path
    layout: str
    split: str
    languages: str
    """As they were asked for: `81`, `90`, a file, codes; `all`."""
    target: str
    target_path: Path
    lines: list[str]
    texts: dict[str, list[str]]

    @property
    def sentences(self) -> int:
        """How many there are to embed."""
        return len(self.lines) * (1 + len(self.texts))

    @property
    def published(self) -> str | None:
        """`81` or `90`, where this is FLORES-200 with that list, as the paper measured it."""
        is_flores = self.layout.endswith(f"<code>.{self.split}") and self.split == "devtest"
        if not is_flores or self.languages not in PUBLISHED_LISTS or self.target != "eng_Latn":
            return None
        whole = self.texts.keys() >= set(language_list(self.languages)) - {self.target}
        return self.languages if whole and len(self.lines) == FLORES_LINES["devtest"] else None

    def settings(self) -> dict[str, Any]:
        """For `Result.settings`."""
        return {
            "data": str(self.folder),
            "files": self.layout,
            "split": self.split if self.layout.endswith(f".{self.split}") else "",
            "target": self.target,
            "languages": self.languages,
            "lines": len(self.lines),
        }


def read_texts(folder: Path, split: str, languages: str | None, target: str) -> AlignedTexts:
    """Read and check all that is to be measured, before anything is embedded.

    Args:
        languages: See `files.language_list`; None: all that are there.

    Raises:
        MexmaError: Nothing is there, languages are missing, or files differ in length.
    """
    there = aligned_folder(folder, split)
    target, target_path = there.one(target)
    files = {code: path for code, path in there.choose(languages).items() if code != target}
    if not files:
        raise MexmaError(f"{folder}: no language besides {target}, into which translations are searched")
    lines = read_sentences(target_path)
    texts = {code: read_aligned(path, target_path, len(lines)) for code, path in files.items()}
    return AlignedTexts(folder, there.layout, split, languages or "all", target, target_path, lines, texts)


def measure_xsim(
    data: AlignedTexts, embed: Embed, margin: str = "ratio", k: int = 4
) -> dict[str, XsimResult]:
    """xsim of every language into the target. A line that is empty on either side takes no part.

    Raises:
        MexmaError: A language and the target have no line in common.
    """
    vectors = embed(data.lines)
    duplicates = len(set(data.lines)) < len(data.lines)
    found, dropped = {}, 0
    for language, lines in data.texts.items():
        rows = both_filled(lines, data.lines)
        if not rows:
            raise MexmaError(f"{data.folder}: {language} and {data.target} have no line that both fill")
        dropped += len(lines) - len(rows)
        texts = [data.lines[row] for row in rows] if duplicates else None
        found[language] = xsim(embed(lines)[rows], vectors[rows], margin, k, texts)
    if dropped:
        log.info("%s left out: empty, or without a translation", counted(dropped, "line"))
    return found


def xsim_result(
    data: AlignedTexts, found: dict[str, XsimResult], encoder: dict[str, Any], margin: str, k: int
) -> Result:
    """The `Result`, with errors by row beside those by sentence where the two differ."""
    differ = any(one.errors != one.index_errors for one in found.values())
    rows = []
    for language, one in found.items():
        row: dict[str, Any] = {
            "language": language,
            "name": name(language),
            "sentences": one.total,
            "errors": one.errors,
            "xsim": one.error_rate,
        }
        if differ:
            row |= {"errors by row": one.index_errors, "xsim by row": one.index_rate}
        rows.append(row)
    scores = {"xsim": fmean(one.error_rate for one in found.values())}
    if differ:
        scores["xsim by row"] = fmean(one.index_rate for one in found.values())
    published = f"xsim-{data.published}" if data.published and (margin, k) == ("ratio", 4) else None
    settings = data.settings() | {"margin": margin, "k": k}
    return Result("xsim", encoder, settings, scores, rows, published)
