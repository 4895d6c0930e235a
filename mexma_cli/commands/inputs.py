"""What commands are given to work on: embedding stores, or texts that are embedded on the way; and bars."""

from __future__ import annotations

import logging
import sys
import tempfile
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

import click
from click.core import ParameterSource

from mexma_cli.commands.options import EncoderChoice, load_encoder
from mexma_cli.commands.progress import follow, progress
from mexma_cli.errors import MexmaError
from mexma_cli.text.names import label_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from mexma_cli.encoder.encoder import Pooling, SentenceEncoder
    from mexma_cli.store.embeddings import EmbeddingStore
    from mexma_cli.text.lines import FileScan

log = logging.getLogger(__name__)


def is_store(path: Path) -> bool:
    """Whether a path is meant as an embedding store, not as a text."""
    return path.is_dir() or path.suffix == ".emb"


def is_typed(name: str) -> bool:
    """Whether an option is on the command line, by its parameter's name."""
    return click.get_current_context().get_parameter_source(name) == ParameterSource.COMMANDLINE


def check_inputs(paths: Sequence[Path]) -> None:
    """Refuse stdin more than once, and an encoder on the command line that there is no text for.

    Raises:
        click.UsageError: saying so.
    """
    if sum(str(path) == "-" for path in paths) > 1:
        raise click.UsageError("Only one of the inputs can be stdin.")
    if all(is_store(path) for path in paths):
        for name in ("model", "pooling", "max_tokens", "prefix"):
            if is_typed(name):
                option = "--" + name.replace("_", "-")
                done = " and ".join(map(str, paths))
                raise click.UsageError(f"{option} is for texts; {done} are embedded already.")


def refuse_inputs(outputs: Iterable[Path], inputs: Iterable[Path]) -> None:
    """Refuse outputs that would be written over an input, or over a file of a store.

    Raises:
        click.UsageError: saying so.
    """
    inputs = list(inputs)
    read, stores = [path for path in inputs if path.is_file()], [path for path in inputs if path.is_dir()]
    for path in (path for path in outputs if str(path) != "-"):
        if path.is_file() and any(path.samefile(other) for other in read):
            raise click.UsageError(f"{path} is an input: name another output.")
        if any(path.resolve().is_relative_to(store.resolve()) for store in stores):
            raise click.UsageError(f"{path} lies in an input: name another output.")


def refuse_formats(output: Path | None) -> None:
    """Refuse an output whose name says another format than TSV, which `mexma mine` alone writes.

    Raises:
        click.UsageError: saying so.
    """
    from mexma_cli.formats.bitext import format_of

    if (kind := format_of(output)) != "tsv":
        raise click.UsageError(f"{output}: what is written is TSV, not {kind.upper()}: name it .tsv.")


def opened(
    stack: ExitStack,
    paths: Sequence[Path],
    encoder: EncoderChoice,
    *,
    labels: Sequence[str] | None = None,
    languages: Sequence[str] | None = None,
    aligned: bool = False,
) -> list[EmbeddingStore]:
    """The inputs as stores; texts are embedded into a folder that goes when the stack is closed.

    What can be refused is refused before anything is embedded. Texts are cleaned if a store with them was.

    Args:
        encoder: For the texts; see `load_encoder_of`.
        labels: Names for messages, where a path is a temporary copy.
        languages: FLORES-200 codes, one a path.
        aligned: Refuse other numbers of lines in the second input than in the first.
    """
    from mexma_cli.text.lines import scan, spooled

    labels = labels or [label_of(path) for path in paths]
    languages = languages or ["und"] * len(paths)
    stores: list[EmbeddingStore | None] = [open_store(path) if is_store(path) else None for path in paths]
    scans: list[FileScan | None] = []
    for path, label, store in zip(paths, labels, stores, strict=True):
        scans.append(None if store else scan(stack.enter_context(spooled(path)), label))
    if aligned:
        pairs = zip(stores, scans, strict=True)
        _check_aligned(labels, [store.rows if store else text.lines if text else 0 for store, text in pairs])
    if None in stores:
        from mexma_cli.stages.embed.embed import at_work

        loaded = load_encoder_of(stores, encoder, "the text")
        log.info("embedding on %s", at_work(loaded))
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mexma-")))
        clean = any(store is not None and store.manifest.clean for store in stores)
        for side, text in enumerate(scans):
            if text is not None:
                output = folder / f"{side}.emb"
                stores[side] = _embedded(loaded, text, labels[side], languages[side], clean, output)
    return [store for store in stores if store is not None]


def open_store(path: Path) -> EmbeddingStore:
    """Open an embedding store.

    Raises:
        MexmaError: As `EmbeddingStore.open`, or it is a store of neighbours.
    """
    from mexma_cli.store.embeddings import EmbeddingStore
    from mexma_cli.store.layout import has_store_files
    from mexma_cli.store.neighbours import is_neighbours

    if not has_store_files(path) and is_neighbours(path):
        raise MexmaError(
            f"{path} holds neighbours, not embeddings", "name the embedding store: `mexma info` says which"
        )
    return EmbeddingStore.open(path)


def load_encoder_of(
    stores: Sequence[EmbeddingStore | None], choice: EncoderChoice, what: str
) -> SentenceEncoder:
    """The encoder for a text that goes with these stores; if none is named theirs, embedding as they do.

    Args:
        what: The text, for the message.

    Raises:
        MexmaError: The stores are of another encoder.
    """
    from mexma_cli.stages.convert.convert import RAW_ENCODER
    from mexma_cli.store.comparable import check_encoder

    made = [store.manifest for store in stores if store and store.manifest.encoder != RAW_ENCODER]
    if choice.model is None and made:
        first = made[0]
        choice = replace(
            choice,
            model=first.encoder,
            pooling=choice.pooling or cast("Pooling", first.pooling),
            prefix=first.prefix if choice.prefix is None else choice.prefix,
        )
        log.info("no --model given: using the store's encoder, %s", first.encoder)
    encoder = load_encoder(choice)
    for store in filter(None, stores):
        check_encoder(store, encoder.name, encoder.fingerprint, what)
    return encoder


def progress_bar(stack: ExitStack, description: str) -> Callable[[int, int], None]:
    """A bar on the terminal until the stack is closed; call it with tiles done and tiles in all."""
    return follow(stack.enter_context(progress(desc=description, unit=" tiles")))


def command_line() -> list[str]:
    """For manifests."""
    return ["mexma", *sys.argv[1:]]


def _check_aligned(labels: Sequence[str], lines: Sequence[int]) -> None:
    if lines[0] != lines[1]:
        raise MexmaError(
            f"{labels[0]} has {lines[0]:,} lines, {labels[1]} has {lines[1]:,}",
            "line n of one must be the translation of line n of the other",
        )


def _embedded(
    encoder: SentenceEncoder, text: FileScan, label: str, language: str, clean: bool, output: Path
) -> EmbeddingStore:
    from mexma_cli.stages.embed.embed import embed_file
    from mexma_cli.text.temporary import temporary_space

    log.info("embedding %s into a temporary folder; `mexma embed` makes a store that stays", label)
    with temporary_space(), progress(total=text.lines, desc="embedding", unit=" lines") as bar:
        return embed_file(
            encoder,
            text,
            output,
            language,
            clean=clean,
            label=label,
            argv=command_line(),
            on_progress=lambda done, *_: bar.update(done - bar.n),
        )
