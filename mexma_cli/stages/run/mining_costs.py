"""What finding a threshold and mining take: measured on made-up neighbours."""

from __future__ import annotations

import math
import tempfile
from itertools import cycle, islice
from pathlib import Path

import numpy as np

from mexma_cli.knn.neighbours import Neighbours
from mexma_cli.mining.lists import sides_of
from mexma_cli.settings.corpus import CorpusRecipe
from mexma_cli.settings.encoder import BUNDLED, EncoderChoice
from mexma_cli.stages.embed.inputs import load_encoder
from mexma_cli.stages.knn.row_filter import RowCounts
from mexma_cli.stages.mine.files import mine_files
from mexma_cli.stages.mine.mine import KnownLists
from mexma_cli.stages.mine.report import MiningJob
from mexma_cli.stages.run.index_costs import Cost, spent
from mexma_cli.stages.run.plan import by_probability
from mexma_cli.stages.tune.estimate import estimate, mine_twice_with
from mexma_cli.store.embeddings import EmbeddingSettings, EmbeddingStore, EmbeddingWriter, Source

_ROWS = 1 << 18  # of each side, and a fourth of that


def mining_costs(recipe: CorpusRecipe, texts: list[list[str]]) -> dict[str, Cost]:
    """What the work `mine`, and `tune` if thresholds are to be found, costs.

    Args:
        texts: Some lines of each of two languages.
    """
    _spent(recipe, texts, _ROWS)  # compiles
    few, many = (_spent(recipe, texts, rows) for rows in (_ROWS // 4, _ROWS))
    found = {}
    for work, seconds in many.items():
        row, more = few[work] / (2 * _ROWS // 4), seconds / (2 * _ROWS)
        doubling = max(0.0, more - row) / 2
        found[work] = Cost(unit=0.0, row=more - doubling * math.log2(2 * _ROWS), doubling=doubling)
    return found


def _spent(recipe: CorpusRecipe, texts: list[list[str]], rows: int) -> dict[str, float]:
    """Seconds of the processor, by work, for so many rows a side."""
    probable = by_probability(recipe)
    how = recipe.mine.but(threshold=None, max_score=None, drop_copies=False, top=None)
    how = how.but(score="probability" if probable else "margin")
    encoder, fingerprint = BUNDLED if probable else "made up", "made up"
    if probable:  # whose words are embedded
        fingerprint = load_encoder(EncoderChoice(model=BUNDLED)).fingerprint
    counts = RowCounts(rows, 0, 0, 0), RowCounts(rows, 0, 0, 0)
    with tempfile.TemporaryDirectory(prefix="mexma-") as name:
        pair = recipe.language_pairs()[0]
        paths = [Path(name) / f"{code}.emb" for code in pair]
        for path, code, text in zip(paths, pair, texts, strict=True):
            _write(path, code, list(islice(cycle(text), rows)), (encoder, fingerprint))
        known = KnownLists(sides_of(_near(rows, how.k + 1)), counts)
        files = [Path(name) / "pairs.tsv"]
        job = MiningJob(
            (paths[0], paths[1]), pair, how, files, "tsv", recipe.output.with_ids, neighbours=known
        )
        found = {"mine": spent(lambda: mine_files(job, EncoderChoice()), 1)}
        if recipe.mine.threshold == "auto":
            stores = EmbeddingStore.open(paths[0]), EmbeddingStore.open(paths[1])

            def tune() -> None:
                rounds = mine_twice_with(stores, known, how)
                estimate(rounds, rounds.model())

            found["tune"] = spent(tune, 1)
    return found


def _near(rows: int, k: int) -> Neighbours:
    """Neighbours at random; every other row is the nearest of the row with its number, and far nearer."""
    rng = np.random.default_rng(0)
    ids = rng.integers(0, rows, (2, rows, k))
    cosines = -np.sort(-rng.uniform(0.2, 0.4, (2, rows, k)).astype(np.float32), axis=2)
    ids[:, ::2, 0], cosines[:, ::2, 0] = np.arange(0, rows, 2), rng.uniform(0.5, 0.9, len(ids[0, ::2]))
    return Neighbours(cosines[0], ids[0], cosines[1], ids[1])


def _write(path: Path, language: str, lines: list[str], encoder: tuple[str, str]) -> None:
    """A store with these lines, of an encoder by name and fingerprint."""
    settings = EmbeddingSettings(
        fingerprint=encoder[1],
        pooling="cls",
        dim=1,
        dtype="float16",
        precision="float32",
        normalised=False,
        language=language,
        source_checksum=language,
    )
    source = Source(path="made up", checksum=language, lines=len(lines))
    with EmbeddingWriter(path, settings, source, encoder=encoder[0]) as writer:
        writer.write(np.ones((len(lines), 1), np.float32), lines)
        writer.finish()
