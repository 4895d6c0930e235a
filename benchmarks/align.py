"""How good and how fast the alignment of documents is, beside Vecalign on the same vectors.

    python benchmarks/align.py DATA [--split test] [--vecalign FOLDER] [--langs LIST] [--stress] [--scans]
        [--thresholds] [--long N]

(DATA: below it align/, with documents aligned by hand: ParIce's and Bleualign's development set; ntrex128/,
bible/ and stories/. FOLDER: a built checkout of github.com/thompsonb/vecalign.) First come the documents that
are aligned by hand. Then lines of news, Bible chapters and children's stories, merged, split, left out and
added at random, as often as in those; with --stress far more often. With --scans, documents by hand and
stories are cut into pages, with page numbers, running heads and footnotes. Prints strict and lax F1 in
percent, as `mexma eval align` has them, and the share of what is alone in the gold list that is left alone;
then the processor time from text to alignment, with Vecalign's the time to write its overlaps, to embed them
with the same encoder and to align. With --thresholds: how many alignments have a score above some, and their
precision and recall instead. With --long: time and memory for two made-up documents of N sentences.
"""

from __future__ import annotations

import argparse
import ast
import gzip
import itertools
import re
import resource
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mexma_cli import SentenceEncoder
from mexma_cli.align.align import DocumentVectors, align
from mexma_cli.encoder.runs import DocumentEncoder, document_encoder
from mexma_cli.evaluation.align import Bead, percent
from mexma_cli.stages.align.align import headings

LANGUAGES = "ces deu ell fin fra heb hun ind ita nld pol por rus spa swe tur ukr"
VECALIGN_SIZE = 6
"""Its sentences of both sides in an alignment: of 5, 6 and 8 no other was better on the whole."""
Beads = list[Bead]
Pair = tuple[str, str]


@dataclass(frozen=True)
class Document:
    """Two documents and the alignment that is right."""

    source: list[str]
    target: list[str]
    gold: Beads


def read(path: Path) -> list[str]:
    return gzip.open(path, "rt", encoding="utf-8").read().splitlines()


def code(folder: Path, language: str) -> Path | None:
    return next(iter(sorted(folder.glob(f"{language}_*.txt.gz"))), None)


def ntrex(data: Path, language: str) -> list[list[Pair]]:
    """Documents of four news each."""
    folder = data / "ntrex128"
    path = code(folder, language)
    if path is None:
        return []
    rows = zip(read(folder / "docids.txt.gz"), read(path), read(folder / "eng_Latn.txt.gz"), strict=True)
    news = [[(s, t) for _, s, t in group] for _, group in itertools.groupby(rows, key=lambda row: row[0])]
    return [list(itertools.chain(*news[i : i + 4])) for i in range(0, len(news), 4)]


def bible(data: Path, language: str) -> list[list[Pair]]:
    """Documents of four chapters each."""
    folder = data / "bible"
    path = code(folder, language)
    if path is None:
        return []
    verses, parts = ((folder / name).read_text().splitlines() for name in ("vref.txt", "split.txt"))
    rows = zip(verses, parts, read(path), read(folder / "eng_Latn.txt.gz"), strict=True)
    held_out = [row for row in rows if row[1] == "dev" and row[2] and row[3]]
    groups = itertools.groupby(held_out, key=lambda row: row[0].rpartition(":")[0])
    chapters = [[(s, t) for _, _, s, t in group] for _, group in groups]
    return [list(itertools.chain(*chapters[i : i + 4])) for i in range(0, len(chapters), 4)]


def stories(data: Path, language: str) -> list[list[Pair]]:
    """Documents of about 100 pages of children's stories, which have some sentences each."""
    paths = sorted((data / "stories").glob(f"{language}_*-eng.tsv.gz"))
    found: list[list[Pair]] = []
    rows = [tuple(line.split("\t")) for path in paths for line in read(path)]
    for _, group in itertools.groupby(rows, key=lambda row: row[2]):
        pairs = [(row[0], row[1]) for row in group]
        if found and len(found[-1]) < 100:
            found[-1].extend(pairs)
        else:
            found.append(pairs)
    return found[:20]


CORPORA: dict[str, Callable[[Path, str], list[list[Pair]]]] = {
    "ntrex128": ntrex,
    "bible": bible,
    "stories": stories,
}


def halves(text: str, rng: np.random.Generator) -> list[str]:
    """Two parts of a text, cut after a punctuation mark near the middle; or the whole text."""
    cuts = [found.end() for found in re.finditer(r"[.!?;:,،؛][\"”»']?(?= )|[。！？；，、]", text)]
    cuts = [cut for cut in cuts if len(text) / 5 < cut < 4 * len(text) / 5]
    if not cuts:
        return [text]
    cut = cuts[rng.integers(len(cuts))]
    return [text[:cut], text[cut:].strip()]


NAMES = ("same", "split", "merge 2", "merge 3", "cross", "leave out", "add", "add many")
REAL = (0.72, 0.08, 0.08, 0.03, 0.05, 0.02, 0.015, 0.005)
"""How often what happens, about as in the documents of align/: in the parts of ten, seven 1-1."""
STRESS = (0.62, 0.11, 0.11, 0.03, 0.04, 0.06, 0.02, 0.01)
"""How often what happens in documents that leave out and add far more than translators do."""


def disarranged(
    pairs: Sequence[Pair], foreign: Sequence[Pair], rng: np.random.Generator, shares: Sequence[float]
) -> Document:
    """A document from pairs of lines: some are split on one side, merged with the next, or both, and some are
    on one side only.

    Args:
        shares: Of `NAMES`.
    """
    source: list[str] = []
    target: list[str] = []
    gold: Beads = []

    def add(one: list[str], other: list[str]) -> None:
        gold.append(
            (
                tuple(range(len(source), len(source) + len(one))),
                tuple(range(len(target), len(target) + len(other))),
            )
        )
        source.extend(one)
        target.extend(other)

    at = 0
    while at < len(pairs):
        event = str(rng.choice(NAMES, p=shares))
        swap = bool(rng.integers(2))
        one, other = pairs[at][swap], pairs[at][not swap]
        used, left, right = 1, [one], [other]
        following = pairs[at + 1 : at + 3]
        if event == "split":
            right = halves(other, rng)
        elif event == "merge 2" and following:
            used, left = 2, [one, following[0][swap]]
            right = [f"{other} {following[0][not swap]}"]
        elif event == "merge 3" and len(following) == 2:
            used, left = 3, [one, *(pair[swap] for pair in following)]
            right = [" ".join([other, *(pair[not swap] for pair in following)])]
        elif event == "cross" and following:
            used, left = 2, [one, following[0][swap]]
            first, *rest = halves(following[0][not swap], rng)
            right = [f"{other} {first}", *rest]
        elif event == "leave out":
            right = []
        elif event.startswith("add"):
            count = 1 if event == "add" else int(rng.integers(3, 16))
            start = int(rng.integers(max(1, len(foreign) - count)))
            used, left, right = 0, [], [pair[not swap] for pair in foreign[start : start + count]]
        at += used
        beads = [(left, right)] if left and right else [([x], []) for x in left] + [([], [y]) for y in right]
        for bead in beads:
            add(*(bead[::-1] if swap else bead))
    return Document(source, target, gold)


def documents(
    data: Path, corpus: str, language: str, split: str, shares: Sequence[float] = REAL
) -> list[Document]:
    """The documents of a language: the even ones are `dev`, the odd ones `test`."""
    rng = np.random.default_rng([ord(letter) for letter in corpus + language])
    texts = [text for text in CORPORA[corpus](data, language) if len(text) > 20]
    made = [disarranged(text, texts[i - 1], rng, shares) for i, text in enumerate(texts)]
    return made[split == "test" :: 2]


def by_hand(stem: Path, source: str, target: str) -> Document:
    """Documents that are aligned by hand: STEM.SOURCE, STEM.TARGET and the alignments STEM.SOURCETARGET."""
    sides = [Path(f"{stem}.{side}").read_text("utf-8").splitlines() for side in (source, target)]
    lines = Path(f"{stem}.{source}{target}").read_text("utf-8").splitlines()
    beads = [tuple(tuple(ast.literal_eval(field)) for field in line.split(":")[:2]) for line in lines]
    return Document(*([line.strip() for line in side] for side in sides), beads)


PAGE_STYLES = ("{page}|{head}", "- {page} -|{head}", "{page} {head}", "{head}")
"""Lines at the end of a page, between `|`."""


def scanned(document: Document, notes: tuple[list[str], list[str]], rng: np.random.Generator) -> Document:
    """A document in pages of about 28 sentences, other ones on each side, every second with a footnote before
    its end that the other side does not have.

    Args:
        notes: Sentences of each language for footnotes.
    """
    texts: list[list[str]] = []
    places: list[list[int]] = []
    for text, foreign in zip((document.source, document.target), notes, strict=True):
        head = re.sub(r"[^\w ]", "", text[0])[:38].rsplit(" ", 1)[0].upper()
        style, page, left = str(rng.choice(PAGE_STYLES)), int(rng.integers(5, 300)), int(rng.integers(5, 30))
        made: list[str] = []
        where: list[int] = []
        for line in text:
            if not left:
                if rng.integers(2):
                    made.append(f"{rng.integers(1, 5)} {foreign[rng.integers(len(foreign))]}")
                made += style.format(page=page, head=head).split("|")
                page, left = page + 1, int(rng.integers(22, 34))
            left -= 1
            where.append(len(made))
            made.append(line)
        texts.append(made)
        places.append(where)
    x, y = places
    gold: Beads = [(tuple(x[i] for i in one), tuple(y[j] for j in other)) for one, other in document.gold]
    gold += [((i,), ()) for i in sorted(set(range(len(texts[0]))) - set(x))]
    gold += [((), (j,)) for j in sorted(set(range(len(texts[1]))) - set(y))]
    return Document(texts[0], texts[1], gold)


def scans(data: Path, languages: Sequence[str], split: str) -> Iterator[tuple[str, str, list[Document]]]:
    """The documents by hand and the stories, in pages, each in four ways."""
    rng = np.random.default_rng(0)
    for corpus, language, made in sets(data, languages, split):
        if corpus not in ("ntrex128", "bible"):
            paths = [code(data / "ntrex128", side) for side in [*language.split("-"), "eng"][:2]]
            if None not in paths:
                one, other = (read(path) for path in paths if path)
                four = itertools.chain(*[made] * 4)
                yield corpus, language, [scanned(document, (one, other), rng) for document in four]


def sets(
    data: Path, languages: Sequence[str], split: str, shares: Sequence[float] = REAL
) -> Iterator[tuple[str, str, list[Document]]]:
    folder = data / "align"
    if stems := [path.with_suffix("") for path in sorted((folder / "parice").glob("*.enis"))]:
        yield "ParIce", "eng-isl", [by_hand(stem, "en", "is") for stem in stems]
    if (folder / "dev.defr").exists():
        yield "Bleualign dev", "deu-fra", [by_hand(folder / "dev", "de", "fr")]
    for corpus in CORPORA:
        for language in languages:
            if found := documents(data, corpus, language, split, shares):
                yield corpus, language, found


def judged(gold: Sequence[Beads], found: Sequence[Beads]) -> list[float]:
    """Strict and lax F1, and the share of one-sided gold alignments that are found, in percent."""
    both = [{str(number): beads for number, beads in enumerate(side)} for side in (gold, found)]
    scores = percent(*both)
    alone = [bead in mine for own, mine in zip(gold, found, strict=True) for bead in own if not all(bead)]
    return [scores["strict f1"], scores["lax f1"], 100 * sum(alone) / max(len(alone), 1)]


def sides(document: Document, encoder: DocumentEncoder) -> tuple[DocumentVectors, DocumentVectors]:
    texts = [document.source, document.target]
    found = encoder.documents(texts, [None, None])
    source, target = (
        DocumentVectors(vectors, np.array([len(line) for line in text]), runs, headings(text))
        for text, (vectors, runs) in zip(texts, found, strict=True)
    )
    return source, target


def ours(source: DocumentVectors, target: DocumentVectors) -> Beads:
    return [(tuple(found.source), tuple(found.target)) for found in align(source, target)]


def print_thresholds(texts: Iterable[tuple[str, str, list[Document]]], runs: DocumentEncoder) -> None:
    print("| text | language | threshold | kept | strict precision | lax precision | strict recall |")
    print(f"| --- | --- |{' ---: |' * 5}")
    for corpus, language, made in texts:
        gold = {str(number): document.gold for number, document in enumerate(made)}
        found = [align(*sides(document, runs)) for document in made]
        for threshold in (-1, 0.1, 0.2, 0.3, 0.4, 0.5):
            kept = {
                str(number): [
                    (tuple(one.source), tuple(one.target))
                    for one in side
                    if one.source and one.target and one.score > threshold
                ]
                for number, side in enumerate(found)
            }
            scores = percent(gold, kept)
            names = "strict precision", "lax precision", "strict recall"
            numbers = " | ".join(f"{scores[name]:.1f}" for name in names)
            count = sum(map(len, kept.values()))
            print(f"| {corpus} | {language} | {threshold} | {count:,} | {numbers} |", flush=True)


def vecalign(source: np.ndarray, target: np.ndarray) -> Beads:
    """Vecalign with its defaults on vectors of runs, float32 [VECALIGN_SIZE, n, d], placed by their ends."""
    from vecalign import dp_utils

    np.random.seed(42)
    types = dp_utils.make_alignment_types(VECALIGN_SIZE)
    stack = dp_utils.vecalign(source, target, types, 0.2, VECALIGN_SIZE // 2 + 5, 300, 20000, 100)
    return [(tuple(one), tuple(other)) for one, other in stack[0]["final_alignments"]]


def all_runs(side: DocumentVectors, pad: np.ndarray) -> np.ndarray:
    """The vectors that Vecalign takes; `pad`, float32 [d], where no run ends."""
    out = np.tile(pad, (VECALIGN_SIZE, len(side.vectors), 1))
    out[0] = side.vectors
    for size in range(2, min(VECALIGN_SIZE, len(side.vectors)) + 1):
        starts = np.arange(len(side.vectors) - size + 1)
        out[size - 1, size - 1 :] = side.runs(starts, np.full(len(starts), size))
    return out


def from_text_by_vecalign(document: Document, encoder: SentenceEncoder) -> None:
    from vecalign import dp_utils

    both = []
    for lines in (document.source, document.target):
        overlaps = sorted(set(dp_utils.yield_overlaps(lines, VECALIGN_SIZE)))
        known = {line: place for place, line in enumerate(overlaps)}
        both.append(dp_utils.make_doc_embedding(known, encoder.embed(overlaps), lines, VECALIGN_SIZE))
    vecalign(*both)


def seconds(task: Callable[[], object]) -> float:
    start = time.process_time()
    task()
    return time.process_time() - start


def print_speed(made: Sequence[Document], with_vecalign: bool) -> None:
    runs = document_encoder(SentenceEncoder.load("mini"))  # an encoder keeps words, and this one has none yet
    spent = seconds(lambda: [ours(*sides(document, runs)) for document in made])
    lines = sum(len(document.source) + len(document.target) for document in made)
    print(f"\n{len(made)} documents, {lines:,} lines, from text: {spent:.2f} s of processor time", end="")
    if with_vecalign:
        encoder = SentenceEncoder.load("mini")
        other = seconds(lambda: [from_text_by_vecalign(document, encoder) for document in made])
        print(f"; Vecalign {other:.2f} s, {other / spent:.1f} times as much", end="")
    print()


def print_long(count: int) -> None:
    """Random vectors, whose translations have a cosine of 0.7, and gaps of 1 to 50 sentences."""
    rng = np.random.default_rng(0)
    vectors = rng.standard_normal((count, 320), np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    lengths = rng.integers(20, 200, count)
    noise = rng.standard_normal((count, 320), np.float32) / 320**0.5

    def side(own: np.ndarray, rows: np.ndarray) -> DocumentVectors:
        own = own / np.linalg.norm(own, axis=1, keepdims=True)

        def runs(starts: np.ndarray, sizes: np.ndarray) -> np.ndarray:
            sums = np.stack([own[a : a + b].sum(axis=0) for a, b in zip(starts, sizes, strict=True)])
            return sums / np.linalg.norm(sums, axis=1, keepdims=True)

        return DocumentVectors(own, lengths[rows], runs)

    def kept() -> np.ndarray:
        keep = np.ones(count, bool)
        for start in rng.integers(0, count, count // 500).tolist():
            keep[start : start + int(rng.integers(1, 51))] = False
        return np.flatnonzero(keep)

    one, other = kept(), kept()
    source, target = side(vectors[one], one), side((vectors + noise)[other], other)
    align(
        DocumentVectors(*(part[:50] for part in (source.vectors, source.lengths)), source.runs), target
    )  # compiles
    found: list[Beads] = []
    spent = seconds(lambda: found.append(ours(source, target)))
    pairs = {(one[a[0]], other[b[0]]) for a, b in found[0] if len(a) == len(b) == 1}
    true = np.intersect1d(one, other)
    share = 100 * len({(row, row) for row in true.tolist()} & pairs) / len(true)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(
        f"{len(one):,} and {len(other):,} sentences: {spent:.1f} s, {share:.2f} % found, peak {peak:.1f} GiB"
    )


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("--split", choices=("dev", "test"), default="test")
    parser.add_argument("--vecalign", type=Path)
    parser.add_argument("--langs", default=LANGUAGES, type=lambda text: " ".join(text.split(",")))
    parser.add_argument("--stress", action="store_true")
    parser.add_argument("--scans", action="store_true")
    parser.add_argument("--thresholds", action="store_true")
    parser.add_argument("--long", type=int)
    arguments = parser.parse_args()
    if arguments.long:
        print_long(arguments.long)
        return
    if arguments.vecalign:
        sys.path.insert(0, str(arguments.vecalign))
    encoder = SentenceEncoder.load("mini")
    runs, pad = document_encoder(encoder), encoder.embed(["PAD"])[0]
    chosen = arguments.data, arguments.langs.split(), arguments.split
    texts = scans(*chosen) if arguments.scans else sets(*chosen, STRESS if arguments.stress else REAL)
    if arguments.thresholds:
        print_thresholds(texts, runs)
        return
    timed: list[Document] = []
    print(
        "| text | language | documents | lines | strict F1 | lax F1 | alone | Vecalign strict | lax | alone |"
    )
    print(f"| --- | --- |{' ---: |' * 8}")
    for corpus, language, made in texts:
        if language in ("deu", "deu-fra"):
            timed += made
        gold = [document.gold for document in made]
        both = [sides(document, runs) for document in made]
        scores = judged(gold, [ours(*own) for own in both])
        if arguments.vecalign:
            theirs = ([all_runs(side, pad) for side in own] for own in both)
            scores += judged(gold, [vecalign(*own) for own in theirs])
        lines = sum(len(document.source) + len(document.target) for document in made)
        numbers = " | ".join(f"{score:.1f}" for score in scores)
        print(f"| {corpus} | {language} | {len(made)} | {lines:,} | {numbers} |", flush=True)
    print_speed(timed, arguments.vecalign is not None)


if __name__ == "__main__":
    main()
