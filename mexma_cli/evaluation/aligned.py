"""Folders of line-aligned texts: FLORES-200, NTREX-128 and others that are laid out like them."""

from __future__ import annotations

import logging
import os
import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mexma_cli.errors import MexmaError
from mexma_cli.evaluation.reading import both_filled, read_aligned, read_all_lines
from mexma_cli.languages import resolve
from mexma_cli.settings.load import load
from mexma_cli.text.amounts import counted
from mexma_cli.text.compression import plain_name
from mexma_cli.text.lines import read_lines

log = logging.getLogger(__name__)

PUBLISHED_LISTS = ("81", "90", "o", "d")
"""The MEXMA paper's lists: Tables 13 and 14, and the columns o-xsim and d-xsim of Tables 1 and 7."""
UNKNOWN_TO_LABSE = {
    *("acm_Arab", "aeb_Arab", "ary_Arab", "arz_Arab", "azb_Arab"),
    *("ckb_Arab", "nno_Latn", "san_Deva", "snd_Arab"),
}
"""Languages of the 81 that are not among the 109 of LaBSE's model card, by their ISO 639 codes."""

ALIGNED_HINT = (
    "FLORES-200 (github.com/facebookresearch/flores, flores200_dataset/devtest/<code>.devtest), NTREX-128 "
    "(github.com/MicrosoftTranslator/NTREX, newstest2019-ref.<code>.txt), or any folder of line-aligned "
    "<code>.txt, compressed or not"
)
_FEW = 10
"""Languages that a message lists of those that are there."""
_LACKING = 12
"""And of those of a published list that are not: NTREX-128 lacks eleven of the 81."""
FLORES_LINES = {"dev": 997, "devtest": 1012}


@dataclass(frozen=True)
class AlignedFolder:
    """Files of which line n is always the same sentence.

    `files` are by FLORES-200 code. Where two files have the same one, as `fra` and `fra-CA` of NTREX-128, the
    one with the longer name goes by the code in its name. `layout` says how the files are named.
    """

    folder: Path
    layout: str
    split: str
    """The split of FLORES-200 that was asked for."""
    files: dict[str, Path]

    @property
    def is_flores(self) -> bool:
        """Whether the files are named as FLORES-200's of this split, or lie in its folder."""
        file = next(iter(self.files.values()))
        return self.layout.endswith(f"<code>.{self.split}") or file.absolute().parent.name == self.split

    def settings(self) -> dict[str, Any]:
        """What the result says of these texts, for `Result.settings`."""
        split = self.split if self.is_flores else ""
        return {"data": str(self.folder), "files": self.layout, "split": split}

    def choose(self, languages: str | None) -> dict[str, Path]:
        """The files that `--langs` means (see `language_list`), by code as `files` has it; None: all.

        Data other than FLORES-200 may lack languages of a published list: a warning names the first of them.
        Others that have no file are refused: all of them are named, with their lines where they are from a
        file.
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
                "%s: no %s for %s of --langs %s, which are left out: %s",
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
        """A language as `files` has it, and its file; a code that is unknown or has none is refused."""
        key = self._key(code)
        if key not in self.files:
            raise self._lacks([code])
        return key, self.files[key]

    def _key(self, code: str) -> str:
        return code if code in self.files else resolve(code)

    def _lacks(self, missing: Sequence[str]) -> MexmaError:
        where = next(iter(self.files.values())).parent
        few = len(self.files) <= _FEW
        there = ", ".join(sorted(self.files)) if few else f"`ls {shlex.quote(str(where))}` lists them"
        return MexmaError(
            f"{self.folder}: no {self.layout} for {', '.join(missing)}",
            f"there are {len(self.files)} languages: {there}",
        )


def aligned_folder(folder: Path, split: str) -> AlignedFolder:
    """The line-aligned files of a folder: FLORES-200, NTREX-128 or plain ones. A folder that has none is
    refused.

    Looked for are `<split>/<code>.<split>` and `<split>/<code>.txt` here and in flores200_dataset/; if the
    folder is the split's own, `<code>.<split>`; `newstest2019-{src,ref}.<code>.txt` here and in NTREX-128/;
    `<code>.txt`. The first of these that is there is taken.
    """
    if not folder.is_dir():
        raise MexmaError(f"{folder} is no folder" if folder.exists() else f"{folder}: no such folder")
    flores, ntrex = rf"([A-Za-z_-]+)\.{re.escape(split)}", r"newstest2019-(?:src|ref)\.([A-Za-z_-]+)\.txt"
    plain, whole = r"([A-Za-z_-]+)\.txt", "flores200_dataset"
    for where, pattern, layout in (
        (folder / split, flores, f"{split}/<code>.{split}"),
        (folder / split, plain, f"{split}/<code>.txt"),
        (folder / whole / split, flores, f"{whole}/{split}/<code>.{split}"),
        (folder / whole / split, plain, f"{whole}/{split}/<code>.txt"),
        (folder, flores, f"<code>.{split}"),
        (folder, ntrex, "newstest2019-ref.<code>.txt"),
        (folder / "NTREX-128", ntrex, "NTREX-128/newstest2019-ref.<code>.txt"),
        (folder, plain, "<code>.txt"),
    ):
        files = _files(where, pattern)
        if files:
            return AlignedFolder(folder, layout, split, files)
    raise MexmaError(f"{folder}: no line-aligned files, split {split!r}", f"needed: {ALIGNED_HINT}")


def _files(folder: Path, pattern: str) -> dict[str, Path]:
    """By code, the plainest name of a language first: `eng` before `eng-US`."""
    names = sorted(folder.iterdir() if folder.is_dir() else [], key=lambda path: (len(path.name), path.name))
    files: dict[str, Path] = {}
    seen: set[str] = set()  # fra.txt.gz beside fra.txt is the same text packed, not another language
    for path in names:
        match = re.fullmatch(pattern, plain_name(path.name))
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
    """The codes that `--langs` means, a published list (81, 90, o, d), a file of codes, or codes: each once,
    in order, with its line if it is from a file. Refused: an unknown code, and none.

    In a file codes stand on lines of their own or between spaces or commas; `#` begins a comment.
    """
    if text in PUBLISHED_LISTS:
        return dict.fromkeys(_published_list(text))
    codes: dict[str, int | None] = {}
    path = Path(text)
    # Of `fra` the language, even beside a text of that name; no error where codes are too long for a name.
    is_file = _known(text) is None and os.path.isfile(text)
    lines: Iterable[str] = read_lines(path) if is_file else [text]
    for number, line in enumerate(lines, 1):
        for code in filter(None, re.split(r"[\s,]+", line.partition("#")[0])):
            try:
                resolve(code)
            except MexmaError as error:
                where = f"{path}, line {number}" if is_file else "--langs"
                lists = f"--langs takes {', '.join(PUBLISHED_LISTS)}, a file of codes, or codes"
                raise MexmaError(f"{where}: {error.message}", f"{error.hint}; {lists}") from None
            codes.setdefault(code, number if is_file else None)
    if not codes:
        raise MexmaError(f"--langs {text!r} names no language")
    return codes


def _published_list(name: str) -> Sequence[str]:
    """The codes of one of `PUBLISHED_LISTS`, without English.

    The paper does not list the 72 languages of `o`, "supported by LaBSE, SONAR, and MEXMA", nor the 34 of
    `d`, "common to DAP and the other models" (section 4.1). They are those of its Table 13 that LaBSE, and
    DAP, were trained on in any script: with English so many, and no others.
    """
    codes = load("90langs" if name == "90" else "81langs").data.languages
    if name == "o":
        return [code for code in codes if code not in UNKNOWN_TO_LABSE]
    if name == "d":
        of_dap = {code.partition("_")[0] for code in load("systems/dap").data.languages}
        return [code for code in codes if code.partition("_")[0] in of_dap]
    return codes


@dataclass(frozen=True)
class AlignedTexts:
    """The texts that xsim is measured on: the lines of the target and of every language, all equally many."""

    source: AlignedFolder
    languages: str
    """The languages as they were asked for: one of `PUBLISHED_LISTS`, a file, codes; `all`."""
    target: str
    lines: list[str]
    texts: dict[str, list[str]]

    @property
    def sentences(self) -> int:
        """How many there are to embed."""
        return len(self.lines) * (1 + len(self.texts))

    def filled_rows(self, language: str) -> list[int]:
        """The rows in which neither the language's line nor the target's is empty, of which there must be
        some."""
        rows = both_filled(self.texts[language], self.lines)
        if not rows:
            where = self.source.folder
            raise MexmaError(f"{where}: {language} and {self.target} have no line that both fill")
        return rows

    @property
    def published(self) -> str | None:
        """One of `PUBLISHED_LISTS`, where this is FLORES-200 with that list, as the paper measured it."""
        is_devtest = self.source.is_flores and self.source.split == "devtest"
        if not is_devtest or self.languages not in PUBLISHED_LISTS or self.target != "eng_Latn":
            return None
        whole = self.texts.keys() >= set(language_list(self.languages)) - {self.target}
        return self.languages if whole and len(self.lines) == FLORES_LINES["devtest"] else None

    def settings(self) -> dict[str, Any]:
        """What the result says of these texts, for `Result.settings`."""
        own = {"target": self.target, "languages": self.languages, "lines": len(self.lines)}
        return self.source.settings() | own


def read_texts(folder: Path, split: str, languages: str | None, target: str) -> AlignedTexts:
    """Read and check all that is to be measured, before anything is embedded, in the languages of a
    `language_list`; None: in all that are there. Refused: missing languages, and files that differ in
    length."""
    there = aligned_folder(folder, split)
    target, target_path = there.one(target)
    files = {code: path for code, path in there.choose(languages).items() if code != target}
    if not files:
        raise MexmaError(f"{folder}: no language besides {target}, into which translations are searched")
    lines = read_all_lines(target_path)
    texts = {code: read_aligned(path, target_path, len(lines)) for code, path in files.items()}
    return AlignedTexts(there, languages or "all", target, lines, texts)
