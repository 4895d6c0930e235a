"""Retrieval by cosine in aligned sets, both ways: Tatoeba as LASER, XTREME and the DAP paper measure it."""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from mexma_cli.errors import MexmaError
from mexma_cli.evaluation.embedder import Embedder, mark_unknown, taken
from mexma_cli.evaluation.reading import read_aligned, read_all_lines, require_folder
from mexma_cli.knn.exact import knn
from mexma_cli.languages import resolve
from mexma_cli.reporting.result import Result
from mexma_cli.text.compression import plain_name, plain_or_compressed

log = logging.getLogger(__name__)

_OF_36 = (
    "afr ara bul ben deu ell spa est eus pes fin fra heb hin hun ind ita jpn jav kat kaz kor mal mar nld por "
    "rus swh tam tel tha tgl tur urd vie cmn"
)
_FEW = {"jav": 205, "kat": 746, "kaz": 575, "mal": 687, "swh": 390, "tam": 307, "tel": 234, "tha": 548}
PAIRS = {code: _FEW.get(code, 1000) for code in _OF_36.split()}
"""How many pairs LASER's sets have, for the languages of XTREME."""
GROUPS = {
    "14": ("ara", "bul", "cmn", "deu", "ell", "fra", "hin", "rus", "spa", "swh", "tha", "tur", "urd", "vie"),
    "28": tuple(code for code in _OF_36.split() if code not in _FEW),
    "36": tuple(_OF_36.split()),
}
"""By the codes in LASER's file names: the languages of XNLI, those of XTREME's that have 1,000 pairs, and all
of XTREME's. The means of the DAP paper's tables 7 and 8 over these are those of its Table 1."""
ENGLISH = "eng_Latn"
HINT = "LASER's test sets (github.com/facebookresearch/LASER, data/tatoeba/v1): tatoeba.<l>-eng.<l> and .eng"


@dataclass(frozen=True)
class TatoebaTest:
    """A language's sentences and their English translations, row by row."""

    language: str
    """Code in the file's name."""
    sentences: list[str]
    english: list[str]


def read_tatoeba(folder: Path, languages: str | None = None) -> list[TatoebaTest]:
    """LASER's Tatoeba files. Refused: no such files, a language that is not there, and sides of different
    length.

    Args:
        languages: 14, 28 or 36, of which those are taken that are there; or codes with commas between them;
            None: all in the folder.
    """
    pattern = re.compile(r"tatoeba\.([a-z_A-Z]+)-eng\.\1")
    require_folder(folder, f"needed: {HINT}")
    files: dict[str, Path] = {}
    for path in sorted(folder.iterdir()):  # the plain one of two copies comes first
        if name := pattern.fullmatch(plain_name(path.name)):
            files.setdefault(name[1], path)
    if not files:
        raise MexmaError(f"{folder}: no Tatoeba files", f"needed: {HINT}")
    wanted = list(files) if languages is None else _wanted(folder, languages, files)
    pairs = []
    for language in wanted:
        own = files[language]
        plain = own.with_name(f"tatoeba.{language}-eng.eng")
        if (english := plain_or_compressed(plain)) is None:
            raise MexmaError(f"{own.parent}: {plain.name} is missing beside {own.name}", f"needed: {HINT}")
        lines = read_all_lines(english)
        pairs.append(TatoebaTest(language, read_aligned(own, english, len(lines)), lines))
    return pairs


def _wanted(folder: Path, languages: str, files: dict[str, Path]) -> list[str]:
    """The codes in the files' names for the languages that the user asked for, in any spelling."""
    by_code = {resolve(code): code for code in files}
    asked = GROUPS.get(languages) or [code.strip() for code in languages.split(",") if code.strip()]
    found, missing = [], []
    for code in asked:
        name = code if code in files else by_code.get(resolve(code))
        if name is None:
            missing.append(code)
        else:
            found.append(name)
    if found and missing and languages in GROUPS:
        log.warning(
            "%s: no tatoeba.<l>-eng.<l> for %s: left out, and with them the mean of these %s",
            folder,
            ", ".join(missing),
            languages,
        )
    elif missing or not found:
        raise MexmaError(
            f"{folder}: no tatoeba.<l>-eng.<l> for {', '.join(missing) or 'any language'}",
            f"there are {len(files)} languages: {', '.join(sorted(files))}",
        )
    return list(dict.fromkeys(found))  # `deu,de` is one language, not two in the mean


def is_switched(folder: Path) -> bool:
    """Whether `mexma eval codeswitch` made the sets of a folder."""
    return any(folder.glob("codeswitch.*.json"))


DIRECTIONS = ("xx->eng", "eng->xx")


def precision_at_1(x: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """Percent of rows of x and y, [N, d], of which row i of the one is the translation of row i of the other,
    whose nearest row of the other side by cosine is their own: from x to y, from y to x."""
    found = knn(x, y, 1)
    own = np.arange(len(x))
    return (
        100.0 * float((found.forward_ids[:, 0] == own).mean()),
        100.0 * float((found.backward_ids[:, 0] == own).mean()),
    )


def evaluate(pairs: Sequence[TatoebaTest], folder: Path, embed: Embedder) -> Result:
    """Precision at 1 both ways, in percent, for every language that the encoder takes, and the means."""
    rows: list[dict[str, Any]] = []
    for pair in taken({pair.language: pair for pair in pairs}, embed).values():
        found = precision_at_1(embed(pair.sentences, pair.language), embed(pair.english, ENGLISH))
        row = {"language": pair.language, "pairs": len(pair.english)}
        rows.append(row | dict(zip(DIRECTIONS, found, strict=True)))
    return mark_unknown(tatoeba_result(rows, folder, embed.describe()), embed.languages)


def tatoeba_result(rows: list[dict[str, Any]], folder: Path, encoder: dict[str, Any]) -> Result:
    """The `Result`: means over all that was measured, and over each of `GROUPS` that is there as a whole."""
    by_language = {row["language"]: row for row in rows}
    groups = {name: codes for name, codes in GROUPS.items() if by_language.keys() >= set(codes)}
    scores = {direction: fmean(row[direction] for row in rows) for direction in DIRECTIONS}
    for direction in DIRECTIONS:
        for name, codes in groups.items():
            scores[f"{direction} {name}"] = fmean(by_language[code][direction] for code in codes)
    settings = {"data": str(folder), "languages": len(rows)}
    benchmark = "tatoeba" if _as_published(rows, folder) else None
    return Result("tatoeba", encoder, settings, scores, rows, benchmark)


def _as_published(rows: Sequence[dict[str, Any]], folder: Path) -> bool:
    """Whether these are LASER's sets, whole, with one of XTREME's languages among them."""
    known = [row for row in rows if row["language"] in PAIRS]
    parts = [row["language"] for row in known if row["pairs"] != PAIRS[row["language"]]]
    if parts and not is_switched(folder):
        log.info("LASER's sets have other numbers of pairs, so these are not compared: %s", ", ".join(parts))
    return bool(known) and not parts and not is_switched(folder)
