"""How much of the meaning is left in the language part (ORACLE paper, Tables 3, 8 and 10, Figure 5)."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mexma_cli.evaluation.embedder import Embed, Embedder
from mexma_cli.evaluation.sts import ScoredPairs, means_of_known, score_pairs
from mexma_cli.evaluation.tatoeba import DIRECTIONS, ENGLISH, GROUPS, TatoebaTest, is_switched, precision_at_1
from mexma_cli.evaluation.tokens import token_blocks
from mexma_cli.reporting.plot import COLOURS, new_figure, save
from mexma_cli.reporting.result import Result

WHOLE = "vectors"
PARTS = ("meaning", "language")
TOKENS_OF = 100
"""Pairs whose tokens are drawn."""
SPEARMAN = "spearman"
_STS17 = "ar-ar ar-en de-en en-en en-es en-fr en-it en-nl en-tr es-es"
STS17 = {tuple(pair.split("-")) for pair in _STS17.split()}
"""The ten sets of STS 2017 as the paper has them, whichever language comes first in a name."""

SWITCHED = {"arb", "deu", "fra", "ita", "nld", "por", "ron", "spa"}
"""Languages of the paper's code-switched sets (Table 11), as `mexma eval codeswitch` names its files."""

Split = Callable[[np.ndarray], dict[str, np.ndarray]]
"""From an encoder's vectors, float32 [N, dim], to each of their `PARTS`, [N, dim]."""
Row = dict[str, Any]


def measure_leakage(
    pairs: Sequence[TatoebaTest], sets: Sequence[ScoredPairs], embed: Embed, split: Split
) -> list[Row]:
    """Retrieval in both directions and similarity, with the encoder's vectors and each of their parts.

    Returns:
        A row for each data set and measure: `data`, `measure` (P@1 of a direction in percent, or the
        Spearman correlation x 100), `pairs`, and the numbers by part; None where a part is constant.
    """
    rows: list[Row] = []
    for pair in pairs:
        source, target = (
            _parts(embed(*side), split) for side in ((pair.sentences, pair.language), (pair.english, ENGLISH))
        )
        found = {part: precision_at_1(source[part], target[part]) for part in source}
        for place, direction in enumerate(DIRECTIONS):
            row = {"data": pair.language, "measure": direction, "pairs": len(pair.english)}
            rows.append(row | {part: both[place] for part, both in found.items()})
    for one in sets:
        left, right = _parts(embed(one.left), split), _parts(embed(one.right), split)
        correlations = {part: score_pairs(left[part], right[part], one.gold)["spearman"] for part in left}
        row = {"data": one.name, "measure": SPEARMAN, "pairs": len(one.gold)}
        rows.append(row | correlations)
    return rows


def _parts(vectors: np.ndarray, split: Split) -> dict[str, np.ndarray]:
    return {WHOLE: vectors, **split(vectors)}


def leakage_result(
    rows: list[Row], folder: Path, sts_paths: Sequence[Path], encoder: dict[str, Any]
) -> Result:
    """The `Result` of what `measure_leakage` found in a folder of Tatoeba files and in similarity sets."""
    languages = list(dict.fromkeys(row["data"] for row in rows if row["measure"] in DIRECTIONS))
    settings = {"data": str(folder), "languages": len(languages), "sts": list(map(str, sts_paths))}
    benchmark = published_as(languages, is_switched(folder))
    return Result("leakage", encoder, settings, leakage_scores(rows), rows, benchmark)


def leakage_scores(rows: Sequence[Row]) -> dict[str, float]:
    """The means of both parts by measure: `meaning eng->xx` over all data and the like, `meaning eng->xx 14`
    over each of `GROUPS` that is there as a whole; `meaning STS17` where the sets are those of STS 2017."""
    scores: dict[str, float] = {}
    for measure in (*DIRECTIONS, SPEARMAN):
        every = [row for row in rows if row["measure"] == measure]
        names = [row["data"] for row in every]
        sets = {"STS17" if measure == SPEARMAN and _is_sts17(names) else measure: every}
        for group, codes in GROUPS.items() if measure in DIRECTIONS else ():
            if set(names) >= set(codes):
                sets[f"{measure} {group}"] = [row for row in every if row["data"] in codes]
        for name, members in sets.items():
            for part in PARTS:
                if means := means_of_known([row[part] for row in members]):
                    scores[f"{part} {name}"] = means[0]
    return scores


def published_as(languages: Collection[str], switched: bool) -> str | None:
    """The benchmark of published.tsv, for sets that `mexma eval codeswitch` made (`switched`) or others. Of
    code-switched sets it has means of all the paper's languages only."""
    if not switched:
        return "leakage"
    return "leakage-codeswitch" if set(languages) == SWITCHED else None


def _is_sts17(names: Sequence[str]) -> bool:
    """Whether these are the ten sets of STS 2017, all of them: `STS.en-de`, `STS.es-es` and so on."""
    pairs = [tuple(sorted(re.split(r"[._]", name)[-1].split("-"))) for name in names]
    return len(pairs) == len(STS17) and set(pairs) == STS17


def plane(clouds: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Clouds of directions, float32 [N, dim] each, in the plane in which, taken together, they spread most
    (PCA of unit vectors), float64 [N, 2] each."""
    unit = [cloud / np.linalg.norm(cloud, axis=1, keepdims=True).clip(1e-12) for cloud in clouds]
    everything = np.concatenate(unit).astype(np.float64)
    centre = everything.mean(axis=0)
    _, _, axes = np.linalg.svd(everything - centre, full_matrices=False)
    return [(cloud - centre) @ axes[:2].T for cloud in unit]


def clouds(pairs: Sequence[TatoebaTest], embed: Embed, split: Split) -> dict[str, Clouds]:
    """Points for `draw_clouds`: all parts of English and of the other language in one plane, by language."""
    panels: dict[str, Clouds] = {}
    for pair in pairs:
        sides = {
            "eng": split(embed(pair.english, ENGLISH)),
            "xx": split(embed(pair.sentences, pair.language)),
        }
        keys = [(part, side) for part in sides["eng"] for side in sides]
        flat = plane([sides[side][part] for part, side in keys])
        panels[pair.language] = dict(zip(keys, flat, strict=True))
    return panels


def encoder_clouds(pairs: Sequence[TatoebaTest], embed: Embedder, before: str) -> dict[str, Clouds]:
    """Points for `draw_clouds`: the sentences of both languages, as in CLFT's pictures, and beside them the
    tokens of the first TOKENS_OF pairs (DAP, Figure 1). `before` stands before the languages in the
    titles."""

    def tokens(sentences: Sequence[str], _: str | None = None) -> np.ndarray:
        cut = embed.encoder.truncated  # counted with the sentences
        found = np.concatenate([one.vectors.cpu().numpy() for one in token_blocks(embed.encoder, sentences)])
        embed.encoder.truncated = cut
        return found

    panels: dict[str, Clouds] = {}
    for pair in pairs:
        few = TatoebaTest(f"{pair.language}, tokens", pair.sentences[:TOKENS_OF], pair.english[:TOKENS_OF])
        for one, vectors_of in ((pair, embed), (few, tokens)):
            drawn = clouds([one], vectors_of, lambda vectors: {WHOLE: vectors})
            panels[before + one.language] = drawn[one.language]
    return panels


OF_CLOUDS = {
    (WHOLE, "eng"): COLOURS[1],
    (WHOLE, "xx"): COLOURS[0],
    ("language", "eng"): COLOURS[4],
    ("language", "xx"): COLOURS[2],
    ("meaning", "eng"): COLOURS[1],
    ("meaning", "xx"): COLOURS[0],
}
"""The figure's orange, green, red and blue."""
Clouds = Mapping[tuple[str, str], np.ndarray]
"""By part and side as in `OF_CLOUDS`: float [N, 2]."""


def draw_clouds(path: Path, panels: Mapping[str, Clouds], title: str) -> None:
    """Draw the clouds of each language, a panel a language, into a .png, .svg or .pdf that is written
    whole."""
    columns = min(2, len(panels))
    lines = math.ceil(len(panels) / columns)
    figure = new_figure(max(4.4, 3.3 * columns), (4.2 if columns == 1 else 3.2) * lines + 0.9)
    for place, (language, clouds) in enumerate(panels.items(), 1):
        axes = figure.add_subplot(lines, columns, place)
        for key, colour in OF_CLOUDS.items():
            if key not in clouds:
                continue
            x, y = clouds[key].T
            # The meanings lie on one another if all is well: hollow marks let both be seen.
            face = colour if key[0] == "language" else "none"
            axes.scatter(
                x,
                y,
                s=12,
                marker="o" if key[1] == "eng" else "^",
                facecolors=face,
                edgecolors=colour,
                linewidths=0.5,
                alpha=0.6,
                label=f"{key[0]}, {'English' if key[1] == 'eng' else 'other language'}",
            )
        axes.set_title(language, fontsize=10, parse_math=False)
        axes.set_xticks([])
        axes.set_yticks([])
        axes.set_xlabel("first principal component", fontsize=9)
        axes.set_ylabel("second principal component", fontsize=9)
    handles, labels = figure.axes[0].get_legend_handles_labels()
    below = "outside lower center"
    figure.legend(handles, labels, loc=below, ncols=2, frameon=False, fontsize=9, markerscale=1.5)
    figure.suptitle(title, fontsize=11, parse_math=False)
    save(figure, path)
