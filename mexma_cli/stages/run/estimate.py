"""What a run will take: units that are to be done, disk, memory and time, before anything is done."""

from __future__ import annotations

import time
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any

from mexma_cli.knn.estimate import seconds_needed
from mexma_cli.knn.exact import X_ROWS, bytes_needed
from mexma_cli.recipe import CorpusRecipe
from mexma_cli.stages.embed.inputs import EncoderChoice, load_encoder
from mexma_cli.stages.knn.search import resident
from mexma_cli.stages.run.plan import Selection, check_settings, inputs_of, plan
from mexma_cli.stages.run.remote import with_copies
from mexma_cli.stages.run.units import Record, RunFolder, Unit
from mexma_cli.text.lines import estimate_lines, read_lines

_SAMPLE = 256  # lines of a language that are embedded to see how long a line takes
_SENTENCE_BYTES = 120  # of text, for a sentence of documents that are not split yet
_STORED_BYTES = 2  # of a number in an embedding store
_RESULT_BYTES = 12  # a score and an id
_KEY_BYTES = 8


@dataclass(frozen=True)
class _Text:
    lines: int
    bytes: int


def estimate(recipe: CorpusRecipe, chosen: Selection, jobs: int) -> dict[str, Any]:
    """Look at the texts, embed a few lines, search a little, and scale that up.

    Lines of compressed files are estimated from their beginning.

    Args:
        jobs: Units that will be done at the same time.

    Returns:
        `languages`: lines of each; `units`: stage -> units in all and those up to date; `disk` and `memory`
        in bytes; `seconds` by stage, for units that are to be done one after the other by all threads.

    Raises:
        MexmaError: As the run would.
    """
    check_settings(recipe)
    recipe = with_copies(chosen.narrowed(recipe))
    inputs = inputs_of(recipe)
    texts = {code: _measured(recipe, code, list(map(Path, inputs[code]))) for code in recipe.languages}
    folder = RunFolder(Path(recipe.run))
    done: dict[str, Record] = {}
    known: dict[str, Unit] = {}
    while True:  # as long as more of the plan becomes known by what is done
        before = len(done)
        for unit in chosen.of(plan(recipe, inputs, lambda name: done.get(name))):
            known[unit.name] = unit
            if all(other in done for other in unit.needs.values()) and (record := folder.done(unit)):
                done[unit.name] = record
        if len(done) == before:
            break
    units = chosen.of(plan(recipe, inputs, lambda name: done.get(name) or _imagined(recipe, name, texts)))
    to_do = [unit for unit in units if unit.name not in done]
    encoder = load_encoder(EncoderChoice(**recipe.encoder.model_dump()))
    seconds = dict.fromkeys((unit.stage for unit in to_do), 0.0)
    if "embed" in seconds:
        seconds["embed"] = sum(_embedding(recipe, inputs, texts, encoder, code, to_do) for code in texts)
    rows = {code: text.lines for code, text in texts.items()}
    pairs = [pair for pair in recipe.language_pairs() if any(_is_tile(unit, pair) for unit in to_do)]
    k, size = recipe.mine.k, recipe.units.tile
    for source, target in pairs if "knn" in seconds else ():
        share = sum(_is_tile(unit, (source, target)) for unit in to_do) / sum(
            _is_tile(unit, (source, target)) for unit in units
        )
        seconds["knn"] += share * seconds_needed(rows[source], rows[target], encoder.dim, k)
    tile = min(size, max(rows.values()))
    largest = max(rows[source] + rows[target] for source, target in recipe.language_pairs())
    searching = bytes_needed(tile, tile, encoder.dim, k, min(tile, X_ROWS))
    return {
        "languages": rows,
        "units": {
            stage: {
                "all": sum(unit.stage == stage for unit in units),
                "up to date": sum(unit.stage == stage and unit.name in done for unit in units),
            }
            for stage in dict.fromkeys(unit.stage for unit in units)
        },
        "disk": _disk(recipe, texts, encoder.dim),
        "memory": jobs * (resident() + max(searching, 2 * _RESULT_BYTES * k * largest)),
        "seconds": {stage: round(spent, 1) for stage, spent in seconds.items() if spent},
    }


def _measured(recipe: CorpusRecipe, code: str, paths: list[Path]) -> _Text:
    found = [estimate_lines(path) for path in paths]
    lines, size = sum(lines for lines, _, _ in found), sum(size for _, size, _ in found)
    return _Text(lines if recipe.languages[code].split is None else -(-size // _SENTENCE_BYTES), size)


def _imagined(recipe: CorpusRecipe, unit: str, texts: dict[str, _Text]) -> Record | None:
    """The record that cutting a text will leave, if the unit is that."""
    code, _, what = unit.partition("/")
    if what != "text":
        return None
    lines, size = texts[code].lines, recipe.units.lines
    pieces = [
        {"name": f"{start // size:05d}.txt.zst", "lines": min(size, lines - start), "checksum": ""}
        for start in range(0, lines, size)
    ]
    return Record(key="", output="", checksum="", facts={"pieces": pieces}, seconds=0)


def _is_tile(unit: Unit, pair: tuple[str, str]) -> bool:
    return unit.work == "tile" and unit.name.startswith(f"{'-'.join(pair)}/")


def _embedding(
    recipe: CorpusRecipe,
    inputs: dict[str, dict[str, str]],
    texts: dict[str, _Text],
    encoder: Any,
    code: str,
    to_do: list[Unit],
) -> float:
    """Seconds to embed what is left of a language, by a sample of its lines."""
    left = [unit for unit in to_do if unit.work == "embed" and unit.settings["language"] == code]
    if not left:
        return 0.0
    lines = list(islice(chain.from_iterable(map(read_lines, inputs[code])), _SAMPLE))
    encoder.embed(lines[:8])
    began = time.perf_counter()
    encoder.embed(lines)
    a_line = (time.perf_counter() - began) / len(lines)
    return a_line * min(texts[code].lines, len(left) * recipe.units.lines)


def _disk(recipe: CorpusRecipe, texts: dict[str, _Text], dim: int) -> int:
    """Bytes of all that a run keeps, at most: texts in pieces and in stores, vectors, neighbours in tiles and
    put together, and every line in a pair."""
    total = sum(2 * text.bytes + text.lines * dim * _STORED_BYTES for text in texts.values())
    for source, target in recipe.language_pairs():
        rows = texts[source].lines, texts[target].lines
        across = [-(-count // recipe.units.tile) for count in rows]
        keys = rows[0] * across[1] + rows[1] * across[0]
        total += recipe.mine.k * (_KEY_BYTES * keys + _RESULT_BYTES * sum(rows))
        total += texts[source].bytes + texts[target].bytes
    return total
