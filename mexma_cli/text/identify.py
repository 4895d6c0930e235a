"""Which language lines are in: py3langid, heliport, or a fastText model of the user's."""

from __future__ import annotations

import logging
import mmap
import re
import struct
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import compress, islice
from pathlib import Path
from typing import Any, NamedTuple, Protocol, get_args

import numpy as np

from mexma_cli import languages
from mexma_cli.errors import MexmaError, choice, require
from mexma_cli.files import refuse_pipe
from mexma_cli.settings.stages import IdentifierName
from mexma_cli.text.characters import OWN, OWN_UNSPACED, Characters, share_in_script
from mexma_cli.text.lines import is_blank

log = logging.getLogger(__name__)

SHORT = 20
"""Lines with fewer characters are too short to tell: of those, py3langid is wrong about 7 in 100."""
SURE = 0.5
"""No language is believed that has no more than this probability."""
_NEARLY_ALL = 0.8
"""Share of the lines in another language than the stated one from which that is doubted."""
_LONG, _SURE_OF_KINDRED = 1000, 0.8
"""Characters of a document from which kindred languages are told apart in it, and the probability that it
takes: measured in notes/splitting.md."""
FEWEST, LOOKED_AT = 10, 200
"""Lines from which their language is compared with the stated one, and the first lines that are looked at."""
_LONGEST = 4000
"""Characters of a document that are looked at, and of a line."""
_SPACES = re.compile(r"\s+")
# Codes of several languages, and what models mean by them; then heliport's varieties.
_MEANT = """
ar:arb ara:arb az:azj aze:azj cmn:zho et:est fa:pes fas:pes fil:tgl gn:grn gug:grn hbs:srp ku:kmr lav:lvs
lv:lvs mg:plt mlg:plt mn:khk mon:khk ms:zsm msa:zsm ne:npi nep:npi no:nob nor:nob om:gaz or:ory ori:ory
orm:gaz ps:pbt pus:pbt qu:quy que:quy sh:srp sq:als sqi:als sr:srp sw:swh swa:swh tl:tgl uz:uzn uzb:uzn
yi:ydd yid:ydd zh:zho hbsbos:bos hbshrv:hrv hbssrp:srp msaind:ind msazsm:zsm msamin:min msamalay:zsm
estvro:vro undhtml:und
"""
_CODES = {code: meant for code, _, meant in (pair.partition(":") for pair in _MEANT.split())}
_MAGIC, _VERSIONS, _SUPERVISED, _LOSSES = 793712314, (11, 12), 3, range(1, 5)
_LONGEST_NGRAM = 1000  # letters of an n-gram
_CENTROIDS = 256
_ALL = -1  # in place of how many n-grams were kept, where none was dropped


class Guess(NamedTuple):
    """The most probable language of a line: an ISO 639-3 code, and its probability.

    ``zxx`` is no language (code, tables), ``und`` an unknown one.
    """

    language: str
    probability: float


class Identifier(Protocol):
    """A program that identifies languages. It can be pickled: another process loads its model itself.

    Attributes:
        name: For messages and reports, with the version.
        known: ISO 639-3 codes of the languages that it tells apart.
    """

    name: str
    known: frozenset[str]

    def identify(self, lines: Sequence[str]) -> list[Guess]:
        """The language of each line."""


def identifier(name: IdentifierName, model: Path | None = None) -> Identifier | None:
    """Load an identifier by its name in `settings.stages`, None for ``none``; a fastText model is taken
    instead. Refused: an unknown name, a package that is not installed, a file that is no model."""
    if model is not None:
        return FastText(model)
    if name not in get_args(IdentifierName):
        hint = choice(str(name), get_args(IdentifierName), "identifiers")
        raise MexmaError(f"there is no language identifier {name!r}", f"{hint}; or name a fastText model")
    if name == "none":
        return None
    return Heliport() if name == "heliport" else _py3langid()


class Py3Langid:
    """py3langid's model (Barbaresi, BSD): its labels and probabilities, ten times as fast."""

    def __init__(self) -> None:
        from importlib.metadata import version

        from py3langid.langid import LanguageIdentifier

        model = LanguageIdentifier.from_model_file("data/model.npz.xz")
        self.name = f"py3langid {version('py3langid')}"
        self._automaton = (
            np.asarray(model.tk_nextmove, dtype=np.uint32),
            np.asarray(model.tk_row, dtype=np.int32),
            np.asarray(model.tk_output, dtype=np.int32),
        )
        self._weights = np.asarray(model.nb_ptc, dtype=np.float16).view(np.uint16)
        self._prior = np.asarray(model.nb_pc, dtype=np.float32)
        self._labels = [iso3(label) for label in model.nb_classes]
        self._same = [
            (self._labels.index(label), place)
            for place, label in enumerate(self._labels)
            if self._labels.index(label) < place
        ]  # some languages have two classes, one a script
        self.known = frozenset(self._labels) - {"zxx"}

    def __reduce__(self) -> tuple[Any, ...]:
        return _py3langid, ()

    def identify(self, lines: Sequence[str]) -> list[Guess]:
        """The language of each line; one without any n-gram that the model knows is ``und``."""
        from mexma_cli.numerics.naive_bayes import naive_bayes_scores

        if not lines:
            return []
        encoded = [_plain(line).encode("utf-8", "surrogatepass") for line in lines]
        lengths = np.fromiter(map(len, encoded), dtype=np.int64, count=len(encoded))
        text = np.frombuffer(b"".join(encoded), dtype=np.uint8)
        scores = naive_bayes_scores(text, lengths, self._automaton, self._weights, self._prior)
        unknown = scores[:, 0] == self._prior[0]
        # The temperature with which py3langid makes probabilities of scores.
        scores /= np.sqrt(np.maximum(lengths, 1), dtype=np.float32)[:, None]
        scores -= scores.max(axis=1, keepdims=True)
        np.exp(scores, out=scores)
        total = scores.sum(axis=1)
        for first, other in self._same:
            scores[:, first] += scores[:, other]
            scores[:, other] = 0
        best = scores.argmax(axis=1)
        top = scores[np.arange(len(lines)), best] / total
        return [
            Guess("und", 0.0) if none else Guess(self._labels[place], share)
            for place, share, none in zip(best.tolist(), top.tolist(), unknown.tolist(), strict=True)
        ]


@lru_cache(maxsize=1)
def _py3langid() -> Py3Langid:
    return Py3Langid()


class Heliport:
    """heliport (Jauhiainen and others; GPL-3): 220 languages, by HeLI-OTS."""

    def __init__(self) -> None:
        require("heliport", "heliport", "--lid heliport")
        from importlib.metadata import version

        from heliport import Identifier as Loaded

        self.name = f"heliport {version('heliport')}"
        self._model = Loaded()
        self.known = frozenset(map(iso3, self._model.get_confidence_all())) - {"zxx", "und"}

    def __reduce__(self) -> tuple[Any, ...]:
        return Heliport, ()

    def identify(self, lines: Sequence[str]) -> list[Guess]:
        """The language of each line; its probability is 1, or 0 below heliport's threshold."""
        return [Guess(iso3(found), float(found != "und")) for found in map(self._model.identify, lines)]


class FastText:
    """A model of fastText's with labels that are language codes: GlotLID, OpenLID, lid.176."""

    def __init__(self, path: Path) -> None:
        require("fasttext", "fasttext", "--lid-model")
        import fasttext

        refuse_pipe(path)
        if not path.is_file():
            raise MexmaError(
                f"{path}: no such file", "--lid-model names a fastText model, such as lid.176.bin"
            )
        check_sizes(path)
        try:
            self._model = fasttext.load_model(str(path))
            labels = self._model.labels
        except (ValueError, RuntimeError) as error:
            raise MexmaError(f"{path} is no fastText model: {error}") from None
        self.name, self._path = f"fastText {path.name}", path
        self._codes = {label: iso3(label.removeprefix("__label__")) for label in labels}
        self.known = frozenset(self._codes.values()) - {"zxx", "und"}

    def __reduce__(self) -> tuple[Any, ...]:
        return FastText, (self._path,)

    def identify(self, lines: Sequence[str]) -> list[Guess]:
        """The language of each line."""
        # The library's own `predict` fails with NumPy 2; this is what it calls.
        try:
            found = [self._model.f.predict(_SPACES.sub(" ", line) + "\n", 1, 0.0, "strict") for line in lines]
        except RuntimeError as error:  # a number of the model is none
            raise MexmaError(f"{self.name} does not work: {error}", "is the model whole?") from None
        return [
            Guess(self._codes[best[0][1]], min(best[0][0], 1.0)) if best else Guess("und", 0.0)
            for best in found
        ]


def _plain(line: str) -> str:
    """A line as py3langid looks at it."""
    line = line[:_LONGEST]
    return line.lower() if line.isupper() else line


@lru_cache(maxsize=4096)
def iso3(label: str) -> str:
    """The ISO 639-3 code of a model's label, such as ``fr``, ``fra``, ``fra_Latn`` or ``zh``."""
    base = label.replace("-", "_").partition("_")[0]
    if base in _CODES:
        return _CODES[base]
    if len(base) > 3:  # heliport's dialects of Finnish
        base = base[:3]
    if base in ("zxx", "und"):
        return base
    try:
        return languages.resolve(base).partition("_")[0]
    except MexmaError:
        return base


@lru_cache(maxsize=1)
def _groups() -> list[tuple[frozenset[str], str]]:
    """Kindred languages, and the identifiers that tell whole documents in them apart."""
    _, *rows = Path(__file__).with_name("kindred.tsv").read_text(encoding="utf-8").splitlines()
    return [(frozenset(codes.split()), tellers) for codes, _, tellers in (row.split("\t") for row in rows)]


def kindred(language: str) -> frozenset[str]:
    """Languages that identifiers take for this one (ISO 639-3, or a FLORES-200 code) in text that is rightly
    called so, and itself."""
    base = language.partition("_")[0]
    return frozenset({base}).union(*(codes for codes, _ in _groups() if base in codes))


def expected(language: str, model: Identifier) -> frozenset[str]:
    """Codes that an identifier may give to text in a language; refused where it knows neither that nor a
    kindred one."""
    wanted = kindred(language)
    if not wanted & model.known:
        raise MexmaError(
            f"{model.name} does not know {language}, nor a language that it is confused with",
            "--lid-model takes a fastText model that does, such as GlotLID; --lid none asks nobody",
        )
    return wanted


def _told_apart(language: str, model: Identifier) -> frozenset[str]:
    """Languages akin to one that the identifier can tell from it in whole documents."""
    base, teller = language.partition("_")[0], model.name.partition(" ")[0]
    found = (
        codes for codes, tellers in _groups() if base in codes & model.known and teller in tellers.split()
    )
    return model.known.intersection(frozenset().union(*found)) - {base}


def in_other_language(
    lines: Sequence[str], model: Identifier, language: str, documents: np.ndarray | None = None
) -> np.ndarray:
    """Which lines are in another language than this and those confused with it (`expected`), for all that can
    be told: bool [N].

    Lines of fewer than `SHORT` characters, and those that the identifier is not `SURE` of, take the vote of
    their document: the language of all of it. A line stays where that is not sure either. `documents` int64
    [N], ascending, is the document of each line; without it each line is one. A long document that is in a
    kindred language goes whole, where identifiers tell those apart.
    """
    wanted = expected(language, model)
    guesses = model.identify(lines)
    other = np.array([guess.language not in wanted for guess in guesses], dtype=bool)
    sure = np.array([guess.probability > SURE for guess in guesses], dtype=bool)
    if documents is None or not len(lines):
        return other & sure
    short = np.fromiter(map(len, lines), dtype=np.int64, count=len(lines)) < SHORT
    asks = np.flatnonzero(other & (short | ~sure))
    voters = np.unique(documents[asks])
    votes = np.array(
        [
            guess.language not in wanted and guess.probability > SURE
            for guess in model.identify(_texts(lines, documents, voters))
        ],
        dtype=bool,
    )
    other &= sure
    if len(asks):
        other[asks] = votes[np.searchsorted(voters, documents[asks])]
    kin = _told_apart(language, model)
    if not kin:
        return other
    base = language.partition("_")[0]
    leaning = [(guess.language in kin) - (guess.language == base) for guess in guesses]
    numbers, starts = np.unique(documents, return_index=True)
    asked = numbers[np.add.reduceat(leaning, starts) > 0]
    texts = zip(asked.tolist(), _texts(lines, documents, asked), strict=True)
    long = {number: text for number, text in texts if len(text) >= _LONG}
    found = model.identify(list(long.values()))
    gone = (guess.language in kin and guess.probability > _SURE_OF_KINDRED for guess in found)
    return other | np.isin(documents, list(compress(long, gone)))


def languages_seen(
    lines: Sequence[str], model: Identifier, language: str, documents: np.ndarray, rows: Sequence[int]
) -> list[str]:
    """The languages (FLORES-200 codes) of the lines in some rows, which `in_other_language` has found: a
    line's own, if that is surely another one, or else its document's."""
    wanted, asked = expected(language, model), [lines[row] for row in rows]
    numbers, places = np.unique(documents[rows], return_inverse=True)
    texts = _texts(lines, documents, numbers)
    whole = list(map(flores, model.identify(texts), texts))
    return [
        flores(guess, line) if guess.probability > SURE and guess.language not in wanted else whole[place]
        for guess, line, place in zip(model.identify(asked), asked, places.tolist(), strict=True)
    ]


def _texts(lines: Sequence[str], documents: np.ndarray, asked: np.ndarray) -> list[str]:
    """The beginning of each document that is asked for."""
    starts = np.searchsorted(documents, asked).tolist()
    ends = np.searchsorted(documents, asked, side="right").tolist()
    return [" ".join(lines[start:end])[:_LONGEST] for start, end in zip(starts, ends, strict=True)]


def swapped_sides(sides: Sequence[Sequence[str]], spoken: tuple[str, str], model: Identifier) -> str:
    """Say that N sources and N targets look as if the sides were swapped; empty if they do not. They
    should be in the `spoken` languages, codes of which some may be unknown to the identifier."""
    return _swapped([_guessed(side, model) for side in sides], spoken, model)


def _guessed(lines: Iterable[str], model: Identifier) -> list[str]:
    """The languages of the lines that are not blank: units of other languages are such in a side of a TMX."""
    return [guess.language for guess in model.identify([line for line in lines if not is_blank(line)])]


def _swapped(guesses: Sequence[Sequence[str]], spoken: tuple[str, str], model: Identifier) -> str:
    meant = [kindred(code) & model.known for code in spoken]
    if meant[0] & meant[1] or not guesses or not all(guesses):
        return ""
    for own, wanted in enumerate(meant):
        shares = [sum(language in wanted for language in side) / len(side) for side in guesses]
        if shares[1 - own] > 0.5 > shares[own]:
            name = languages.name(spoken[own])
            return "{:.0%} of the sources look {name}, and {:.0%} of the targets".format(*shares, name=name)
    return ""


def warn_of_languages(
    sides: Sequence[Sequence[str]], spoken: tuple[str, str], model: Identifier | None
) -> None:
    """Warn of `swapped_sides`, and of a side that is nearly all in one other language than the stated one, if
    there is an identifier, and unless a side has fewer sentences than `FEWEST`; `spoken` may be any text that
    a user states."""
    if model is None:
        return
    codes = languages.known(spoken[0]), languages.known(spoken[1])
    guesses = [_guessed(side, model) for side in sides]
    if min(map(len, guesses), default=0) < FEWEST:
        return
    if wrong := _swapped(guesses, codes, model):
        log.warning("%s: are the sides swapped, or the languages that are stated?", wrong)
        return
    for side, code, found in zip(("sources", "targets"), codes, guesses, strict=True):
        if other := _another_language(side, code, found, model):
            log.warning("%s", other)


def another_language(lines: Sequence[str], code: str, model: Identifier) -> str:
    """Say that lines are nearly all in one other language than the stated one, a FLORES-200 code; empty
    if they are not, or if fewer than `FEWEST` are not blank."""
    guesses = _guessed(lines, model)
    return _another_language("lines", code, guesses, model) if len(guesses) >= FEWEST else ""


def another_script(lines: Iterable[str], code: str) -> str:
    """Say that the first lines are nearly all in another script than the stated language's, a FLORES-200
    code; empty if they are not, or if fewer than `FEWEST` are not blank. No model is loaded."""
    if (script := languages.script(code)) is None:
        return ""
    first = [line[:_LONGEST] for line in islice(lines, LOOKED_AT) if not is_blank(line)]
    share = share_in_script("\n".join(first), script) if len(first) >= FEWEST else None
    if share is None or 1 - share <= _NEARLY_ALL:
        return ""
    return f"{100 * (1 - share):.0f} % of the letters are not of the script of {code}, which is stated"


def _another_language(what: str, code: str, guesses: Sequence[str], model: Identifier) -> str:
    wanted, (usual, count) = kindred(code) & model.known, Counter(guesses).most_common(1)[0]
    if code == languages.UNSTATED or not wanted or usual in wanted or count <= _NEARLY_ALL * len(guesses):
        return ""
    none = "like none of the languages that the identifier knows"
    look = languages.name(usual) if languages.known(usual) != languages.UNSTATED else none
    share, stated = count / len(guesses), languages.name(code)
    return f"{100 * share:.0f} % of the {what} look {look}, and {stated} is stated"


def flores(guess: Guess, line: str) -> str:
    """The FLORES-200 code of a line's language; of those in two scripts, in the one of most of its letters.

    A language that FLORES-200 does not have stays an ISO 639-3 code.
    """
    scripts = _scripts().get(guess.language, [])
    if len(scripts) < 2:
        return f"{guess.language}_{scripts[0]}" if scripts else guess.language
    usual = languages.resolve(guess.language)
    counts = {
        script: int(Characters([line], script).counts[0, [OWN, OWN_UNSPACED]].sum()) for script in scripts
    }
    best = max(counts.values())
    if counts.get(usual.partition("_")[2], 0) == best:
        return usual
    return f"{guess.language}_{next(script for script in scripts if counts[script] == best)}"


@lru_cache(maxsize=1)
def _scripts() -> dict[str, list[str]]:
    """The scripts that FLORES-200 has of each language."""
    found: dict[str, list[str]] = {}
    for code in languages.codes():
        base, _, script = code.partition("_")
        found.setdefault(base, []).append(script)
    return found


class _File:
    """A file that is read piece by piece."""

    def __init__(self, content: mmap.mmap) -> None:
        self.content, self.at = content, 0

    @property
    def left(self) -> int:
        """Bytes that were not read yet."""
        return len(self.content) - self.at

    def skip(self, size: int) -> int:
        """Go on behind the next `size` bytes; where they begin."""
        if not 0 <= size <= self.left:
            raise ValueError(f"it states sizes of {size:,} bytes where {self.left:,} are left")
        self.at += size
        return self.at - size

    def read(self, form: str) -> tuple[int, ...]:
        """The next numbers, in a form of `struct`."""
        return struct.unpack_from(f"<{form}", self.content, self.skip(struct.calcsize(f"<{form}")))

    def entry(self) -> int:
        """The kind of the dictionary's next entry: 0 a word, 1 a label."""
        end = self.content.find(b"\0", self.at)
        self.skip(end + 1 - self.at if end >= 0 else -1)
        return self.read("qb")[1]


def check_sizes(path: Path) -> None:
    """Refuse a model whose counts are not those of its file, and one that does not tell languages."""
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            _walk(_File(content))
    except ValueError as error:  # also of an empty file, which cannot be mapped
        raise MexmaError(
            f"{path} is no fastText model: {error}", "is it whole? --lid-model names one, such as lid.176.bin"
        ) from None


def _walk(file: _File) -> None:
    magic, version = file.read("ii")
    if magic != _MAGIC or version not in _VERSIONS:
        raise ValueError("it has wrong file format")
    dim, *_, loss, kind, bucket, shortest, longest, _ = file.read("12i")
    file.skip(8)
    if kind != _SUPERVISED or loss not in _LOSSES:
        raise ValueError("it is of a kind that labels no text")
    if dim < 1 or bucket < 0 or not (0 <= shortest <= _LONGEST_NGRAM and 0 <= longest <= _LONGEST_NGRAM):
        raise ValueError("a size of its n-grams is out of range")
    entries, words, labels, _, kept = file.read("iiiqq")
    if min(words, labels - 1) < 0 or words + labels != entries or entries > file.left:
        raise ValueError(f"its dictionary states {words:,} words and {labels:,} labels")
    if [file.entry() for _ in range(entries)] != [0] * words + [1] * labels:
        raise ValueError("words and labels of its dictionary are mixed up")
    rows = words + bucket
    if kept != _ALL:
        place = file.skip(8 * kept)
        own = np.frombuffer(file.content[place : file.at], "<i4")[1::2]
        if own.min(initial=0) < 0 or own.max(initial=-1) >= kept:
            raise ValueError("an n-gram has no row")
        rows = words + kept
    packed = _matrix(file, rows, dim, bool(file.read("?")[0]))
    _matrix(file, labels, dim, bool(file.read("?")[0]) and packed)
    if file.left:
        raise ValueError(f"{file.left:,} bytes too many")


def _matrix(file: _File, rows: int, dim: int, packed: bool) -> bool:
    """Go on behind a matrix of so many rows; whether it is product quantised (`packed`)."""
    with_norms = packed and bool(file.read("?")[0])
    found, width = file.read("qq")
    if (found, width) != (rows, dim):
        raise ValueError(f"a matrix of {found:,} rows of {width:,} in place of {rows:,} of {dim:,}")
    if not packed:
        file.skip(4 * found * width)
        return False
    (codes,) = file.read("i")
    file.skip(codes)
    if codes != found * _quantiser(file, dim):
        raise ValueError(f"{codes:,} codes of {found:,} rows")
    if with_norms:
        file.skip(found)
        _quantiser(file, 1)
    return True


def _quantiser(file: _File, dim: int) -> int:
    """Go on behind a product quantiser; how many parts a row has."""
    width, parts, part, last = file.read("4i")
    if width != dim or part < 1 or (parts, last) != (-(-dim // part), dim % part or part):
        raise ValueError(f"a quantiser of {parts:,} parts of {part:,} for rows of {dim:,}")
    file.skip(4 * width * _CENTROIDS)
    return parts
