from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from mexma_cli import files
from mexma_cli.errors import MexmaError
from mexma_cli.files import checksum_file, fingerprint
from mexma_cli.stages.run import units
from mexma_cli.stages.run.plan import read_unit
from mexma_cli.stages.run.texts import Cut
from mexma_cli.stages.run.units import Record, RunFolder, Task, Unit
from mexma_cli.stages.run.work import perform

NAME = "fra_Latn/text"


def unit(lines: int) -> Unit:
    return Cut(name=NAME, lines=lines, files={"\udcff": "1"}, output=NAME)


def test_a_description_stays_the_file_that_workers_hold(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    todo = folder.announce(unit(7))
    held = todo.stat().st_ino
    assert folder.announce(unit(7)).stat().st_ino == held
    assert folder.announce(unit(8)).stat().st_ino != held
    assert read_unit(todo) == unit(8)


def test_a_description_that_a_power_cut_emptied_is_written_again(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.announce(unit(7)).write_bytes(b"")
    assert read_unit(folder.announce(unit(7))) == unit(7)


def text(folder: Path) -> Path:
    """Twelve lines."""
    path = folder / "fra.txt"
    path.write_text("".join(f"{n}\n" for n in range(12)))
    return path


def cut(text: Path, lines: int, output: str = NAME) -> Unit:
    """Cuts a text into pieces of so many lines."""
    files = {str(text): checksum_file(text)}
    return Cut(name=NAME, lines=lines, files=files, output=output)


def do(run: Path, unit: Unit) -> Record:
    folder = RunFolder(run)
    return perform(run, folder.announce(unit))


def held(folder: Path) -> dict[str, bytes]:
    """All files but descriptions; of records the names alone, since they say how long it took."""
    paths = [path.relative_to(folder) for path in sorted(folder.rglob("*")) if not path.is_dir()]
    return {
        path.as_posix(): b"" if "units" in path.parts else (folder / path).read_bytes()
        for path in paths
        if not path.name.endswith(".todo.json")
    }


def test_a_record_lists_the_output(tmp_path: Path) -> None:
    record = do(tmp_path / "run", cut(text(tmp_path), 7))
    names = [f"{NAME}/{name}" for name in ("00000.txt.zst", "00001.txt.zst", "manifest.json")]
    assert record.files == {name: checksum_file(tmp_path / "run" / name) for name in names}
    assert sorted(path.name for path in (tmp_path / "run/fra_Latn").iterdir()) == ["text"]


@pytest.mark.parametrize("name", ["novel.txt", "00003.txt.zst", "notes/novel.txt"])
@pytest.mark.parametrize("lines", [0, 7])
def test_what_is_not_of_the_run_is_named_and_stays(tmp_path: Path, name: str, lines: int) -> None:
    """In the place of an output that is there already, or that is to be."""
    run, of = tmp_path / "run", text(tmp_path)
    if lines:
        do(run, cut(of, lines))
    novel = run / NAME / name
    novel.parent.mkdir(parents=True, exist_ok=True)
    novel.write_text("my novel\n")
    before = held(tmp_path)
    with pytest.raises(MexmaError, match=rf"{NAME}/{name.partition('/')[0]} is not of this run"):
        do(run, cut(of, 8))
    assert held(tmp_path) == before
    if lines:
        assert do(run, cut(of, lines)).files.keys().isdisjoint([f"{NAME}/{name}"])  # there is nothing to do
        assert held(tmp_path) == before


def test_a_file_in_the_place_of_a_folder_is_named_and_stays(tmp_path: Path) -> None:
    of, place = text(tmp_path), tmp_path / "run" / NAME
    place.parent.mkdir(parents=True)
    place.write_text("my own\n")
    with pytest.raises(MexmaError, match=f"{NAME} is not of this run"):
        do(tmp_path / "run", cut(of, 7))
    assert place.read_text() == "my own\n"


def test_a_file_that_comes_while_a_unit_works_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run, of = tmp_path / "run", text(tmp_path)
    do(run, cut(of, 7))
    real = Cut.do

    def meanwhile(unit: Cut, task: Task) -> dict[str, object]:
        (run / NAME / "novel.txt").write_text("my novel\n")
        return real(unit, task)

    monkeypatch.setattr(Cut, "do", meanwhile)
    with pytest.raises(MexmaError, match=r"novel\.txt is not of this run"):
        do(run, cut(of, 8))
    assert (run / NAME / "novel.txt").read_text() == "my novel\n"
    monkeypatch.undo()
    (run / NAME / "novel.txt").unlink()
    assert len(do(run, cut(of, 8)).files) == 3


def test_a_file_that_is_not_as_it_was_made_is_named_and_stays(tmp_path: Path) -> None:
    run, of = tmp_path / "run", text(tmp_path)
    do(run, cut(of, 7))
    good, piece = held(run), run / NAME / "00001.txt.zst"
    piece.write_bytes(b"edited")
    for lines in (7, 8):
        with pytest.raises(MexmaError, match=r"00001\.txt\.zst is damaged: its checksum") as raised:
            do(run, cut(of, lines))
        assert "remove it, and run again" in str(raised.value.hint) and piece.read_bytes() == b"edited"
    piece.unlink()
    do(run, cut(of, 7))
    assert held(run) == good


@pytest.mark.parametrize("taken", [False, True])
def test_a_file_of_the_users_in_an_output_that_was_taking_its_place_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, taken: bool
) -> None:
    """A run was killed just before or after the output took its place, and a second one, too."""
    run, of, real = tmp_path / "run", text(tmp_path), units.commit
    do(run, cut(of, 7))

    def killed(*finals: Path, **how: Any) -> None:
        if taken:
            real(*finals, **how)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(units, "commit", killed)
        for lines in (8, 6):
            with pytest.raises(KeyboardInterrupt):
                do(run, cut(of, lines))
    piece = run / NAME / "00001.txt.zst"
    held = piece.read_bytes()
    piece.write_bytes(b"my own\n")
    for lines in (6, 7):
        with pytest.raises(MexmaError, match=r"00001\.txt\.zst is damaged: its checksum"):
            do(run, cut(of, lines))
    assert piece.read_bytes() == b"my own\n"
    piece.write_bytes(held)
    assert [piece["lines"] for piece in do(run, cut(of, 7)).facts["pieces"]] == [7, 5]


@pytest.mark.parametrize("change", ["facts", "../victim", "/victim", "text/../../victim"])
def test_a_record_that_was_changed_is_named(tmp_path: Path, change: str) -> None:
    run, of = tmp_path / "run", text(tmp_path)
    do(run, cut(of, 7))
    path = run / "units/fra_Latn/text.json"
    record = json.loads(path.read_text())
    if change == "facts":
        record["facts"]["pieces"][0]["lines"] += 1
    else:
        (tmp_path / "victim").mkdir()
        record |= {"output": change, "files": {f"{change}/x": "0"}, "seal": ""}
    path.write_text(json.dumps(record))
    with pytest.raises(MexmaError, match=r"text\.json is damaged"):
        do(run, cut(of, 8))


def test_a_run_of_an_earlier_version_goes_on(tmp_path: Path) -> None:
    run, of = tmp_path / "run", text(tmp_path)
    do(run, cut(of, 7))
    path = run / "units/fra_Latn/text.json"
    record = json.loads(path.read_text())
    del record["processor_seconds"]  # which records once had not
    record["seal"] = fingerprint({key: value for key, value in record.items() if key != "seal"})
    path.write_text(json.dumps(record))
    found = RunFolder(run).done(cut(of, 7))
    assert found is not None and found.processor_seconds == 0


def test_a_unit_whose_record_has_an_earlier_format_is_done_anew(tmp_path: Path) -> None:
    """Later units may need facts that it does not have; its files stay the run's."""
    run, of = tmp_path / "run", text(tmp_path)
    do(run, cut(of, 7))
    folder, good = RunFolder(run), held(run)
    record = folder.record(NAME)
    assert record is not None
    folder._write(NAME, record.sealed(format_version=1, facts={}))
    assert folder.record(NAME) is None and folder.done(cut(of, 7)) is None
    assert [piece["lines"] for piece in do(run, cut(of, 7)).facts["pieces"]] == [7, 5]
    assert held(run) == good


def test_an_output_that_moves_takes_what_it_was_along(tmp_path: Path) -> None:
    run, of = tmp_path / "run", text(tmp_path)
    do(run, cut(of, 7))
    (run / "notes.txt").write_text("my notes\n")
    do(run, cut(of, 7, output="elsewhere/text"))
    assert not (run / NAME).exists() and (run / "notes.txt").exists()
    do(run, cut(of, 7))
    (run / NAME / "notes.txt").write_text("my notes\n")
    do(run, cut(of, 7, output="elsewhere/text"))
    assert [path.name for path in (run / NAME).iterdir()] == ["notes.txt"]


def test_a_text_that_is_another_one_for_a_moment_is_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From before a unit reads it, or only while it does; then it is what it was."""
    run, of, real = tmp_path / "run", text(tmp_path), Cut.do
    good, unit = of.read_bytes(), cut(of, 7)

    def fails() -> None:
        with pytest.raises(MexmaError, match=r"fra\.txt has changed while the run went on"):
            do(run, unit)
        assert not held(run)

    of.write_bytes(b"another\n")
    fails()
    of.unlink()
    fails()

    def poisoned(unit: Cut, task: Task) -> dict[str, object]:
        of.write_bytes(good[::-1])
        facts = real(unit, task)
        of.write_bytes(good)
        return facts

    of.write_bytes(good)
    monkeypatch.setattr(Cut, "do", poisoned)
    fails()
    monkeypatch.undo()
    assert [piece["lines"] for piece in do(run, unit).facts["pieces"]] == [7, 5]


class Killed(BaseException):
    """From then on nothing is changed any more, whatever is tried."""


@pytest.mark.parametrize("exchanging", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_killed_at_any_moment_a_unit_is_done_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, exchanging: bool
) -> None:
    """In place of an earlier output; the next one makes either of them."""
    of, run = text(tmp_path), tmp_path / "run"
    wanted = {}
    for lines in (8, 7):
        do(tmp_path / str(lines), cut(of, lines))
        wanted[lines] = held(tmp_path / str(lines))
    survived = False
    for moment in range(exchanging, 200, 2):
        calls = 0
        shutil.rmtree(run, ignore_errors=True)
        shutil.copytree(tmp_path / "7", run)

        def deadly(real: Callable[..., object], moment: int = moment) -> Callable[..., object]:
            def function(*given: object, **more: object) -> object:
                nonlocal calls
                calls += 1
                if calls >= moment:
                    raise Killed
                return real(*given, **more)

            return function

        with monkeypatch.context() as patch, suppress(Killed):
            for name in ("rename", "replace", "unlink", "mkdir", "rmdir", "touch"):
                patch.setattr(Path, name, deadly(getattr(Path, name)))
            patch.setattr(files, "_exchange", deadly(files._exchange) if exchanging else lambda *_: False)
            do(run, cut(of, 8))
            survived = True
        for lines in (8, 7) if moment % 4 < 2 else (7, 8):
            do(run, cut(of, lines))
            RunFolder(run).tidy(cut(of, lines))
            assert held(run) == wanted[lines], (moment, lines)
        if survived:
            break
    assert survived and moment > 30


def test_a_damaged_description_is_told_of_in_a_line(tmp_path: Path) -> None:
    todo = tmp_path / "a.todo.json"
    for content, told in (
        ('{"name": "a", "work": "mine"}', "`output` is missing"),
        ('{"name": "a", "work": 3, "output": "x"}', "`work` names no kind of work"),
        (
            '{"name": "a", "work": "cut", "output": "x", "lines": []}',
            "`lines`: should be a whole number (is a list)",
        ),
        (
            '{"name": "../a", "work": "cut", "output": "x", "lines": 1}',
            "`name`: '../a' is no name in the run's folder (is '../a')",
        ),
        ('["cut"]', "`work` names no kind of work"),
    ):
        todo.write_text(content)
        with pytest.raises(MexmaError, match=f"^{re.escape(f'{todo} is damaged: {told}')}$"):
            read_unit(todo)
