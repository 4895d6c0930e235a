"""Hard negatives for xsim++: English sentences that look like one of the text and say something else.

Chen et al. 2023 ("xSIM++: An Improved Proxy to Bitext Mining Performance for Low-Resource Languages") change
sentences of FLORES-200 in three ways: another number, another named entity, and another causality (negation,
opposites, connectives). These are rules for the same three, for text that has no published file. Numbers and
words come from tables, entities from the text itself, so nothing is downloaded; a sentence's hard negatives
depend on the seed, the sentence, and, for entities, on the names in the text.

Files are as LASER reads them: the target's augmented sentences, one a line, and a JSON object from augmented
sentence to `{"src": sentence, "errtype": type}`.
"""

from __future__ import annotations

import json
import logging
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, islice, zip_longest
from pathlib import Path
from random import Random
from typing import Generic, TypeVar

from mexma_cli.errors import MexmaError
from mexma_cli.evaluation.aligned import AlignedTexts
from mexma_cli.evaluation.reading import read_all_lines
from mexma_cli.text.amounts import counted
from mexma_cli.text.compression import plain_name

KINDS = ("number", "entity", "causality")
PER_KIND = 5
"""Hard negatives of a kind that a sentence has at most."""

_OPPOSITES = Path(__file__).with_name("opposites.tsv")
_DIGITS = re.compile(r"(?<![\w.,])(\d+(?:[.,]\d+)*)(st|nd|rd|th)?(?=\b|[a-z%°])")
_UNITS = (
    "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
    "seventeen eighteen nineteen"
)
_NUMBER_WORDS: tuple[tuple[str, ...], ...] = (
    tuple(_UNITS.split()),
    ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"),
    ("hundred", "thousand", "million", "billion"),
    ("hundreds", "thousands", "millions", "billions"),
    ("second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth"),
    ("once", "twice"),
    ("double", "triple"),
    ("doubled", "tripled", "halved"),
    ("half", "a third", "a quarter"),
)
_PRONOUN = re.compile(
    r"\b(?:no|any|every|some|each|this|that|the|which|another) one$|\ba second$", re.IGNORECASE
)
"""Number words that count nothing, by the words before them; `_NO_NUMBER` is by the words after them."""
_NO_NUMBER = re.compile(r"one(?: of\b| another\b| day\b|'s\b|’s\b)", re.IGNORECASE)
_MONTHS = "January February March April June July August September October November December"
_DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday"
_CALENDAR = tuple(_MONTHS.split()), tuple(_DAYS.split())
_ADDRESSES = "Mr Mrs Ms Dr Sir Lord Lady President Professor Minister King Queen"
_TITLES = frozenset(_ADDRESSES.split())
_PLACES = ("in", "at", "from", "to", "near", "across", "toward", "towards", "outside", "throughout")
_SMALL = frozenset(("of", "the", "de", "la", "von", "van", "and", "al", "bin"))
_AUXILIARY = re.compile(
    r"\b(is|are|was|were|can|could|will|would|should|must|may|might|does|do|did|has|have|had)\b"
    r"(?! not\b|['’-])"
)
_PARTICIPLE = re.compile(
    r" (?:\w+ly )?(?:\w+(?:ed|en|own|wn|ne)|made|had|kept|left|led|lost|met|put|won|found|become)\b"
)
_NEGATED = re.compile(
    r"\b(is|are|was|were|could|will|would|should|must|may|might|does|do|did|has|have|had)(?: not|n['’]t)\b"
    r"|\b(can)(?: ?not|['’]t)\b|\b(wo)n['’]t\b"
)
_WORD = re.compile(r"[^\W\d_]+(?:(?:-|['’](?!s\b))[^\W\d_]+)*")  # Bolivia's: Bolivia


_RUN = re.compile(r"\w+")
_SAME = str.maketrans("\u0130\u0131\u017f\u212a", "iisk")
"""Letters that a pattern which ignores case takes for ASCII letters, but str.lower does not."""
_START = 3
"""How many of its first letters a name is looked up by."""
Kept = TypeVar("Kept")


@dataclass(frozen=True)
class HardNegative:
    """`sentence` was made from `source`, a sentence of the text, by a change of a kind of `KINDS`."""

    sentence: str
    source: str
    kind: str


def augment(lines: Sequence[str], seed: int = 0) -> list[HardNegative]:
    """Hard negatives of every sentence, in the text's order; each once, and none that is in the text."""
    names = _Names(lines)
    makers: dict[str, Callable[[str, Random], Iterator[str]]] = {
        "number": _numbers,
        "entity": names.replaced,
        "causality": _causality,
    }
    known = set(lines)
    found = []
    for line in dict.fromkeys(lines):
        for kind, make in makers.items():
            random = Random(f"{seed} {kind} {line}")
            variants = [variant for variant in dict.fromkeys(make(line, random)) if variant not in known]
            random.shuffle(variants)
            for variant in variants[:PER_KIND]:
                known.add(variant)
                found.append(HardNegative(variant, line, kind))
    return found


def negatives_of(lines: Sequence[str], most: int, seed: int = 0) -> dict[str, list[str]]:
    """At most so many hard negatives of each sentence that has some, of all kinds as evenly as can be."""
    by_kind: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for found in augment(lines, seed):
        by_kind[found.source][found.kind].append(found.sentence)
    chosen = {}
    for line, kinds in by_kind.items():
        groups = list(kinds.values())
        Random(f"{seed} {line}").shuffle(groups)
        in_turns = chain.from_iterable(zip_longest(*groups))
        chosen[line] = list(islice((sentence for sentence in in_turns if sentence is not None), most))
    return chosen


def _numbers(line: str, random: Random) -> Iterator[str]:
    """Another number of the same look in the place of each, several times."""
    for match in _DIGITS.finditer(line):
        for _ in range(PER_KIND):
            other = _other_digits(match[1], random)
            if match[2]:
                other += _suffix(int(other.replace(",", "").replace(".", "")))
            yield line[: match.start()] + other + line[match.end() :]
    for pattern, (word, group) in _number_words().in_line(line):
        for match in pattern.finditer(line):
            if _PRONOUN.search(line[: match.end()]) or _NO_NUMBER.match(line, match.start()):
                continue
            for other in random.sample(group, len(group)):
                if other != word:
                    yield _put(line, match, other)


@lru_cache(maxsize=1)
def _number_words() -> _Patterns[tuple[str, tuple[str, ...]]]:
    return _Patterns((word, rf"\b{word}\b", (word, group)) for group in _NUMBER_WORDS for word in group)


def _other_digits(number: str, random: Random) -> str:
    """Digits in the same places, the first not zero where it was not; a year stays near."""
    if re.fullmatch(r"1[5-9]\d\d|20[0-4]\d", number):
        return str(random.choice([year for year in range(int(number) - 60, min(int(number) + 60, 2050))]))
    digits = [random.choice("0123456789") if char.isdigit() else char for char in number]
    if digits[0] == "0" and number[0] != "0":
        digits[0] = random.choice("123456789")
    return "".join(digits)


def _suffix(number: int) -> str:
    if number % 100 in (11, 12, 13):
        return "th"
    return {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")


def _causality(line: str, random: Random) -> Iterator[str]:
    """Negation put in or taken out, and words and connectives turned into their opposites."""
    for match in _AUXILIARY.finditer(line):
        if match[1] in ("has", "have", "had", "do", "does", "did") and not _PARTICIPLE.match(
            line, match.end()
        ):
            continue
        yield line[: match.end()] + " not" + line[match.end() :]
    for match in _NEGATED.finditer(line):
        kept = match[1] or match[2] or "will"
        yield line[: match.start()] + kept + line[match.end() :]
    for pattern, other in _opposites().in_line(line):
        for match in pattern.finditer(line):
            yield _put(line, match, other)


@lru_cache(maxsize=1)
def _opposites() -> _Patterns[str]:
    rows = (line.split("\t") for line in _OPPOSITES.read_text(encoding="utf-8").splitlines())
    return _Patterns((word, rf"(?<![\w-]){word}(?![\w-])", other) for word, other in rows)


class _Patterns(Generic[Kept]):
    """Patterns for whole words in any case: entries are the words, a pattern that matches nothing else, and
    what is kept with it. In a line, only those are tried whose first word the line has."""

    def __init__(self, entries: Iterable[tuple[str, str, Kept]]) -> None:
        self._by_word: dict[str, list[int]] = defaultdict(list)
        self._patterns: list[tuple[re.Pattern[str], Kept]] = []
        for words, pattern, kept in entries:
            self._by_word[_words(words)[0]].append(len(self._patterns))
            self._patterns.append((re.compile(pattern, re.IGNORECASE), kept))

    def in_line(self, line: str) -> list[tuple[re.Pattern[str], Kept]]:
        """The patterns that may match, in their order."""
        found = (self._by_word[word] for word in set(_words(line)) if word in self._by_word)
        return [self._patterns[place] for place in sorted(chain.from_iterable(found))]


def _words(text: str) -> list[str]:
    """Runs of letters and digits in lower case, as a pattern that ignores case sees them."""
    return _RUN.findall(text.translate(_SAME).lower())


def _put(line: str, match: re.Match[str], other: str) -> str:
    """Put `other` in the place of a match, with a capital where that has one."""
    if match[0][0].isupper():
        other = other[0].upper() + other[1:]
    return line[: match.start()] + other + line[match.end() :]


class _Names:
    """The names in a text: words with a capital that the text never writes without one, by kind."""

    def __init__(self, lines: Sequence[str]) -> None:
        small = {match[0] for line in lines for match in _WORD.finditer(line) if match[0].islower()}
        inside = {run for line in lines for start, _, run in _runs(line) if not _begins(line, start)}
        self._inside = {word for run in inside for word in run.split() if word.lower() not in small}
        by_kind: dict[str, dict[str, None]] = defaultdict(dict)
        for line in lines:
            for start, _, name in self._of(line):
                by_kind[_kind(line, start, name)].setdefault(name)
        self._by_kind = {kind: _Alike(names) for kind, names in by_kind.items()}

    def _of(self, line: str) -> Iterator[tuple[int, int, str]]:
        """Start, end and text of the names of a line. What begins a sentence must be a name elsewhere too."""
        for start, end, run in _runs(line):
            words = run.split()
            if _begins(line, start) and words[0] not in self._inside:
                cut = run.find(" ") + 1
                if not cut or run[cut:].split()[0] in _SMALL:
                    continue
                start, run = start + cut, run[cut:]
            if any(word in self._inside for word in run.split()):
                yield start, end, run

    def replaced(self, line: str, random: Random) -> Iterator[str]:
        """Another name of the same kind in the place of each."""
        for start, end, name in self._of(line):
            others = next((group for group in _CALENDAR_NAMES if name in group.names), None)
            others = others or self._by_kind[_kind(line, start, name)]
            for other in others.sampled(line, name, random):
                yield line[:start] + other + line[end:]


class _Alike:
    """Names that can stand for each other."""

    def __init__(self, names: Iterable[str]) -> None:
        self.names = tuple(names)
        self._by_start: dict[str, list[int]] = defaultdict(list)
        for place, name in enumerate(self.names):
            self._by_start[name[:_START]].append(place)
        self._holding: dict[str, set[int]] = {}

    def sampled(self, line: str, name: str, random: Random) -> Iterator[str]:
        """Names that fit: they are not in the line and do not contain `name`. The draw is that of
        `random.sample` from a list of all that fit, which is not made, since it would be as long as the
        text."""
        starts = {line[at : at + size] for size in range(1, _START + 1) for at in range(len(line))}
        near = chain.from_iterable(self._by_start[start] for start in starts & self._by_start.keys())
        if name not in self._holding:
            self._holding[name] = {place for place, one in enumerate(self.names) if name in one}
        unfit = sorted(self._holding[name].union(place for place in near if self.names[place] in line))
        fitting = len(self.names) - len(unfit)
        for place in random.sample(range(fitting), min(PER_KIND, fitting)):
            for passed in unfit:
                if passed > place:
                    break
                place += 1
            yield self.names[place]


_CALENDAR_NAMES = tuple(map(_Alike, _CALENDAR))


def _runs(line: str) -> Iterator[tuple[int, int, str]]:
    """Runs of words with a capital, small words like `of` inside allowed: start, end, text."""
    words = list(_WORD.finditer(line))
    place = 0
    while place < len(words):
        if not _capital(words[place][0]):
            place += 1
            continue
        last = place
        while last + 1 < len(words) and line[words[last].end() : words[last + 1].start()] == " ":
            following = words[last + 1][0]
            if _capital(following):
                last += 1
            elif following in _SMALL and last + 2 < len(words) and following != "and":
                after = words[last + 2]
                if not _capital(after[0]) or line[words[last + 1].end() : after.start()] != " ":
                    break
                last += 2
            else:
                break
        start, end = words[place].start(), words[last].end()
        yield start, end, line[start:end]
        place = last + 1


def _begins(line: str, start: int) -> bool:
    """Whether a sentence begins here, so that a capital says nothing."""
    before = line[:start].rstrip(" \"'“”‘’«»([")
    return not before or before[-1] in ".!?:;-–—"


def _capital(word: str) -> bool:
    return word[0].isupper() and word != "I" and not word.startswith(("I'", "I’"))


def _kind(line: str, start: int, name: str) -> str:
    """The kind of a name, guessed from its look and the word before it."""
    before = line[:start].split()[-1:] or [""]
    words = len(name.split())
    if any(name in group for group in _CALENDAR):
        return "date"
    if name.isupper() and words == 1:
        return "acronym"
    if before[0].rstrip(".") in _TITLES or name.split()[0] in _TITLES:
        return "person"
    if words == 1 and name.endswith(("ese", "ian", "ish", "ean", "can", "ans", "ians")):
        return "people"
    if before[0].lower() in _PLACES:
        return "place"
    return f"{min(words, 3)} words"


log = logging.getLogger(__name__)

MISALIGNED = "misaligned"
"""Type of an error that took another sentence, or another's hard negative."""

MADE_BY = "mexma augment"

HINT = (
    "xsim++'s files for FLORES-200 (github.com/facebookresearch/LASER, tasks/xsimplusplus): "
    "devtest_augmented/eng_Latn_augmented.devtest and eng_Latn_errtype.devtest.json; `mexma augment` makes "
    "such files of any English text"
)
_FORM = 'the published form is {"augmented sentence": {"src": "sentence", "errtype": "type"}, ...}'


@dataclass(frozen=True)
class Augmented:
    """Hard negatives: the lines of the augmented file, and sentence -> (what it was made from, type)."""

    path: Path
    lines: list[str]
    kinds: dict[str, tuple[str, str]]
    own: bool
    """Whether `mexma augment` made them: nothing that is published was measured on these."""

    def kind(self, found: str, wanted: str) -> str:
        """The type of the error of finding one sentence in place of another."""
        source, kind = self.kinds.get(found.strip(), (None, MISALIGNED))
        return kind if source == wanted.strip() else MISALIGNED


def augmented_names(text: Path) -> tuple[str, str]:
    """File names that go with a text: eng_Latn.devtest -> eng_Latn_augmented.devtest and
    eng_Latn_errtype.devtest.json."""
    stem, dot, rest = plain_name(text.name).partition(".")
    return f"{stem}_augmented{dot}{rest}", f"{stem}_errtype{dot}{rest}.json"


def find_augmented(data: AlignedTexts, folder: Path | None) -> Augmented:
    """Read the hard negatives of a target, in a folder; None: in <split>_augmented/ or the data's own folder.
    Refused: files that are missing, not in the published form, or of another text."""
    text = data.source.files[data.target]
    text_name, kinds_name = augmented_names(text)
    here, beside = data.source.folder, f"{data.source.split}_augmented"
    places = [here / beside, here, here.parent / beside, text.parent.parent / beside]
    for place in [folder] if folder else places:
        path, kinds = place / text_name, place / kinds_name
        if path.exists() and kinds.exists():
            return _read(path, kinds, {line.strip() for line in data.lines})
        if path.exists() or kinds.exists():
            there, missing = (path, kinds) if path.exists() else (kinds, path)
            raise MexmaError(f"{missing} is missing beside {there.name}", f"needed: {HINT}")
    where = folder or places[0]
    raise MexmaError(f"{where}: no {text_name} and {kinds_name}", f"needed: {HINT}")


def _read(path: Path, kinds_path: Path, known: set[str]) -> Augmented:
    kinds, own = _read_kinds(kinds_path)
    lines = read_all_lines(path)
    strange = [number for number, line in enumerate(lines, 1) if line.strip() not in kinds]
    if len(strange) == len(lines):
        raise MexmaError(
            f"{path}, line 1: neither this nor another line is in {kinds_path}",
            "are the two files of one text?",
        )
    if strange:
        log.warning(
            "%s: %s not in %s (the first is line %s): as errors they count as %s",
            path,
            counted(len(strange), "line is", "lines are"),
            kinds_path.name,
            f"{strange[0]:,}",
            MISALIGNED,
        )
    if not any(source in known for source, _ in kinds.values()):
        first = next(iter(kinds.values()))[0]
        raise MexmaError(
            f"{kinds_path}: no `src` is a sentence of the target; the first is {first!r:.80}",
            "the hard negatives must be of the same text, and the same split",
        )
    return Augmented(path, lines, kinds, own)


def _read_kinds(path: Path) -> tuple[dict[str, tuple[str, str]], bool]:
    try:
        text = path.read_text(encoding="utf-8")
        content = json.loads(text)
    except UnicodeDecodeError as error:
        raise MexmaError(f"{path}, byte {error.start + 1}: not UTF-8", _FORM) from None
    except json.JSONDecodeError as error:
        where = f"{path}, line {error.lineno}, column {error.colno}"
        raise MexmaError(f"{where}: not JSON ({error.msg})", _FORM) from None
    except (ValueError, RecursionError) as error:  # numbers of 5,000 digits, and 5,000 brackets
        raise MexmaError(f"{path}: JSON that cannot be read ({error})", _FORM) from None
    if not isinstance(content, dict) or not content:
        what = f"a {type(content).__name__}" if not isinstance(content, dict) else "empty"
        raise MexmaError(f"{path}: this is {what}, not an object from sentences to their types", _FORM)
    kinds = {}
    for number, (sentence, entry) in enumerate(content.items(), 1):
        for key in ("src", "errtype"):
            if not isinstance(entry, dict) or not isinstance(entry.get(key), str):
                line = text.count("\n", 0, max(0, text.find(json.dumps(sentence, ensure_ascii=False)))) + 1
                where = f"{path}, line {line}, entry {number:,} ({sentence!r:.60})"
                raise MexmaError(f"{where}: no `{key}` with a string", _FORM)
        kinds[sentence.strip()] = entry["src"].strip(), entry["errtype"]
    return kinds, any(entry.get("made_by") == MADE_BY for entry in content.values())


def augmented_texts(found: Iterable[HardNegative]) -> tuple[str, str]:
    """The contents of both files of `augmented_names`: the published form, with who made them."""
    found = list(found)
    entries = {one.sentence: {"src": one.source, "errtype": one.kind, "made_by": MADE_BY} for one in found}
    lines = "".join(f"{one.sentence}\n" for one in found)
    return lines, json.dumps(entries, ensure_ascii=False, indent=0) + "\n"
