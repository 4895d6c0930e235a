"""Options mean the same, and have the same names, in every command."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import click
import numpy as np
import torch
from click.testing import CliRunner
from pydantic import Field
from pytest import MonkeyPatch

from mexma_cli.commands.options import options_of, takes
from mexma_cli.lazy import SectionedCommand
from mexma_cli.main import cli
from mexma_cli.numerics.precisions import default_device
from mexma_cli.settings.section import Option, Score, Section
from tests.stores import make_store


def commands(group: click.Group, context: click.Context) -> Iterator[click.Command]:
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        yield command
        if isinstance(command, click.Group):
            yield from commands(command, click.Context(command, parent=context))


def test_k_has_one_name() -> None:
    root = click.Context(cli, info_name="mexma")
    named = {
        str(command.name): parameter.opts
        for command in commands(cli, root)
        for parameter in command.params
        if "-k" in parameter.opts or parameter.name == "k"
    }
    assert {"mine", "score", "search", "knn", "tune", "xsim"} <= set(named)
    assert all(options == ["-k", "--neighbourhood"] for options in named.values()), named


def test_a_device_that_there_is_not_is_refused_everywhere(tmp_path: Path, monkeypatch: MonkeyPatch) -> None:
    """Where only stores are read, too: the search would run there."""
    for name in ("a.emb", "b.emb"):
        make_store(tmp_path / name, list("abc"), np.eye(3, dtype=np.float32))
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(
        "mexma_cli.numerics.precisions._device", "auto"
    )  # a refused command may leave its own
    monkeypatch.chdir(tmp_path)
    options: dict[str, list[str]] = {
        "mine": [],
        "knn": ["-o", "a.knn"],
        "search": [],
        "score": [],
        "tune": [],
    }
    for name, more in options.items():
        refused = CliRunner().invoke(cli, [name, "a.emb", "b.emb", *more, "--device", "banana"])
        assert refused.exit_code == 2 and "unknown device 'banana'" in refused.stderr
        refused = CliRunner().invoke(cli, [name, "a.emb", "b.emb", *more, "--device", "cuda:1"])
        assert refused.exit_code == 1 and "no device 'cuda:1' on this machine" in refused.stderr
        assert default_device() == "auto", "a command's choice is for that command"


def test_k_by_its_long_name() -> None:
    refused = CliRunner().invoke(cli, ["knn", "a.emb", "b.emb", "-o", "ab.knn", "--neighbourhood", "0"])
    assert refused.exit_code == 2 and "'-k' / '--neighbourhood': 0 is not in the range" in refused.stderr


def test_an_address_is_named_as_it_was_written(tmp_path: Path, monkeypatch: MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    there = "s3://bucket/fra.txt"
    for words in (
        ["embed", there],
        ["mine", there, "b.emb"],
        ["knn", "a.emb", "b.emb", "-o", there],
        ["mine", "a.emb", "b.emb", "--within", "a.docs", there],
        ["eval", "xsim", there],
    ):
        refused = CliRunner().invoke(cli, words)
        assert refused.exit_code == 2 and f"{there} is not on this machine" in refused.stderr
    assert not list(tmp_path.iterdir())


class Settings(Section):
    steps: Annotated[int, Option("Own options", "N", ("-s", "--steps"))] = Field(default=3, gt=1, le=9)
    """How many."""
    names: Annotated[tuple[str, ...], Option()] = ()
    share: Annotated[Score | None, Option(unset="all")] = None
    shift: Annotated[float | None, Option(metavar="N")] = None
    inner: int = 5


def test_options_are_made_from_the_fields_of_a_model() -> None:
    @click.command(cls=SectionedCommand)
    @options_of(Settings)
    def command(settings: Settings) -> None:
        click.echo(f"{settings.model_dump()} {sorted(settings.model_fields_set)}")

    def said(*words: str) -> str:
        return CliRunner().invoke(command, words).output

    assert said() == "{'steps': 3, 'names': (), 'share': None, 'shift': None, 'inner': 5} []\n"
    assert said("-s", "4", "--names", "a", "--names", "b", "--share", "inf") == (
        "{'steps': 4, 'names': ('a', 'b'), 'share': inf, 'shift': None, 'inner': 5} "
        "['names', 'share', 'steps']\n"
    )
    assert "3; 1<x<=9" in said("--help") and "Own options:" in said("--help")
    assert "'shift': -2.5" in said("--shift", "-2.5") and "None" not in said("--help")
    assert "[default: all]" in said("--help") and "--inner" not in said("--help")
    assert "'--share': no score is above or below nan" in said("--share", "nan")
    assert "'-s' / '--steps': 1 is not in the range 1<x<=9" in said("-s", "1")


def test_one_function_makes_all_that_a_command_takes_in_order_and_the_help_keeps_it() -> None:
    made: list[str] = []

    def joined(**values: str) -> str:
        made.append("".join(values[name] for name in sorted(values)))
        return made[-1]

    @click.command(cls=SectionedCommand)
    @takes("first", joined, click.option("--one"), click.option("--two"))
    @click.option("--plain")
    @takes("second", joined, click.option("--three"))
    def command(first: str, plain: str, second: str) -> None:
        click.echo(f"{first} {plain} {second}")

    assert [parameter.name for parameter in command.params] == ["one", "two", "plain", "three"]
    words = ["--three", "c", "--two", "b", "--plain", "p", "--one", "a"]
    assert CliRunner().invoke(command, words).output == "ab p c\n"
    assert made == ["ab", "c"]
    behind = vars(command.callback)["__wrapped__"]
    assert not hasattr(behind, "__wrapped__")
