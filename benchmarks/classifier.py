"""How much better the classifier of pairs mines than the margin: the table in docs/concepts/classifier.md.

    python benchmarks/classifier.py --data DIR [--cache DIR] [--without FEATURE ...]
    python benchmarks/classifier.py --data DIR [--cache DIR] --weights mexma_cli/classifier/weights.json

Prints best F1 on mining sets in languages that the weights have not seen: WMT's news and mining/ as
benchmarks/encoder.py has them, and NTREX-128 with WMT's English as noise. With --weights it trains on all
languages, and writes what the package has.

Weights are trained on sets made of NTREX-128 (CC BY-SA 4.0) and Tatoeba (CC BY 2.0 FR), both below DIR, in
the languages that mini knows. The other texts are for measuring alone.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import cycle
from pathlib import Path
from random import Random
from statistics import fmean

import numpy as np
from encoder import MiningSet, mining_sets, news_sets

from mexma_cli.classifier.calibration import calibrated
from mexma_cli.classifier.features import FEATURES
from mexma_cli.classifier.model import Classifier, ClassifierWeights, features_for
from mexma_cli.classifier.pairs import Pairs, known_of
from mexma_cli.classifier.precision import PairPrecision
from mexma_cli.classifier.training import best_one_to_one, calibration_error, examples, fit
from mexma_cli.encoder.encoder import SentenceEncoder
from mexma_cli.knn.exact import knn
from mexma_cli.languages import resolve
from mexma_cli.mining.match import match
from mexma_cli.mining.threshold import Threshold
from mexma_cli.settings.stages import MineSettings
from mexma_cli.text.lines import read_lines

K = 4
SPLITS = ((200, 1), (80, 2))
"""Translations in the set of a language's NTREX lines, and the seed of its order; by turns."""
NOISE = 2000
"""Sentences without a translation beside a set of Tatoeba's."""
CLEARER = 1.15
"""Logits are multiplied by it, since some pairs that count as wrong in training are translations."""
MEASURED = ("ukr_Cyrl", "swh_Latn", "jpn_Jpan", "zho_Hans", "zho_Hant")
NEVER = ("eng_Latn", "mya_Mymr")  # NTREX-128's Burmese is not in Unicode
EUROPEAN = ("ces_Latn-eng", "deu_Latn-eng", "fra_Latn-eng", "rus_Cyrl-eng", "spa_Latn-eng")
ABOUT = (
    "Trained by benchmarks/classifier.py on NTREX-128 (CC BY-SA 4.0) and Tatoeba (CC BY 2.0 FR), with mini."
)


@dataclass(frozen=True)
class Set:
    """The candidates of a mining set: all features, float32 [n, features]; which are correct, bool [n]."""

    name: str
    values: np.ndarray
    correct: np.ndarray


@dataclass(frozen=True)
class Mined:
    """The candidates of a mining set, sorted by margin; which are correct, bool [n]; how many translations
    there are."""

    name: str
    pairs: Pairs
    correct: np.ndarray
    gold: int

    @property
    def rows(self) -> tuple[int, int]:
        """Of both sides."""
        source, target = self.pairs.sides
        return source.lists.count, target.lists.count

    def scores(self, classifier: Classifier) -> np.ndarray:
        """Probabilities, as `mexma mine` has them before they fit the texts, float32 [n]."""
        return np.concatenate([some.scores for some in classifier.scored(self.pairs)])

    def best(self, scores: np.ndarray) -> tuple[Threshold, np.ndarray, np.ndarray]:
        """The result of best F1 with these scores, one to one; scores and correctness of these pairs."""
        return best_one_to_one(self.pairs.candidates, scores, self.correct, self.rows, self.gold)


def language_of(one: Set | Mined) -> str:
    """Of a set, without its script: Chinese in either has the same weights."""
    return one.name.split(" ")[-1][:3]


def split(
    pairs: Sequence[tuple[str, str]], whole: int, seed: int, noise: Sequence[str] = ()
) -> tuple[list[list[str]], set[tuple[int, int]]]:
    """A mining set: so many pairs as they are; of the others one half gives its sources, one its targets."""
    shuffled = list(pairs)
    Random(seed).shuffle(shuffled)
    torn = shuffled[whole:]
    sources = [own for own, _ in shuffled[:whole] + torn[::2]]
    targets = [english for _, english in shuffled[:whole] + torn[1::2]]
    return [sources, [*targets, *noise]], {(row, row) for row in range(whole)}


def ntrex(data: Path, code: str) -> list[tuple[str, str]]:
    """A language's lines with their English."""
    own, english = (read_lines(data / f"ntrex128/{one}.txt.gz") for one in (code, "eng_Latn"))
    return list(zip(own, english, strict=True))


def training_sets(data: Path, languages: Sequence[str]) -> Iterator[MiningSet]:
    """Those of NTREX-128 and of Tatoeba, of every second language."""
    languages, splits = languages[::2], cycle(SPLITS)
    for code in languages:
        if code not in NEVER and (data / f"ntrex128/{code}.txt.gz").exists():
            whole, seed = next(splits)
            yield f"ntrex{seed} {code}", *split(ntrex(data, code), whole, seed)
    english = {path.name[8:11]: list(read_lines(path)) for path in (data / "tatoeba").glob("*-eng.eng")}
    every = sorted({line for lines in english.values() for line in lines})
    for name, lines in sorted(english.items()):
        code = resolve(name)
        if code in languages and len(lines) >= 500:
            own = read_lines(data / f"tatoeba/tatoeba.{name}-eng.{name}")
            pairs = list(dict(zip(lines, own, strict=True)).items())
            others = sorted(set(every) - set(lines))
            Random(3).shuffle(others)
            whole = min(200, len(pairs) // 3)
            yield f"tatoeba {code}", *split([(b, a) for a, b in pairs], whole, 1, others[:NOISE])


def measured_sets(data: Path, languages: Sequence[str]) -> Iterator[MiningSet]:
    """Those of mining/, of WMT's news, and of NTREX-128 with English news as noise."""
    yield from mining_sets(data)
    yield from news_sets(data, languages)
    yield from ntrex_sets(data, MEASURED)


def ntrex_sets(data: Path, languages: Sequence[str]) -> Iterator[MiningSet]:
    """Those of NTREX-128 with English news as noise."""
    news = {
        line.split("\t")[1]
        for code in ("deu_Latn", "fin_Latn", "tur_Latn")
        for line in read_lines(data / f"wmt_newstest/{code}-eng.tsv.gz")
    }
    noise = sorted(news)
    Random(5).shuffle(noise)
    for code in languages:
        yield f"ntrex {code}", *split(ntrex(data, code), 300, 3, noise[:5000])


class Remembered:
    """An encoder that embeds each text once."""

    def __init__(self, encoder: SentenceEncoder) -> None:
        self._encoder, self._known = encoder, dict[str, np.ndarray]()

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        """float32 [n, dim]."""
        if new := [text for text in dict.fromkeys(texts) if text not in self._known]:
            self._known.update(zip(new, self._encoder.embed(new), strict=True))
        return np.stack([self._known[text] for text in texts])


def mined(sets: Iterable[MiningSet], encoder: Remembered) -> Iterator[Mined]:
    """The candidates of mining sets."""
    for name, texts, gold in sets:
        vectors = [encoder.embed(text) for text in texts]
        neighbours = knn(vectors[0], vectors[1], K)
        found = match(neighbours, MineSettings(retrieval="all"))
        sides = (partial(iter, texts[0]), partial(iter, texts[1]))
        rows = zip(found.source.tolist(), found.target.tolist(), strict=True)
        correct = np.array([pair in gold for pair in rows])
        yield Mined(name, Pairs(found, known_of(neighbours, sides, encoder.embed)), correct, len(gold))


def with_features(sets: Iterable[MiningSet], encoder: Remembered, folder: Path | None) -> Iterator[Set]:
    """The candidates of mining sets with all features; what is in the folder is not computed again."""
    names = tuple(FEATURES)
    for one in sets:
        path = folder and folder / f"{one[0]}.npz"
        if path and path.exists():
            with np.load(path) as kept:
                known = list(kept["names"])
                if set(names) <= set(known):
                    columns = [known.index(name) for name in names]
                    yield Set(one[0], kept["values"][:, columns], kept["correct"])
                    continue
        (found,) = mined([one], encoder)
        values = examples(found.pairs, names, found.correct)
        if path:
            path.parent.mkdir(parents=True, exist_ok=True)
            np.savez(path, names=np.array(names), values=values, correct=found.correct)
        yield Set(found.name, values, found.correct)


def trained(sets: Sequence[Set], names: tuple[str, ...]) -> Classifier:
    """Weights from some sets."""
    chosen = [list(FEATURES).index(name) for name in names]
    found = fit(names, [one.values[:, chosen] for one in sets], [one.correct for one in sets])
    coefficients = tuple(CLEARER * value for value in found.coefficients)
    return replace(found, coefficients=coefficients, intercept=CLEARER * found.intercept)


def table(training: Sequence[Set], measured: Iterable[Mined], without: Sequence[str]) -> None:
    """Print best F1 of margin and of the classifiers, whose weights come from other languages."""
    kinds = ("vectors", "text", "words")

    @cache
    def weights(language: str, needs: str) -> Classifier:
        names = tuple(name for name in features_for(needs) if name not in without)  # type: ignore[arg-type]
        found = trained([one for one in training if language_of(one) != language], names)
        return replace(found, screen=weights(language, "text")) if needs == "words" else found

    print(f"{'':16}  margin  {'  '.join(f'{kind:>7}' for kind in kinds)}  calibration  F1 at 0.5")
    rows: dict[str, list[float]] = {}
    kept: list[tuple[np.ndarray, np.ndarray]] = []
    for one in measured:
        row = [100 * one.best(one.pairs.candidates.scores)[0].f1]
        for needs in kinds:
            every = one.scores(weights(language_of(one), needs))
            best, scores, correct = one.best(every)
            row.append(100 * best.f1)
        scores = calibrated(scores, every, sum(one.rows))
        kept.append((scores, correct))
        above = scores > 0.5
        row += [calibration_error(scores, correct), 200 * correct[above].sum() / (above.sum() + one.gold)]
        rows[one.name] = row
        print(_line(one.name, row), flush=True)
    print(_line("five European", [fmean(column) for column in zip(*map(rows.get, EUROPEAN), strict=True)]))  # type: ignore[arg-type]
    print(_line("mean", [fmean(column) for column in zip(*rows.values(), strict=True)]))
    scores, correct = (np.concatenate(parts) for parts in zip(*kept, strict=True))
    print("probability   pairs  mean probability  share correct")
    for low in np.arange(10) / 10:
        inside = (scores >= low) & (scores < low + 0.1 + (low == 0.9))
        shares = 100 * scores[inside].mean(), 100 * correct[inside].mean()
        print(f"{low:.1f} to {low + 0.1:.1f} {inside.sum():7} {shares[0]:17.1f} {shares[1]:14.1f}")
    print_precisions(kept)


def print_precisions(sets: Sequence[tuple[np.ndarray, np.ndarray]]) -> None:
    """Print the true precision above the thresholds that `tune` finds without a gold list, and how often its
    interval has it."""
    print("wanted  true: median  lowest  highest  in the interval  log(wrong / estimated): mean, deviation")
    for wanted in (0.8, 0.9, 0.95):
        truths, inside, errors = [], [], []
        for scores, correct in sets:
            cut = PairPrecision(scores, scores).choose(wanted)
            above = correct[scores > cut.threshold]
            low, high = cut.precision_interval
            truths.append(float(above.mean()))
            inside.append(low <= truths[-1] <= high)
            errors.append(np.log(((~above).sum() + 0.5) / (cut.count - cut.right + 0.5)))
        row = [100 * value for value in (np.median(truths), min(truths), max(truths), np.mean(inside))]
        print(f"{wanted:6.2f}  " + "  ".join(f"{value:.1f}" for value in row), end="  ")
        print(f"{np.mean(errors):.2f}, {np.std(errors):.2f}")


def _line(name: str, row: Sequence[float]) -> str:
    found = "  ".join(f"{f1:7.1f}" for f1 in row[1:4])
    return f"{name:16}  {row[0]:6.1f}  {found}  {row[4]:11.1f}  {row[5]:9.1f}"


def main() -> None:
    """Print the table, or write the weights."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--weights", type=Path)
    parser.add_argument("--without", nargs="*", default=[], metavar="FEATURE")
    arguments = parser.parse_args()
    mini = SentenceEncoder.load("mini", "cpu")
    encoder, languages = Remembered(mini), sorted({*mini.languages, "zho_Hans"})
    training = list(with_features(training_sets(arguments.data, languages), encoder, arguments.cache))
    if arguments.weights:
        found = {needs: trained(training, features_for(needs)) for needs in ("vectors", "text", "words")}
        ClassifierWeights(ABOUT, mini.name, mini.fingerprint, mini.dim, found).write(arguments.weights)
        return
    sets = measured_sets(arguments.data, mini.languages)
    table(training, mined(sets, encoder), arguments.without)


if __name__ == "__main__":
    main()
