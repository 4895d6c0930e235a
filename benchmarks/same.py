"""Shows that two versions of mexma do the same: the same contents of all outputs, stdout and exit codes.

    python benchmarks/same.py OLD NEW [--only PART ...] [--keep FOLDER] [--list]

OLD and NEW are checkouts, and the Python that runs this has what mexma needs. Both get the commands of
same_cases.py, one thread each, in folders of the same layout. There is a line for each command: `same`,
`DIFFERS` with what differs, or `FAILED` if its exit code is not the one that was expected, in both alike. The
exit code is 1 unless all are the same. `--only mine eval` takes the cases that have one of the words in their
name or at the beginning of a command, and those that they need. The case `opens` reads in both checkouts what
OLD wrote.

Not compared: messages (stderr), pages and pictures, forecasts (--dry-run), what a clock says, how a manifest
is laid out, what lies in `.partial`, a run's own bookkeeping (`units`, checkpoints), the order of what `run`
prints. Vectors, neighbours and tokens are compared as arrays, text as it is when unpacked.
"""

from __future__ import annotations

import argparse
import bz2
import gzip
import hashlib
import io
import json
import lzma
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import yaml

sys.path.insert(0, str(Path(__file__).parent))
from same_cases import CASES, OF_OLD, RECIPES, write_inputs

CLOCK = {"seconds", "tokens_per_second", "best_seconds", "speed", "date", "time", "peak_memory_bytes"}
"""Keys in JSON that say what a clock says, or what the process took."""
TIMED = re.compile(
    r"\b\d[\d,.]* (?:tokens|sentences|lines|pairs)/s|\b[\d.]+ (?:s|min|h)\b|\d\d:\d\d:\d\d"
    r"|\b(?:seconds|tokens_per_second) +\d.*|tokens/s .*"
)
"""The same in tables."""
OWN = {"units", "logs", "checkpoints", "files.json", "status.json", "cache", "training.json", "text.json"}
"""Names of what a program keeps for itself."""
PAGES = {".html", ".svg", ".png", ".pdf"}
MANIFESTS = {"manifest.json", "checkpoint.json", "checksums.json"}
SAID = {"rows", "dim", "dtype", "language", "fingerprint", "content", "k", "index", "recall", "normalised",
        "truncated", "empty", "pairs", "read", "kept", "source_language", "target_language"}  # fmt: skip
"""Keys of manifests whose values must be in the new manifest, too, wherever it has them."""
UNPACKED: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.decompress, ".bz2": bz2.decompress, ".xz": lzma.decompress
}  # fmt: skip
SECONDS = 1800
Facts = dict[str, Any]


@dataclass(frozen=True)
class Command:
    """A command line of a case.

    Attributes:
        stdin: The file that it reads.
        fails: Whether it must.
    """

    case: str
    text: str
    words: tuple[str, ...]
    stdin: str | None = None
    fails: bool = False

    @classmethod
    def parse(cls, case: str, text: str) -> Command:
        """Read a line of `CASES`."""
        words = shlex.split(text)
        fails = words[0] == "fails"
        stdin = next((word[1:] for word in words if word.startswith("<")), None)
        chosen = [word for word in words[fails:] if not word.startswith("<")]
        if chosen[0] == "mine" and "--margin" not in chosen:
            chosen += ["--margin", "ratio"]  # once the default, and LASER's score
        return cls(case, text, tuple(chosen), stdin, fails)


def commands_of(case: str) -> list[Command]:
    """The commands of a case, in order."""
    return [Command.parse(case, line.strip()) for line in CASES[case].splitlines() if line.strip()]


def needs(case: str) -> set[str]:
    """The cases whose files a case names."""
    text = f"{CASES[case]}\n{json.dumps(RECIPES.get(case, {}))}"
    named = set(re.findall(r"(?<![\w/.-])([\w-]+)/", text)) & CASES.keys()
    return (named | {*OF_OLD.get(case, ())}) - {case}


def chosen_cases(parts: Sequence[str]) -> list[str]:
    """The cases with one of these words in their name or at the beginning of a command, and those that they
    need, in an order in which they can run; all cases without words."""
    found: set[str] = set()

    def take(case: str) -> None:
        if case not in found:
            found.add(case)
            for other in needs(case):
                take(other)

    for case in CASES:
        texts = [] if case in OF_OLD else [" ".join(command.words) for command in commands_of(case)]
        if not parts or any(part in case or text.startswith(part) for part in parts for text in texts):
            take(case)
    done: list[str] = []
    while len(done) < len(found):
        done += [
            next(case for case in CASES if case in found and case not in done and needs(case) <= {*done})
        ]
    return done


class Side:
    """One checkout, the folder in which its commands run, and a process that has imported it."""

    def __init__(self, checkout: Path, folder: Path, inputs: Path) -> None:
        self.checkout, self.folder = checkout.resolve(), folder
        shutil.copytree(inputs, folder)
        one = dict.fromkeys(("OMP_NUM_THREADS", "RAYON_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
        settings = {name: value for name, value in os.environ.items() if not name.startswith("MEXMA_")}
        self.stderr = (folder / "stderr.txt").open("wb")
        self.process = subprocess.Popen(
            [sys.executable, Path(__file__).with_name("same_worker.py").resolve(), self.checkout],
            cwd=folder,
            env=settings
            | one
            | {"PYTHONPATH": str(self.checkout), "TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.stderr,
            text=True,
        )

    def answer(self) -> dict[str, Any]:
        """What the process says next."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"{self.checkout}: {(self.folder / 'stderr.txt').read_text()[-2000:]}")
        return cast(dict[str, Any], json.loads(line))

    def begin(self, case: str, old: Path) -> None:
        """Make the folder of a case, with its recipes and what it is given of the old checkout's."""
        folder = self.folder / case
        folder.mkdir()
        for name, recipe in RECIPES.get(case, {}).items():
            text = yaml.safe_dump(recipe, sort_keys=False, allow_unicode=True)
            (folder / f"{name}.yaml").write_text(text, encoding="utf-8")
        for name in OF_OLD.get(case, ()):
            shutil.copytree(old / name, folder / name)

    def run(self, command: Command) -> tuple[Facts, int, float, str]:
        """Run a command: what it made and said, its exit code and seconds, and the end of its messages."""
        folder = self.folder / command.case
        before = _stamps(folder)
        said = self.folder / ".said"
        job = {"words": command.words, "stdin": command.stdin, "seconds": SECONDS}
        job |= {"stdout": f"{said}.out", "stderr": f"{said}.err"}
        assert self.process.stdin is not None
        print(json.dumps(job), file=self.process.stdin, flush=True)
        ended = self.answer()
        after = _stamps(folder)
        changed = [path for path in before.keys() | after.keys() if before.get(path) != after.get(path)]
        found = facts_of(folder, changed)
        out = Path(f"{said}.out").read_bytes()
        found["stdout"] = "" if "--dry-run" in command.words else content(out, "stdout")
        if command.words[0] == "run":  # pairs are named as they end, and jobs end in any order
            found["stdout"] = "\n".join(sorted(found["stdout"].split("\n")))
        found["exit code"] = ended["code"]
        for place in (self.folder, self.checkout):
            found = {name: _placed(value, str(place).encode()) for name, value in found.items()}
        errors = Path(f"{said}.err").read_text(encoding="utf-8", errors="replace").splitlines()
        return found, ended["code"], ended["seconds"], "\n".join(errors[-6:])

    def close(self) -> None:
        """End the process."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()
        self.stderr.close()


def _stamps(folder: Path) -> dict[Path, tuple[int, int, int]]:
    """What tells whether a file was written again, for all files below a folder."""
    stats = ((path, path.stat()) for path in folder.rglob("*") if path.is_file())
    return {path: (stat.st_mtime_ns, stat.st_ino, stat.st_size) for path, stat in stats}


def _placed(value: Any, folder: bytes) -> Any:
    """A fact without the name of a folder of the side."""
    if isinstance(value, bytes):
        return value.replace(folder, b".")
    return value.replace(folder.decode(), ".") if isinstance(value, str) else value


def facts_of(folder: Path, paths: Iterable[Path]) -> Facts:
    """What the files say, by their names from the folder: contents, without what is not compared."""
    facts: Facts = {}
    for path in sorted(paths):
        name = path.relative_to(folder)
        if OWN & {*name.parts} or any(".partial" in part for part in name.parts):
            continue
        store = next((parent for parent in path.parents if parent.suffix == ".emb"), None)
        if store is not None and store.is_relative_to(folder):
            if str(store.relative_to(folder)) not in facts:
                facts[str(store.relative_to(folder))] = store_of(store)
        elif not path.exists():
            facts[str(name)] = "gone"
        elif path.suffix in PAGES:
            facts[str(name)] = "a page or picture"
        else:
            facts[str(name)] = content(path.read_bytes(), path.name)
    return facts


def store_of(path: Path) -> Any:
    """Vectors and sentences of an embedding store, however they are cut into files, and its manifest."""
    if not path.is_dir():
        return "gone"
    arrays = [np.load(file) for file in sorted(path.glob("*.npy"))]
    text = b"".join(unpacked(file.read_bytes(), file.name)[0] for file in sorted(path.glob("*.zst")))
    manifest = content((path / "manifest.json").read_bytes(), "manifest.json")
    vectors = np.concatenate(arrays) if arrays else np.empty(0)
    return vectors.dtype.str, vectors.shape, digest(vectors.tobytes()), digest(text), manifest


def unpacked(data: bytes, name: str) -> tuple[bytes, str]:
    """The content of a file that may be compressed, and its name without that ending."""
    stem, _, ending = name.rpartition(".")
    if ending == "zst":
        import zstandard

        return zstandard.ZstdDecompressor().stream_reader(data, read_across_frames=True).read(), stem
    if f".{ending}" in UNPACKED:
        return UNPACKED[f".{ending}"](data), stem
    return data, name


def content(data: bytes, name: str) -> Any:
    """What a file says, in a form in which two of them are compared."""
    data, name = unpacked(data, name)
    suffix = Path(name).suffix
    if name in MANIFESTS:
        return Manifest(json.loads(data))
    if suffix == ".npy":
        array = np.load(io.BytesIO(data))
        return array.dtype.str, array.shape, digest(array.tobytes())
    if suffix == ".parquet":
        import pyarrow.parquet as parquet

        return json.dumps(parquet.read_table(io.BytesIO(data)).to_pylist(), default=str)
    if suffix == ".json":
        return json.dumps(untimed(json.loads(data)), indent=1)
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return digest(data)
    if suffix in (".yaml", ".yml"):
        return json.dumps(yaml.safe_load(text), indent=1, default=str)
    if suffix == ".jsonl" or name == "stdout":
        return "\n".join(map(_line, text.split("\n")))
    return text


def _line(line: str) -> str:
    """A line of JSON, or of a table, without what a clock says."""
    if line.startswith("{"):
        try:
            return json.dumps(untimed(json.loads(line)))
        except ValueError:
            return line
    return TIMED.sub("-", line)


def untimed(value: Any) -> Any:
    """Parsed JSON without what a clock says."""
    if isinstance(value, dict):
        return {key: untimed(held) for key, held in value.items() if key not in CLOCK}
    return [untimed(held) for held in value] if isinstance(value, list) else value


def digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()


class Manifest:
    """A manifest, equal to another if that says the same of the contents, however it is laid out."""

    def __init__(self, parsed: Any) -> None:
        self.leaves = list(_leaves(parsed, ""))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Manifest):
            return False
        values = [value for _, value in other.leaves]
        return all(value in values for key, value in self.leaves if key in SAID)

    def __repr__(self) -> str:
        return "\n".join(f"{key}: {value}" for key, value in self.leaves if key in SAID)


def _leaves(value: Any, key: str) -> Iterable[tuple[str, Any]]:
    if isinstance(value, dict):
        for name, held in value.items():
            yield from _leaves(held, name)
    elif isinstance(value, list):
        for held in value:
            yield from _leaves(held, key)
    else:
        yield key, value


def differing(old: Facts, new: Facts) -> list[str]:
    """The names that only one has, or of which they say other things."""
    return [name for name in sorted(old.keys() | new.keys()) if old.get(name) != new.get(name)]


def first_difference(old: Any, new: Any) -> str:
    """The first line that is not the same, shortened."""
    if old is None or new is None:
        return "only in OLD" if new is None else "only in NEW"
    rows = [str(value).split("\n") for value in (old, new)]
    count = next(
        (number for number, (a, b) in enumerate(zip(*rows, strict=False)) if a != b), min(map(len, rows))
    )
    return " | ".join((row[count] if count < len(row) else "(end)")[:100] for row in rows)


def compare(case: str, sides: tuple[Side, Side]) -> list[bool]:
    """Run a case in both checkouts and print a line for each command; whether each is as it should be."""
    for side in sides:
        side.begin(case, sides[0].folder)
    right = []
    for command in commands_of(case):
        with ThreadPoolExecutor(2) as pool:
            (old, code, seconds, said), (new, _, after, said_after) = pool.map(
                Side.run, sides, (command, command)
            )
        wrong, failed = differing(old, new), (code != 0) != command.fails
        word = "DIFFERS" if wrong else "FAILED" if failed else "same"
        print(f"{word:8}{seconds:6.1f} s{after:6.1f} s  {command.text}", flush=True)
        for name in wrong[:8]:
            print(f"    {name}: {first_difference(old.get(name), new.get(name))}")
        if wrong[8:]:
            print(f"    and {len(wrong) - 8} more")
        if failed or "exit code" in wrong:
            for line in (*said.splitlines(), *(said_after.splitlines() if said_after != said else ())):
                print(f"    {line[:300]}")
        right.append(word == "same")
    return right


def main() -> int:
    """Run both checkouts and return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--only", nargs="+", default=[], metavar="PART", help="the cases to run")
    parser.add_argument("--keep", type=Path, help="a new folder for all that is written")
    parser.add_argument("--list", action="store_true", help="print the commands and stop")
    arguments = parser.parse_args()
    cases = chosen_cases(arguments.only)
    if arguments.list:
        print("\n".join(command.text for case in cases for command in commands_of(case)))
        return 0
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="mexma-same-") as temporary:
        folder = (arguments.keep or Path(temporary)).resolve()
        write_inputs(folder / "inputs")
        sides = (
            Side(arguments.old, folder / "old", folder / "inputs"),
            Side(arguments.new, folder / "new", folder / "inputs"),
        )
        for side in sides:
            side.answer()
        right = [one for case in cases for one in compare(case, sides)]
        for side in sides:
            side.close()
    seconds = time.monotonic() - began
    print(f"{right.count(True)} of {len(right)} commands the same, {seconds:.0f} s")
    return 0 if all(right) else 1


if __name__ == "__main__":
    sys.exit(main())
