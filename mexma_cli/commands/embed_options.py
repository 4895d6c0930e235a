"""The options of `mexma embed`, and what does not go together."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from mexma_cli.commands.options import EncoderChoice
from mexma_cli.errors import MexmaError

if TYPE_CHECKING:
    from mexma_cli.stages.embed.embed import EmbedOptions

Command = TypeVar("Command", bound=Callable[..., Any])


class PartNumber(click.ParamType):
    """One of several parts, such as 3/10: (3, 10)."""

    name = "I/N"

    def convert(
        self, value: Any, parameter: click.Parameter | None, context: click.Context | None
    ) -> tuple[int, int]:
        found = re.fullmatch(r"([0-9]{1,5})/([0-9]{1,5})", str(value))
        if found is None or not 1 <= int(found[1]) <= int(found[2]):
            self.fail(f"{value!r} is no part; the third of ten is 3/10", parameter, context)
        return int(found[1]), int(found[2])


class GpuCount(click.ParamType):
    """A number of GPUs, or all of them: 0."""

    name = "N|all"

    def convert(self, value: Any, parameter: click.Parameter | None, context: click.Context | None) -> int:
        if value == "all":
            return 0
        if not re.fullmatch(r"[1-9][0-9]*", str(value)):
            self.fail(f"{value!r} is no number of GPUs; say 2, or all", parameter, context)
        return int(value)


_OPTIONS = (
    click.option(
        "--overwrite",
        is_flag=True,
        help="Make the store anew if one is there under its name, whole or damaged.",
    ),
    click.option(
        "--append",
        is_flag=True,
        help="Make the store that is there longer by this text; it stays usable until that is done.",
    ),
    click.option(
        "--store-dtype",
        type=click.Choice(["float16", "float32"]),
        default="float16",
        show_default=True,
        help="How the vectors are stored.",
    ),
    click.option(
        "--require-gpu", is_flag=True, help="Fail where there is no GPU, instead of embedding on the CPU."
    ),
    click.option(
        "--gpus",
        type=GpuCount(),
        metavar="N|all",
        help="Embed on the first N GPUs of this machine, or on all, a process each.",
    ),
    click.option(
        "--shard",
        type=PartNumber(),
        metavar="I/N",
        help="Embed part I of N parts of the text, into NAME.0000I-of-0000N.emb; `mexma merge` puts the "
        "parts together.",
    ),
    click.option(
        "--clean",
        is_flag=True,
        help="Embed every line without control characters and with its punctuation normalised as in LASER, "
        "for the language of --lang; the store keeps the line as it is.",
    ),
    click.option(
        "-o",
        "--output",
        type=click.Path(path_type=Path),
        metavar="NAME.emb",
        help="Folder for the store.  [default: CORPUS with .emb for its ending, beside it]",
    ),
    click.option(
        "--lang",
        default="und",
        metavar="CODE",
        help="Language of the text: ISO 639 (fr, fra), BCP-47 or FLORES-200 (fra_Latn).  "
        "[default: not stated]",
    ),
)


def embed_options(command: Command) -> Command:
    """Add all options of `mexma embed` but those of the encoder."""
    for option in _OPTIONS:
        command = option(command)
    return command


def check_usage(
    corpus: Path, encoder: EncoderChoice, options: EmbedOptions, ways: list[str], require_gpu: bool
) -> None:
    """Refuse what contradicts itself.

    Args:
        ways: What divides the text: ``--shard``, ``--gpus`` and ``torchrun``, those that are taken.

    Raises:
        click.UsageError: saying so.
    """
    if len(ways) > 1:
        raise click.UsageError(f"{ways[0]} and {ways[1]} both divide the text: take one of them.")
    if options.append and options.overwrite:
        raise click.UsageError("--append and --overwrite contradict each other: give one of them.")
    if options.append and ways:
        raise click.UsageError(
            f"{ways[0]} makes a store of its own: leave out --append, and `mexma merge` it with the other."
        )
    if "--gpus" in ways and encoder.device != "auto":
        raise click.UsageError("--gpus says which devices: leave out --device.")
    if require_gpu and encoder.device == "cpu":
        raise click.UsageError("--require-gpu and --device cpu contradict each other: give one of them.")
    if ways and ways != ["--shard"] and str(corpus) == "-":
        raise click.UsageError(f"With {ways[0]} several processes read the text: it must be a file.")


def gpus_of(wanted: int | None) -> list[str]:
    """The names of that many GPUs (0, None: all of them).

    Raises:
        MexmaError: There are none, or not so many.
    """
    import torch

    found = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if not found:
        raise MexmaError(
            "there is no GPU: torch finds no CUDA device on this machine",
            "`nvidia-smi` shows the machine's GPUs, `python -c 'import torch; print(torch.version.cuda)'` "
            "whether torch can use one; without --require-gpu and --gpus the CPU is used",
        )
    if wanted and wanted > found:
        raise MexmaError(f"--gpus {wanted}: this machine has {found}", "say --gpus all")
    return [f"cuda:{number}" for number in range(wanted or found)]
