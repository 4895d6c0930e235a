"""Some pairs of a bitext on one web page, to be read and judged by a person who knows both languages."""

from __future__ import annotations

import heapq
import logging
import math
import random
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from mexma_cli.classifier.doubts import Doubts, Span, doubts_in_words
from mexma_cli.errors import MexmaError
from mexma_cli.formats.bitext import LANGUAGES_STATED_BY, Pair, open_pairs
from mexma_cli.languages import UNSTATED
from mexma_cli.languages import name as name_of
from mexma_cli.reporting.templates import write_page
from mexma_cli.text.lines import is_blank, label_of

log = logging.getLogger(__name__)


class Shown(NamedTuple):
    """A pair of the page, its number in the file, from 1, and its score, nan for none."""

    number: int
    score: float
    pair: Pair


def review(
    bitext: Sequence[Path], output: Path, languages: tuple[str, str], count: int, around: float | None = None
) -> tuple[int, int]:
    """Write the page, and return how many pairs it has, and how many the file (of pairs of any format that is
    read, or two line-aligned ones; ``-`` is stdin); those with an empty side are left out. The page has the
    pairs whose score is nearest to `around`, or some drawn from all, the same each time. Refused: no pairs,
    no scores although `around` is given, a damaged file, a full disk."""
    found = open_pairs(*bitext, languages=languages, options=LANGUAGES_STATED_BY)
    whole = _whole(found.pairs, label_of(bitext[0]))
    chosen, total = _drawn(whole, count) if around is None else _nearest(whole, count, around)
    if not chosen:
        what = "pairs" if around is None or not total else "scores"
        raise MexmaError(
            f"{label_of(bitext[0])} has no {what}", "`mexma mine` and `mexma score` write pairs with scores"
        )
    ordered = sorted(chosen, key=lambda one: (-one.score if one.score == one.score else math.inf, one.number))
    doubts = Doubts.usual([(one.pair.source, one.pair.target) for one in ordered])
    write_page(
        output,
        "reporting/review.html",
        title=f"Pairs of {' and '.join(map(label_of, bitext))}",
        rows=[_row(one, doubts) for one in ordered],
        total=f"{total:,}",
        languages=[name_of(code) if code != UNSTATED else "" for code in found.languages],
        scored=any(one.score == one.score for one in ordered),
    )
    return len(ordered), total


def _whole(pairs: Iterable[Pair], where: str) -> Iterator[Shown]:
    """The pairs with a sentence on either side, as a unit of a TMX has that is in both languages; the others
    are counted."""
    empty = 0
    for number, pair in enumerate(pairs, 1):
        if is_blank(pair.source) or is_blank(pair.target):
            empty += 1
        else:
            yield Shown(number, float(getattr(pair, "score", math.nan)), pair)
    if empty:
        log.warning("%s: left out: pairs with an empty side (%s)", where, f"{empty:,}")


def _drawn(pairs: Iterable[Shown], count: int) -> tuple[list[Shown], int]:
    """So many pairs, each with the same chance (reservoir sampling), and how many there are."""
    chosen, drawing, total = list[Shown](), random.Random(0), 0
    for total, one in enumerate(pairs, 1):
        if len(chosen) < count:
            chosen.append(one)
        elif (place := drawing.randrange(total)) < count:
            chosen[place] = one
    return chosen, total


def _nearest(pairs: Iterable[Shown], count: int, around: float) -> tuple[list[Shown], int]:
    """The pairs with the nearest scores, and how many there are."""
    nearest, total = list[tuple[float, int, Shown]](), 0
    for total, one in enumerate(pairs, 1):  # noqa: B007
        if one.score == one.score:
            entry = -abs(one.score - around), -one.number, one
            (heapq.heappush if len(nearest) < count else heapq.heappushpop)(nearest, entry)
    return [one for _, _, one in nearest], total


def _row(one: Shown, doubts: Doubts) -> dict[str, Any]:
    """A pair for the template."""
    found = doubts.of(one.pair.source, one.pair.target)
    spans = (
        [span for doubt in found for span in doubt.source],
        [span for doubt in found for span in doubt.target],
    )
    return {
        "number": one.number,
        "score": None if math.isnan(one.score) else one.score,
        "probability": getattr(one.pair, "probability", math.nan),
        "lines": [getattr(one.pair, f"{side}_line", None) or 0 for side in ("source", "target")],
        "sides": [_marked(one.pair.source, spans[0]), _marked(one.pair.target, spans[1])],
        "doubts": getattr(one.pair, "doubts", None) or doubts_in_words(found),
    }


def _marked(sentence: str, spans: Sequence[Span]) -> list[tuple[str, bool]]:
    """The pieces of a sentence, and whether each is marked."""
    pieces, at = [], 0
    for start, stop in sorted(spans):
        if start >= at:
            pieces += [(sentence[at:start], False), (sentence[start:stop], True)]
            at = stop
    return [piece for piece in [*pieces, (sentence[at:], False)] if piece[0]]
