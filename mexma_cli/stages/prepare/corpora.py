"""The corpora of a recipe: finding their files for every language, and reading the pairs in them."""

from __future__ import annotations

import glob
import re
import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, islice, zip_longest
from pathlib import Path
from typing import Any

from mexma_cli import languages
from mexma_cli.errors import MexmaError
from mexma_cli.files import checksum_file, refuse_pipe
from mexma_cli.formats.bitext import NO_PAIR, PairOfColumns, open_pairs
from mexma_cli.formats.moses import aligned_files
from mexma_cli.formats.tsv import ONE_SIDE
from mexma_cli.settings.training import Corpus, Data
from mexma_cli.text.lines import Member, opened_zip, read_lines
from mexma_cli.text.pages import stated_encoding

_PAIRS_IN_ZIP = 1000  # the list of members is read again for each
_NUMBER = re.compile(r"[-+]?[\d.]+(?:e[-+]?\d+)?", re.IGNORECASE)
Row = tuple[str | None, str, str, str]
"""A reason if the pair is dropped for its place, both sides without white space at the ends, and what a tsv
has behind them."""


@dataclass(frozen=True)
class PairFiles:
    """One file of pairs, in any format that is read, or two: source, target."""

    files: tuple[Path | Member, ...]

    def rows(self, spoken: tuple[str, str]) -> Iterator[Row]:
        """Every pair, in order; the languages choose the sides of a format that tells these apart by them."""
        try:
            yield from self._rows(spoken)
        except MexmaError as error:
            if error.hint == ONE_SIDE:
                hint = f"`paste {shlex.quote(str(self.files[0]))} OTHER > pairs.tsv` joins two aligned texts"
                raise MexmaError(error.message, hint) from None
            raise

    def _rows(self, spoken: tuple[str, str]) -> Iterator[Row]:
        one = len(self.files) == 1
        pairs = open_pairs(*self.files, languages=spoken, left_out=Counter(), each_line=True).pairs
        first = list(islice(pairs, 10)) if one else []
        if first and all(_NUMBER.fullmatch(pair.source.strip()) for pair in first):
            raise MexmaError(
                f"{self.files[0]}: the sources are numbers; each line must be: source TAB target",
                "cut -f2,3 leaves the first column out",
            )
        for pair in chain(first, pairs):
            reason = "malformed" if pair is NO_PAIR else None
            further = pair.further if isinstance(pair, PairOfColumns) else ""
            yield reason, pair.source.strip(), pair.target.strip(), further


@dataclass
class Bitext:
    """One corpus in one language pair, which becomes one store."""

    data: Data
    corpus: Corpus
    language: str
    parts: list[PairFiles]
    looked: str
    """Where its files were looked for."""
    keep: Path | None = None
    known: dict[str, list[Any]] = field(default_factory=dict)
    """Checksums of files that were read before: path -> inode, size, times of the last changes, checksum."""

    @property
    def path(self) -> Path:
        """The store."""
        return store_path(self.data, self.corpus.name, self.language)

    @property
    def label(self) -> str:
        return f"{self.corpus.name} {self.language}"

    @property
    def pair(self) -> tuple[str, str]:
        """FLORES-200 codes of both sides."""
        return languages.resolve(self.language), languages.resolve(self.corpus.target)

    @property
    def files(self) -> list[Path | Member]:
        return [file for part in self.parts for file in part.files]

    @cached_property
    def settings(self) -> dict[str, Any]:
        """All settings of the text that decide the content of the store, as JSON gives them back."""
        data, corpus = self.data, self.corpus
        source, target = self.pair
        return {
            "format": corpus.format,
            "files": [self._identity(file) for file in self.files],
            "keep": [corpus.keep.value, self._identity(self.keep)] if corpus.keep and self.keep else None,
            "source": source,
            "target": target,
            "min_chars": data.min_chars,
            "max_chars": data.max_chars,
            "max_length_ratio": data.max_length_ratio,
            "drop_duplicates": data.drop_duplicates,
        } | ({"rules": data.rules} if data.rules else {})

    def rows(self) -> Iterator[Row]:
        """Every pair of all files; two sides, or a corpus and its `keep` file, that differ in length are
        refused."""
        rows = (row for part in self.parts for row in part.rows(self.pair))
        if self.keep is None or self.corpus.keep is None:
            yield from rows
            return
        for number, (row, part) in enumerate(zip_longest(rows, read_lines(self.keep)), start=1):
            if row is None or part is None:
                raise MexmaError(f"{self.keep} and {self.files[0]} differ in length (line {number})")
            reason, source, target, further = row
            other = "other part" if part != self.corpus.keep.value else None
            yield reason or other, source, target, further

    def _identity(self, file: Path | Member) -> list[Any]:
        """Name and checksum, and the encoding that is stated; a checksum is computed again only if the
        file or its size or times have changed.

        The time of the last change of the inode (ctime) is one of these: no program can set it back.
        A zip lists the checksums of its members itself.
        """
        encoding = [*filter(None, [stated_encoding()])]
        if isinstance(file, Member):
            with opened_zip(file.archive) as archive:
                info = archive.getinfo(file.name)
            return [file.archive.name, file.name, info.file_size, f"{info.CRC:08x}", *encoding]
        now = file.stat()
        facts = [now.st_ino, now.st_size, now.st_mtime_ns, now.st_ctime_ns]
        *before, checksum = self.known.get(str(file.resolve()), [""])
        if before != facts:
            checksum = checksum_file(file)
            self.known[str(file.resolve())] = [*facts, checksum]
        return [file.name, checksum, *encoding]


def store_path(data: Data, corpus: str, language: str) -> Path:
    """The folder of one corpus (its name in the recipe) in one language (as the recipe writes it)."""
    return Path(data.store) / f"{corpus}.{language}"


def find_bitexts(data: Data) -> tuple[list[Bitext], list[MexmaError]]:
    """Every corpus in every language, in the order of the recipe, with its files (of an `optional` corpus
    there may be none); and what is missing: files of corpora that are not optional, and languages that no
    corpus lists or has. A mistake in the recipe itself (a name, a language code, no `{lang}`) is refused, and
    a `data.root` that is no folder."""
    bitexts: dict[Path, Bitext] = {}
    missing: list[MexmaError] = []
    listed_somewhere = {languages.resolve(code) for corpus in data.corpora for code in corpus.languages}
    for code in data.languages:
        if languages.resolve(code) not in listed_somewhere:
            missing.append(MexmaError(f"`data.languages` has {code}, and no corpus of the recipe lists it"))
    for corpus in data.corpora:
        _check(corpus, data)
        listed = None if corpus.format in ("tsv", "aligned") else _Listing(data, corpus)
        for language in data.taken(corpus):
            bitext = (
                _named(data, corpus, language, missing)
                if listed is None
                else listed.bitext(language, missing)
            )
            if bitext.path in bitexts:
                raise MexmaError(
                    f"corpus {corpus.name!r} has {language} twice", "give each corpus its own name"
                )
            bitexts[bitext.path] = bitext
    found = list(bitexts.values())
    if not any(bitext.parts for bitext in found) and not data.resolve("").is_dir():
        nowhere = f"{data.root}: no such folder; it should have the text of each corpus"
        raise MexmaError(nowhere, "--set data.root=DIR names another one")
    return found, missing + _without_data(found, missing)


def bitexts_of(data: Data) -> list[Bitext]:
    """The texts of all corpora (`find_bitexts`), if none is missing."""
    bitexts, missing = find_bitexts(data)
    if missing:
        more = f" (and {len(missing) - 1} more like this: --dry-run lists them)" if len(missing) > 1 else ""
        raise MexmaError(missing[0].message + more, missing[0].hint)
    return bitexts


def _check(corpus: Corpus, data: Data) -> None:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", corpus.name):
        raise MexmaError(f"corpus {corpus.name!r}: a name is letters, digits, `.`, `_` and `-`")
    target = languages.resolve(corpus.target)
    if data.negatives and corpus.negatives == "made" and target != "eng_Latn":
        raise MexmaError(
            f"corpus {corpus.name!r}: hard negatives are made of English sentences, its target is {target}",
            "give it a tsv with further columns, and `negatives: columns`",
        )
    names = [f"{corpus.source_path} {corpus.target_path}"] if corpus.format == "aligned" else corpus.path
    if (
        corpus.format in ("tsv", "aligned")
        and len(corpus.languages) > 1
        and not all("{lang}" in name for name in names)
    ):
        raise MexmaError(f"corpus {corpus.name!r} has several languages but no {{lang}} in its path")
    if corpus.format in ("opus", "mtdata"):  # whose files are the language's, however it is spelled
        spelled: dict[str, str] = {}
        for language in corpus.languages:
            other = spelled.setdefault(languages.resolve(language), language)
            if other != language:
                raise MexmaError(
                    f"corpus {corpus.name!r}: {other} and {language} are one language, with the same files",
                    "list it once",
                )


def _named(data: Data, corpus: Corpus, language: str, missing: list[MexmaError]) -> Bitext:
    """The bitext of a corpus whose files are named in the recipe."""
    files = _files(data, corpus, language)
    for path in files:
        refuse_pipe(path)
    keep = data.resolve(corpus.keep.path.replace("{lang}", language)) if corpus.keep else None
    lacking = [path for path in [*files, *([keep] if keep else [])] if not path.is_file()]
    there = _spelled_otherwise(data, corpus, language) if lacking and lacking[0] != keep else ""
    if lacking and not (corpus.optional and not any(path.exists() for path in files)):
        what = "is a folder" if lacking[0].is_dir() else "no such file"
        missing.append(
            MexmaError(
                f"{lacking[0]}: {what} (corpus {corpus.name!r}, {language}){there}",
                f"paths are taken from `data.root`, now {data.root} (`--set data.root=DIR`); a corpus that "
                "is `optional: true` may lack a language",
            )
        )
    looked = ", ".join(map(str, files)) + there
    parts = [PairFiles((file,)) for file in files] if corpus.format == "tsv" else [PairFiles(tuple(files))]
    return Bitext(data, corpus, language, [] if lacking else parts, looked, keep)


def _files(data: Data, corpus: Corpus, language: str) -> list[Path]:
    names = corpus.path if corpus.format == "tsv" else [corpus.source_path, corpus.target_path]
    return [data.resolve(name.replace("{lang}", language)) for name in names if name]


def _spelled_otherwise(data: Data, corpus: Corpus, language: str) -> str:
    """The addition to a message where a corpus's files have another code for a language than the recipe."""
    for code in languages.spellings(language):
        files = _files(data, corpus, code)
        other = [path for path in files if path not in _files(data, corpus, language)]
        if other and all(path.is_file() for path in files):
            return f"; {other[0].name} is there: write {code} in `languages`"
    return ""


class _Listing:
    """The files of an opus or mtdata corpus, by language."""

    def __init__(self, data: Data, corpus: Corpus) -> None:
        self._data, self._corpus = data, corpus
        self._looked = ", ".join(str(data.resolve(path)) for path in corpus.path)
        self._found: dict[str, list[PairFiles]] = {}
        target = languages.resolve(corpus.target)
        patterns = [data.pattern(path.replace("{lang}", "*")) for path in corpus.path]
        for part, codes in _parts(_under(patterns, corpus.format)):
            first, second = (code_of(data, code) for code in codes)
            if first and second and target in (first, second):
                other = first if second == target else second
                ordered = part.files if second == target else part.files[::-1]
                self._found.setdefault(other, []).append(PairFiles(ordered))

    def bitext(self, language: str, missing: list[MexmaError]) -> Bitext:
        parts = self._found.get(languages.resolve(language), [])
        if not parts and not self._corpus.optional:
            missing.append(
                MexmaError(
                    f"{self._looked}: no pair of files for {language} and {self._corpus.target} "
                    f"(corpus {self._corpus.name!r})",
                    "a corpus that is `optional: true` may lack a language; `data.codes` says how files "
                    "spell one",
                )
            )
        return Bitext(self._data, self._corpus, language, parts, self._looked)


def code_of(data: Data, code: str) -> str | None:
    """FLORES-200 code of a language as files spell it; None if it is none that is known. OPUS has codes of
    its own, such as ze_zh for subtitles in two languages."""
    for known, spellings in data.codes.items():
        if code.lower() in map(str.lower, spellings):
            return languages.resolve(known)
    try:
        return languages.resolve(code)
    except MexmaError:
        return None


def _under(patterns: Sequence[str], format_: str) -> list[Path]:
    """All files that paths or globs of files and folders stand for, sorted; of mtdata the training text."""
    found: set[Path] = set()
    for path in (Path(name) for pattern in patterns for name in glob.glob(pattern, recursive=True)):
        found |= {file for file in path.rglob("*") if file.is_file()} if path.is_dir() else {path}
    if format_ == "mtdata":
        found = {file for file in found if file.parent.name == "train-parts"}
    return sorted(found)


def _parts(paths: list[Path]) -> Iterator[tuple[PairFiles, tuple[str, str]]]:
    """The pairs of sides in zips, and among plain and packed files."""
    for path in paths:
        if path.suffix == ".zip":
            with opened_zip(path) as archive:
                found = list(aligned_files(archive.namelist()))
            if len(found) > _PAIRS_IN_ZIP:
                raise MexmaError(
                    f"{path} holds {len(found):,} pairs of files, the limit is {_PAIRS_IN_ZIP:,}",
                    "unpack it: a folder may hold more",
                )
            for sides in found:
                yield PairFiles(tuple(Member(path, name) for name in sides.names)), sides.codes
    for sides in aligned_files(str(path) for path in paths):
        yield PairFiles(tuple(map(Path, sides.names))), sides.codes


def _without_data(bitexts: list[Bitext], missing: list[MexmaError]) -> list[MexmaError]:
    """Complaints about languages without a file, if there are none about their corpora yet."""
    having = {bitext.pair for bitext in bitexts if bitext.parts}
    lacking: dict[tuple[str, str], list[Bitext]] = {}
    for bitext in bitexts:
        if bitext.pair not in having:
            lacking.setdefault(bitext.pair, []).append(bitext)
    alike: dict[tuple[str, str], list[str]] = {}  # target and where was looked -> languages
    for (source, target), all_ in lacking.items():
        if all(bitext.corpus.optional for bitext in all_):
            looked = ", ".join(dict.fromkeys(bitext.looked for bitext in all_[:3]))
            more = f" and {len(all_) - 3} more corpora" if len(all_) > 3 else ""
            alike.setdefault((target, looked + more), []).append(source)
    errors = []
    for (target, looked), sources in alike.items():
        named = ", ".join(sources) if len(sources) > 1 else f"{sources[0]} ({languages.name(sources[0])})"
        errors.append(
            MexmaError(
                f"no data for {named} with {target} in any corpus; looked in {looked}",
                "fetch some, take the language out of the recipe, or say under "
                "`data.codes` how files spell it",
            )
        )
    return errors
