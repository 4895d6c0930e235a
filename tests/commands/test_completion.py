"""What a shell offers: words, files or both."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import click
import pytest
from click.shell_completion import BashComplete, ShellComplete, get_completion_class

from mexma_cli.commands import completion  # noqa: F401 - it registers the shells' scripts
from mexma_cli.main import cli


def offered(*words: str) -> list[tuple[str, str]]:
    """(value, kind) of what is offered for the last word."""
    shell = ShellComplete(cli, {}, "mexma", "_MEXMA_COMPLETE")
    return [(item.value, item.type) for item in shell.get_completions(list(words[:-1]), words[-1])]


@pytest.mark.parametrize(
    "words",
    [
        ("embed", "--model", "mi"),
        ("info", "mi"),
        ("export", "mi"),
        ("train", "mi"),
        ("prepare", "mi"),
        ("eval", "xsim", "--model", "mi"),
    ],
)
def test_names_and_files(words: tuple[str, ...]) -> None:
    assert offered(*words) == [("mini", "plain"), ("mi", "file")]


@pytest.mark.parametrize(
    "words",
    [("embed", "--lang", "fra"), ("mine", "--source-lang", "FRA"), ("languages", "fra")],
)
def test_codes(words: tuple[str, ...]) -> None:
    assert ("fra_Latn", "plain") in offered(*words)
    assert all(kind == "plain" for _, kind in offered(*words))


def test_names_of_recipes_alone_where_a_file_is_not_meant() -> None:
    assert offered("recipes", "one-") == [("one-language", "plain")]


def test_every_path_is_completed() -> None:
    for words in (("split", "a"), ("run", "a"), ("mine", "a"), ("eval", "xsim", "--langs", "a")):
        assert offered(*words) == [("a", "file")]


def test_bash_offers_words_and_files_together(tmp_path: Path) -> None:
    """The script that Click's own one is replaced by, with a program that answers as ours does."""
    bash = shutil.which("bash")
    assert bash
    kind = get_completion_class("bash")
    assert kind is not None and issubclass(kind, BashComplete) and kind is not BashComplete
    source = kind(click.Command("mexma"), {}, "mexma", "_MEXMA_COMPLETE").source()
    program = tmp_path / "mexma"
    program.write_text("#!/bin/sh\nprintf 'plain,mini\\nfile,mi\\n'\n")
    program.chmod(0o755)
    (tmp_path / "mi ne.yaml").touch()
    script = f"""{source}
compopt() {{ :; }}  # of a completion that is under way
COMP_WORDS=(mexma train mi) COMP_CWORD=2
_mexma_completion {program}
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
    done = subprocess.run([bash, "--norc", "-c", script], cwd=tmp_path, text=True, capture_output=True)
    assert done.stdout.splitlines() == ["mini", "mi ne.yaml"], done.stderr
