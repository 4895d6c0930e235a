"""Where benchmarks keep their text: line-aligned folders, by the names under which they are published."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from mexma_cli.errors import MexmaError
from mexma_cli.languages import resolve
from mexma_cli.recipe import load
from mexma_cli.text.amounts import counted
from mexma_cli.text.compression import ENDINGS
from mexma_cli.text.lines import is_blank, read_lines

log = logging.getLogger(__name__)

PUBLISHED_LISTS = {"81": "81langs", "90": "90langs"}
"""The paper's lists (Tables 13 and 14), and the recipes that have them."""

ALIGNED_HINT = (
    "FLORES-200 (github.com/facebookresearch/flores, flores200_dataset/devtest/<code>.devtest), NTREX-128 "
    "(github.com/MicrosoftTranslator/NTREX, newstest2019-ref.<code>.txt), or any folder of line-aligned "
    "<code>.txt, compressed or not"
)
_FEW = 10
"""Languages that a message lists of those that are there."""
_LACKING = 12
"""And of those of a published list that are not: NTREX-128 lacks eleven of the 81."""
_COMPRESSED = f"(?:{'|'.join(map(re.escape, ENDINGS))})?"


@dataclass(frozen=True)
class AlignedFolder:
    """Files of which line n is always the same sentence.

    `files` goes by FLORES-200 code where the name's code has one that no nearer name has, else by the code
    as it is in the name (NTREX-128 has `fra` and `fra-CA`); `layout` says which files they are.
    """

    folder: Path
    layout: str
    files: dict[str, Path]

    def choose(self, languages: str | None) -> dict[str, Path]:
        """The files that `--langs` means (see `language_list`), by code as `files` has it; None: all.

        Data other than FLORES-200 may lack languages of a published list: a warning names the first of them.

        Raises:
            MexmaError: As `language_list`; or languages have no file. Those of the user's own list are all
                named, with their lines where they are from a file.
        """
        if languages is None:
            return dict(self.files)
        found, missing = {}, []
        for code, line in language_list(languages).items():
            key = self._key(code)
            if key in self.files:
                found[key] = self.files[key]
            else:
                missing.append(f"{code} ({languages}, line {line})" if line else code)
        count, more = counted(len(missing), "language"), len(missing) - _LACKING
        if languages in PUBLISHED_LISTS and more > 0:
            missing[_LACKING:] = [f"and {more} more"]
        if missing and found and languages in PUBLISHED_LISTS:
            log.warning(
                "warning: %s: no %s for %s of --langs %s, which are left out: %s",
                self.folder,
                self.layout,
                count,
                languages,
                ", ".join(missing),
            )
        elif missing:
            raise self._lacks(missing)
        return found

    def one(self, code: str) -> tuple[str, Path]:
        """A language as `files` has it, and its file.

        Raises:
            MexmaError: An unknown code, or it has no file.
        """
        key = self._key(code)
        if key not in self.files:
            raise self._lacks([code])
        return key, self.files[key]

    def _key(self, code: str) -> str:
        return code if code in self.files else resolve(code)

    def _lacks(self, missing: Sequence[str]) -> MexmaError:
        where = next(iter(self.files.values())).parent
        few = len(self.files) <= _FEW
        there = ", ".join(sorted(self.files)) if few else f"`ls {where}` lists them"
        return MexmaError(
            f"{self.folder}: no {self.layout} for {', '.join(missing)}",
            f"there are {len(self.files)} languages: {there}",
        )


def aligned_folder(folder: Path, split: str) -> AlignedFolder:
    """The line-aligned files of a folder: FLORES-200, NTREX-128 or plain ones.

    Looked for are `<split>/<code>.<split>` here and, if the folder is the split's own, `<code>.<split>`;
    `newstest2019-{src,ref}.<code>.txt` here and in NTREX-128/; `<code>.txt`. The first kind that is there.

    Raises:
        MexmaError: None of these is there.
    """
    if not folder.is_dir():
        raise MexmaError(f"{folder} is no folder" if folder.exists() else f"{folder}: no such folder")
    flores, ntrex = rf"{re.escape(split)}", r"newstest2019-(?:src|ref)\.([A-Za-z_-]+)\.txt"
    for where, pattern, layout in (
        (folder / split, rf"([A-Za-z_-]+)\.{flores}", f"{split}/<code>.{split}"),
        (folder, rf"([A-Za-z_-]+)\.{flores}", f"<code>.{split}"),
        (folder, ntrex, "newstest2019-ref.<code>.txt"),
        (folder / "NTREX-128", ntrex, "NTREX-128/newstest2019-ref.<code>.txt"),
        (folder, r"([A-Za-z_-]+)\.txt", "<code>.txt"),
    ):
        files = _files(where, pattern + _COMPRESSED)
        if files:
            return AlignedFolder(folder, layout, files)
    raise MexmaError(f"{folder}: no line-aligned files, split {split!r}", f"needed: {ALIGNED_HINT}")


def _files(folder: Path, pattern: str) -> dict[str, Path]:
    """By code, the plainest name of a language first: `eng` before `eng-US`."""
    names = sorted(folder.iterdir() if folder.is_dir() else [], key=lambda path: (len(path.name), path.name))
    files: dict[str, Path] = {}
    seen: set[str] = set()  # fra.txt.gz beside fra.txt is the same text packed, not another language
    for path in names:
        match = re.fullmatch(pattern, path.name)
        code = match and match[1] not in seen and _known(match[1])
        if match and code:
            seen.add(match[1])
            files.setdefault(code if code not in files else match[1], path)
    return dict(sorted(files.items()))


def _known(code: str) -> str | None:
    try:
        return resolve(code)
    except MexmaError:
        return None


def language_list(text: str) -> dict[str, int | None]:
    """The codes that `--langs` means: a published list (81, 90), a file of codes, or codes.

    In a file codes stand on lines of their own or between spaces or commas; `#` begins a comment.

    Returns:
        Each code once, in order, with its line if it is from a file.

    Raises:
        MexmaError: An unknown code, with the file's line; or there is none.
    """
    if text in PUBLISHED_LISTS:
        return dict.fromkeys(load(PUBLISHED_LISTS[text]).data.languages)
    codes: dict[str, int | None] = {}
    path = Path(text)
    # Of `fra` the language, even beside a text of that name; no error where codes are too long for a name.
    is_file = _known(text) is None and os.path.isfile(text)
    lines: Iterable[str] = read_lines(path) if is_file else [text]
    for number, line in enumerate(lines, 1):
        for code in filter(None, re.split(r"[\s,]+", line.partition("#")[0])):
            if _known(code) is None:
                where = f"{path}, line {number}" if is_file else "--langs"
                raise MexmaError(
                    f"{where}: {code!r} is no language code",
                    f"{', '.join(PUBLISHED_LISTS)}, a file of codes, or codes with commas between them",
                )
            codes.setdefault(code, number if is_file else None)
    if not codes:
        raise MexmaError(f"--langs {text!r} names no language")
    return codes


def read_aligned(path: Path, target: Path, lines: int) -> list[str]:
    """The lines of a file that must have as many as the target's.

    Raises:
        MexmaError: It has not; or as `read_lines`.
    """
    found = list(read_lines(path))
    if len(found) != lines:
        short, long = (path, target) if len(found) < lines else (target, path)
        least = min(len(found), lines)
        raise MexmaError(
            f"{path} has {counted(len(found), 'line')}, {target} has {lines:,}: "
            f"line {least + 1:,} of {long} has no counterpart in {short}",
            "line n of one must be the translation of line n of the other",
        )
    return found


def read_sentences(path: Path) -> list[str]:
    """All lines of a file.

    Raises:
        MexmaError: It has none; or as `read_lines`.
    """
    found = list(read_lines(path))
    if not found:
        raise MexmaError(f"{path} is empty", "a line for each sentence is needed")
    return found


def both_filled(source: Sequence[str], target: Sequence[str]) -> list[int]:
    """The rows of which neither side is empty: a verse that one translation has not, for example."""
    pairs = enumerate(zip(source, target, strict=True))
    return [row for row, (one, other) in pairs if not is_blank(one) and not is_blank(other)]
