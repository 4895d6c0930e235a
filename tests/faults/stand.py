"""A command, the folder before it, and what has to hold in it after a fault; a folder with everything."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tests.faults.commands import A2, CONVERT, KNN, MAPS, MINE, PREPARE, TRAIN, A, B, Command, inputs
from tests.faults.power import operations
from tests.faults.running import Ended, Fault, Mexma, Tree, differing, tree

_REPORT = re.compile(r"(run|maps|new)/log\.jsonl|.*/checkpoint\.json|out/units/.*|.*(report|result)\.json")
"""Files with times, and with checksums of files that have times."""
_TIMES = re.compile(
    rb'"[a-z_]*(?:seconds|tokens_per_second|memory_bytes)": ?(?:[-0-9.e+]+|\{[^}]*\})'
    rb'|"(?:checksum|date|seal)": "[-0-9a-f]+"|\d\d:\d\d:\d\d'
)
_PAGE = re.compile(r"out/(report\.html|status\.json)|sent/(report\.html|manifest\.json)")
"""Files that say how long something took: only whether they are there is compared."""
_ELSEWHERE = re.compile(
    r"data/files\.json|new/data/files\.json|notes\.log|out/(logs|slurm)(/.*)?|out/units/.*\.(todo|ended)\.json.*"
)
"""With times and inodes of files, or not of the command's result."""
_KEPT_UP = re.compile(rf"{_PAGE.pattern}|out/units/.*")
"""What a run writes again, whether or not it becomes the same."""


class Stand:
    """A command, the folder before it, and what an undisturbed run makes of it.

    Args:
        base: Makes the folder after some commands.
    """

    def __init__(
        self, mexma: Mexma, command: Command, folder: Path, base: Callable[[Sequence[Any]], Path]
    ) -> None:
        self.mexma, self.command, self.folder = mexma, command, folder
        self.base, self.log = base(command.before), folder / "operations"
        whole = self.fresh()
        done = mexma(command.words, whole, log=str(self.log))
        assert done.code == 0, done.err
        before, now = tree(self.base), tree(whole)
        same = {name for name, data in before.items() if now.get(name, b"-") == data}
        self.theirs = {name: before[name] for name in same if not _KEPT_UP.fullmatch(name)}
        self.before, self.whole = untimed(before), untimed(now)
        self.units = _units(self.before) | _units(self.whole)
        self.operations = operations(self.log)

    def fresh(self, here: Path | None = None) -> Path:
        """The folder as it was before, by the same name every time."""
        here = here or self.folder / "here"
        for gone in (here, here.with_name("here.tmp")):
            shutil.rmtree(gone, ignore_errors=True)
        return Path(shutil.copytree(self.base, here, symlinks=True))

    def run(self, words: Sequence[str], folder: Path, *fault: Any, **more: Any) -> Ended:
        """Run a command; however it ends, it says so, nothing is half there, and what is the user's stays."""
        ended = self.mexma(words, folder, *fault, **more)
        ended.plain()
        self.nothing_is_half(folder)
        if ended.code == 1:
            self.nothing_is_lost(folder)
        return ended

    def nothing_is_half(self, folder: Path) -> None:
        """Under every final name is what was there before, or all of what the command makes."""
        files = tree(folder)
        wrong = [name for name, data in self.theirs.items() if files.get(name, b"-") != data]
        assert not wrong, f"not the command's to change: {wrong[:5]}"
        now = untimed(files)
        for unit in sorted(self.units):
            found, *kept = (_below(unit, files) for files in (now, self.before, self.whole))
            if unit.startswith(("out/", "sent/")):
                kept.append({})  # of a unit that is not up to date, which is removed first
            assert found in kept, f"{unit} is neither old nor new: {differing(found, kept[1])[:5]}"

    def nothing_is_lost(self, folder: Path) -> None:
        """After an error: what was there before is, as it was, and of one result nothing new is."""
        now = untimed(tree(folder))
        for unit in sorted(self.units):
            if not unit.startswith(("out/", "sent/")) and (
                not self.command.parts or _below(unit, self.before)
            ):
                wrong = differing(_below(unit, now), _below(unit, self.before))
                assert not wrong, f"it failed, and {unit} is not what it was: {wrong[:5]}"

    def is_done(self, folder: Path) -> bool:
        """Whether the command, which must not be given again after that, has done its work."""
        now = untimed(tree(folder))
        return self.command.once and all(_below(unit, now) == _below(unit, self.whole) for unit in self.units)

    def finish(self, folder: Path, threads: int = 1, stopped: bool = False) -> None:
        """Give the same command again, as a user would; it ends with the bytes of an undisturbed run.

        Args:
            stopped: By a signal: then `train` wrote a checkpoint, and the last ones are others.
        """
        if self.is_done(folder):
            return
        ended = self.mexma(self.command.second(folder), folder, threads=threads)
        assert ended.code == 0, f"the next run failed: {ended.err}"
        if threads > 1 and self.command.adds:
            assert untimed(tree(folder)).keys() == self.whole.keys()
        else:
            self.is_whole(folder, but="/checkpoints/" if stopped else "\0")

    def has_all(self, folder: Path) -> None:
        """All that the command makes is there; temporary files may be, too. Vectors may not be kept."""
        now = untimed(tree(folder))
        found = {name: now[name] for name in self.whole if name in now}
        wrong = [name for name in differing(found, self.whole) if not name.startswith("kept/")]
        assert not wrong, f"not there, or not whole: {wrong[:8]}"

    def is_whole(self, folder: Path, but: str = "\0") -> None:
        """All that the command makes is there, and nothing else, `but` for names with this in it."""
        wrong = [name for name in differing(untimed(tree(folder)), self.whole) if but not in name]
        assert not wrong, f"differs from an undisturbed run: {wrong[:8]}"

    def nothing_is_left(self, folder: Path) -> None:
        """No temporary file or folder is, but in a folder with which the next run goes on."""
        files = tree(folder)
        left = [name for name in files if name.endswith(".partial") and f"{name}/progress.json" not in files]
        left += [path.name for path in folder.with_name("here.tmp").iterdir()]
        assert not left, f"left: {left[:5]}"


class Everything:
    """A folder with a file of every kind, and what commands print and write where nothing is damaged."""

    def __init__(self, mexma: Mexma, folder: Path, encoder: Path) -> None:
        self.mexma, self.base, self._folder = mexma, folder / "base", folder
        self.base.mkdir()
        inputs(self.base, encoder)
        for words in (A, B, KNN, PREPARE, MAPS, (*CONVERT[:-1], "v.npy")):
            assert (done := mexma(words, self.base)).code == 0, done.err
        for words, at in ((A2, 40), (MINE, 30), (TRAIN, 250)):
            assert mexma(words, self.base, Fault.KILL, at).killed
        self._whole: dict[tuple[str, ...], tuple[str, Tree]] = {}

    def fresh(self) -> Path:
        shutil.rmtree(self._folder / "here", ignore_errors=True)
        return Path(shutil.copytree(self.base, self._folder / "here"))

    def undamaged(self, words: tuple[str, ...]) -> Tree:
        """What a command leaves."""
        if words not in self._whole:
            folder = self.fresh()
            assert (done := self.mexma(words, folder)).code == 0, done.err
            self._whole[words] = tree(folder)
        return self._whole[words]


def untimed(files: Tree) -> Tree:
    """The files of a tree without what a clock says, or what only the last of several runs did."""
    found = {name: data for name, data in files.items() if not _ELSEWHERE.fullmatch(name)}
    for name, data in found.items():
        if data and _PAGE.fullmatch(name):
            found[name] = b""
        elif data and _REPORT.fullmatch(name):
            found[name] = _TIMES.sub(b"", data)
    return found


def _units(files: Tree) -> set[str]:
    """The files and folders that get their final names at once."""
    return {_unit(name, files) for name in files} - {""}


def _unit(name: str, files: Tree) -> str:
    """The one that a file is or lies in; nothing, if it grows: a log, the checkpoints of a training."""
    first, _, rest = name.partition("/")
    match first:
        case "run" | "maps" | "new" | "kept":
            return f"{first}/encoder" if rest.startswith("encoder") else ""
        case "data":
            return f"data/{rest.partition('/')[0]}" if rest else ""
        case "out" if rest.startswith("units/"):
            return ""
        case "out" | "sent" | "shown" | "hard" | "switched":
            folders = ["/".join(name.split("/")[:depth]) for depth in range(1, name.count("/") + 1)]
            whole = [folder for folder in folders if f"{folder}/manifest.json" in files and folder != "sent"]
            return [*whole, name if files[name] is not None else ""][0]
    return first


def _below(unit: str, files: Tree) -> Tree:
    return {name: data for name, data in files.items() if name == unit or name.startswith(f"{unit}/")}
