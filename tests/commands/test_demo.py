"""`mexma demo`: what it lays out, and what it does with the commands."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from mexma_cli.commands.demo import command, shipped_texts
from tests.command import fails, ok, run


def test_texts_are_laid_out_and_each_command_is_shown_and_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[list[str]] = []

    def instead(words: list[str]) -> subprocess.CompletedProcess[str]:
        ran.append(words[3:])
        if words[3] == "mine":
            Path(words[-1]).write_text("".join(f"1.5\ta{row}\tb\n" for row in range(20)))
        return subprocess.CompletedProcess(words, 0)

    monkeypatch.setattr(subprocess, "run", instead)
    said = ok(run("demo", tmp_path / "demo")).stdout
    assert [words[0] for words in ran] == ["embed", "embed", "mine", "tune"]
    assert all(words[1:3] == ["--model", "mini"] for words in ran[:2]), "so that none is advised"
    assert said.count("\n$ mexma ") == 4 and "\ta9\t" in said and "\ta10\t" not in said
    for text in shipped_texts().iterdir():
        assert (tmp_path / "demo" / text.name).read_bytes() == text.read_bytes()


@pytest.mark.parametrize(("ended", "code"), [(1, 1), (-15, 143)])
def test_a_command_that_fails_ends_it(
    ended: int, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subprocess, "run", lambda words: subprocess.CompletedProcess(words, ended))
    assert fails(run("demo", tmp_path), code).stdout.count("$ mexma") == 1


@pytest.mark.parametrize("name", ["spa.txt", "notes.txt", "README.md"])
def test_a_folder_of_the_users_is_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text("my own\n")
    fails(run("demo", tmp_path), 1, f"holds {name}, not of the demo")
    assert [path.read_text() for path in tmp_path.iterdir()] == ["my own\n"]


def test_make_demo_and_the_command_write_into_one_folder_which_git_ignores() -> None:
    make, ignored = (
        Path(__file__, "../../..", name).resolve().read_text() for name in ("Makefile", ".gitignore")
    )
    folder = command.params[0].default
    assert "mexma demo\n" in make and f" {folder} " in make.partition("\nclean:\n")[2].partition("\n\n")[0]
    assert f"/{folder}/" in ignored.splitlines()
