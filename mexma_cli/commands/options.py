"""Options that several commands share, and what they load."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from mexma_cli.encoder.encoder import SentenceEncoder

log = logging.getLogger(__name__)

Command = TypeVar("Command", bound=Callable[..., Any])

BUNDLED = "mini"
PRECISIONS = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}


def encoder_options(command: Command) -> Command:
    """Add --model, --device and --dtype: `model`, `device` and `dtype` for `load_encoder`."""
    for option in (
        click.option(
            "--dtype",
            type=click.Choice(list(PRECISIONS)),
            default="fp32",
            show_default=True,
            help="What the encoder computes in.",
        ),
        click.option(
            "--device",
            default="auto",
            show_default=True,
            help="auto (a GPU if there is one), cpu, cuda or cuda:N.",
        ),
        click.option(
            "--model",
            metavar="NAME",
            help=f"Encoder: {BUNDLED} (bundled; the default), a folder, or a hub id such as facebook/MEXMA.",
        ),
    ):
        command = option(command)
    return command


def load_encoder(model: str | None, device: str, dtype: str) -> SentenceEncoder:
    """Load the encoder that was asked for; without `model` the bundled one, which is said on stderr.

    Args:
        model: As for --model; None: `mini`.
        device: As for --device.
        dtype: A key of `PRECISIONS`.
    """
    from mexma_cli.encoder.encoder import SentenceEncoder

    if model is None:
        log.info(
            "no --model given: using the bundled encoder `mini`; for real work name --model facebook/MEXMA"
        )
    return SentenceEncoder.load(model or BUNDLED, device=device, dtype=PRECISIONS[dtype])


def show_bars() -> bool:
    """Whether progress bars are wanted: stderr is a terminal, and -q was not given."""
    return sys.stderr.isatty() and log.isEnabledFor(logging.INFO)
