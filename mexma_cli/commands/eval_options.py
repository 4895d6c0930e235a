"""Shared by the commands of `mexma eval`: `@evaluation`, the options that come with it, and the session."""

from __future__ import annotations

import functools
import json
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mexma_cli import __version__
from mexma_cli.commands.completion import CODE, FILE
from mexma_cli.commands.options import JSON_HELP, encoder_options, options_of, section, takes
from mexma_cli.commands.progress import progress
from mexma_cli.lazy import OutputPath
from mexma_cli.reporting.result import Heading, Result
from mexma_cli.settings.stages import EncoderChoice, ScoreSettings
from mexma_cli.stages.embed.inputs import load_encoder
from mexma_cli.text.amounts import counted

if TYPE_CHECKING:
    from mexma_cli.encoder.encoder import SentenceEncoder
    from mexma_cli.evaluation.aligned import AlignedTexts
    from mexma_cli.evaluation.embedder import Embedder

log = logging.getLogger(__name__)

HEADINGS: dict[str, Heading] = {}
"""Headings of evaluations by their names; `evaluation` fills it."""

languages_option = click.option(
    "--langs",
    "languages",
    type=FILE,
    metavar="LIST",
    help="81, 90, o or d (the MEXMA paper's lists), a file of codes, or fra,deu,...  [default: all in DIR]",
)
dap_languages_option = click.option(
    "--langs",
    "languages",
    metavar="LIST",
    help="14, 28 or 36 (the DAP paper's lists), or ita,deu,...  [default: all in DIR]",
)
PANELS = 12
"""Languages of a picture of clouds."""


def picture_option(name: str, meaning: str) -> Callable[[Callable[..., Result]], Callable[..., Result]]:
    """An option that names a picture to be drawn."""
    kind, metavar = OutputPath(path_type=Path, dir_okay=False), "FILE" if name == "--picture" else "PICTURE"
    return click.option(name, type=kind, metavar=metavar, help=f"Draw {meaning}")


def plot_option(what: str) -> Callable[[Callable[..., Result]], Callable[..., Result]]:
    """--plot, which draws something of the first languages."""
    return picture_option("--plot", f"{what} of the first {PANELS} languages (.png, .svg, .pdf).")


split_option = click.option(
    "--split",
    default="devtest",
    show_default=True,
    metavar="NAME",
    help="Split of FLORES-200: devtest or dev.",
)


def aligned_options(command: Callable[..., Result]) -> Callable[..., Result]:
    """Add DIR, --langs, --target and --split, which the command gets as `data`, and `ScoreSettings`."""

    def texts_of(folder: Path, languages: str | None, target: str, split: str) -> AlignedTexts:
        from mexma_cli.evaluation.aligned import read_texts

        return read_texts(folder, split, languages, target)

    target = click.option(
        "--target",
        default="eng_Latn",
        type=CODE,
        show_default=True,
        metavar="CODE",
        help="Language that is searched for the translations.",
    )
    folder = click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
    texts = takes("data", texts_of, folder, languages_option, target, split_option)
    return texts(options_of(ScoreSettings)(command))


@dataclass(frozen=True)
class Session:
    """One run of an evaluation: which encoder, and where vectors are kept."""

    choice: EncoderChoice
    cache: Path | None
    """None: no vectors are kept."""

    @contextmanager
    def encoder(self, loaded: SentenceEncoder | None = None) -> Iterator[SentenceEncoder]:
        """The encoder that was asked for, or one that is loaded already. Afterwards the log says how many
        sentences it cut, if any."""
        encoder = loaded or load_encoder(self.choice)
        yield encoder
        if encoder.truncated:
            what = counted(encoder.truncated, "sentence was", "sentences were")
            log.info("%s cut to %s tokens", what, encoder.max_tokens)

    @contextmanager
    def embedder(self, sentences: int, loaded: SentenceEncoder | None = None) -> Iterator[Embedder]:
        """The encoder, as `encoder` gives it, with the cache behind it and a bar on the terminal, of so many
        sentences in all."""
        from mexma_cli.evaluation.embedder import Embedder
        from mexma_cli.stages.embed.embed import at_work

        with self.encoder(loaded) as encoder:
            log.info("embedding on %s", at_work(encoder))
            with progress(total=sentences, desc="embedding", unit="sentence") as bar:
                yield Embedder(encoder, self.cache, lambda done, _: bar.update(done))


def evaluation(
    title: str,
    numbers: str,
    needs: str,
    lower_is_better: bool = False,
    refuses: Mapping[str, str] | None = None,
) -> Callable[[Callable[..., Result]], click.Command]:
    """Make a function that returns a result the command of `mexma eval` that is named after its file.

    --cache and the options of the encoder come to it as `session`, but for those that it `refuses`, by
    parameter, since they have no meaning here, with the reason. Its result is kept in the file that -o names,
    which is checked before the work, and printed: as tables, or with --json as one JSON object.
    """

    def decorate(function: Callable[..., Result]) -> click.Command:
        @functools.wraps(function, updated=())
        def command(
            encoder: EncoderChoice, cache: Path | None, as_json: bool, output: Path | None, **options: Any
        ) -> None:
            from mexma_cli.reporting.tables import text_lines
            from mexma_cli.text.writing import prepare_output

            for name, reason in (refuses or {}).items():
                if getattr(encoder, name) is not None:
                    raise click.UsageError(f"--{name.replace('_', '-')} is {reason}")
            prepare_output(output)
            result = replace(function(session=Session(encoder.to_measure(), cache), **options), made=_made())
            if output is not None:
                result.write(output)
            lines = [json.dumps(result.to_json(), ensure_ascii=False)] if as_json else text_lines(result)
            click.echo("\n".join(lines))

        name = function.__module__.rpartition(".")[2]
        HEADINGS[name] = Heading(title, numbers, needs, lower_is_better)
        own: list[click.Parameter] = getattr(function, "__click_params__", [])
        return click.command(name, params=own[::-1])(_result_options(encoder_options(command)))

    return decorate


def _made() -> dict[str, str]:
    """When a result was made, and with what."""
    from mexma_cli.numerics.machine import processor_name

    today = datetime.now(UTC).date().isoformat()
    return {"date": today, "mexma": __version__, "processor": processor_name()}


def _cache_folder(_: click.Context, __: click.Parameter, value: str | None) -> Path | None:
    if value is None:
        from mexma_cli.evaluation.embedder import default_folder

        return default_folder()
    return None if value == "none" else Path(value)


def _result_file(_: click.Context, __: click.Parameter, value: Path | None) -> Path | None:
    if value is not None and value.suffix != ".json":
        raise click.BadParameter(f"{value} is not named .json, by which `mexma report` knows a result.")
    return value


_result_option = section("Result options")


def _result_options(command: Callable[..., None]) -> Callable[..., None]:
    for option in (
        _result_option(
            "-o",
            "--output",
            type=OutputPath(path_type=Path, dir_okay=False),
            metavar="FILE.json",
            callback=_result_file,
            help="Write the result, for `mexma report`.",
        ),
        _result_option("--json", "as_json", is_flag=True, help=JSON_HELP),
        _result_option(
            "--cache",
            metavar="DIR",
            callback=_cache_folder,
            help="Folder of kept vectors, or `none`.  [default: mexma/eval in the user's cache folder]",
        ),
    ):
        command = option(command)
    return command
