"""Files of weights that lie: small ones that would be terabytes, damaged ones, and ones that are divided."""

from __future__ import annotations

import json
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from mexma_cli.encoder.encoder import SentenceEncoder
from mexma_cli.encoder.loading.weights import read_pickled, read_weights
from mexma_cli.errors import MexmaError
from tests.encoder.conftest import WEIGHTS, change_json

BIN = "pytorch_model.bin"
NUMBERS = torch.arange(12.0).reshape(3, 4)


def packed(path: Path) -> None:
    """Zeros that take a thousandth of their size."""
    torch.save({"a": torch.zeros(1 << 20)}, path)
    with zipfile.ZipFile(path) as archive:
        parts = [(part.filename, archive.read(part)) for part in archive.infolist()]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts:
            archive.writestr(name, content)


def many_views(path: Path) -> None:
    """Each is as large as its storage, and all have the same."""
    numbers = torch.zeros(1000)
    torch.save({str(place): numbers for place in range(100)}, path)


def of_any_length(path: Path) -> None:
    """`bytearray(1 << 40)`, which torch allows."""
    path.write_bytes(b"cbuiltins\nbytearray\n(" + pickle.dumps(1 << 40, 0).removesuffix(b".") + b"tR.")


LIES: dict[str, tuple[Callable[[Path], object], str]] = {
    "one number for a terabyte": (
        lambda path: torch.save({"a": torch.zeros(1).expand(1 << 38, 4)}, path),
        "stands for fewer numbers",
    ),
    "rows upon one another": (
        lambda path: torch.save({"a": torch.zeros(99).as_strided((50, 50), (1, 1))}, path),
        "stands for fewer numbers",
    ),
    "packed": (packed, "its parts are packed"),
    "made while it is read": (of_any_length, "it has a bytearray"),
    "no numbers at all": (
        lambda path: torch.save({"a": torch.empty(1 << 40, device="meta")}, path),
        "tensors of another kind",
    ),
    "sparse": (
        lambda path: torch.save(
            {
                "a": torch.sparse_coo_tensor(
                    torch.zeros(1, 1), torch.ones(1), (1 << 40,), check_invariants=True
                )
            },
            path,
        ),
        "tensors of another kind",
    ),
    "empty": (lambda path: path.write_bytes(b""), "cannot be read: "),
    "one byte": (lambda path: path.write_bytes(b"\x80"), "cannot be read: "),
    "not UTF-8": (lambda path: path.write_bytes(b"\x80\x02X\x02\0\0\0\xff\xff."), "cannot be read: "),
    "an empty stack": (lambda path: path.write_bytes(b"\x80\x02" + b"(" * 999 + b"."), "cannot be read: "),
    "a word that is not known": (lambda path: path.write_bytes(b"\x80\x02h\xff."), "cannot be read: "),
    "a list": (lambda path: torch.save([NUMBERS], path), "it holds no tensors"),
    "nothing": (lambda path: torch.save({}, path), "it holds no tensors"),
    "more than tensors": (lambda path: torch.save({"a": NUMBERS, "b": "c"}, path), "'b' is no tensor"),
}


@pytest.mark.parametrize("case", LIES)
def test_pickled_weights_that_lie_are_refused(case: str, tmp_path: Path) -> None:
    write, message = LIES[case]
    write(tmp_path / BIN)
    with pytest.raises(MexmaError, match=rf"{BIN} .*{message}"):
        read_weights(tmp_path)


@pytest.mark.parametrize("old", [True, False])
def test_pickled_weights_may_share_numbers(old: bool, tmp_path: Path) -> None:
    """As token embeddings and the head over them do; a part of a storage, turned, is a tensor, too."""
    content = {"a": NUMBERS, "b": NUMBERS, "c": NUMBERS[1:].T, "d": torch.nn.Parameter(NUMBERS[:, 1])}
    torch.save(content, tmp_path / BIN, _use_new_zipfile_serialization=not old)
    found = read_weights(tmp_path)
    assert {name: value.tolist() for name, value in found.items()} == {
        name: value.tolist() for name, value in content.items()
    }
    many_views(tmp_path / "many.pt")
    assert len(read_pickled(tmp_path / "many.pt")) == 100


def divide(folder: Path, write: Callable[[dict[str, torch.Tensor], Path], object], name: str) -> None:
    """Weights in two files and an index, as large ones are."""
    weights = load_file(folder / WEIGHTS)
    (folder / WEIGHTS).unlink()
    stem, _, ending = name.partition(".")
    mapped: dict[str, str] = {}
    for part in (0, 1):
        own = dict(list(weights.items())[part::2])
        write(own, folder / f"{stem}-{part}.{ending}")
        mapped |= dict.fromkeys(own, f"{stem}-{part}.{ending}")
    (folder / f"{name}.index.json").write_text(json.dumps({"weight_map": mapped}))


@pytest.mark.parametrize(("write", "name"), [(save_file, WEIGHTS), (torch.save, BIN)])
def test_weights_in_several_files(write: Any, name: str, tiny_encoder: Path, folder: Path) -> None:
    divide(folder, write, name)
    whole = SentenceEncoder.load(str(tiny_encoder), "cpu").fingerprint
    assert SentenceEncoder.load(str(folder), "cpu").fingerprint == whole
    index = f"{name}.index.json"
    for other in ("../x", "/etc/passwd", 1, None):
        change_json(index, weight_map={"a": other})(folder)
        with pytest.raises(MexmaError, match=f"{index} cannot be read"):
            SentenceEncoder.load(str(folder), "cpu")


@pytest.mark.parametrize(
    "sizes",
    [
        {"vocab_size": 1 << 33},
        {"hidden_size": 1 << 20},
        {"intermediate_size": 1 << 36},
        {"max_position_embeddings": 1 << 33},
        {"type_vocab_size": 1 << 33},
        {"num_hidden_layers": 999},
    ],
    ids=lambda sizes: next(iter(sizes)),
)
def test_sizes_that_are_not_those_of_the_weights(sizes: dict[str, int], folder: Path) -> None:
    change_json("config.json", **sizes)(folder)
    with pytest.raises(
        MexmaError,
        match=r"copy' cannot be .*: config.json describes a model of [\d,]+ numbers; the weights",
    ):
        SentenceEncoder.load(str(folder), "cpu")


def test_labels_that_take_no_memory(tiny_encoder: Path, folder: Path, tmp_path: Path) -> None:
    """A model of sentences has none, and transformers would name every one."""
    change_json("config.json", num_labels=10**9)(folder)
    encoder = SentenceEncoder.load(str(folder), "cpu")
    assert encoder.fingerprint == SentenceEncoder.load(str(tiny_encoder), "cpu").fingerprint
    encoder.save(tmp_path / "saved")
    assert "num_labels" not in json.loads((tmp_path / "saved" / "config.json").read_text())


def test_pickled_weights_of_an_encoder(folder: Path) -> None:
    """Sizes in config.json that are those of the weights, which stand for more than is stored."""
    weights = load_file(folder / WEIGHTS)
    weights["embeddings.word_embeddings.weight"] = torch.zeros(1).expand(1 << 33, 32)
    torch.save(weights, folder / BIN)
    (folder / WEIGHTS).unlink()
    change_json("config.json", vocab_size=1 << 33)(folder)
    with pytest.raises(MexmaError, match=rf"{BIN} cannot be read: a tensor of \[8589934592, 32\] stands"):
        SentenceEncoder.load(str(folder), "cpu")
