"""Mining sets: BUCC 2018's files, and others that are laid out like them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mexma_cli.errors import MexmaError
from mexma_cli.evaluation.readers.common import require_folder
from mexma_cli.formats.ids import read_id_pairs, read_ids
from mexma_cli.languages import resolve
from mexma_cli.text.compression import plain_name

HINT = (
    "BUCC 2018 (comparable.limsi.fr/bucc2018): fr-en.training.fr, .en and .gold; or fra-eng.fra.tsv, "
    "fra-eng.eng.tsv and fra-eng.gold.tsv: `id TAB sentence`, and `source id TAB target id`"
)
_NAME = re.compile(
    r"(?P<pair>(?P<source>[a-z]{2,3}(?:_[A-Z][a-z]{3})?)-(?P<target>[a-z]{2,3}(?:_[A-Z][a-z]{3})?))"
    r"(?:\.(?P<split>sample|dev|train|training|test))?\.(?P<side>[A-Za-z_]+)(?:\.tsv)?"
)
_BUCC_SPLITS = ("sample", "training", "test")
Files = dict[str, Path]


@dataclass(frozen=True)
class MiningSet:
    """One pair of texts. `gold` int64 [g, 2]: rows of sources and of targets that are translations."""

    pair: str
    """`fra-eng`."""
    split: str
    """`training`; empty where the files' names have none."""
    source_ids: list[str]
    sources: list[str]
    target_ids: list[str]
    targets: list[str]
    gold: np.ndarray
    is_bucc: bool
    """Whether the files are named as BUCC's."""


def read_sets(folders: Sequence[Path]) -> list[MiningSet]:
    """All mining sets in folders and in the folders directly in these, by pair and split.

    Raises:
        MexmaError: None is there, a file of a set is missing, a line is not `id TAB sentence`, or gold names
            an unknown id or has no pairs; with file and line.
    """
    found: dict[tuple[str, str], tuple[str, Files, Path]] = {}  # fr-en and fra-eng are one pair
    for folder in folders:
        require_folder(folder)
        for where in (folder, *sorted(path for path in folder.iterdir() if path.is_dir())):
            for (pair, split), files in _sets_in(where).items():
                key = _codes(pair), split
                if key in found:
                    raise MexmaError(f"{where} and {found[key][2]} both have {' '.join(filter(None, key))}")
                found[key] = pair, files, where
    if not found:
        raise MexmaError(f"{', '.join(map(str, folders))}: no mining set", f"needed: {HINT}")
    sets = [_read(pair, split, files, where) for (_, split), (pair, files, where) in sorted(found.items())]
    return [one for one in sets if one is not None]


def _codes(pair: str) -> str:
    """`fra-eng` of `fr-en`."""
    return "-".join(resolve(code).partition("_")[0] for code in pair.split("-"))


def _sets_in(folder: Path) -> dict[tuple[str, str], Files]:
    sets: dict[tuple[str, str], Files] = {}
    for path in sorted(folder.iterdir()):
        name = _NAME.fullmatch(plain_name(path.name))
        if name and name["side"] in (name["source"], name["target"], "gold"):
            side = {name["source"]: "source", name["target"]: "target"}.get(name["side"], "gold")
            sets.setdefault((name["pair"], name["split"] or ""), {})[side] = path
    return sets


def _read(pair: str, split: str, files: Files, folder: Path) -> MiningSet | None:
    if split == "test" and set(files) == {"source", "target"}:
        return None  # BUCC's own gold list for it is not public
    missing = [side for side in ("source", "target", "gold") if side not in files]
    if missing:
        there = ", ".join(path.name for path in files.values())
        raise MexmaError(
            f"{folder}: the {' and '.join(missing)} file of {pair} is missing beside {there}",
            f"needed: {HINT}",
        )
    sides = [list(read_ids(files[side])) for side in ("source", "target")]
    (source_ids, sources), (target_ids, targets) = ([*map(list, zip(*side, strict=True))] for side in sides)
    rows = [{name: row for row, name in enumerate(ids)} for ids in (source_ids, target_ids)]
    pairs = read_id_pairs(files["gold"], rows, [files["source"], files["target"]])
    gold = np.array([(rows[0][source], rows[1][target]) for source, target in pairs], dtype=np.int64)
    is_bucc = split in _BUCC_SPLITS
    return MiningSet(_codes(pair), split, source_ids, sources, target_ids, targets, gold, is_bucc)
