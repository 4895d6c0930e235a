from __future__ import annotations

from pathlib import Path

from mexma_cli.stages.run.units import RunFolder, Unit, read_unit


def unit(**settings: object) -> Unit:
    name = "fra_Latn/text"
    return Unit(name=name, stage="split", work="cut", settings=settings, files={"\udcff": "1"}, output=name)


def test_a_description_stays_the_file_that_workers_hold(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    todo = folder.announce(unit(lines=7))
    held = todo.stat().st_ino
    assert folder.announce(unit(lines=7)).stat().st_ino == held
    assert folder.announce(unit(lines=8)).stat().st_ino != held
    assert read_unit(todo) == unit(lines=8)


def test_a_description_that_a_power_cut_emptied_is_written_again(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.announce(unit()).write_bytes(b"")
    assert read_unit(folder.announce(unit())) == unit()
