"""What smaller vectors cost: F1 of mining by their stored type and number of dimensions.

    python benchmarks/stored.py [--data examples/spa-eng] [--model mini] [--dims 320 160 80]

DIR has two texts and `gold.tsv`, pairs of their lines. F1 is the best over all thresholds, and the share of
pairs is that of the pairs of float32 with all dimensions.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import mexma_cli
from mexma_cli.encoder.encoder import SentenceEncoder
from mexma_cli.settings.stages import EmbedSettings, StoreType
from mexma_cli.stages.embed.embed import EmbedOptions, embed_file
from mexma_cli.store.embeddings import EmbeddingStore

TYPES: tuple[StoreType, ...] = ("float32", "float16", "int8")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=Path(__file__).parents[1] / "examples" / "spa-eng")
    parser.add_argument("--model", default="mini")
    parser.add_argument("--dims", type=int, nargs="+", default=[320, 160, 80])
    settings = parser.parse_args()
    texts = sorted(settings.data.glob("*.txt"), reverse=True)
    gold = set((settings.data / "gold.tsv").read_text("utf-8").splitlines())
    encoder = SentenceEncoder.load(settings.model, "cpu")
    print(
        "| dimensions | stored type | bytes a vector | best F1 | the pairs of float32 |\n"
        + "| --- " * 5
        + "|"
    )
    first: list[str] = []
    with tempfile.TemporaryDirectory(prefix="mexma-benchmark-") as name:
        for dim in settings.dims:
            encoder.truncate(dim)
            for kind in TYPES:
                made = [
                    stored(encoder, text, Path(name) / f"{text.stem}.{dim}.{kind}.emb", kind)
                    for text in texts
                ]
                pairs = [f"{pair.source}\t{pair.target}" for pair in mexma_cli.mine(*made)]
                first = first or pairs
                size = dim * {"float32": 4, "float16": 2, "int8": 1}[kind] + 4 * (kind == "int8")
                kept = len(set(pairs) & set(first)) / len(set(first))
                print(
                    f"| {dim} | `{kind}` | {size:,} | {100 * best_f1(pairs, gold):.2f} | {100 * kept:.2f}% |"
                )


def stored(encoder: SentenceEncoder, text: Path, path: Path, kind: StoreType) -> EmbeddingStore:
    """The store of a text."""
    return embed_file(encoder, text, path, EmbedOptions(settings=EmbedSettings(store_dtype=kind)))


def best_f1(pairs: list[str], gold: set[str]) -> float:
    """The best F1 of the first pairs, however many they are."""
    right, best = 0, 0.0
    for count, pair in enumerate(pairs, 1):
        right += pair in gold
        best = max(best, 2 * right / (count + len(gold)))
    return best


if __name__ == "__main__":
    main()
