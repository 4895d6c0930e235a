"""How near the precision that `mexma tune` estimates without a gold list is to the truth.

    python benchmarks/thresholds.py DIR [--margin ratio] [-k 4] [--seed 0] [--times 1] [--lines 6000]
        [--languages ces_Latn,deu_Latn,...]

(DIR: wmt_newstest/, tatoeba_mt/, ntrex128/ and bible/ below it, files of x TAB English or of aligned
lines.) Mixes texts: of both sides of each corpus some lines, of which a share has its translation among the
others'. At the thresholds for several estimated precisions it prints the truth, the estimate's 95 % interval,
and how often that contains the truth: from the scores alone, and with 50 labels taken from the gold list.
Then it plants pairs of each corpus in each of the same language.
"""

from __future__ import annotations

import argparse
import gzip
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mexma_cli import SentenceEncoder, knn
from mexma_cli.errors import MexmaError
from mexma_cli.mining.estimate import FEWEST, EstimatedCut, LabelledModel, pairs_to_label
from mexma_cli.mining.lists import first_of, without_pairs
from mexma_cli.mining.match import match
from mexma_cli.stages.tune.estimate import Rounds, estimate
from mexma_cli.stages.tune.planted import Planted

LANGUAGES = ("ces_Latn", "deu_Latn", "fin_Latn", "fra_Latn", "rus_Cyrl", "spa_Latn", "tur_Latn")
SHARES = (0.04, 0.12, 0.35, 0.75)
PRECISIONS = (0.8, 0.9, 0.95)
LABELS = 50
PLANTED = 300


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
class Mixture:
    """Vectors of two texts: the first `aligned` lines of one are the translations of those of the other."""

    x: np.ndarray
    y: np.ndarray
    aligned: int
    rest: np.ndarray
    """Pairs that are not in them, int [n]."""

    def rounds(self, k: int, margin: str, known: Sides | None = None) -> tuple[Rounds, np.ndarray]:
        """Both rounds of pairs, with known translations planted, and which of the first are right, bool."""
        sides = (
            [self.x, self.y]
            if known is None
            else [np.append(*s, axis=0) for s in zip(self, known, strict=True)]
        )
        neighbours = knn(sides[0], sides[1], k + 1)
        first = match(first_of(neighbours, k), margin)
        second = match(without_pairs(neighbours, first, k), margin)
        own, own_second = (
            f.take((f.source < len(self.x)) & (f.target < len(self.y))) for f in (first, second)
        )
        back = (first.source >= len(self.x)) & (first.source - len(self.x) == first.target - len(self.y))
        planted = None
        if known is not None:
            planted = Planted(first.scores[back].astype(np.float64), len(known[0]), 0, 0, (0, 0))
        right = (own.source == own.target) & (own.source < self.aligned)
        return Rounds(own, own_second, (len(self.x), len(self.y)), planted, within=False), right

    def __iter__(self) -> Iterator[np.ndarray]:
        return iter((self.x, self.y))


Sides = tuple[np.ndarray, np.ndarray]


def mixture(sides: Sides, share: float, rng: np.random.Generator) -> Mixture:
    """Of some of a corpus, a share of the lines with its translation."""
    order = rng.permutation(len(sides[0]))
    lines = int(len(order) * rng.uniform(0.4, 0.9) / (2 - share))
    aligned = int(share * lines)
    other = np.append(order[:aligned], order[lines : 2 * lines - aligned])
    return Mixture(sides[0][order[:lines]], sides[1][other], aligned, order[2 * lines - aligned :])


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("--margin", default="ratio")
    parser.add_argument("-k", type=int, default=4)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--languages", default=",".join(LANGUAGES))
    parser.add_argument("--lines", type=int, default=6000, help="of a corpus at most")
    parser.add_argument("--times", type=int, default=1, help="how often each mixture is drawn")
    arguments = parser.parse_args()
    encoder, rng = SentenceEncoder.load("mini"), np.random.default_rng(arguments.seed)
    embedded: dict[tuple[str, str], Sides] = {}
    for (corpus, language), pairs in corpora(arguments.data, arguments.languages.split(","), arguments.lines):
        source, target = (encoder.embed([pair[side] for pair in pairs]) for side in (0, 1))
        embedded[corpus, language] = source, target
    how = arguments.k, arguments.margin
    print("| by | translations | wanted | texts | true: median | 5 to 95 % | interval: median | contains |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    every, times = list(embedded.values()), range(arguments.times)
    mixtures = [mixture(sides, share, rng) for _ in times for sides in every for share in SHARES]
    print_precision("", mixtures, how)
    others = [
        mixed_kinds(own, other, rng)
        for _ in times
        for (corpus, language), own in embedded.items()
        for (its_corpus, its_language), other in embedded.items()
        if its_language == language and its_corpus != corpus
    ]
    print_precision("in another corpus", others, how)
    print_planted(embedded, how, arguments.times, rng)


def mixed_kinds(own: Sides, other: Sides, rng: np.random.Generator) -> Mixture:
    """500 translations of one corpus among lines of another."""
    order, lines = rng.permutation(len(own[0]))[:500], len(other[0]) // 2
    x, y = (
        np.append(own[0][order], other[0][:lines], axis=0),
        np.append(own[1][order], other[1][lines:], axis=0),
    )
    return Mixture(x, y, len(order), order[:0])


def print_precision(of: str, mixtures: Sequence[Mixture], how: tuple[int, str]) -> None:
    found: dict[tuple[str, str, float], list[tuple[EstimatedCut, float]]] = {}
    for mixed in mixtures:
        rounds, right = mixed.rounds(*how)
        share = round(mixed.aligned / len(mixed.x), 2)
        model, scores = rounds.model(), rounds.pairs.scores
        labels = pairs_to_label(model, scores, LABELS)
        labelled = LabelledModel(model, scores, labels, right[labels])
        for name, tried in (("scores alone", model), (f"{LABELS} labels", labelled)):
            for wanted in PRECISIONS:
                try:
                    cut = tried.cut(tried.choose(wanted))
                except MexmaError:  # no threshold has that precision
                    continue
                truth = float(right[scores > cut.threshold].mean())
                found.setdefault((name, of or f"{share:.0%}", wanted), []).append((cut, truth))
    for (name, share, wanted), rows in sorted(found.items(), key=lambda row: row[0][0] != "scores alone"):
        truth = np.array([row[1] for row in rows])
        limits = np.array([row[0].precision_interval for row in rows])
        inside = np.mean((limits[:, 0] <= truth) & (truth <= limits[:, 1]))
        low, middle, high = np.quantile(truth, [0.05, 0.5, 0.95])
        bounds = "{:.2f} to {:.2f}".format(*np.median(limits, axis=0))
        print(
            f"| {name} | {share} | {wanted:.2f} | {len(rows)} | {middle:.3f} | {low:.2f} to {high:.2f} "
            f"| {bounds} | {inside:.0%} |"
        )


def print_planted(
    embedded: dict[tuple[str, str], Sides], how: tuple[int, str], times: int, rng: np.random.Generator
) -> None:
    """Plant pairs of every corpus in every corpus of the same language."""
    contained, told, recalled = ({"the same": [], "another": []} for _ in range(3))
    trials = [(one, other) for one in embedded for other in embedded if one[1] == other[1]] * times
    for text, known in trials:
        mixed = mixture(embedded[text], rng.uniform(0.05, 0.5), rng)
        rows = mixed.rest if known == text else rng.permutation(len(embedded[known][0]))
        planted = (embedded[known][0][rows[:PLANTED]], embedded[known][1][rows[:PLANTED]])
        rounds, right = mixed.rounds(*how, planted)
        if min(len(rounds.pairs), len(rounds.second)) < FEWEST:
            continue
        found = estimate(rounds, rounds.model())
        above = right[rounds.pairs.scores > found.best.threshold]
        low, high = found.best.precision_interval
        name = "the same" if known == text else "another"
        contained[name].append(low <= above.mean() <= high)
        told[name].append(found.unlike)
        if found.recall_interval is not None:
            low, high = found.recall_interval
            recalled[name].append(low <= above.sum() / mixed.aligned <= high)
    print("\n| planted from | trials | precision's interval contains | called unlike | recall's, if not |")
    print("| --- | --- | --- | --- | --- |")
    for name, trial in contained.items():
        shares = " | ".join(f"{np.mean(some[name]):.0%}" for some in (contained, told, recalled))
        print(f"| {name} corpus | {len(trial)} | {shares} |")


if __name__ == "__main__":
    main()
