"""The files that OPUS has for a recipe's corpora, and the commands that download them."""

from __future__ import annotations

import csv
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from mexma_cli import languages
from mexma_cli.errors import MexmaError
from mexma_cli.settings.training import Corpus, Data
from mexma_cli.stages.prepare.corpora import code_of
from mexma_cli.text.amounts import counted

LIST = Path(__file__).with_name("opus.tsv")
"""Moses packages with English in the list of opustools 1.9.0, of the corpora in shipped recipes."""


@dataclass(frozen=True)
class OpusFile:
    """A zip of OPUS, of about `size` bytes, whose languages OPUS writes as `codes` (`en-fr`); `language` is
    the FLORES-200 code of the one beside English."""

    corpus: str
    version: str
    codes: str
    language: str
    pairs: int
    size: int

    @property
    def url(self) -> str:
        return f"https://object.pouta.csc.fi/OPUS-{self.corpus}/{self.version}/moses/{self.codes}.txt.zip"


def opus_files(data: Data) -> list[OpusFile]:
    """The zips of a recipe's corpora of format opus in its languages, in the order of the recipe."""
    found: list[OpusFile] = []
    with LIST.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    for corpus in _of_opus(data):
        wanted = set(map(languages.resolve, data.taken(corpus)))
        for row in rows:
            if row["corpus"] == corpus.name:
                language = code_of(data, row["codes"].removeprefix("en-").removesuffix("-en"))
                if language in wanted:
                    numbers = int(row["pairs"]), 1000 * int(row["kilobytes"])
                    found.append(OpusFile(corpus.name, row["version"], row["codes"], language, *numbers))
    return found


def _of_opus(data: Data) -> list[Corpus]:
    return [
        corpus
        for corpus in data.corpora
        if corpus.format == "opus" and languages.resolve(corpus.target) == "eng_Latn"
    ]


def script(data: Data, name: str) -> Iterator[str]:
    """The lines of a shell script that downloads what OPUS lists; what is there already is left out. A recipe
    without a corpus of format opus with English is refused."""
    corpora, files = _of_opus(data), opus_files(data)
    if not corpora:
        raise MexmaError("no corpus of the recipe is of format `opus` with English", "--script is for these")
    yield "#!/bin/sh"
    yield f"# The text of {name} that OPUS lists, by `mexma prepare {name} --script`: {_sums(files)}"
    for corpus in corpora:
        own = [file for file in files if file.corpus == corpus.name]
        if own:
            yield f"# {corpus.name}: {_sums(own)}"
        else:
            folder = shlex.quote(str(data.resolve(corpus.path[0])))
            yield f"# {corpus.name}: not in the list, and left out. Of a language that needs it:"
            yield (
                f"#   opus_get --source en --target CODE --directory {corpus.name} --preprocess moses "
                f"--download_dir {folder}"
            )
    yield "set -eu"
    yield 'get() { [ -f "$1/$2" ] && return; mkdir -p "$1"; curl -fL --retry 5 -C - -o "$1/$2.part" "$3"; '
    yield '  mv "$1/$2.part" "$1/$2"; }'
    folders = {corpus.name: str(data.resolve(corpus.path[0])) for corpus in corpora}
    for file in files:
        yield f"get {shlex.quote(folders[file.corpus])} {file.codes}.zip {file.url}"


def files_needed(data: Data, there: set[tuple[str, str]]) -> str:
    """The files that OPUS has beside those that are there (corpora and FLORES-200 codes), counted in words;
    empty if there are none."""
    files = [file for file in opus_files(data) if (file.corpus, file.language) not in there]
    return _sums(files) if files else ""


def _sums(files: Sequence[OpusFile]) -> str:
    """Languages, zips, pairs and bytes."""
    count, size = len({file.language for file in files}), sum(file.size for file in files)
    pairs = sum(file.pairs for file in files)
    found = f"{counted(count, 'language')}, {counted(len(files), 'zip')}"
    return f"{found}, {pairs:,} pairs, {size / 1e9:.2f} GB"
