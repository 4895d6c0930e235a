"""Small files that would become gigabytes, or take hours: refused within seconds, in little memory."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from tests.faults.commands import EMBED, inputs
from tests.faults.running import Mexma

LINE, LINES = b"a" * (1 << 24), b"a\n" * (1 << 23)
PACKED: dict[str, Callable[[bytes], bytes]] = {
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "zst": zstandard.compress,
}
ALIASES = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{name}: &{name} [{','.join([f'*{before}'] * 9)}]\n"
    for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)
RECIPES = {
    "aliases": ALIASES,
    "brackets": f"name: {'[' * 5000}{']' * 5000}\n",
    "digits": f"trainer: {{steps: {'9' * 4300}}}\n",
    "a date": "name: 2020-01-01\n",
    "itself": "data: &all\n  root: *all\n",
}
CONFIGS = {
    "num_hidden_layers": 1_000_000,
    "hidden_size": 1 << 40,
    "vocab_size": 1 << 40,
    "num_attention_heads": 0,
}


@pytest.fixture
def folder(tmp_path: Path, tiny_encoder: Path) -> Path:
    here = tmp_path / "here"
    here.mkdir()
    inputs(here, tiny_encoder)
    return here


@pytest.mark.parametrize(
    ("ending", "piece"),
    [*((ending, LINE) for ending in PACKED), ("zst", LINES)],
    ids=[*PACKED, "zst of lines"],
)
def test_a_gigabyte_in_a_small_file(ending: str, piece: bytes, mexma: Mexma, folder: Path) -> None:
    """Each piece is packed by itself, and all formats may have several."""
    (folder / f"big.txt.{ending}").write_bytes(PACKED[ending](piece) * 64)
    ended = mexma((*EMBED, "eng", f"big.txt.{ending}"), folder, seconds=60, megabytes=1000)
    ended.plain()
    assert ended.code == 1, ended.err


@pytest.mark.parametrize(
    "name",
    RECIPES,
)
def test_a_recipe_that_grows(name: str, mexma: Mexma, folder: Path) -> None:
    path = folder / "recipe.yaml"
    path.write_text(path.read_text() + RECIPES[name])
    ended = mexma(("prepare", "recipe.yaml"), folder, seconds=20, megabytes=1000)
    ended.plain()
    assert ended.code == 1, ended.err


@pytest.mark.parametrize(
    "key",
    CONFIGS,
)
@pytest.mark.parametrize("words", [(*EMBED, "spa", "a.txt"), ("info", "enc")], ids=["embed", "info"])
def test_a_model_that_is_too_large(key: str, words: tuple[str, ...], mexma: Mexma, folder: Path) -> None:
    path = folder / "enc" / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {key: CONFIGS[key]}))
    ended = mexma(words, folder, seconds=20, megabytes=1000)
    ended.plain()
    assert ended.code == 1, ended.err
