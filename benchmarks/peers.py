"""`mini` beside others of its size that learn from the same text: the tables of notes/mini.md.

    python benchmarks/peers.py --data DIR --store STORE [--languages fra_Latn,...] [--model mini]

DIR has ntrex128/ and mining/. STORE is where `mexma prepare recipes/mini.yaml` put the recipe's text, which
all of them learn from: `characters` (scikit-learn) the weights of character n-grams, `dictionary` a table of
words and their translations (IBM model 1), by which a sentence is put into English and weighed as BM25 does.
`token embeddings` are `mini`'s without their weights and without n-grams: a plain mean, as of a static model.

Prints xsim error on NTREX-128, best F1 on the mining sets (and of pairs of like lengths, as
benchmarks/encoder.py), sentences embedded a second of processor time, and megabytes; and then `mini` in the
hands of mteb's BitextMining on the same lines, beside our figures.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from baselines import Characters
from encoder import RATIO, mining_f1, mining_set
from transformers import PreTrainedTokenizerFast

from mexma_cli.encoder.encoder import SentenceEncoder
from mexma_cli.encoder.loading.folder import locate
from mexma_cli.encoder.model.weighted_embeddings import weight_axis_and_basis
from mexma_cli.evaluation.xsim import xsim
from mexma_cli.store.pairs import TokenisedPairs
from mexma_cli.text.lines import read_lines

LANGUAGES = "deu_Latn,fra_Latn,rus_Cyrl,hin_Deva,swh_Latn,jpn_Jpan"
ENGLISH = "eng_Latn"
TRANSLATIONS = 8
"""English words kept for a word."""
ROUNDS = 5
"""Of expectation and maximisation."""
LONGEST = 60
"""Different tokens of a sentence that a dictionary is learned from."""
COLUMNS = 8192
"""That English words are hashed into."""
SATURATION, BY_LENGTH = 1.2, 0.75
"""BM25's k1 and b."""
SAMPLE = 100_000
"""Sentences that the weights of character n-grams are from."""


class Peer(Protocol):
    """Turns sentences of a language into vectors."""

    megabytes: float

    def embed(self, sentences: Sequence[str], language: str) -> np.ndarray:
        """float32 [n, dim]."""
        ...


class OfEncoder:
    """An encoder, which need not be told the language."""

    def __init__(self, encoder: Any, megabytes: float) -> None:
        self.encoder, self.megabytes = encoder, megabytes

    def embed(self, sentences: Sequence[str], language: str) -> np.ndarray:
        return np.asarray(self.encoder.embed(sentences))


class TokenMean:
    """The mean of an encoder's token vectors, all of the same weight."""

    def __init__(self, encoder: SentenceEncoder) -> None:
        self.tokenizer = encoder.tokenizer
        rows = encoder.model.get_input_embeddings().weight.detach().numpy()
        rows = rows @ weight_axis_and_basis(rows.shape[1])[1].T.astype(np.float32)  # without their weights
        self.rows = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)
        self.rows[encoder.tokenizer.all_special_ids] = 0

    def embed(self, sentences: Sequence[str]) -> np.ndarray:
        """float32 [n, dim]."""
        found = self.tokenizer(list(sentences), add_special_tokens=False)["input_ids"]
        return np.stack([self.rows[ids].sum(axis=0) for ids in found])


class Dictionary:
    """Sentences as weights of English words: their own, as BM25 has them, or those of their translations."""

    def __init__(self, tokenizer: PreTrainedTokenizerFast, stores: Sequence[TokenisedPairs]) -> None:
        self.tokenizer = tokenizer
        self.tables: dict[str, dict[int, tuple[np.ndarray, np.ndarray]]] = {}
        counts, sentences, tokens = np.zeros(len(tokenizer)), 0, 0
        for language in dict.fromkeys(store.manifest.source_language for store in stores):
            own = [store for store in stores if store.manifest.source_language == language]
            pairs = [store.pair(row) for store in own for row in range(len(store))]
            for _, english in pairs:
                counts[np.unique(english)] += 1
                tokens += len(english)
            sentences += len(pairs)
            self.tables[language] = translations(pairs)
        self.weights = np.log(1 + (sentences - counts + 0.5) / (counts + 0.5)).astype(np.float32)
        self.length = tokens / sentences
        kept = sum(len(words) for table in self.tables.values() for words, _ in table.values())
        self.megabytes = (8 * kept + 4 * len(self.weights)) / 1e6

    def embed(self, sentences: Sequence[str], language: str) -> np.ndarray:
        """float32 [n, COLUMNS]; a word that the table has not stands for itself, as names and numbers do."""
        table = self.tables.get(language, {})
        vectors = np.zeros((len(sentences), COLUMNS), np.float32)
        for row, ids in enumerate(self.tokenizer(list(sentences), add_special_tokens=False)["input_ids"]):
            if language == ENGLISH:
                words, times = np.unique(np.array(ids, int), return_counts=True)
                shorter = 1 - BY_LENGTH + BY_LENGTH * len(ids) / self.length
                weights = times * (SATURATION + 1) / (times + SATURATION * shorter)
            else:
                found = [table.get(one, (np.array([one]), np.ones(1))) for one in ids] or [
                    (np.zeros(0, int),) * 2
                ]
                words, weights = (np.concatenate(parts) for parts in zip(*found, strict=True))
            columns = words.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) >> np.uint64(64 - 13)
            np.add.at(vectors[row], columns.astype(int), weights * self.weights[words])
        return vectors


def translations(
    pairs: Sequence[tuple[np.ndarray, np.ndarray]],
) -> dict[int, tuple[np.ndarray, np.ndarray]]:
    """The likeliest English words of each word, and their probabilities: IBM model 1 (Brown et al. 1993)."""
    sides: list[list[np.ndarray]] = [[], [], []]
    for number, (own, english) in enumerate(pairs):
        mine, theirs = (np.unique(ids)[:LONGEST] for ids in (own, english))
        sides[0].append(np.repeat(mine, len(theirs)))
        sides[1].append(np.tile(theirs, len(mine)))
        sides[2].append(np.full(len(mine) * len(theirs), number, np.int64))
    words, english, sentence = (np.concatenate(side).astype(np.int64) for side in sides)
    keys, entry = np.unique(words << 20 | english, return_inverse=True)
    _, group = np.unique(sentence << 20 | english, return_inverse=True)  # an English word of a sentence
    word = np.unique(keys >> 20, return_inverse=True)[1]
    likely = np.ones(len(keys))
    for _ in range(ROUNDS):
        shares = likely[entry]
        shares /= np.bincount(group, shares)[group]
        likely = np.bincount(entry, shares)
        likely /= np.bincount(word, likely)[word]
    order = np.lexsort((-likely, word))
    starts = np.searchsorted(word[order], np.arange(word.max() + 1))
    table = {}
    for first, stop in zip(starts, np.append(starts[1:], len(order)), strict=True):
        best = order[first : min(stop, first + TRANSLATIONS)]
        table[int(keys[best[0]] >> 20)] = keys[best] & ((1 << 20) - 1), likely[best]
    return table


def row(name: str, peer: Peer, data: Path, languages: Sequence[str]) -> str:
    """A row of the table."""
    texts = {code: list(read_lines(data / f"ntrex128/{code}.txt.gz")) for code in [*languages, ENGLISH]}
    began = time.process_time()
    vectors = {code: peer.embed(text, code) for code, text in texts.items()}
    speed = sum(map(len, texts.values())) / (time.process_time() - began)
    errors = [xsim(vectors[code], vectors[ENGLISH]).error_rate for code in languages]
    mined = []
    for folder in sorted((data / "mining").iterdir()):
        sides, gold = mining_set(folder)
        source = next(code for code in languages if code.startswith(folder.name[:3]))
        sides_of = [peer.embed(text, code) for text, code in zip(sides, (source, ENGLISH), strict=True)]
        mined += [100 * mining_f1(sides_of, sides, gold, ratio).f1 for ratio in (None, RATIO)]
    cells = [*(f"{error:.1f}" for error in errors), *(f"{f1:.1f}" for f1 in mined)]
    return f"| {name} | {' | '.join(cells)} | {speed:,.0f} | {peer.megabytes:.1f} |"


def by_mteb(encoder: SentenceEncoder, data: Path, languages: Sequence[str]) -> list[str]:
    """Rows: our P@1 by cosine, and accuracy and F1 of mteb's BitextMining on the same lines."""
    import mteb
    from datasets import Dataset
    from mteb.abstasks.task_metadata import TaskMetadata
    from mteb.abstasks.text.bitext_mining import AbsTaskBitextMining

    from mexma_cli.evaluation.mteb import MtebEncoder

    texts = {code: list(read_lines(data / f"ntrex128/{code}.txt.gz")) for code in [*languages, ENGLISH]}
    pairs = {code: f"{code}-{ENGLISH}" for code in languages}

    class Ntrex(AbsTaskBitextMining):
        metadata = TaskMetadata(
            name="LocalNtrex",
            dataset={"path": "local", "revision": "1"},
            description="NTREX-128's lines that are in DIR.",
            type="BitextMining",
            category="t2t",
            eval_splits=["test"],
            eval_langs={
                pair: [code.replace("_", "-") for code in pair.split("-")] for pair in pairs.values()
            },
            main_score="f1",
        )

        def load_data(self, **_: Any) -> None:
            self.dataset = {
                pair: {"test": Dataset.from_dict({"sentence1": texts[code], "sentence2": texts[ENGLISH]})}
                for code, pair in pairs.items()
            }
            self.data_loaded = True

    found = mteb.evaluate(MtebEncoder(encoder), Ntrex(), cache=None, show_progress_bar=False)
    theirs = {scores["hf_subset"]: scores for scores in found.task_results[0].scores["test"]}
    english, rows = encoder.embed(texts[ENGLISH]), []
    for code, pair in pairs.items():
        ours = 100 - xsim(encoder.embed(texts[code]), english, "absolute").error_rate
        cells = ours, *(100 * theirs[pair][name] for name in ("accuracy", "f1"))
        rows.append(f"| {code} | {' | '.join(f'{cell:.2f}' for cell in cells)} |")
    return rows


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--store", type=Path, required=True)
    parser.add_argument("--model", default="mini")
    parser.add_argument("--languages", default=LANGUAGES)
    arguments = parser.parse_args()
    data, languages = arguments.data, arguments.languages.split(",")
    opened = (TokenisedPairs.open(path.parent) for path in sorted(arguments.store.glob("*/manifest.json")))
    stores = [store for store in opened if store.manifest.source_language in languages and len(store)]
    tokenizer = PreTrainedTokenizerFast.from_pretrained(arguments.store / "tokenizer")
    encoder = SentenceEncoder.load(arguments.model, "cpu")
    folder = locate(arguments.model)
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6
    share = max(1, sum(map(len, stores)) // SAMPLE)
    ids = [side for store in stores for place in range(0, len(store), share) for side in store.pair(place)]
    peers: dict[str, Peer] = {
        "`mini`": OfEncoder(encoder, size),
        "token embeddings": OfEncoder(TokenMean(encoder), size),
        "dictionary": Dictionary(tokenizer, stores),
        "characters": OfEncoder(characters := Characters(tokenizer.batch_decode(ids)), 0.0),
    }
    peers["characters"].megabytes = characters.weights.idf_.nbytes / 1e6
    names = [code[:3] for code in languages]
    for folder in sorted((data / "mining").iterdir()):
        names += [f"F1 {folder.name}", "of like lengths"]
    print(f"| | {' | '.join(names)} | a second | MB |\n{'| --- ' * (len(names) + 3)}|")
    for name, peer in peers.items():
        print(row(name, peer, data, languages), flush=True)
    print("\n| | P@1 by cosine | mteb: accuracy | mteb: F1 |\n| --- | --- | --- | --- |")
    print("\n".join(by_mteb(encoder, data, languages)))


if __name__ == "__main__":
    main()
