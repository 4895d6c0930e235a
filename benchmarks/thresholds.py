"""How near the precision that `mexma tune` estimates without a gold list is to the truth.

    python benchmarks/thresholds.py DIR [-k 4] [--seed 0] [--times 1] [--lines 6000]
        [--languages ita_Latn,pol_Latn,...]

(DIR: wmt_newstest/, tatoeba_mt/, ntrex128/ and bible/ below it, files of x TAB English or of aligned
lines.) Mixes texts: of both sides of each corpus some lines, of which a share has its translation among the
others' (also where three tenths of the lines come again, with a word less or another one), and 500
translations of one corpus among lines of another. At the thresholds for several estimated precisions it
prints the truth, the estimate's 95 % interval, and how often that contains the truth: of pairs by
probability, of pairs by ratio margin, and of these with 50 labels taken from the gold list. The rows of
`number` say the same of the number of translations among all pairs, by the estimated number. The last rows
are of 200 lines, of which none, a tenth or a half have their translation among 1,000 others.
"""

from __future__ import annotations

import argparse
import gzip
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from mexma_cli import SentenceEncoder, knn
from mexma_cli.classifier.model import bundled_weights, probabilities_of, probable
from mexma_cli.classifier.pairs import known_of
from mexma_cli.classifier.precision import PairPrecision, pairs_to_label
from mexma_cli.errors import MexmaError
from mexma_cli.mining.candidates import Candidates
from mexma_cli.mining.match import match
from mexma_cli.settings.stages import MineSettings

LANGUAGES = ("fin_Latn", "ita_Latn", "pol_Latn", "ukr_Cyrl")  # of which the weights have seen nothing
SHARES = (0.04, 0.12, 0.35, 0.75)
AGAIN = 0.3  # of the lines, where some are nearly equal
PRECISIONS = (0.8, 0.9, 0.95)
FEW, MANY, SHARES_OF_FEW = 200, 1000, (0.0, 0.1, 0.5)
LABELS = 50


def corpora(
    folder: Path, languages: Sequence[str], most: int
) -> Iterator[tuple[tuple[str, str], list[tuple[str, str]]]]:
    """((corpus, language), pairs), each sentence in one pair at most."""
    for language in languages:
        for corpus in ("wmt_newstest", "tatoeba_mt"):
            if (path := folder / corpus / f"{language}-eng.tsv.gz").exists():
                pairs = [tuple(line.split("\t")[:2]) for line in read(path)]
                yield (corpus, language), different(pairs, most)
        for corpus in ("ntrex128", "bible"):
            if (path := folder / corpus / f"{language}.txt.gz").exists():
                pairs = list(zip(read(path), read(folder / corpus / "eng_Latn.txt.gz"), strict=True))
                yield (corpus, language), different(pairs, most)


def read(path: Path) -> list[str]:
    return gzip.open(path, "rt", encoding="utf-8").read().splitlines()


def different(pairs: list[tuple[str, ...]], most: int) -> list[tuple[str, str]]:
    seen: set[str] = set()
    kept = []
    for place in np.random.default_rng(0).permutation(len(pairs))[: 2 * most].tolist():
        source, target = pairs[place]
        if source.strip() and target.strip() and source not in seen and target not in seen:
            seen |= {source, target}
            kept.append((source, target))
    return kept[:most]


@dataclass(frozen=True)
class Corpus:
    """Pairs and their vectors."""

    pairs: list[tuple[str, str]]
    vectors: tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Mixture:
    """Two texts, with the number of each line's sentence, int64 [n]: translations have the same."""

    texts: tuple[list[str], list[str]]
    vectors: tuple[np.ndarray, np.ndarray]
    sentences: tuple[np.ndarray, np.ndarray]

    def right(self, pairs: Candidates) -> np.ndarray:
        """Which pairs are translations, bool [n]."""
        return self.sentences[0][pairs.source] == self.sentences[1][pairs.target]

    def with_nearly_equal_lines(self, encoder: SentenceEncoder, rng: np.random.Generator) -> Mixture:
        """Some lines of both sides again, with a word less or another one in its place."""
        texts, vectors, sentences = [], [], []
        for text, known, numbers in zip(self.texts, self.vectors, self.sentences, strict=True):
            rows, again = rng.permutation(len(text))[: int(AGAIN * len(text))], []
            for row, other in zip(rows.tolist(), rng.permutation(rows).tolist(), strict=True):
                words, place = text[row].split(), int(rng.integers(len(text[row].split())))
                words[place : place + 1] = rng.choice(text[other].split(), int(rng.integers(2)))
                again.append(" ".join(words) or text[row] + "!")
            texts.append(text + again)
            vectors.append(np.concatenate([known, encoder.embed(again)]))
            sentences.append(np.append(numbers, numbers[rows]))
        return Mixture((texts[0], texts[1]), (vectors[0], vectors[1]), (sentences[0], sentences[1]))


def mixture(
    corpora: Sequence[Corpus], sides: Sequence[tuple[np.ndarray, np.ndarray]], aligned: int
) -> Mixture:
    """Of some lines of each corpus, int [n] of both sides; the first `aligned` are translations."""
    texts, vectors = [], []
    for side in (0, 1):
        of_side = [(corpus, rows[side]) for corpus, rows in zip(corpora, sides, strict=True)]
        texts.append([corpus.pairs[row][side] for corpus, rows in of_side for row in rows.tolist()])
        vectors.append(np.concatenate([corpus.vectors[side][rows] for corpus, rows in of_side]))
    first, second = (np.arange(len(text)) for text in texts)
    second[aligned:] += len(first)
    return Mixture((texts[0], texts[1]), (vectors[0], vectors[1]), (first, second))


def of_one_kind(corpus: Corpus, share: float, rng: np.random.Generator) -> Mixture:
    """Some lines of a corpus, a share of which has its translation."""
    order = rng.permutation(len(corpus.pairs))
    lines = int(len(order) * rng.uniform(0.4, 0.9) / (2 - share))
    aligned = int(share * lines)
    other = np.append(order[:aligned], order[lines : 2 * lines - aligned])
    return mixture([corpus], [(order[:lines], other)], aligned)


def of_two_kinds(own: Corpus, other: Corpus, rng: np.random.Generator) -> Mixture:
    """500 translations of one corpus among lines of another."""
    order, lines = rng.permutation(len(own.pairs))[:500], len(other.pairs) // 2
    rest = np.arange(lines), np.arange(lines, len(other.pairs))
    return mixture([own, other], [(order, order), rest], len(order))


def of_few_and_many(corpus: Corpus, share: float, rng: np.random.Generator) -> list[Mixture]:
    """Few lines of a corpus, a share of which has its translation among many, in both directions."""
    order, aligned = rng.permutation(len(corpus.pairs)), int(share * FEW)
    few, many = order[:FEW], np.append(order[:aligned], order[FEW : FEW + MANY - aligned])
    return [mixture([corpus], [sides], aligned) for sides in ((few, many), (many, few))]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("-k", type=int, default=4)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--languages", default=",".join(LANGUAGES))
    parser.add_argument("--lines", type=int, default=6000, help="of a corpus at most")
    parser.add_argument("--times", type=int, default=1, help="how often each mixture is drawn")
    arguments = parser.parse_args()
    encoder, rng = SentenceEncoder.load("mini"), np.random.default_rng(arguments.seed)
    every: dict[tuple[str, str], Corpus] = {}
    for name, pairs in corpora(arguments.data, arguments.languages.split(","), arguments.lines):
        source, target = (encoder.embed([pair[side] for pair in pairs]) for side in (0, 1))
        every[name] = Corpus(pairs, (source, target))
    print("| by | translations | wanted | texts | true: median | 5 to 95 % | interval: median | contains |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    times = range(arguments.times)
    kinds = {
        f"{share:.0%}": [of_one_kind(one, share, rng) for _ in times for one in every.values()]
        for share in SHARES
    }
    kinds["in another corpus"] = [
        of_two_kinds(own, other, rng)
        for _ in times
        for (corpus, language), own in every.items()
        for (its_corpus, its_language), other in every.items()
        if its_language == language and its_corpus != corpus
    ]
    other = np.random.default_rng(arguments.seed + 1)
    kinds["0%"] = [of_one_kind(one, 0, other) for _ in times for one in every.values()]
    for share in SHARES[-2:]:
        kinds[f"{share:.0%}, nearly equal lines"] = [
            mixed.with_nearly_equal_lines(encoder, other) for mixed in kinds[f"{share:.0%}"]
        ]
    for of, mixtures in kinds.items():
        print_precision(of, mixtures, arguments.k, encoder)
    large = [one for one in every.values() if len(one.pairs) >= FEW + MANY]
    for share in SHARES_OF_FEW:
        few = [mixed for _ in times for one in large for mixed in of_few_and_many(one, share, rng)]
        print_precision(f"{share:.0%} of {FEW} lines, in {MANY:,}", few, arguments.k, encoder)


def print_precision(of: str, mixtures: Sequence[Mixture], k: int, encoder: SentenceEncoder) -> None:
    """Print the rows of mixtures of a kind."""
    found: dict[tuple[str, str], list[tuple[float, float, float]]] = {}
    classifier = bundled_weights().by["words"]
    for mixed in mixtures:
        near = knn(*mixed.vectors, k)
        sides = known_of(near, (partial(iter, mixed.texts[0]), partial(iter, mixed.texts[1])), encoder.embed)
        probably, errors = probable(classifier, near, sides, MineSettings())
        by_margin = match(near, MineSettings())
        by_margin_model = PairPrecision(
            by_margin.scores, *probabilities_of(classifier, near, sides, by_margin)
        )
        labels, right = pairs_to_label(by_margin_model.probabilities, LABELS), mixed.right(by_margin)
        models = {
            "probability": (probably, PairPrecision(probably.scores, probably.scores, errors)),
            "margin": (by_margin, by_margin_model),
            f"margin, {LABELS} labels": (by_margin, by_margin_model.labelled(labels, right[labels])),
        }
        for name, (pairs, model) in models.items():
            right = mixed.right(pairs)
            number = np.array([right.sum(), *np.round(model.translations_interval)]) / model.right[-1]
            found.setdefault((f"number, {name}", "all"), []).append((number[0], number[1], number[2]))
            for wanted in PRECISIONS:
                try:
                    cut = model.choose(wanted)
                except MexmaError:  # no threshold has that precision
                    continue
                row = right[: cut.count].mean(), *cut.precision_interval
                found.setdefault((name, f"{wanted:.2f}"), []).append(row)
    for (name, wanted), rows in found.items():
        truth, *limits = np.array(rows).T
        inside = np.mean((limits[0] <= truth) & (truth <= limits[1]))
        low, middle, high = np.quantile(truth, [0.05, 0.5, 0.95])
        bounds = "{:.2f} to {:.2f}".format(*np.median(limits, axis=1))
        print(
            f"| {name} | {of} | {wanted} | {len(rows)} | {middle:.3f} | {low:.2f} to {high:.2f} "
            f"| {bounds} | {inside:.0%} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
