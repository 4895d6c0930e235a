"""Options that the commands of `mexma eval` share."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from mexma_cli.commands.progress import progress

if TYPE_CHECKING:
    import numpy as np

    from mexma_cli.encoder.encoder import SentenceEncoder

log = logging.getLogger(__name__)

Command = TypeVar("Command", bound=Callable[..., Any])

languages_option = click.option(
    "--langs",
    "languages",
    metavar="LIST",
    help="81 or 90 (the MEXMA paper's lists), a file of codes, or codes with commas between them.  [default: "
    "all in DIR]",
)
target_option = click.option(
    "--target",
    default="eng_Latn",
    show_default=True,
    metavar="CODE",
    help="Language in which translations are searched.",
)
split_option = click.option(
    "--split", default="devtest", show_default=True, help="Of FLORES-200: devtest or dev."
)


def _cache_folder(_: click.Context, __: click.Parameter, value: str | None) -> Path | None:
    if value is None:
        from mexma_cli.evaluation.cache import default_folder

        return default_folder()
    return None if value == "none" else Path(value)


def _result_file(_: click.Context, __: click.Parameter, value: Path | None) -> Path | None:
    if value is not None and value.suffix != ".json":
        raise click.BadParameter(f"{value} is not named .json, by which `mexma report` knows a result.")
    return value


def result_options(command: Command) -> Command:
    """Add --cache (gives `cache`: a folder or None), --json (`as_json`) and -o (`output`)."""
    for option in (
        click.option(
            "-o",
            "--output",
            type=click.Path(path_type=Path, dir_okay=False),
            metavar="FILE.json",
            callback=_result_file,
            help="Keep the result, for `mexma report`.",
        ),
        click.option("--json", "as_json", is_flag=True, help="Print one JSON object."),
        click.option(
            "--cache",
            metavar="DIR",
            callback=_cache_folder,
            help="Where vectors are kept for the next time; `none`: nowhere.  [default: mexma/eval in the "
            "user's cache folder]",
        ),
    ):
        command = option(command)
    return command


def check_result_output(output: Path | None) -> None:
    """Find out before the work that the result, or a picture, can be kept after it; make the folder for it.

    Raises:
        MexmaError: It cannot.
    """
    from mexma_cli.text.writing import prepare_output

    prepare_output(output)


@contextmanager
def cached_embedding(
    encoder: SentenceEncoder, cache: Path | None, sentences: int
) -> Iterator[Callable[[Sequence[str]], np.ndarray]]:
    """A function from sentences to vectors, with the cache behind it and a bar on the terminal.

    Args:
        cache: None: nothing is kept.
        sentences: How many will be embedded in all, for the bar.
    """
    from mexma_cli.evaluation.cache import embed_cached
    from mexma_cli.stages.embed.embed import at_work

    log.info("embedding on %s", at_work(encoder))
    with progress(total=sentences, desc="embedding", unit="sentence") as bar:
        yield lambda texts: embed_cached(
            encoder, texts, folder=cache, on_progress=lambda done, _: bar.update(done)
        )
    tell_cut(encoder)


def tell_cut(encoder: SentenceEncoder) -> None:
    """Say how many sentences were cut, if any."""
    from mexma_cli.text.amounts import counted

    if encoder.truncated:
        what = counted(encoder.truncated, "sentence was", "sentences were")
        log.info("%s cut to %s tokens", what, encoder.max_tokens)
