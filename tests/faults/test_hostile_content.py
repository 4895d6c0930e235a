"""Files whose checksums are right and whose content is hostile: no code runs, nothing outside is touched."""

from __future__ import annotations

import io
import json
import os
import pickle
import random
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import zstandard

from mexma_cli.files import checksum_file
from mexma_cli.training.checkpoint import CheckpointManifest
from tests.faults.commands import A2, CONVERT, MERGE, MINE, PREPARE, TRAIN, WITH
from tests.faults.conftest import Campaign
from tests.faults.running import Ended, tree
from tests.faults.stand import Everything

Change = Callable[[Path], object]
KNOWN = (*MINE, "--neighbours", "ab.knn")
OTHER = (*TRAIN, "--set", "run=other")
RESUME = (*TRAIN, "--resume")
EMBED = (*A2[:-1], "a2.txt", "-o", "new.emb")
STORE = (
    *(MINE, ("info", "a.emb"), MERGE, CONVERT, ("knn", "a.emb", "b.emb", "-o", "n.knn")),
    *(("score", "a.emb", "b.emb", "-o", "s.tsv"), ("align", "a.emb", "b.emb", "-o", "p.tsv")),
    *(("search", *WITH, "a.txt", "a.emb", "-o", "f.tsv"), ("tune", "a.emb", "b.emb")),
)
NUMBERS = (float("nan"), float("inf"), float("-inf"), 0, -1, 1, 65504, 109, 110, 10**9, -(2**63), 2**62)


class Evil:
    """Runs a command when it is unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, ("touch pwned ../outside/pwned",)


def sealed(folder: Path) -> None:
    """Give a folder of ours the checksums of what is in it."""

    def walk(value: Any) -> None:
        inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        if isinstance(value, dict) and {"name", "bytes", "checksum"} == set(value):
            path = folder / value["name"]
            value |= {"bytes": path.stat().st_size, "checksum": checksum_file(path)}
        for one in inside:
            walk(one)

    name = "checkpoint.json" if (folder / "checkpoint.json").is_file() else "manifest.json"
    content = json.loads((folder / name).read_text())
    walk(content)
    for key in [key for key in ("checksums", "files") if isinstance(content.get(key), dict)]:
        content[key] = {name: checksum_file(folder / name) for name in content[key]}
    if name == "checkpoint.json":
        content = (
            CheckpointManifest.model_validate(content | {"checksum": ""}).sealed().model_dump(mode="json")
        )
    (folder / name).write_text(json.dumps(content))


def numbers(path: Path, change: Callable[[np.ndarray], object]) -> None:
    """Change the array in a file, and not its header."""
    array = np.load(path).copy()
    change(array)
    head = path.stat().st_size - array.nbytes
    path.write_bytes(path.read_bytes()[:head] + array.tobytes())


def array(pattern: str, value: float, one: bool = False) -> Change:
    """All values of an array, or one, are this one."""

    def change(here: Path) -> None:
        (path,) = here.glob(pattern)
        with np.errstate(all="ignore"):
            numbers(path, lambda found: found.__setitem__((0,) * found.ndim if one else ..., value))
        sealed(path.parent)

    return change


def lines(change: Callable[[bytes], bytes]) -> Change:
    """Other sentences beside the vectors."""

    def changed(here: Path) -> None:
        path = here / "a.emb/lines-00000.txt.zst"
        with zstandard.open(path, "rb") as packed:
            text = packed.read()
        path.write_bytes(zstandard.compress(change(text)))
        sealed(path.parent)

    return changed


def bomb(here: Path) -> None:
    path = here / "a.emb/lines-00000.txt.zst"
    path.write_bytes(zstandard.compress(bytes(1 << 24)) * 200)
    sealed(path.parent)


def manifest(folder: str, change: Callable[[Any], object]) -> Change:
    def changed(here: Path) -> None:
        (path,) = here.glob(f"{folder}/manifest.json")
        content = json.loads(path.read_text())
        change(content)
        path.write_text(json.dumps(content))

    return changed


def checkpoint(content: bytes, name: str = "optimisers.pt") -> Change:
    def change(here: Path) -> None:
        for found in here.glob(f"run/*/checkpoints/*/{name}"):
            found.write_bytes(content)
            sealed(found.parent)

    return change


def weights(content: bytes) -> Change:
    """Of an encoder, as PyTorch saves them."""

    def change(here: Path) -> None:
        (here / "enc/model.safetensors").unlink()
        (here / "enc/pytorch_model.bin").write_bytes(content)

    return change


def file(name: str, content: bytes) -> Change:
    return lambda here: (here / name).write_bytes(content)


def keys(name: str, **more: Any) -> Change:
    """A JSON object with other values; a list's first element with others."""

    def change(here: Path) -> None:
        content = json.loads((here / name).read_text())
        (content[0] if isinstance(content, list) else content).update(more)
        (here / name).write_text(json.dumps(content))
        (here / "enc/evil.py").write_text("import os\nos.system('touch pwned')\nclass Evil: pass\n")

    return change


def saved(value: Any) -> bytes:
    file = io.BytesIO()
    torch.save(value, file)
    return file.getvalue()


def npy(header: str, content: bytes = b"") -> bytes:
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header) + 1) + f"{header}\n".encode() + content


def tensors(header: str) -> bytes:
    return struct.pack("<Q", len(header)) + header.encode()


HUGE = '{"a":{"dtype":"F32","shape":[9223372036854775807,4],"data_offsets":[0,0]}}'
OBJECT = "{'descr': '|O', 'fortran_order': False, 'shape': (1,), }"
LONG = "{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775807, 32), }"
CASES: dict[str, tuple[Change, tuple[tuple[str, ...], ...]]] = {
    "vectors that are no numbers": (array("a.emb/vectors-00000.npy", float("nan")), STORE),
    "an infinite number": (array("a.emb/vectors-00001.npy", float("inf"), one=True), STORE),
    "more sentences": (lines(lambda text: text + b"x\n"), STORE),
    "no sentences": (lines(lambda text: b""), STORE),
    "bytes that are not UTF-8": (lines(lambda text: b"\xff\xfe" + text[2:]), STORE),
    "escape codes": (lines(lambda text: b"\x1b[2J" + text), STORE),
    "gigabytes of sentences": (bomb, STORE),
    "a store's file outside": (
        manifest("a.emb", lambda found: found["shards"][0]["vectors"].update(name="../../outside/secret")),
        STORE,
    ),
    "a store without rows": (manifest("a.emb", lambda found: found.update(rows=2**62)), STORE),
    "neighbours that are not there": (array("ab.knn/forward-ids.npy", 10**12), (KNOWN, ("info", "ab.knn"))),
    "negative neighbours": (
        array("ab.knn/backward-ids.npy", -5),
        (KNOWN, (*KNOWN, "--retrieval", "intersect")),
    ),
    "cosines that are no numbers": (array("ab.knn/forward-scores.npy", float("nan")), (KNOWN,)),
    "unknown tokens": (array("data/*/source.ids.npy", 65535), (OTHER, ("info", "data"), PREPARE)),
    "offsets beyond the end": (array("data/*/source.offsets.npy", 2**62, one=True), (OTHER, PREPARE)),
    "a checksum of a file outside": (
        manifest("data/*", lambda found: found["checksums"].update({"../../../outside/secret": "0"})),
        (OTHER, ("info", "data"), PREPARE),
    ),
    "code in a checkpoint": (checkpoint(saved(Evil())), (RESUME, ("info", "run"))),
    "a list in a checkpoint": (checkpoint(saved([1, 2])), (RESUME,)),
    "no tensors in a checkpoint": (checkpoint(tensors("[" * 9000), "objective.safetensors"), (RESUME,)),
    "code in weights": (
        weights(saved({"a": Evil()})),
        (EMBED, ("info", "enc"), ("export", "enc", "-o", "ex")),
    ),
    "code in a pickle": (weights(pickle.dumps(Evil())), (EMBED, ("info", "enc"))),
    "empty weights": (weights(b""), (EMBED, ("info", "enc"))),
    "a pickle that is cut off": (weights(b"\x80\x02}q"), (EMBED, ("info", "enc"))),
    "a header of tensors that is too large": (
        file("enc/model.safetensors", struct.pack("<Q", 2**60)),
        (EMBED,),
    ),
    "tensors that are too large": (file("enc/model.safetensors", tensors(HUGE)), (EMBED, ("info", "enc"))),
    "code for a model": (
        keys("enc/config.json", auto_map={"AutoModel": "evil.Evil", "AutoConfig": "evil.Evil"}),
        (EMBED, ("info", "enc")),
    ),
    "code for a tokeniser": (
        keys(
            "enc/tokenizer_config.json",
            tokenizer_class="Evil",
            auto_map={"AutoTokenizer": ["evil.Evil", None]},
        ),
        (EMBED, ("info", "enc")),
    ),
    "a module of Python": (keys("enc/modules.json", type="evil.Evil"), (EMBED, ("info", "enc"))),
    "a module outside": (keys("enc/modules.json", path="../../outside"), (EMBED, ("info", "enc"))),
    "escape codes in a name": (keys("enc/config.json", model_type="\x1b[2J"), (EMBED, ("info", "enc"))),
    "objects in .npy": (file("v.npy", npy(OBJECT, pickle.dumps(Evil()))), (("info", "v.npy"),)),
    "a long .npy": (file("v.npy", npy(LONG)), (("info", "v.npy"), ("convert", "v.npy", "-o", "v.emb"))),
    "code in a .npy's header": (
        file("v.npy", npy("__import__('os').system('touch pwned')")),
        (("info", "v.npy"),),
    ),
}


@pytest.fixture
def tried(everything: Everything) -> Callable[[Change, tuple[str, ...]], Ended]:
    """Give a command in a folder where something is changed, and look at what it did and said."""

    def given(change: Change, words: tuple[str, ...]) -> Ended:
        folder = everything.fresh()
        outside = folder.with_name("outside")
        outside.mkdir(exist_ok=True)
        (outside / "secret").write_text("secret\n")
        change(folder)
        ended = everything.mexma(words, folder, seconds=60)
        try:
            ended.plain()
            assert tree(outside) == {"secret": b"secret\n"}, "something outside was touched"
            assert not (folder / "pwned").exists(), "code was run"
            assert "\x1b" not in ended.out + ended.err, "an escape code came to the terminal"
        except AssertionError as error:
            raise AssertionError(f"{' '.join(words)}: {error}") from None
        return ended

    return given


@pytest.mark.parametrize("name", CASES)
def test_hostile_content(tried: Callable[..., Ended], name: str, campaign: Campaign) -> None:
    """With one of the commands that read it; the campaign tries all."""
    change, commands = CASES[name]
    left = [*commands]
    random.Random(name).shuffle(left)

    def attempt(rng: random.Random) -> str:
        words = left.pop() if left else rng.choice(commands)
        return "refused" if tried(change, words).code else "taken"

    campaign(attempt, attempts=1)


def test_any_numbers_under_right_checksums(tried: Callable[..., Ended], campaign: Campaign) -> None:
    def attempt(rng: random.Random) -> str:
        pattern, commands = rng.choice(
            [
                ("a.emb/vectors-0000?.npy", STORE),
                ("ab.knn/*.npy", CASES["negative neighbours"][1]),
                ("data/*/*.npy", CASES["unknown tokens"][1]),
            ]
        )
        words, many = rng.choice(commands), rng.choice((1, 3, 1000))

        def change(here: Path) -> None:
            path = rng.choice(sorted(here.glob(pattern)))

            def values(found: np.ndarray) -> None:
                with np.errstate(all="ignore"):
                    for place in rng.choices(range(found.size), k=many):
                        found.flat[place] = np.array(rng.choice(NUMBERS)).astype(found.dtype)

            numbers(path, values)
            sealed(path.parent)

        return "refused" if tried(change, words).code else "taken"

    campaign(attempt, attempts=5)
