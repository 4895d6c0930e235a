"""How good an encoder is at finding translations: the numbers in docs/mini.md and in mini's model card.

    python benchmarks/encoder.py [MODEL] --data DIR     (DIR: mining/, wmt_newstest/, ntrex128/ and
                                                          tatoeba/ below it)

Prints F1 on BUCC-like mining sets (ratio margin, k 4, max, best threshold), and on such sets made of WMT's
news in the languages that the encoder knows; xsim error on NTREX-128 and Tatoeba P@1, both into English; and
sentences a second.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from random import Random
from statistics import fmean
from typing import Any, Protocol

import numpy as np
import torch

from mexma_cli.encoder.encoder import SentenceEncoder
from mexma_cli.evaluation.xsim import xsim
from mexma_cli.knn.exact import knn
from mexma_cli.languages import script
from mexma_cli.mining.match import match
from mexma_cli.mining.threshold import Threshold, best_threshold
from mexma_cli.settings.stages import MineSettings
from mexma_cli.text.lines import read_lines
from mexma_cli.text.rules import PairRules

MiningSet = tuple[str, Sequence[Sequence[str]], set[tuple[int, int]]]
"""A name such as deu-eng, both sides, and the rows of the pairs."""
RATIO = 1.6
"""Of the lengths of a pair, at most."""
NEWS, TRANSLATED = 10_000, 0.15
"""Pairs of news that a mining set is made of, at most; and the share of its lines that have a translation."""
LANGUAGES = "fra_Latn,deu_Latn,spa_Latn,ita_Latn,por_Latn,nld_Latn,rus_Cyrl"


class Embeds(Protocol):
    """An encoder, or what stands for one."""

    def embed(self, sentences: Sequence[str]) -> np.ndarray:
        """Vectors, float32 [n, dim]."""
        ...


def mining_sets(data: Path) -> Iterator[MiningSet]:
    """Those of mining/."""
    for folder in sorted((data / "mining").iterdir()):
        yield folder.name, *mining_set(folder)


def mining_set(folder: Path) -> tuple[list[list[str]], set[tuple[int, int]]]:
    """Both sides of `id TAB sentence` files, and the rows of their gold list."""
    ids, texts = [], []
    for side in folder.name.split("-"):
        rows = [line.split("\t", 1) for line in read_lines(folder / f"{folder.name}.{side}.tsv.gz")]
        ids.append({row[0]: number for number, row in enumerate(rows)})
        texts.append([row[1] for row in rows])
    gold = (line.split("\t") for line in read_lines(folder / f"{folder.name}.gold.tsv.gz"))
    return texts, {(ids[0][a], ids[1][b]) for a, b in gold}


def mining_f1(
    vectors: Sequence[np.ndarray],
    texts: Sequence[Sequence[str]],
    gold: set[tuple[int, int]],
    ratio: float | None = None,
    scripts: Sequence[str | None] = (None, None),
) -> Threshold:
    """Best F1 of both sides' vectors; of pairs whose lengths are more than `ratio` apart, all are dropped."""
    found = match(knn(*vectors, 4), MineSettings())
    if ratio:
        sides = (
            [text[row] for row in rows]
            for text, rows in zip(texts, (found.source, found.target), strict=True)
        )
        found = found.take(PairRules({"ratio": ratio}, (scripts[0], scripts[1])).codes(*sides) == 0)
    pairs = zip(found.source.tolist(), found.target.tolist(), strict=True)
    return best_threshold(found.scores, np.array([pair in gold for pair in pairs]), len(gold))


def mined(
    encoder: Embeds, sets: Iterable[MiningSet], *ratios: float | None
) -> Iterator[tuple[str, list[Threshold]]]:
    """Best F1 on each mining set, without pairs of unlike lengths by each of these ratios."""
    for name, texts, gold in sets:
        vectors = [encoder.embed(text) for text in texts]
        scripts = [script(code) for code in name.split("-")]
        yield name, [mining_f1(vectors, texts, gold, ratio, scripts) for ratio in ratios]


def news_sets(data: Path, languages: Collection[str]) -> Iterator[MiningSet]:
    """Mining sets of WMT's news in some languages with English, as those of mining/ are made.

    `TRANSLATED` of a side's lines have their translation in the other. Of all other pairs one half gives its
    sources, the other its targets.
    """
    for path in sorted((data / "wmt_newstest").glob("*-eng.tsv.gz")):
        name = path.name.removesuffix(".tsv.gz")
        if name.removesuffix("-eng") not in languages:
            continue
        rows = [line.split("\t") for line in read_lines(path)]
        pairs = list({english: text for text, english in {row[0]: row[1] for row in rows}.items()}.items())
        Random(1).shuffle(pairs)
        pairs = pairs[:NEWS]
        whole = round(len(pairs) * TRANSLATED / (2 - TRANSLATED))
        torn = pairs[whole:]
        sources = [text for _, text in pairs[:whole] + torn[::2]]
        targets = [english for english, _ in pairs[:whole] + torn[1::2]]
        yield name, (sources, targets), {(row, row) for row in range(whole)}


def ntrex_errors(encoder: Embeds, data: Path, languages: Sequence[str]) -> tuple[dict[str, float], float]:
    """xsim error in percent into English, of the languages that it has, and sentences embedded a second."""
    files = {code: data / f"ntrex128/{code}.txt.gz" for code in [*languages, "eng_Latn"]}
    texts = {code: list(read_lines(file)) for code, file in files.items() if file.exists()}
    began = time.perf_counter()
    vectors = {code: encoder.embed(text) for code, text in texts.items()}
    speed = sum(map(len, texts.values())) / (time.perf_counter() - began)
    english = vectors.pop("eng_Latn")
    return {code: xsim(own, english).error_rate for code, own in vectors.items()}, speed


def tatoeba_hits(encoder: Embeds, data: Path, languages: Sequence[str]) -> dict[str, float]:
    """Precision at 1 in percent into English, by cosine, of the languages that have a set."""
    hits = {}
    for code in sorted({code[:3] for code in languages}):
        files = [data / f"tatoeba/tatoeba.{code}-eng.{side}" for side in (code, "eng")]
        if files[0].exists():
            x, y = (encoder.embed(list(read_lines(file))) for file in files)
            hits[code] = 100 - xsim(x, y, "absolute").error_rate
    return hits


def scores(encoder: Embeds, data: Path, languages: Sequence[str]) -> dict[str, Any]:
    """The measures in percent, `xsim`, `tatoeba` and `mining`: means, and `by language`."""
    errors, _ = ntrex_errors(encoder, data, languages)
    hits = tatoeba_hits(encoder, data, languages)
    f1 = {name: 100 * best.f1 for name, (best,) in mined(encoder, mining_sets(data), None)}
    found = {"xsim": errors, "tatoeba": hits, "mining": f1}
    return {**{key: fmean(by.values()) for key, by in found.items()}, "by language": found}


def main() -> None:
    """Print everything."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", nargs="?", default="mini")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--languages", default=LANGUAGES)
    arguments = parser.parse_args()
    encoder = SentenceEncoder.load(arguments.model, "cpu")
    print(f"{arguments.model}: {encoder.dim} dimensions, {torch.get_num_threads()} threads")
    sets = chain(mining_sets(arguments.data), news_sets(arguments.data, encoder.languages))
    for name, (best, filtered) in mined(encoder, sets, None, RATIO):
        print(
            f"mining {name}: F1 {100 * best.f1:.1f} (precision {100 * best.precision:.1f}, "
            f"recall {100 * best.recall:.1f}, threshold {best.threshold:.3f}), with "
            f"`mexma filter --off all --on ratio={RATIO}` {100 * filtered.f1:.1f}"
        )
    languages = arguments.languages.split(",")
    errors, speed = ntrex_errors(encoder, arguments.data, languages)
    listed = ", ".join(f"{code[:3]} {error:.1f}" for code, error in errors.items())
    print(f"NTREX-128 xsim error: {np.mean(list(errors.values())):.2f}% ({listed})")
    hits = tatoeba_hits(encoder, arguments.data, languages)
    if hits:
        listed = ", ".join(f"{code} {hit:.1f}" for code, hit in hits.items())
        print(f"Tatoeba P@1 into English: {np.mean(list(hits.values())):.2f}% ({listed})")
    print(f"{speed:.0f} sentences a second (NTREX-128, one pass)")


if __name__ == "__main__":
    main()
