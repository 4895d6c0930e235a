"""The rules that sentences and pairs are dropped by: one registry of their names, which are the reason codes.

`split`, `filter` and `prepare` take them from here, and the help and the reports say what stands here. A rule
looks at a batch of sentences at once, with numpy or with patterns that are tried where they can match at all.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Literal

import numpy as np

from mexma_cli.errors import MexmaError, choice, did_you_mean, nearest_names
from mexma_cli.settings.section import of_percent
from mexma_cli.text.characters import (
    BROKEN,
    COMMON,
    DIGIT,
    FOREIGN,
    FOREIGN_UNSPACED,
    OWN,
    OWN_UNSPACED,
    SPACE,
    SYMBOL,
    Characters,
    of_script,
)
from mexma_cli.text.duplicates import NEAR_COPY, copy_reasons, fold
from mexma_cli.text.lines import is_blank
from mexma_cli.text.numbers import shared_numbers
from mexma_cli.text.repair import MARKUP, has_mojibake

Limits = Mapping[str, float]
"""The rules that are on, by name, with their limits."""


@dataclass(frozen=True)
class Rule:
    """A reason to drop something.

    Attributes:
        name: As in options, and the reason code in tables and files.
        about: What is dropped; ``{}`` stands for the limit.
        of: What it looks at: one sentence (of a pair, either side), a sentence's language, a pair, or all
            that came before, too; ``text``: all documents of a text, for `split`.
            ``reading``: a stage gives the reason itself, and the rule cannot be turned on or off.
        limit: Where nothing says another one; None for a rule without a limit.
        on: Without being asked for, in `split` and `filter`.
    """

    name: str
    about: str
    of: Literal["sentence", "language", "pair", "corpus", "text", "reading"] = "sentence"
    limit: float | None = None
    on: bool = True

    def says(self, limit: float | None = None) -> str:
        """`about`, with a limit."""
        return self.about.format(f"{self.limit if limit is None else limit:g}") if self.limit else self.about


RULES = {
    rule.name: rule
    for rule in (
        Rule("missing", "no text"),
        Rule("malformed", "no pair in the line: without a TAB, or a header", of="reading"),
        Rule("other part", "the corpus's `keep` file puts the line into another part", of="reading"),
        Rule("short", "fewer than {} characters", limit=3),
        Rule("long", "more than {} characters", limit=1000),
        Rule("few-words", "fewer than {} words, in scripts with spaces", limit=3, on=False),
        Rule("many-words", "more than {} words", limit=150, on=False),
        Rule("long-word", "a word of more than {} characters, in scripts with spaces", limit=60),
        Rule("encoding", "control or replacement characters, or mojibake"),
        Rule("html", "HTML tags or entities"),
        Rule("url", "a web or e-mail address", on=False),
        Rule("repeated-characters", "a character more than {} times in a row", limit=8),
        Rule("digits", "share of digits above {} (spaces not counted)", limit=0.4),
        Rule("symbols", "share of symbols above {} (letters, digits, punctuation are none)", limit=0.2),
        Rule("letters", "share of letters below {} (spaces not counted)", limit=0.5),
        Rule("script", "share of letters in the language's script below {}", limit=0.3),
        Rule("repeated-words", "share of different words below {}, in ten words or more", limit=0.25),
        Rule("ratio", "one side is more than {} times as long as the other", of="pair", limit=3),
        Rule("low-score", "the score is below {}, or there is none", of="pair", limit=1, on=False),
        Rule("high-score", "the score is above {}", of="pair", limit=1.25, on=False),
        Rule("probability", "the probability is below {}, or there is none", of="pair", limit=0.5, on=False),
        Rule("excluded", "a sentence of an excluded file, whatever its case and punctuation", of="pair"),
        Rule(
            "copy",
            "the letters of both sides have an edit similarity of {} or more",
            of="pair",
            limit=NEAR_COPY,
        ),
        Rule("numbers", "share of numbers (in digits) that both sides have below {}", of="pair", limit=0.5),
        Rule("language", "not the declared language, nor one often confused with it", of="language"),
        Rule("boilerplate", "a sentence in more than {} documents", of="text", limit=10),
        Rule("duplicate", "the same sentence or pair came before", of="corpus"),
        Rule(
            "near-duplicate",
            "shares about {} of its 5-character runs with an earlier sentence",
            of="text",
            limit=0.8,
            on=False,
        ),
        Rule(
            "duplicate-letters",
            "the same pair came before, but for case, numbers and punctuation",
            of="corpus",
            on=False,
        ),
        Rule("duplicate-source", "the same source came before", of="corpus", on=False),
        Rule("duplicate-target", "the same target came before", of="corpus", on=False),
        Rule("cap", "the corpus or the language has more pairs than its cap", of="reading"),
        Rule("no tokens", "a side has no tokens", of="reading"),
    )
}
"""All rules by name, in the order in which they are tried: what breaks several has the first one's reason."""

SELECTABLE = ("sentence", "language", "pair", "corpus")
"""`Rule.of` of the rules that can be turned on and off for pairs."""

CODES = {name: code for code, name in enumerate(RULES, 1)}
"""The number of a rule in arrays of codes, uint8; 0 is none."""
NAMES = ["", *RULES]
"""The other way round."""

SMOOTHING = 10
"""Characters added to both sides before the ratio of their lengths, so that short sentences may differ."""

_LETTERS = {"Hans": 3.0, "Hant": 3.0, "Jpan": 2.2, "Hang": 2.0}
"""Letters that a character counts for in the ratio of lengths: in news with English, lengths then agree."""

_HTML = re.compile(MARKUP)
_URL = re.compile(r"https?://|www\.[a-z0-9-]+\.|(?<![\w.+-])[\w.+-]++@[\w-]+\.[a-z]{2,}", re.IGNORECASE)
_WORDS_THAT_REPEAT = 10
"""Words that a sentence has at least, before it can be too much of the same."""


OF_SENTENCES = ("sentence", "language", "text", "duplicate")
"""`Rule.of` of the rules of `mexma split`."""


def rules_about(of: Sequence[str]) -> list[Rule]:
    """The rules that look at these (`Rule.of`), or have these names."""
    return [rule for rule in RULES.values() if {rule.of, rule.name} & set(of)]


def chosen_limits(
    on: Iterable[str] = (), off: Iterable[str] = (), of: Sequence[str] = ()
) -> dict[str, float]:
    """The rules that a user turns on and off, and those that are on by themselves. Refused: an unknown rule,
    and an unknown limit.

    Args:
        on: ``NAME`` or ``NAME=LIMIT``.
        off: Names, or ``all``: then only those in `on` are on.
        of: What the rules may look at (`Rule.of`), or their names; `SELECTABLE`, if nothing is named.
    """
    known = {rule.name: rule for rule in rules_about(of or SELECTABLE)}
    usual = {} if "all" in off else known
    limits: dict[str, float] = {name: rule.limit or 0.0 for name, rule in usual.items() if rule.on}
    for name in off:
        if name != "all":
            limits.pop(_known(name, known).name, None)
    for text in on:
        name, equals, limit = text.partition("=")
        rule = _known(name, known)
        limits[name] = _limit(rule, limit) if equals else rule.limit or 0.0
    return {name: limits[name] for name in RULES if name in limits}


_MEANT = {
    "length": ("short", "long", "ratio"),
    "words": ("few-words", "many-words", "long-word"),
    "score": ("low-score", "high-score"),
    "langid": ("language",),
    "near-duplicate": ("duplicate-letters",),
    "near-copy": ("copy",),
    "identical": ("copy",),
}
"""Names that are none, and the rules that users may mean by them."""


def _known(name: str, known: Mapping[str, Rule]) -> Rule:
    if name in known:
        return known[name]
    command = "filter" if "ratio" in known else "split"
    meant = [one for near in nearest_names(name, _MEANT) for one in _MEANT[near] if one in known]
    listed = f"`mexma {command} --help` lists the rules"
    hint = did_you_mean(meant) + listed if meant else choice(name, known, "rules", listed)
    raise MexmaError(f"there is no rule {name!r}", hint)


def _limit(rule: Rule, text: str) -> float:
    if rule.limit is None:
        raise MexmaError(f"the rule {rule.name} has no limit: {text!r}", f"write {rule.name} alone")
    try:
        limit = float(text)
    except ValueError:
        limit = -1.0
    if not 0 <= limit < float("inf"):
        raise MexmaError(
            f"{rule.name}={text}: the limit is no number of 0 or more", f"such as {rule.name}={rule.limit:g}"
        )
    if rule.limit < 1 < limit:
        raise MexmaError(f"{rule.name}={text}: the limit is a share, at most 1{of_percent(limit)}")
    return limit


Foreign = Callable[[Sequence[str]], np.ndarray]
"""Which of N sentences are in another language than they should be, bool [N]."""


class SentenceRules:
    """The rules of one language's sentences.

    Args:
        limits: The rules that are on; those that do not look at single sentences are passed over.
        script: ISO 15924 code of the language's script, or None. If it is not known, `script` is off.
    """

    def __init__(self, limits: Limits, script: str | None = None) -> None:
        self._script = script
        self._limits = {
            name: limit
            for name, limit in limits.items()
            if RULES[name].of == "sentence" and (name != "script" or (script and of_script(script)))
        }

    def codes(self, sentences: Sequence[str]) -> np.ndarray:
        """The first rule that each of N sentences (without white space at the ends) breaks: uint8 [N],
        `CODES`; 0 for the sentences that keep all rules."""
        codes = np.zeros(len(sentences), dtype=np.uint8)
        if not len(sentences):
            return codes
        found = Characters(sentences, self._script)
        for name in reversed(self._limits):
            codes[_BROKEN_BY[name](sentences, found, self._limits[name])] = CODES[name]
        return codes


class PairRules:
    """The rules of pairs, and of the sentences on both sides.

    Args:
        limits: The rules that are on; those that need more than a pair are passed over.
        scripts: Of source and target, as in `SentenceRules`; for `ratio` a character of Chinese,
            Japanese or Korean is two to three letters.
        excluded: `fold` hashes of the sentences that `excluded` drops.
        wrong: Those of the pairs that it drops, of source and target in one string.
        foreign: For source and target, what tells which of N sentences are in another language, bool [N];
            None where nobody can.
    """

    def __init__(
        self,
        limits: Limits,
        scripts: tuple[str | None, str | None] = (None, None),
        excluded: Set[int] = frozenset(),
        wrong: Set[int] = frozenset(),
        foreign: tuple[Foreign | None, Foreign | None] = (None, None),
    ) -> None:
        self._source, self._target = (SentenceRules(limits, script) for script in scripts)
        self._limits = {
            name: limit for name, limit in limits.items() if RULES[name].of in ("pair", "language")
        }
        self._excluded, self._wrong, self.foreign = excluded, wrong, foreign
        self._letters = [_LETTERS.get(script or "", 1.0) for script in scripts]

    def codes(
        self,
        sources: Sequence[str],
        targets: Sequence[str],
        scores: Sequence[float] = (),
        probabilities: Sequence[float] = (),
    ) -> np.ndarray:
        """The first rule that each of N pairs breaks, uint8 [N]: `CODES`, 0 for the pairs that keep all
        rules. Sentences are without white space at the ends; `scores` and `probabilities` are N, or none."""
        first, second = self._source.codes(sources), self._target.codes(targets)
        either = np.minimum(first, second)
        codes = np.where(either, either, np.maximum(first, second))
        broken: Sequence[bool] | np.ndarray
        for name, limit in self._limits.items():
            rows = np.flatnonzero(codes == 0)
            if name == "excluded":
                broken = [
                    fold(sources[row]) in self._excluded
                    or fold(targets[row]) in self._excluded
                    or fold(f"{sources[row]}\t{targets[row]}") in self._wrong
                    for row in (rows.tolist() if self._excluded or self._wrong else ())
                ]
            elif name == "language":
                broken = np.zeros(len(rows), dtype=bool)
                for side, foreign in zip((sources, targets), self.foreign, strict=True):
                    if foreign is not None:
                        broken |= foreign([side[row] for row in rows.tolist()])
            elif name == "ratio":
                lengths = [
                    letters * np.array([len(side[row]) for row in rows.tolist()]) + SMOOTHING
                    for letters, side in zip(self._letters, (sources, targets), strict=True)
                ]
                broken = np.maximum(*lengths) > limit * np.minimum(*lengths)
            elif name in _SCORES:
                known = probabilities if name == "probability" else scores
                values = np.array(known)[rows] if len(known) else np.full(len(rows), np.nan)
                broken = _SCORES[name](values, limit)
            else:
                pairs = ([side[row] for row in rows.tolist()] for side in (sources, targets))
                broken = _PAIRS[name](*pairs, limit=limit)
            codes[rows[np.flatnonzero(broken)]] = CODES[name]
        return codes


_PAIRS: dict[str, Callable[..., list[bool]]] = {
    "copy": lambda sources, targets, limit: [
        reason is not None for reason in copy_reasons(sources, targets, limit)
    ],
    "numbers": lambda sources, targets, limit: [
        shared < limit for shared in map(shared_numbers, sources, targets)
    ],
}
_SCORES: dict[str, Callable[[np.ndarray, float], np.ndarray]] = {
    "low-score": lambda scores, limit: ~(scores >= limit),
    "high-score": lambda scores, limit: scores > limit,
    "probability": lambda probabilities, limit: ~(probabilities >= limit),
}

_Breaks = Callable[[Sequence[str], Characters, float], np.ndarray]
"""Sentences, their characters, a limit: bool [N], or the places of the sentences that break the rule."""


def _letters(found: Characters) -> np.ndarray:
    return found.counts[:, COMMON : FOREIGN_UNSPACED + 1].sum(axis=1)


def _visible(found: Characters) -> np.ndarray:
    """Characters but spaces."""
    return found.lengths - found.counts[:, SPACE]


def _script(sentences: Sequence[str], found: Characters, limit: float) -> np.ndarray:
    own = found.counts[:, [OWN, OWN_UNSPACED]].sum(axis=1)
    foreign = found.counts[:, [FOREIGN, FOREIGN_UNSPACED]].sum(axis=1)
    return own < limit * (own + foreign)


def _spaced(found: Characters) -> np.ndarray:
    """Sentences whose words have spaces between them."""
    return found.counts[:, [OWN_UNSPACED, FOREIGN_UNSPACED]].sum(axis=1) == 0


def _words(found: Characters) -> np.ndarray:
    """Words of each sentence, int64 [N]."""
    space = found.kinds == SPACE
    last = ~space[:-1] & space[1:]
    return np.bincount(found.rows(np.flatnonzero(last)), minlength=len(found.lengths))


def _long_word(sentences: Sequence[str], found: Characters, limit: float) -> np.ndarray:
    spaces = np.flatnonzero(found.kinds == SPACE)
    lengths = np.diff(spaces, prepend=-1) - 1
    rows = np.unique(found.rows(spaces[lengths > limit]))
    return rows[_spaced(found)[rows]]


def _repeated_characters(sentences: Sequence[str], found: Characters, limit: float) -> np.ndarray:
    again = int(limit)  # characters, of a run that is too long, that equal the one before them
    runs = np.arange(len(found.points))
    if again:
        places = np.flatnonzero(found.points[1:] == found.points[:-1]) + 1
        last = places[again - 1 :]
        runs = last[last - places[: len(last)] == again - 1]
    return found.rows(runs[found.kinds[runs] != SPACE])


def _repeated_words(sentences: Sequence[str], found: Characters, limit: float) -> np.ndarray:
    broken = []
    for row in np.flatnonzero(_may_repeat_words(found, limit)).tolist():
        words = sentences[row].split()
        if len(words) >= _WORDS_THAT_REPEAT and len(set(words)) < limit * len(words):
            broken.append(row)
    return np.array(broken, dtype=np.int64)


def _may_repeat_words(found: Characters, limit: float) -> np.ndarray:
    """Sentences with enough words, of which perhaps too few are different, bool [N].

    A word has one of 64 bits, and equal words have the same: there are never more bits than words.
    """
    spaces = np.flatnonzero(found.kinds == SPACE)
    starts = np.searchsorted(spaces, np.cumsum(found.lengths + 1) - 1 - found.lengths)
    sums = np.diff(np.cumsum(found.points, dtype=np.uint64)[spaces], prepend=np.uint64(0))
    sums -= found.points[spaces]
    bits = np.uint64(1) << (sums * np.uint64(0x9E3779B97F4A7C15) >> np.uint64(58))
    bits[sums == 0] = 0
    different = np.bitwise_count(np.bitwise_or.reduceat(bits, starts))
    words = np.add.reduceat(sums > 0, starts, dtype=np.int64)
    few = (different < limit * words) | (found.counts[:, BROKEN] > 0)  # some of these are between words, too
    return few & (found.counts[:, SPACE] >= _WORDS_THAT_REPEAT - 1)


def _matching(pattern: re.Pattern[str], *needed: str) -> _Breaks:
    """Sentences that match; each that does has one of the strings `needed`."""

    def matching(sentences: Sequence[str], found: Characters, limit: float) -> np.ndarray:
        rows = (row for row in found.containing(*needed) if pattern.search(sentences[row]))
        return np.fromiter(rows, dtype=np.int64)

    return matching


_BROKEN_BY: dict[str, _Breaks] = {
    "missing": lambda sentences, found, limit: np.array(list(map(is_blank, sentences))),
    "short": lambda sentences, found, limit: found.lengths < limit,
    "long": lambda sentences, found, limit: found.lengths > limit,
    "few-words": lambda sentences, found, limit: (_words(found) < limit) & _spaced(found),
    "many-words": lambda sentences, found, limit: _words(found) > limit,
    "long-word": _long_word,
    "encoding": lambda sentences, found, limit: (
        (found.counts[:, BROKEN] > 0) | has_mojibake(sentences, found)
    ),
    "html": _matching(_HTML, "<", "&"),
    "url": _matching(_URL, "://", "www.", "WWW.", "@"),
    "letters": lambda sentences, found, limit: _letters(found) < limit * _visible(found),
    "digits": lambda sentences, found, limit: found.counts[:, DIGIT] > limit * _visible(found),
    "symbols": lambda sentences, found, limit: found.counts[:, SYMBOL] > limit * _visible(found),
    "script": _script,
    "repeated-characters": _repeated_characters,
    "repeated-words": _repeated_words,
}
