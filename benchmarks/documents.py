"""How well pairs of documents are found by what is in them (`mexma align --find-documents`).

    python benchmarks/documents.py DATA [--model mini] [--ntrex LANGS] [--bible LANGS] [--stories LANGS]

(DATA: ntrex128/, bible/ and stories/ below it.) Documents are NTREX-128's, chapters and stories; each
language is paired with English. `whole`: as they are. `torn`: a fifth of the documents is missing on each
side, and of the others three sentences in ten. `noisy`: torn, and one letter in twenty is another one, as in
bad scans. `scattered`: one document in four has a partner. Printed are recall and precision of the pairs that
are written, and beside them those of two plain ways on the same vectors, best pairs first, each document
once: BiMax of all pairs (the mean of the sentences' best cosines, both ways), and the cosine of the means of
the sentences' vectors.
"""

from __future__ import annotations

import argparse
import gzip
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np

from mexma_cli import MexmaError, SentenceEncoder, align
from mexma_cli.align.documents import coverage, sentence_weights
from mexma_cli.encoder.runs import document_encoder
from mexma_cli.settings.stages import AlignSettings
from mexma_cli.stages.align.align import Aligner, DocumentInputs, open_documents

Rows = list[tuple[str, str]]
"""Documents and sentences."""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("--model", default="mini")
    parser.add_argument("--ntrex", default="deu fin fra heb hun rus spa tur swh")
    parser.add_argument("--bible", default="deu fin rus")
    parser.add_argument("--stories", default="fra por swh")
    options = parser.parse_args()
    encoder = SentenceEncoder.load(options.model, dtype="auto")
    tears = (whole, torn, noisy, scattered)
    heads = [f"{tear.__name__}: recall, precision | BiMax | means" for tear in tears]
    print(f"| texts | documents | {' | '.join(heads)} |\n| --- | --- {'| --- ' * 12}|")
    for name, source, target in texts(options):
        cells = []
        for tear in tears:
            sides = [tear(side, seed) for seed, side in enumerate((source, target))]
            cells += [
                f"{100 * recall:.1f}, {100 * precision:.1f}" for recall, precision in measured(encoder, sides)
            ]
        print(f"| {name} | {len(dict(source))} | {' | '.join(cells)} |", flush=True)


def texts(options: argparse.Namespace) -> Iterator[tuple[str, Rows, Rows]]:
    """Name, source and target of each pair of texts that is there."""
    data = options.data

    def lines(path: Path) -> list[str]:
        return gzip.open(path, "rt", encoding="utf-8").read().splitlines()

    for corpus, documents, english, languages in (
        ("ntrex128", lines(data / "ntrex128/docids.txt.gz"), "eng_Latn", options.ntrex),
        ("bible", chapters(data / "bible/vref.txt"), "eng_Latn.web", options.bible),
    ):
        other = [
            row for row in zip(documents, lines(data / corpus / f"{english}.txt.gz"), strict=True) if row[1]
        ]
        for language in languages.split():
            (path,) = (data / corpus).glob(f"{language}_????.txt.gz")
            own = [row for row in zip(documents, lines(path), strict=True) if row[1]]
            yield f"{corpus} {language}", own, other
    for language in options.stories.split():
        for path in sorted((data / "stories").glob(f"{language}*-eng.tsv.gz")):
            rows = [line.split("\t") for line in lines(path)]
            yield f"stories {language}", [(s, x) for x, _, s in rows], [(s, y) for _, y, s in rows]


def chapters(path: Path) -> list[str]:
    return [verse.rpartition(":")[0] for verse in path.read_text(encoding="utf-8").splitlines()]


def whole(rows: Rows, seed: int) -> Rows:
    return rows


def noisy(rows: Rows, seed: int) -> Rows:
    """Torn, and one letter in twenty is another one of the text."""
    rng = np.random.default_rng(seed)
    kept = torn(rows, seed)
    letters = [letter for _, text in kept for letter in text if letter.isalpha()]
    found = []
    for name, text in kept:
        wrong = rng.random(len(text)) < 0.05
        others = rng.integers(len(letters), size=len(text)).tolist()
        both = zip(text, wrong.tolist(), others, strict=True)
        found.append(
            (name, "".join(letters[other] if bad and one.isalpha() else one for one, bad, other in both))
        )
    return found


def scattered(rows: Rows, seed: int) -> Rows:
    """Four documents of seven; one of them is on both sides."""
    names = sorted({name for name, _ in rows})
    part = np.array_split(np.random.default_rng(7).permutation(len(names)), 7)
    kept = {names[place] for place in np.concatenate([part[0], *part[1 + 3 * seed : 4 + 3 * seed]])}
    return [row for row in rows if row[0] in kept]


def torn(rows: Rows, seed: int) -> Rows:
    """Four documents of five, and seven sentences of ten in each, one at least."""
    rng = np.random.default_rng(seed)
    names = sorted({name for name, _ in rows})
    kept = {names[place] for place in rng.permutation(len(names))[: len(names) * 4 // 5]}
    found, seen = [], set()
    for row in rows:
        if row[0] in kept and (row[0] not in seen or rng.random() < 0.7):
            seen.add(row[0])
            found.append(row)
    return found


def measured(encoder: SentenceEncoder, sides: list[Rows]) -> Iterator[tuple[float, float]]:
    """Recall and precision of what mexma finds, and of the plain ways."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        paths = [Path(folder, name) for name in ("s", "t", "s.docs", "t.docs")]
        columns = [[row[column] for row in side] for column in (1, 0) for side in sides]
        for path, column in zip(paths, columns, strict=True):
            path.write_text("".join(f"{text}\n" for text in column), encoding="utf-8")
        try:
            found = align(*paths[:2], encoder=encoder, docs=(paths[2], paths[3]), find_documents=True)
            pairs = [own.names for own in found.document_pairs()]
        except MexmaError:
            pairs = []
        inputs = DocumentInputs(paths[0], paths[1], (paths[2], paths[3]), find=True)
        documents = open_documents(stack, inputs)
        aligner = Aligner(documents, document_encoder(encoder), AlignSettings())
        names = documents.source.names, documents.target.names
        yield judged(names, pairs)
        sentences = [aligner.sentences(side, range(count)) for side, count in enumerate(documents.counts)]
        weighted = [[(own, sentence_weights(lengths)) for own, lengths in side] for side in sentences]
        cover = [[coverage(x, y, (a, b)) for y, b in weighted[1]] for x, a in weighted[0]]
        yield judged(names, named(names, best_first(np.array(cover))))
        means = []
        for side in sentences:
            sums = np.stack([vectors.sum(axis=0) for vectors, _ in side])
            means.append(sums / np.maximum(np.linalg.norm(sums, axis=1, keepdims=True), 1e-9))
        yield judged(names, named(names, best_first(means[0] @ means[1].T)))


def best_first(scores: np.ndarray) -> np.ndarray:
    """Pairs by their scores, float [n, m], best first, each row and column once: int64 [pairs, 2]."""
    found = []
    for _ in range(min(scores.shape)):
        one, other = np.unravel_index(scores.argmax(), scores.shape)
        found.append((one, other))
        scores[one], scores[:, other] = -2, -2
    return np.array(found)


def named(names: tuple[list[str], list[str]], pairs: np.ndarray) -> list[tuple[str, str]]:
    return [(names[0][one], names[1][other]) for one, other in pairs.tolist()]


def judged(names: tuple[list[str], list[str]], pairs: list[tuple[str, str]]) -> tuple[float, float]:
    """Recall of the documents that are on both sides, and precision."""
    right = sum(one == other for one, other in pairs)
    return right / len(set(names[0]) & set(names[1])), right / max(len(pairs), 1)


if __name__ == "__main__":
    main()
