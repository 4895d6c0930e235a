"""No sentence on which `mini` is measured is in the text that it learns from."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import islice
from pathlib import Path
from unicodedata import category, normalize

import numpy as np
import pytest
import xxhash

from mexma_cli.settings.load import load
from mexma_cli.stages.prepare.corpora import find_bitexts
from mexma_cli.stages.prepare.language import rules_of
from mexma_cli.stages.prepare.prepare import excluded_sentences
from mexma_cli.text.lines import read_lines
from mexma_cli.text.rules import PairRules

ROOT = Path(__file__).parent.parent
MEASURED = ("tatoeba/*", "ntrex128/*_*.txt.gz", "mining/*/*-*.*.tsv.gz")
ROWS = 5000
"""Pairs that are looked at together."""
LONG = 8
"""Words from which two sentences that differ in one word are more than the same phrase."""


@cache
def kept() -> np.ndarray:
    """Whether a character is a letter, a mark, a digit or the end of a line, bool [0x110000]."""
    every = map(chr, range(sys.maxunicode + 1))
    return np.array([one == "\n" or category(one)[0] in "LMN" for one in every])


def letters(sentences: Sequence[str]) -> list[str]:
    """Of each the letters and digits without case, in one Unicode form; or itself, if it has none."""
    text = normalize("NFKC", "\n".join(sentences).casefold())
    codes = np.frombuffer(text.encode("utf-32-le"), np.uint32)
    plain = codes[kept()[codes]].tobytes().decode("utf-32-le").split("\n")
    return [one or sentence for one, sentence in zip(plain, sentences, strict=True)]


def measured(data: Path) -> Iterator[str]:
    for pattern in MEASURED:
        for path in sorted(data.glob(pattern)):
            for line in read_lines(path):
                yield line.split("\t")[-1]
    for path in sorted((ROOT / "examples" / "spa-eng").glob("*.txt")):
        yield from read_lines(path)


def mini_text(data: Path) -> tuple[Iterator[tuple[str, str]], PairRules]:
    """The pairs that `mexma prepare mini` reads, and the filter that decides which of them it keeps."""
    settings = load(ROOT / "recipes" / "mini.yaml", [f"data.root={data}"]).data
    rules = PairRules(rules_of(settings), excluded=excluded_sentences(settings)[0])
    bitexts, missing = find_bitexts(settings)
    assert bitexts and not missing
    rows = (row for bitext in bitexts for row in bitext.rows())
    return ((source, target) for reason, source, target, _ in rows if reason is None), rules


def but_for_one_word(sentence: str) -> list[int]:
    """A signature of the bag of words, and one of each bag without one of them; [] for short sentences."""
    words = [xxhash.xxh3_64_intdigest(word.encode()) for word in re.findall(r"\w+", sentence.casefold())]
    if len(words) < LONG:
        return []
    whole = sum(words)
    return [total % 2**64 for total in (whole, *(whole - word for word in words))]


@pytest.mark.slow
def test_no_measured_sentence_is_learnt_from(shared: Path) -> None:
    """Not even with other case, spaces or punctuation."""
    known = set(letters(list(measured(shared / "data"))))
    assert len(known) > 200_000
    seen = 0
    pairs, rules = mini_text(shared / "data")
    while batch := list(islice(pairs, ROWS)):
        seen += 2 * len(batch)
        for pair, *both in zip(batch, *(letters(side) for side in zip(*batch, strict=True)), strict=True):
            if not known.isdisjoint(both):
                assert rules.codes(*([side] for side in pair)).all(), pair
    assert seen > 1_000_000


@pytest.mark.slow
def test_one_sentence_in_five_hundred_differs_from_a_measured_one_by_a_word(shared: Path) -> None:
    """At most. Tatoeba has sentences that differ in a name or a number, on both sides of the split."""
    known = {signature for sentence in measured(shared / "data") for signature in but_for_one_word(sentence)}
    assert len(known) > 1_000_000
    seen = alike = 0
    pairs, rules = mini_text(shared / "data")
    while batch := list(islice(pairs, 2000)):
        dropped = rules.codes(*zip(*batch, strict=True))
        for sentence in (
            side for pair, code in zip(batch, dropped, strict=True) if not code for side in pair
        ):
            seen += 1
            alike += not known.isdisjoint(but_for_one_word(sentence))
    assert alike < seen / 500
