"""A power cut: what a disk holds that kept what was synced, and of the rest some and not in order.

The shim's log of an undisturbed run is replayed up to some operation. Of each file, the writes before its
last fsync are kept; of those after it any may be lost, or kept by half. Of each folder, the changes (files
made, renamed, removed) before its last fsync are kept; those after it up to some point only, and the points
of two folders have nothing to do with one another, but that what is renamed from one to the other is in one
of them. That is more than what today's file systems do.
"""

from __future__ import annotations

import os
import random
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Operation:
    """A line of the log: what was done to which path, and for a write where, and its bytes."""

    name: str
    path: str
    other: str
    place: int
    data: bytes


def operations(log: Path) -> list[Operation]:
    """What the shim wrote down."""
    found = []
    with log.open("rb") as file:
        while line := file.readline():
            name, path, other, place, size = os.fsdecode(line).rstrip("\n").split("\t")
            found.append(Operation(name, path, other, int(place), file.read(int(size))))
    return found


@dataclass(eq=False)
class Node:
    """A file or folder, whatever its names are.

    Attributes:
        names: Of a folder: what it held before.
        changes: (number of the operation, what changed): of a folder, names with their nodes (None: gone); of
            a file, (place, bytes), or (size, None) where it was cut.
        synced: Numbers of the operations that brought it to the disk.
    """

    is_folder: bool
    data: bytes = b""
    modified: int = 0
    names: dict[str, Node] = field(default_factory=dict)
    changes: list[tuple[int, list[tuple[str | int, Node | bytes | None]]]] = field(default_factory=list)
    synced: list[int] = field(default_factory=list)


class Disk:
    """A folder, and what a run did to it."""

    def __init__(self, before: Path, folder: Path, done: Sequence[Operation]) -> None:
        """`before` is what `folder` held when the run began."""
        self.root, self._folder, self.length = _read(before), folder, len(done)
        self._moves: list[tuple[int, Node, Node]] = []
        now = {self.root: dict(self.root.names)}  # what each folder holds at this point
        for node in _all(self.root):
            now[node] = dict(node.names)

        def find(path: str) -> tuple[Node, str]:
            """The folder that a path is in, and its name there."""
            *folders, name = Path(path).relative_to(folder).parts
            at = self.root
            for part in folders:
                at = now[at][part]
            return at, name

        def change(number: int, parent: Node, name: str, node: Node | None) -> None:
            parent.changes.append((number, [(name, node)]))
            now[parent].pop(name, None)
            if node is not None:
                now[parent][name] = node

        for number, one in enumerate(done):
            if one.path == str(folder):
                self.root.synced.append(number)
                continue
            parent, name = find(one.path)
            hidden = [other for other in now[parent] if re.fullmatch(r"\.tmp\w{6}", other)]
            if (
                name not in now[parent] and one.name in ("sync", "rename") and hidden
            ):  # safetensors' rename is not seen
                renamed: list[tuple[str | int, Node | bytes | None]]
                renamed = [(hidden[0], None), (name, now[parent][hidden[0]])]
                parent.changes.append((number, renamed))
                now[parent] = _changed(now[parent], renamed)
            node = now[parent].get(name)
            match one.name:
                case "file" if node is None:
                    change(number, parent, name, Node(is_folder=False))
                case "folder":
                    node = Node(is_folder=True)
                    now[node] = {}
                    change(number, parent, name, node)
                case "remove":
                    change(number, parent, name, None)
                case "link":
                    change(number, *find(one.other), node)
                case "rename" | "exchange":
                    target, new = find(one.other)
                    back = now[target].get(new) if one.name == "exchange" else None
                    both: list[tuple[str | int, Node | bytes | None]] = [(name, back), (new, node)]
                    assert node is not None, one
                    pieces = (
                        [(parent, both)] if parent is target else [(parent, both[:1]), (target, both[1:])]
                    )
                    for at, changed in pieces:
                        at.changes.append((number, changed))
                        now[at] = _changed(now[at], changed)
                    self._moves.append((number, parent, target))
                case "sync":
                    assert node is not None, one
                    node.synced.append(number)
                case "write" | "truncate":
                    assert node is not None, one
                    node.changes.append((number, [(one.place, one.data if one.name == "write" else None)]))
        self._folders = [node for node in now if node.is_folder]

    def cut_off(self, at: int, rng: random.Random | None, to: Path) -> None:
        """Write to a folder what is there after a power cut before operation `at`; without `rng` all is."""
        last = {folder: at for folder in self._folders}
        if rng:
            for folder in self._folders:
                points = [number + 1 for number, _ in folder.changes if number < at]
                last[folder] = rng.choice([0, *points][_sure(folder, at) :])
            before: dict[Node, int] = {}
            while before != last:  # a move is there on both sides, and so is what came before it
                before = dict(last)
                for number, one, other in self._moves:
                    if last[one] > number or last[other] > number:
                        last[one], last[other] = (max(last[node], number + 1) for node in (one, other))
        self._write(self.root, at, rng, to, last)

    def _write(self, node: Node, at: int, rng: random.Random | None, to: Path, last: dict[Node, int]) -> None:
        if node.is_folder:
            names = dict(node.names)
            for number, change in node.changes:
                if number < last[node]:
                    names = _changed(names, change)
            to.mkdir()
            for name, inside in names.items():
                self._write(inside, at, rng, to / name, last)
            return
        changes, sure = [change for number, change in node.changes if number < at], _sure(node, at)
        data = bytearray(node.data)
        for index, [(place, piece)] in enumerate(changes):
            kept = rng.choice((0.0, 0.5, 1.0)) if rng and index >= sure else 1.0
            assert isinstance(place, int) and not isinstance(piece, Node)
            if piece is None and kept == 1.0:
                data = data[:place].ljust(place, b"\0")
            elif piece is not None:
                piece = piece[: int(len(piece) * kept)]
                data = data.ljust(place, b"\0") if piece else data
                data[place : place + len(piece)] = piece
        to.write_bytes(data)
        if not changes:
            os.utime(to, ns=(node.modified, node.modified))


def _sure(node: Node, at: int) -> int:
    """How many of a node's changes are on the disk at an operation, whatever comes then."""
    synced = max((number for number in node.synced if number < at), default=-1)
    return sum(number < synced for number, _ in node.changes)


def _changed(
    names: dict[str, Node], change: Sequence[tuple[str | int, Node | bytes | None]]
) -> dict[str, Node]:
    names = dict(names)
    for name, node in change:
        assert isinstance(name, str) and not isinstance(node, bytes)
        names.pop(name, None)
        if node is not None:
            names[name] = node
    return names


def _read(path: Path) -> Node:
    if path.is_dir():
        return Node(is_folder=True, names={inside.name: _read(inside) for inside in path.iterdir()})
    return Node(is_folder=False, data=path.read_bytes(), modified=path.stat().st_mtime_ns)


def _all(node: Node) -> list[Node]:
    return [node, *(inside for name in node.names.values() for inside in _all(name))]
